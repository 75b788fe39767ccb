"""The extension module by itself: wrong types, numbers out of range, and the ends of what is in use.

Each in a process of its own: what it does wrong ends that."""
import unittest

import processes

PRELUDE = """
from vshmem import _vshmem as v
import threading
pool = v.Pool()
def refused(kind, call, *words):
    try:
        call(*words)
    except kind as error:
        assert type(error) is kind and str(error), repr(error)
    else:
        raise AssertionError(f'{call}{words} was taken')
"""


def run(code):
    return processes.run(PRELUDE + code + "\nprint('ends')")


class ModuleTest(unittest.TestCase):
    def ends(self, code):
        self.assertEqual(run(code), "ends")

    def test_memory_is_of_its_own_type(self):
        self.ends("""
class Other: pass
for type_ in (int, 5, None, object, Other, v.Pool):
    refused(TypeError, pool.attach, type_, 1, 1)
refused(ValueError, pool.attach, v.Memory, 1, -1)
refused(OverflowError, pool.attach, v.Memory, 1 << 32, 1)
refused(OverflowError, pool.attach, v.Memory, 1, 1 << 64)
refused(TypeError, v.Memory)
""")

    def test_operations_are_tuples_of_numbers_that_are_not_cut(self):
        self.ends("""
many = pool.semget(0, 2, 0o1600)
for operations in ([], 5, None):
    refused(TypeError, pool.semop, many, operations)
for operation in (5, None, [0, 1, 0], 'abc', (0, 1), (0, 1, 0, 0), ('0', 1, 0), (0, 1.5, 0)):
    refused(TypeError, pool.semop, many, (operation,))
for operation in ((65536, 1, 0), (-1, 1, 0), (0, 1 << 15, 0), (0, -(1 << 15) - 1, 0),
        (0, 70000, 0), (0, 1, 1 << 16), (1 << 70, 1, 0)):
    refused(OverflowError, pool.semop, many, (operation,))
refused(TypeError, pool.semop, many, ((0, 1, 0),), 'soon')
refused(OSError, pool.semop, many, ())
for number in (65536, -1, 1 << 70):
    refused(OverflowError, v.Semaphore, pool, many, number)
for words in ((None, many, 0), (pool, 'x', 0), (pool, many, 0.5)):
    refused(TypeError, v.Semaphore, *words)
assert [pool.semval(many, number) for number in (0, 1)] == [0, 0]
pool.semrm(many)
""")

    def test_objects_of_memory_have_modes_and_sizes_that_are_not_cut(self):
        self.ends("""
flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
for words in ((-1, 4096), (1 << 32, 4096), (0o600, -1), (0o600, 1 << 64)):
    refused(OverflowError, pool.shm_open, 'test-cut', flags, *words)
for words in (('test', 'r', 0o600, 1), (5, flags, 0o600, 1), ('test', flags, 0o600, 1.0)):
    refused(TypeError, pool.shm_open, *words)
refused(ValueError, pool.shm_open, 'te\\0st', flags, 0o600, 1)
refused(FileNotFoundError, pool.shm_unlink, 'test-cut')
""")

    def test_a_team_lies_in_its_memory(self):
        self.ends("""
bytes_ = v.team_bytes(1, 64)
refused(OverflowError, v.team_bytes, -1, 64)
refused(OverflowError, v.team_bytes, 1 << 32, 64)
refused(ValueError, v.team_bytes, 1, -1)
id = pool.shm_open('test-team', os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600, 1 << 20)
pool.shm_unlink('test-team')
memory = pool.attach(v.Memory, id, 1 << 20)
pool.shm_close(id)
for offset in ((1 << 20) - 64, (1 << 20) + 64, 1 << 40):
    refused(OSError, v.Team, memory, offset, 1, 64, 0)
for words in ((-64, 1, 64, 0), (0, 1, -1, 0)):
    refused(ValueError, v.Team, memory, *words)
for words in ((0, -1, 64, 0), (0, (1 << 32) + 1, 64, 0), (0, 1, 64, 1 << 32), (0, 1, 64, -1)):
    refused(OverflowError, v.Team, memory, *words)
for other in (None, 5, b'x' * bytes_):
    refused(TypeError if other is None or other == 5 else BufferError, v.Team, other, 0, 1, 64, 0)
team = v.Team(memory, 0, 1, 64, 0)
refused(OverflowError, team.broadcast, -1, bytearray(8))
refused(OverflowError, team.broadcast, 1 << 32, bytearray(8))
for words in ((-2, 1, 1, 1), (-1, -1, 1, 1), (-1, 3, 1, 1), (-1, 1, 0, 1), (-1, 1, 6, 1)):
    refused(ValueError, team.reduce, words[0], bytes(8), bytearray(8), *words[1:])
refused(ValueError, team.forget)
out = bytearray(8)
team.reduce(-1, bytes([1, 0, 0, 0, 2, 0, 0, 0]), out, 2, 1, 1)
assert out[0] == 1 and out[4] == 2
team.leave()
""")

    def test_a_place_for_a_child_is_taken_once(self):
        self.ends("""
for place in (0x4141414141, 0, None):
    refused(TypeError, pool.fork_parent, place, -1)
    refused(TypeError, pool.fork_child, place)
place = pool.fork_prepare()
refused(ValueError, pool.fork_child, place)
other = v.Pool()
refused(ValueError, other.fork_parent, place, -1)
refused(OverflowError, pool.fork_parent, place, 1 << 32)
pool.fork_parent(place, -1)
refused(ValueError, pool.fork_parent, place, -1)
left = pool.fork_prepare()
pool.close()
del left, pool
""")


