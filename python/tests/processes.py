"""Other processes for the tests: what they run is a text of Python."""
import os
import subprocess
import sys
import uuid

# A shell that starts the tests in the background has SIGINT ignored, and Python then leaves it so.
PRELUDE = """import os, signal, sys, time, vshmem
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


def start(code, *words, **more):
    """A process that prints; what it prints on standard error is a failure of `finish`."""
    command = [sys.executable, "-W", "error", "-c", PRELUDE + code, *map(str, words)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, **pipes, **more)


def said(process):
    """Its next line: it has come so far."""
    return process.stdout.readline().strip()


def finish(process):
    """What it has printed; it has to end well and quietly."""
    out, errors = process.communicate(timeout=60)
    if process.returncode != 0 or errors:
        raise AssertionError(f"status {process.returncode}: {errors}")
    return out.strip()


def run(code, *words):
    """Such a process from its beginning to its end."""
    return finish(start(code, *words))


def kill(process):
    """Kills it, and waits until that is done."""
    process.kill()
    process.communicate()


def name(word):
    """A name of the calling test's own."""
    return f"test-{word}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
