"""Shared memory by name, with the standard library's interface."""
import os
import pickle
import signal
import unittest

import processes
import vshmem


class SharedMemoryTest(unittest.TestCase):
    def make(self, size=5000):
        made = vshmem.SharedMemory(processes.name("memory"), create=True, size=size)
        self.addCleanup(made.close)
        self.addCleanup(made.unlink)
        return made

    def test_what_one_process_writes_another_reads(self):
        made = self.make()
        self.assertEqual((made.size, bytes(made.buf)), (5000, bytes(5000)))
        made.buf[:5] = b"hello"
        code = "m = vshmem.SharedMemory(sys.argv[1]); print(bytes(m.buf[:5]), m.size); m.buf[4999] = 7"
        self.assertEqual(processes.run(code, made.name), "b'hello' 5000")
        self.assertEqual(made.buf[4999], 7)

    def test_names_are_taken_missing_or_made_up(self):
        made = self.make()
        with self.assertRaises(FileExistsError):
            vshmem.SharedMemory(made.name, create=True, size=1)
        with self.assertRaises(FileNotFoundError):
            vshmem.SharedMemory(processes.name("none"))
        self.assertEqual(vshmem.SharedMemory("/" + made.name).name, made.name)
        fresh = vshmem.SharedMemory(create=True, size=10)
        self.assertTrue(fresh.name.startswith("psm_"))
        fresh.unlink()
        with self.assertRaises(FileNotFoundError):
            fresh.unlink()

    def test_arguments_that_make_no_sense_are_refused_as_by_the_standard_library(self):
        for words in ({"create": True}, {"size": -1, "create": True}, {}):
            with self.assertRaises(ValueError):
                vshmem.SharedMemory(**words)
        with self.assertRaises(OSError):
            vshmem.SharedMemory("a/b", create=True, size=1)

    def test_it_outlives_its_name_and_its_maker(self):
        name = processes.name("outlives")
        code = "m = vshmem.SharedMemory(sys.argv[1], True, 100); m.buf[:] = b'x' * 100; print('made', flush=True); input()"
        maker = processes.start(code, name)
        self.assertEqual(processes.said(maker), "made")
        reader = vshmem.SharedMemory(name)
        processes.kill(maker)
        self.assertEqual(bytes(vshmem.SharedMemory(name).buf), b"x" * 100)
        reader.unlink()
        self.assertEqual(bytes(reader.buf), b"x" * 100)
        with self.assertRaises(FileNotFoundError):
            vshmem.SharedMemory(name)

    def test_a_process_that_opens_and_ends_leaves_the_memory_and_says_nothing(self):
        made = self.make()
        code = "m = vshmem.SharedMemory(sys.argv[1]); b = m.buf[:10]"
        self.assertEqual(processes.run(code, made.name), "")
        made.buf[0] = 1
        self.assertEqual(vshmem.SharedMemory(made.name).buf[0], 1)

    def test_close_refuses_while_a_view_exists(self):
        made = self.make()
        view = made.buf[1:3]
        with self.assertRaises(BufferError):
            made.close()
        view.release()
        made.close()
        self.assertIsNone(made.buf)
        made.close()

    def test_it_is_pickled_as_its_name(self):
        made = self.make()
        other = pickle.loads(pickle.dumps(made))
        other.buf[1] = 9
        self.assertEqual((other.name, other.size, made.buf[1]), (made.name, made.size, 9))
        other.close()
        self.assertEqual(made.buf[1], 9)

    def test_more_than_the_pool_has_is_refused_and_leaves_no_name(self):
        name = processes.name("large")
        with self.assertRaises(OSError):
            vshmem.SharedMemory(name, create=True, size=vshmem.default_pool().size * 2)
        with self.assertRaises(FileNotFoundError):
            vshmem.SharedMemory(name)

    def test_a_list_has_the_standard_librarys_interface(self):
        made = vshmem.ShareableList([1, 2.5, "text", b"bytes", None, True])
        self.addCleanup(made.shm.unlink)
        code = "l = vshmem.ShareableList(name=sys.argv[1]); print(list(l)); l[0] = 42; l[2] = 'TEXT'"
        said = processes.run(code, made.shm.name)
        self.assertEqual(said, "[1, 2.5, 'text', b'bytes', None, True]")
        self.assertEqual((made[0], made[2], made.index(b"bytes"), made.count(None)), (42, "TEXT", 3, 1))
        other = pickle.loads(pickle.dumps(made))
        self.assertEqual(list(other), list(made))


class ForkTest(unittest.TestCase):
    def test_a_child_uses_what_its_parent_has_open(self):
        made = vshmem.SharedMemory(create=True, size=100)
        parent = vshmem.default_pool().client
        child = os.fork()
        if child == 0:
            fine = vshmem.default_pool().client != parent
            made.buf[0] = 7
            more = vshmem.SharedMemory(made.name)
            more.buf[1] = 8
            os._exit(0 if fine else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(bytes(made.buf[:2]), b"\x07\x08")
        made.unlink()

    def test_what_a_child_has_stays_when_its_parent_is_killed(self):
        code = """
parent = os.getpid()
m = vshmem.SharedMemory(create=True, size=100)
m.buf[:4] = b'here'
if os.fork() == 0:
    while os.getppid() == parent:
        time.sleep(0.01)
    m.unlink()
    other = vshmem.SharedMemory(create=True, size=4096 * 50)
    other.buf[:] = b'z' * (4096 * 50)
    other.unlink()
    print(bytes(m.buf[:4]), flush=True)
    os._exit(0)
print('forked', flush=True)
time.sleep(60)
"""
        parent = processes.start(code)
        self.assertEqual(processes.said(parent), "forked")
        os.kill(parent.pid, signal.SIGKILL)
        self.assertEqual(processes.said(parent), "b'here'")
        parent.communicate()

    def test_a_fork_that_fails_or_a_chain_of_them_leaves_no_client_behind(self):
        code = """
m = vshmem.SharedMemory(create=True, size=100)
for depth in range(3):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        if depth == 0: print(m.buf[0]); m.unlink()
        sys.exit(0)
    m.buf[0] += 1
"""
        self.assertEqual(processes.run(code), "3")


if __name__ == "__main__":
    unittest.main()
