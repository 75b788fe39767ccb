"""What callers give: as multiprocessing has it, and refused with a sentence where it is of a wrong type."""
import inspect
import multiprocessing
import pathlib
import re
import unittest

import processes
import vshmem

KINDS = (
    "Lock", "RLock", "Semaphore", "BoundedSemaphore", "Condition", "Event", "Barrier", "Queue",
    "JoinableQueue",
)


class SignatureTest(unittest.TestCase):
    def test_what_multiprocessing_takes_by_place_is_taken_by_place_and_nothing_else(self):
        def by_place(call):
            all_of = inspect.signature(call).parameters.values()
            return [one for one in all_of if one.kind is one.POSITIONAL_OR_KEYWORD]

        for context in (vshmem, vshmem.get_context()):
            for kind in KINDS:
                standard = by_place(getattr(multiprocessing.get_context(), kind))
                own = by_place(getattr(context, kind))
                self.assertEqual([one.name for one in own], [one.name for one in standard], kind)
                for mine, other in zip(own, standard):
                    if other.default is not other.empty:
                        self.assertEqual(mine.default, other.default, kind)

    def test_a_number_is_the_value_and_never_a_name(self):
        for kind in (vshmem.Semaphore, vshmem.BoundedSemaphore):
            self.assertEqual(kind(3).get_value(), 3)
            self.assertFalse(kind(0).acquire(timeout=0.02))
            name = processes.name("value")
            one = kind(2, name=name)
            self.assertEqual((one.name, one.get_value()), (name, 2))
            one.unlink()
        for number in ("3", "0", "2"):
            with self.assertRaises(FileNotFoundError):
                vshmem.Semaphore(name=number, create=False)

    def test_the_version_is_the_workspaces(self):
        manifest = pathlib.Path(__file__).resolve().parents[2] / "Cargo.toml"
        version = re.search(r'^version = "(.*)"', manifest.read_text(), re.MULTILINE).group(1)
        self.assertEqual(vshmem.__version__, version)


class WrongTypeTest(unittest.TestCase):
    def refused(self, says, call, *words, **more):
        with self.assertRaises(TypeError) as caught:
            call(*words, **more)
        self.assertIn(says, str(caught.exception), call)

    def test_a_name_is_a_text(self):
        for kind in KINDS:
            words = (2,) if kind == "Barrier" else ()
            self.refused("name must be a str or None, not int", getattr(vshmem, kind), *words, name=5)
        self.refused("name must be", vshmem.Channel, 5)
        self.refused("name must be", vshmem.SharedMemory, 5)
        self.refused("name must be", vshmem.ShareableList, [1], name=5)
        self.refused("name must be", vshmem.Team, 2, 0, name=5)

    def test_a_name_in_the_place_of_a_number_is_shown_its_keyword(self):
        for what, kind in (
            ("value", vshmem.Semaphore),
            ("value", vshmem.BoundedSemaphore),
            ("maxsize", vshmem.Queue),
            ("maxsize", vshmem.JoinableQueue),
            ("parties", vshmem.Barrier),
        ):
            says = f"{what} must be an int, not str; a name is given as name='work'"
            self.refused(says, kind, "work")
            self.refused(f"{what} must be an int, not float", kind, 1.5)

    def test_others(self):
        self.refused("lock must be a vshmem.Lock", vshmem.Condition, "work")
        self.refused("lock must be a vshmem.Lock", vshmem.Condition, multiprocessing.Lock())
        self.refused("action must be callable", vshmem.Barrier, 2, 5)
        self.refused("timeout must be a number", vshmem.Barrier, 2, None, "soon")
        self.refused("timeout must be a number", vshmem.Team, 2, 0, timeout="soon")
        self.refused("rank must be an int", vshmem.Team, 2, "0")
        self.refused("size must be an int", vshmem.SharedMemory, None, True, "big")
        self.refused("room must be an int", vshmem.Queue, room="much")
        for kind in (vshmem.Lock, vshmem.Event):
            self.refused("create must be", kind, create="yes")
            self.refused("mode must be an int", kind, mode="rw")
            self.refused("str or None, not int", kind, pool=5)
        self.refused("str or None, not int", vshmem.set_default_pool, 5)
        with self.assertRaises(ValueError):
            vshmem.Team(2, 2)
        with self.assertRaises(ValueError):
            vshmem.Team(-1, 0)

    def test_times(self):
        queue, event, lock = vshmem.Queue(), vshmem.Event(), vshmem.Lock()
        self.refused("timeout must be a number", queue.get, True, "soon")
        self.refused("timeout must be a number", queue.put, 1, True, [])
        self.refused("must be real number, not str", event.wait, "soon")
        self.refused("must be real number, not str", lock.acquire, True, "soon")
        with vshmem.Condition() as _:
            pass
        condition = vshmem.Condition()
        with condition:
            self.refused("timeout must be a number", condition.wait_for, bool, "soon")
            self.refused("must be real number", condition.wait, "soon")
            # Nothing of the failed wait is left.
            self.assertFalse(condition.wait(0.01))
        self.assertFalse(lock.locked())


if __name__ == "__main__":
    unittest.main()
