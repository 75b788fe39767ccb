"""A machine that leaves a pool: its programs are told, and go on with memory of their own."""
import os
import subprocess
import unittest

import processes

TOLD = """
import errno, threading
pool = vshmem.Pool(sys.argv[1])
memory = vshmem.SharedMemory("kept", create=True, size=1 << 16, pool=pool)
memory.buf[7] = 9
parted = threading.Event()
def part():
    pool.part()
    parted.set()
pool.on_leave(part)
print(pool.leaving, flush=True)
parted.wait()
memory.buf[8] = memory.buf[7]
print(pool.leaving, bytes(memory.buf[7:9]))
try:
    vshmem.Lock(pool=pool)
except OSError as error:
    print(errno.errorcode[error.errno])
"""


class LeavingTest(unittest.TestCase):
    def command(self, *words):
        done = subprocess.run([os.environ["VSHMEM_COMMAND"], "pool", *words], capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_program_is_told_and_goes_on_with_memory_of_its_own(self):
        pool = processes.name("left")
        self.command("create", pool, "--size", "16M")
        self.addCleanup(self.command, "rm", pool, "--force")
        process = processes.start(TOLD, pool)
        self.assertEqual(processes.said(process), "False")
        self.command("leave", pool)
        self.assertEqual(processes.finish(process), "True b'\\t\\t'\nEIDRM")
        self.command("join", pool)
        self.command("check", pool)


if __name__ == "__main__":
    unittest.main()
