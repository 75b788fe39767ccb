"""A context like multiprocessing's, with its ways to start processes."""
import unittest

import vshmem


def work(lock, words, questions, answers, barrier):
    barrier.wait(60)
    while True:
        one = questions.get(timeout=60)
        if one is None:
            break
        with lock:
            words.buf[0] += 1
        answers.put(one * one)


class ContextTest(unittest.TestCase):
    def squares(self, method):
        context = vshmem.get_context(method)
        words = context.SharedMemory(create=True, size=10)
        questions, answers = context.JoinableQueue(), context.Queue()
        barrier = context.Barrier(3)
        of_all = (context.Lock(), words, questions, answers, barrier)
        workers = [context.Process(target=work, args=of_all) for _ in range(2)]
        for one in workers:
            one.start()
        barrier.wait(60)
        for number in range(20):
            questions.put(number)
        self.assertEqual(sorted(answers.get(timeout=60) for _ in range(20)), [n * n for n in range(20)])
        for _ in workers:
            questions.put(None)
        for one in workers:
            one.join()
            self.assertEqual(one.exitcode, 0)
        self.assertEqual(words.buf[0], 20)
        words.unlink()

    def test_spawn(self):
        self.squares("spawn")

    def test_fork(self):
        self.squares("fork")

    def test_forkserver(self):
        self.squares("forkserver")

    def test_what_is_not_of_the_pool_is_multiprocessings(self):
        context = vshmem.get_context("spawn")
        self.assertGreater(context.cpu_count(), 0)
        with context.Pool(1) as pool:
            self.assertEqual(pool.map(abs, [-1, 2]), [1, 2])


if __name__ == "__main__":
    unittest.main()
