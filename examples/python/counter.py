"""An unchanged program in Python: the same counter as examples/fortran, by the module sysv_ipc.

`vshmem run python3 counter.py 5` adds 5 to it; `counter.py 0` shows it, `counter.py remove` removes
it. Debian has the module as python3-sysv-ipc, PyPI as sysv_ipc.
"""
import sys

import sysv_ipc

KEY = 0xF0F0
try:
    counter = sysv_ipc.Semaphore(KEY)
except sysv_ipc.ExistentialError:
    # IPC_CREAT alone would set one that exists to 0, in versions of sysv_ipc before 1.1.
    counter = sysv_ipc.Semaphore(KEY, sysv_ipc.IPC_CREX, mode=0o600)
if sys.argv[1] == "remove":
    counter.remove()
else:
    for _ in range(int(sys.argv[1])):
        counter.release()
    print("the counter is", counter.value)
