"""Queues and channels, also when those that use them die."""
import pickle
import random
import threading
import time
import unittest

import processes
import vshmem


class QueueTest(unittest.TestCase):
    def test_first_in_first_out_around_the_end_of_the_ring(self):
        queue = vshmem.Queue(room=4096)
        for turn in range(100):
            sent = [(turn, number, "x" * number * 7) for number in range(20)]
            for one in sent:
                queue.put(one)
            self.assertEqual(queue.qsize(), 20)
            self.assertEqual([queue.get() for _ in sent], sent)
        self.assertTrue(queue.empty())

    def test_empty_and_full_are_told_at_once_or_in_time(self):
        queue = vshmem.Queue(2)
        for call in (queue.get_nowait, lambda: queue.get(timeout=0.02)):
            with self.assertRaises(vshmem.Empty):
                call()
        queue.put(1)
        queue.put(2)
        self.assertTrue(queue.full())
        for call in (lambda: queue.put_nowait(3), lambda: queue.put(3, timeout=0.02)):
            with self.assertRaises(vshmem.Full):
                call()
        self.assertEqual((queue.get(), queue.get()), (1, 2))

    def test_one_who_waits_is_woken_by_another_process(self):
        queue = vshmem.Queue(1, name=processes.name("queue"))
        code = """
queue = vshmem.Queue(name=sys.argv[1])
print('waits', flush=True)
for _ in range(500):
    queue.put(queue.get() + 1)
"""
        queue_of_answers = vshmem.Queue(1, name=queue.name + "-answers")
        code = code.replace("queue.put(", "answers.put(").replace("print", "answers = vshmem.Queue(name=sys.argv[2])\nprint", 1)
        other = processes.start(code, queue.name, queue_of_answers.name)
        self.assertEqual(processes.said(other), "waits")
        for number in range(500):
            queue.put(number)
            self.assertEqual(queue_of_answers.get(timeout=60), number + 1)
        processes.finish(other)
        queue.unlink()
        queue_of_answers.unlink()

    def test_what_is_longer_than_the_ring_goes_beside_it(self):
        queue = vshmem.Queue(room=4096)
        text = "long" * 100_000
        queue.put([text, 1])
        queue.put("short")
        self.assertEqual(queue.get(), [text, 1])
        self.assertEqual(queue.get(), "short")

    def test_tasks_are_counted(self):
        queue = vshmem.JoinableQueue()
        for number in range(5):
            queue.put(number)
        worker = threading.Thread(target=lambda: [(queue.get(), queue.task_done()) for _ in range(5)])
        worker.start()
        queue.join()
        worker.join()
        with self.assertRaises(ValueError):
            queue.task_done()

    PUTTER = """
import itertools
queue = vshmem.Queue(name=sys.argv[1])
print('puts', flush=True)
for number in itertools.count():
    queue.put((number, b'x' * (number % 3000 if number % 10 else 200000)))
"""

    def test_a_process_that_is_killed_in_put_loses_nothing_and_holds_up_nobody(self):
        queue = vshmem.Queue(name=processes.name("killed"))
        chance = random.Random(5)
        for _ in range(6):
            putter = processes.start(self.PUTTER, queue.name)
            self.assertEqual(processes.said(putter), "puts")
            expected, end = 0, time.monotonic() + chance.uniform(0.02, 0.2)
            while time.monotonic() < end:
                number, text = queue.get(timeout=60)
                self.assertEqual((number, set(text) <= {120}), (expected, True))
                expected += 1
            processes.kill(putter)
            while True:
                try:
                    number, _ = queue.get(timeout=0.5)
                except vshmem.Empty:
                    break
                self.assertEqual(number, expected)
                expected += 1
        queue.unlink()

    GETTER = """
queue = vshmem.Queue(name=sys.argv[1])
print('gets', flush=True)
while True:
    queue.get()
"""

    def test_a_process_that_is_killed_in_get_leaves_the_rest_in_order(self):
        queue = vshmem.Queue(name=processes.name("getter"))
        for _ in range(6):
            getter = processes.start(self.GETTER, queue.name)
            self.assertEqual(processes.said(getter), "gets")
            for number in range(200):
                queue.put((number, b"y" * (100 if number % 10 else 100_000)))
            processes.kill(getter)
            left = []
            while queue.qsize():
                left.append(queue.get(timeout=60)[0])
            self.assertEqual(left, list(range(200 - len(left), 200)))
        queue.unlink()


class ChannelTest(unittest.TestCase):
    def test_objects_and_bytes(self):
        channel = vshmem.Channel(processes.name("channel"))
        self.assertFalse(channel.poll())
        other = pickle.loads(pickle.dumps(channel))
        other.send({"a": [1, 2]})
        self.assertTrue(channel.poll(1))
        self.assertEqual(channel.recv(), {"a": [1, 2]})
        other.send_bytes(b"0123456789", 2, 5)
        self.assertEqual(channel.recv_bytes(), b"23456")
        with self.assertRaises(TimeoutError):
            channel.recv(timeout=0.02)
        channel.unlink()

    def test_large_buffers_arrive_without_a_second_copy(self):
        channel = vshmem.Channel(processes.name("buffers"))
        sent = bytearray(b"z" * 1_000_000)
        channel.send([pickle.PickleBuffer(sent), "beside"])
        buffer, beside = channel.recv()
        self.assertEqual((bytes(buffer) == bytes(sent), beside), (True, "beside"))
        base = memoryview(buffer).obj
        self.assertEqual(type(base).__name__, "_Attached")
        channel.unlink()


if __name__ == "__main__":
    unittest.main()
