"""Qt: QSharedMemory and QSystemSemaphore. `make TURNS`, then `use TURNS`: both count in one word under its lock."""

import struct
import sys
import time

from PyQt5.QtCore import QSharedMemory

role, turns = sys.argv[1], int(sys.argv[2])
memory = QSharedMemory("vshmem-counter")


def word(add):
    assert memory.lock(), memory.errorString()
    value = struct.unpack("i", bytes(memory.data()[0:4]))[0]
    memory.data()[0:4] = struct.pack("i", value + add)
    memory.unlock()
    return value + add


if role == "make":
    assert memory.create(64), memory.errorString()
    # The files that its keys are made from.
    print(memory.nativeKey(), flush=True)
else:
    assert memory.attach(), memory.errorString()
for _ in range(turns):
    word(1)
end = time.monotonic() + 60
while word(0) < 2 * turns and time.monotonic() < end:
    time.sleep(0.01)
print(f"counted {word(0)}")
sys.exit(word(0) != 2 * turns)