class CloseTest(unittest.TestCase):
    WAIT = """
result = []
def wait(timeout):
    try:
        result.append(call(timeout))
    except BaseException as error:
        result.append(error)
one = pool.semget(0, 1, 0o1600)
other = v.Pool()
waiter = threading.Thread(target=wait, args=(TIMEOUT,))
waiter.start()
def waits():
    with open(f'/proc/self/task/{waiter.native_id}/stat') as stat:
        return stat.read().rsplit(')', 1)[1].split()[0] == 'S'
WHEN
pool.close()
waiter.join()
assert [type(one) for one in result] == [ValueError] and 'closed' in str(result[0]), result
for call in (pool.identify, lambda: pool.semval(one, 0), lambda: pool.shm_unlink('x'), pool.fork_prepare):
    refused(ValueError, call)
other.semrm(one)
"""

    def check(self, call, timeout):
        code = self.WAIT.replace("TIMEOUT", timeout)
        when = "while not waits(): time.sleep(0.001)"
        self.assertEqual(run(f"call = {call}\n" + code.replace("WHEN", when)), "ends")

    def test_a_thread_that_waits_is_told_that_the_pool_is_closed(self):
        for timeout in ("None", "60.0"):
            self.check("lambda timeout: pool.semop(one, ((0, -1, 0),), timeout)", timeout)
            self.check("lambda timeout: v.Semaphore(pool, one, 0).acquire(True, timeout)", timeout)

    def test_a_pool_that_an_argument_closes_is_closed(self):
        code = """
class Closes:
    def __index__(self):
        pool.close()
        return 0
    __float__ = lambda self: float(self.__index__())
one = pool.semget(0, 1, 0o1600)
other = v.Pool()
refused(ValueError, CALL)
other.semrm(one)
"""
        calls = [
            "lambda: pool.semval(one, Closes())",
            "lambda: pool.semop(one, ((0, -1, 0),), Closes())",
            "lambda: pool.semop(one, ((Closes(), -1, 0),), 5.0)",
            "lambda: v.Semaphore(pool, one, 0).acquire(True, Closes())",
            "lambda: pool.shm_open('test-closes', os.O_RDWR, 0, Closes())",
            "lambda: pool.attach(v.Memory, Closes(), 1)",
        ]
        for call in calls:
            self.assertEqual(run(code.replace("CALL", call)), "ends", call)

    def test_memory_outlives_the_close_of_its_pool(self):
        code = """
id = pool.shm_open('test-outlives', os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600, 1 << 20)
pool.shm_unlink('test-outlives')
memory = pool.attach(v.Memory, id, 1 << 20)
pool.shm_close(id)
view, share = memoryview(memory), memory.share()
of_share = memoryview(share)
pool.close()
view[0], of_share[1] = 7, 8
assert (of_share[0], view[1]) == (7, 8)
refused(BufferError, memory.release)
view.release()
# A share is a use of the memory, too.
refused(BufferError, memory.release)
assert of_share[0] == 7
of_share.release()
share.release()
del share
memory.release()
refused(ValueError, memoryview, memory)
"""
        self.assertEqual(run(code), "ends")

    def test_a_member_in_a_call_keeps_its_team(self):
        code = """
memory = bytearray(v.team_bytes(2, 64) + 64)
offset = -v_address(memory) % 64
team = v.Team(memory, offset, 2, 64, 0)
other = v.Team(memory, offset, 2, 64, 1)
waiter = threading.Thread(target=team.barrier)
waiter.start()
while True:
    try:
        team.patience(60)
    except RuntimeError:
        break
for call in (team.leave, team.barrier, lambda: team.broadcast(0, bytearray(1))):
    refused(RuntimeError, call)
refused(ValueError, team.forget)
other.barrier()
waiter.join()
team.leave()
other.leave()
"""
        address = """
import ctypes
def v_address(buffer):
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
"""
        self.assertEqual(run(address + code), "ends")


if __name__ == "__main__":
    unittest.main()
