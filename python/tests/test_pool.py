"""Pools that are there, and pools that are not what they should be."""
import os
import pickle
import unittest

import processes
import vshmem

# Where the superblock has the version of the format.
VERSION_AT = 8


class PoolTest(unittest.TestCase):
    def test_it_says_who_and_where(self):
        pool = vshmem.Pool()
        self.assertEqual(pool.name, os.environ["VSHMEM_POOL"])
        self.assertEqual((len(pool.uuid), pool == vshmem.default_pool()), (16, True))
        self.assertEqual(pickle.loads(pickle.dumps(pool)), pool)

    def test_two_handles_of_a_pool_use_the_same_objects_at_once(self):
        name = processes.name("handles")
        first = vshmem.SharedMemory(name, create=True, size=4096, pool=vshmem.Pool())
        self.addCleanup(first.unlink)
        others = [vshmem.SharedMemory(name, pool=pool) for pool in (vshmem.Pool(), None)]
        others.append(vshmem.SharedMemory(name, pool=vshmem.default_pool().name))
        first.buf[0] = 7
        first.close()
        self.assertEqual([other.buf[0] for other in others], [7, 7, 7])
        code = f"import vshmem; vshmem.SharedMemory({name!r}, pool=vshmem.Pool()).buf[0] += 1"
        child = os.fork()
        if child == 0:
            exec(code)
            os._exit(0)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(others[0].buf[0], 8)
        for other in others:
            other.close()

    def test_one_that_is_not_there_is_named(self):
        with self.assertRaises(OSError) as caught:
            vshmem.Pool("no-pool-of-this-name")
        self.assertIn("vshmem pool create no-pool-of-this-name", str(caught.exception))

    def test_one_of_another_format_is_refused_and_the_sentence_says_what_to_do(self):
        place = "/dev/shm/vshmem." + processes.name("format")
        with open("/dev/shm/vshmem." + vshmem.default_pool().name, "rb") as pool:
            head = bytearray(pool.read(1 << 20))
        head[VERSION_AT : VERSION_AT + 4] = (4).to_bytes(4, "little")
        with open(place, "wb") as other:
            other.write(head)
        self.addCleanup(os.unlink, place)
        with self.assertRaises(OSError) as caught:
            vshmem.Pool(place)
        self.assertIn("format version 4", str(caught.exception))

    def test_no_object_is_left_by_a_process_that_ends(self):
        code = """
lock, queue, event = vshmem.Lock(), vshmem.Queue(), vshmem.Event()
condition, barrier = vshmem.Condition(), vshmem.Barrier(2)
queue.put('x' * 10**6)
with condition:
    condition.notify()
print(*[one._semaphores for one in (lock, queue._ring, event, condition)], barrier._semaphores)
"""
        core = vshmem.default_pool()._core
        for word in processes.run(code).split():
            with self.assertRaises(OSError):
                core.semval(int(word), 0)


if __name__ == "__main__":
    unittest.main()
