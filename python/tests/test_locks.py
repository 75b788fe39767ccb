"""Semaphores, locks, conditions, events and barriers, and the deaths of those that hold them."""
import os
import pickle
import signal
import threading
import time
import unittest

import processes
import vshmem

FOREVER = 30


class SemaphoreTest(unittest.TestCase):
    def test_it_counts_and_waits(self):
        one = vshmem.Semaphore(value=2)
        self.assertTrue(one.acquire() and one.acquire())
        self.assertFalse(one.acquire(False))
        self.assertFalse(one.acquire(timeout=0.05))
        threading.Timer(0.05, one.release).start()
        self.assertTrue(one.acquire(timeout=FOREVER))
        self.assertEqual(one.get_value(), 0)

    def test_a_bounded_one_is_not_released_too_often(self):
        one = vshmem.BoundedSemaphore(value=1)
        with self.assertRaises(ValueError):
            one.release()
        with one:
            pass
        self.assertEqual(one.get_value(), 1)

    def test_with_undo_a_death_gives_it_back(self):
        name = processes.name("undo")
        one = vshmem.Semaphore(1, name=name, undo=True)
        code = "vshmem.Semaphore(name=sys.argv[1], create=False).acquire(); print('has it', flush=True); input()"
        holder = processes.start(code, name)
        self.assertEqual(processes.said(holder), "has it")
        self.assertFalse(one.acquire(False))
        processes.kill(holder)
        self.assertTrue(one.acquire(timeout=FOREVER))
        one.unlink()

    def test_unlinked_it_goes_on_for_those_that_have_it(self):
        one = vshmem.Semaphore(0, name=processes.name("unlinked"))
        other = pickle.loads(pickle.dumps(one))
        one.unlink()
        other.release()
        self.assertTrue(one.acquire(timeout=FOREVER))
        with self.assertRaises(FileNotFoundError):
            vshmem.Semaphore(name=one.name, create=False)


class LockTest(unittest.TestCase):
    def test_one_at_a_time_across_processes(self):
        lock = vshmem.Lock(name=processes.name("lock"))
        memory = vshmem.SharedMemory(create=True, size=8)
        code = """
lock, memory = vshmem.Lock(name=sys.argv[1]), vshmem.SharedMemory(sys.argv[2])
words = memory.buf.cast('Q')
for _ in range(3000):
    with lock:
        words[0] += 1
words.release()
"""
        adders = [processes.start(code, lock.name, memory.name) for _ in range(3)]
        for adder in adders:
            processes.finish(adder)
        self.assertEqual(int.from_bytes(memory.buf[:8], "little"), 9000)
        memory.unlink()
        lock.unlink()

    def test_the_death_of_the_holder_frees_it_and_is_told(self):
        lock = vshmem.Lock(name=processes.name("died"))
        code = "vshmem.Lock(name=sys.argv[1]).acquire(); print('has it', flush=True); input()"
        holder = processes.start(code, lock.name)
        self.assertEqual(processes.said(holder), "has it")
        self.assertFalse(lock.acquire(False))
        self.assertTrue(lock.locked() and lock.holder is not None)
        processes.kill(holder)
        self.assertTrue(lock.acquire(timeout=FOREVER))
        self.assertTrue(lock.owner_died)
        lock.release()
        with lock:
            self.assertFalse(lock.owner_died)
        lock.unlink()

    def test_who_has_not_acquired_it_does_not_release_it(self):
        lock = vshmem.Lock()
        with self.assertRaises(ValueError):
            lock.release()
        lock.acquire()
        other = pickle.loads(pickle.dumps(lock))
        with self.assertRaises(ValueError):
            other.release()
        child = os.fork()
        if child == 0:
            try:
                lock.release()
            except ValueError:
                os._exit(7)
            os._exit(0)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        self.assertTrue(lock.locked())
        lock.release()

    def test_a_recursive_one_is_its_threads(self):
        lock = vshmem.RLock()
        with lock:
            with lock:
                taken = []
                other = threading.Thread(target=lambda: taken.append(lock.acquire(False)))
                other.start()
                other.join()
                self.assertEqual(taken, [False])
            self.assertTrue(lock.locked())
        self.assertFalse(lock.locked())
        with self.assertRaises(AssertionError):
            lock.release()

    def test_a_wait_is_interrupted_by_a_signal(self):
        lock = vshmem.Lock(name=processes.name("interrupted"))
        code = """
lock = vshmem.Lock(name=sys.argv[1])
try:
    print('waits', flush=True)
    lock.acquire()
except KeyboardInterrupt:
    print('interrupted')
"""
        with lock:
            waiter = processes.start(code, lock.name)
            self.assertEqual(processes.said(waiter), "waits")
            waiter.send_signal(signal.SIGINT)
            self.assertEqual(processes.finish(waiter), "interrupted")
        lock.unlink()

    def test_other_threads_run_while_one_waits(self):
        lock = vshmem.Lock()
        lock.acquire()
        seen = []
        other = threading.Thread(target=lambda: seen.append(lock.acquire(timeout=FOREVER)))
        other.start()
        end = time.monotonic() + FOREVER
        while not other.is_alive() and time.monotonic() < end:
            time.sleep(0.001)
        lock.release()
        other.join()
        self.assertEqual(seen, [True])


