"""Arrays of numpy in a pool."""
import gc
import pickle
import signal
import unittest

import processes
import vshmem

try:
    import numpy
except ImportError:
    numpy = None

SHOULD_SKIP = "SKIPPED: numpy is not installed (scripts/setup wheel)"


@unittest.skipUnless(numpy, SHOULD_SKIP)
class ArrayTest(unittest.TestCase):
    def make(self, *words, **more):
        made = vshmem.array(processes.name("array"), *words, **more)
        self.addCleanup(lambda name=made.name: vshmem.default_pool().unlink(name))
        return made

    def test_name_shape_and_type_are_kept(self):
        made = self.make((3, 4), "float32")
        self.assertEqual((made.shape, made.dtype, made.sum()), ((3, 4), numpy.float32, 0))
        made[1] = 5
        code = "a = vshmem.array(sys.argv[1]); print(a.shape, a.dtype, a.sum()); a[0, 0] = 1"
        self.assertEqual(processes.run(code, made.name), "(3, 4) float32 20.0")
        self.assertEqual(made[0, 0], 1)

    def test_another_shape_or_type_is_refused_and_creation_is_exclusive_when_wanted(self):
        made = self.make(10, "i8")
        self.assertEqual(vshmem.array(made.name, 10, "i8").shape, (10,))
        for words in ((11, "i8"), (10, "f8")):
            with self.assertRaises(ValueError):
                vshmem.array(made.name, *words)
        with self.assertRaises(FileExistsError):
            vshmem.array(made.name, 10, "i8", create=True)
        with self.assertRaises(FileNotFoundError):
            vshmem.array(processes.name("none"))
        with self.assertRaises(ValueError):
            vshmem.array(processes.name("object"), 3, object)

    def test_fields_scalars_and_nothing(self):
        fields = numpy.dtype([("a", "i4"), ("b", "f8", (2, 3)), ("c", [("d", "S5")])])
        made = self.make(7, fields)
        made["b"][3] = 2.5
        again = vshmem.array(made.name)
        self.assertEqual((again.dtype, again["b"][3].sum()), (fields, 15))
        self.assertEqual(vshmem.array(self.make((), "i4").name).shape, ())
        self.assertEqual(vshmem.array(self.make((0, 5), "i4").name).shape, (0, 5))

    def test_the_memory_stays_as_long_as_an_array_of_it(self):
        made = vshmem.array(processes.name("stays"), 1000, "u1")
        part = numpy.asarray(made)[10:20]
        made[:] = 3
        made.shm.unlink()
        made.shm.close()
        del made
        gc.collect()
        other = vshmem.SharedMemory(create=True, size=8192)
        other.buf[:] = b"\xff" * 8192
        self.assertEqual(part.tolist(), [3] * 10)
        other.unlink()

    def test_it_is_pickled_as_its_place(self):
        made = self.make((100, 100), "f8")
        text = pickle.dumps(made[10:20, ::2])
        self.assertLess(len(text), 1000)
        other = pickle.loads(text)
        other[0, 1] = 4
        self.assertEqual((other.shape, made[10, 2]), ((10, 50), 4))
        # What is computed of it is not in the pool.
        self.assertIs(type(made + 1), numpy.ndarray)
        self.assertEqual(pickle.loads(pickle.dumps(made.copy())).sum(), 4)

    def test_others_take_it_without_a_copy(self):
        made = self.make(16, "i4")
        by_buffer = numpy.frombuffer(memoryview(made), "i4")
        # numpy 1.22 and later speak DLPack.
        by_dlpack = numpy.from_dlpack(made) if hasattr(numpy, "from_dlpack") else by_buffer
        made[3] = 9
        self.assertEqual((by_dlpack[3], by_buffer[3]), (9, 9))
        try:
            import pyarrow
        except ImportError:
            return
        arrow = pyarrow.py_buffer(made)
        self.assertEqual(arrow.address, made.__array_interface__["data"][0])

    def test_a_queue_hands_over_arrays_in_the_pool(self):
        queue = vshmem.Queue()
        queue.put({"x": numpy.arange(100_000), "y": numpy.ones(3)})
        got = queue.get()
        self.assertEqual((got["x"].sum(), got["y"].sum()), (4999950000, 3))
        self.assertTrue(got["x"].flags.writeable)
        made = self.make(1000, "f8")
        queue.put(made)
        queue.get()[5] = 6
        self.assertEqual(made[5], 6)

    def test_a_description_that_makes_no_sense_is_refused(self):
        made = self.make(1000, "f8")
        for text in (b'{"shape": [99999], "dtype": "<f8"}', b'{"shape": [1], "dtype": "|O"}', b"{", b"[]"):
            tail = made.shm.buf[made.shm.size - 4096 :]
            tail[24:28] = len(text).to_bytes(4, "little")
            tail[28 : 28 + len(text)] = text
            with self.assertRaises(OSError):
                vshmem.array(made.name)
        other = vshmem.SharedMemory(create=True, size=5000)
        other.buf[:] = b"q" * 5000
        with self.assertRaises(ValueError):
            vshmem.array(other.name)
        other.unlink()

    def test_readers_are_unharmed_by_the_death_of_the_maker(self):
        name = processes.name("maker")
        code = "a = vshmem.array(sys.argv[1], 1 << 20, 'u1'); a[:] = 1; print('made', flush=True); input()"
        maker = processes.start(code, name)
        self.assertEqual(processes.said(maker), "made")
        reader = vshmem.array(name)
        processes.kill(maker)
        self.assertEqual(int(reader.sum(dtype="u8")), 1 << 20)
        reader.unlink()


@unittest.skipUnless(numpy, SHOULD_SKIP)
class TeamTest(unittest.TestCase):
    CODE = """
import numpy
team = vshmem.Team(3, int(sys.argv[2]), name=sys.argv[1], timeout=60)
mine = numpy.full(1000, team.rank + 1.0)
total = team.allreduce(mine)
team.allreduce(mine.astype('i4'), 'max', out=numpy.empty(1000, 'i4'))
some = numpy.zeros(5) if team.rank else numpy.arange(5.0)
team.broadcast(some)
team.barrier()
left = team.reduce(mine, 'prod', root=1)
if team.rank == 0:
    team.unlink()
print(total.sum(), some.sum(), left is None or left[0])
"""

    def test_three_members(self):
        name = processes.name("team")
        members = [processes.start(self.CODE, name, rank) for rank in range(3)]
        said = [processes.finish(one) for one in members]
        self.assertEqual(said, ["6000.0 10.0 True", "6000.0 10.0 6.0", "6000.0 10.0 True"])

    def test_a_wait_is_interrupted_by_a_signal(self):
        code = """
team = vshmem.Team(2, 0, name=sys.argv[1], timeout=None)
try:
    print('waits', flush=True)
    team.barrier()
except KeyboardInterrupt:
    team.unlink()
    print('interrupted')
"""
        waiter = processes.start(code, processes.name("interrupted"))
        self.assertEqual(processes.said(waiter), "waits")
        waiter.send_signal(signal.SIGINT)
        self.assertEqual(processes.finish(waiter), "interrupted")

    def test_one_that_does_not_come_is_named(self):
        team = vshmem.Team(2, 0, name=processes.name("alone"), timeout=0.1)
        with self.assertRaises(OSError) as caught:
            team.barrier()
        self.assertIn("1", str(caught.exception))
        with self.assertRaises(OSError):
            vshmem.Team(2, 0, name=team.name)
        team.leave()
        with self.assertRaises(ValueError):
            team.barrier()
        team.unlink()


if __name__ == "__main__":
    unittest.main()