class ConditionTest(unittest.TestCase):
    CODE = """
condition = vshmem.Condition(name=sys.argv[1])
with condition:
    print('waits', flush=True)
    print(condition.wait(60), flush=True)
"""

    def waiters(self, condition, count):
        found = [processes.start(self.CODE, condition.name) for _ in range(count)]
        for one in found:
            self.assertEqual(processes.said(one), "waits")
        # Each prints with the lock, which it gives back when it waits.
        with condition:
            return found

    def test_one_or_all_are_woken(self):
        condition = vshmem.Condition(name=processes.name("condition"))
        waiters = self.waiters(condition, 3)
        with condition:
            condition.notify()
        with condition:
            condition.notify_all()
        self.assertEqual([processes.finish(one) for one in waiters], ["True"] * 3)
        condition.unlink()

    def test_a_dead_waiter_takes_no_notification(self):
        condition = vshmem.Condition(name=processes.name("dead"))
        first, second = self.waiters(condition, 1), self.waiters(condition, 1)
        processes.kill(first[0])
        end = time.monotonic() + FOREVER
        # The death is noticed by an agent.
        while condition._value(0) + condition._value(2) > 1 and time.monotonic() < end:
            time.sleep(0.001)
        with condition:
            condition.notify()
        self.assertEqual(processes.finish(second[0]), "True")
        condition.unlink()

    def test_without_the_lock_it_is_refused_and_in_time_it_ends(self):
        condition = vshmem.Condition()
        for call in (condition.wait, condition.notify):
            with self.assertRaises(RuntimeError):
                call()
        with condition:
            self.assertFalse(condition.wait(0.02))
            self.assertFalse(condition.wait_for(lambda: False, 0.02))
            self.assertTrue(condition.wait_for(lambda: True))


class EventAndBarrierTest(unittest.TestCase):
    def test_an_event_is_seen_by_all(self):
        event = vshmem.Event(name=processes.name("event"))
        self.assertFalse(event.wait(0.02))
        code = "print('waits', flush=True); print(vshmem.Event(name=sys.argv[1]).wait(60))"
        waiters = [processes.start(code, event.name) for _ in range(2)]
        for one in waiters:
            self.assertEqual(processes.said(one), "waits")
        event.set()
        self.assertEqual([processes.finish(one) for one in waiters], ["True"] * 2)
        self.assertTrue(event.is_set() and event.wait())
        event.clear()
        self.assertFalse(event.is_set())
        event.unlink()

    CODE = """
barrier = vshmem.Barrier(int(sys.argv[2]), name=sys.argv[1])
try:
    places = [barrier.wait(60) for _ in range(int(sys.argv[3]))]
    print(len(places))
except vshmem.BrokenBarrierError:
    print('broken')
"""

    def test_a_barrier_lets_all_go_again_and_again(self):
        barrier = vshmem.Barrier(3, name=processes.name("barrier"))
        parties = [processes.start(self.CODE, barrier.name, 3, 20) for _ in range(3)]
        self.assertEqual([processes.finish(one) for one in parties], ["20"] * 3)
        self.assertEqual((barrier.n_waiting, barrier.broken), (0, False))
        barrier.unlink()

    def test_one_that_dies_breaks_it(self):
        barrier = vshmem.Barrier(3, name=processes.name("broken"))
        first, second = [processes.start(self.CODE, barrier.name, 3, 1) for _ in range(2)]
        end = time.monotonic() + FOREVER
        while barrier.n_waiting < 2 and time.monotonic() < end:
            time.sleep(0.001)
        processes.kill(first)
        self.assertEqual(processes.finish(second), "broken")
        self.assertTrue(barrier.broken)
        barrier.reset()
        self.assertFalse(barrier.broken)
        barrier.unlink()

    def test_time_and_abort_break_it(self):
        barrier = vshmem.Barrier(2)
        with self.assertRaises(vshmem.BrokenBarrierError):
            barrier.wait(0.02)
        barrier.reset()
        barrier.abort()
        with self.assertRaises(vshmem.BrokenBarrierError):
            barrier.wait()


if __name__ == "__main__":
    unittest.main()
