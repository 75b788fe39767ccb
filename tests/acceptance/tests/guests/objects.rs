//! POSIX shared memory objects of one name in two guests, by a program that knows nothing of pools:
//! CPython's multiprocessing.shared_memory.

use vshmem_acceptance::Guests;
use vshmem_acceptance::suite::say;

use crate::shared;

const PYTHON: &str = "/usr/bin/python3";

/// Runs a program in a guest; what it prints. The object is `memory`. No tracker of Python's may
/// unlink it when the first of the processes ends.
fn run(guests: &Guests, guest: u32, program: &str) -> String {
    let line = format!(
        "vshmem run --share all,posix -- {PYTHON} -c '
import os
from multiprocessing import resource_tracker, shared_memory
def opened(**how):
    memory = shared_memory.SharedMemory(\"across\", **how)
    resource_tracker.unregister(memory._name, \"shared_memory\")
    return memory
{program}'"
    );
    guests.shell(guest, &line).ok()
}

pub fn python() {
    let guests = shared();
    if guests.shell(1, &format!("test -x {PYTHON}")).code != 0 {
        return say(&format!("SKIPPED: the guests have no {PYTHON}"));
    }
    // The process that made it is killed.
    let made = "if os.fork() == 0:
    memory = opened(create=True, size=1 << 20)
    memory.buf[:5] = b\"hello\"
    os.kill(os.getpid(), 9)
print(os.WTERMSIG(os.wait()[1]))";
    assert_eq!(run(&guests, 1, made).trim(), "9");
    let changed = "memory = opened()
print(memory.size, bytes(memory.buf[:5]).decode())
memory.buf[:5] = b\"world\"";
    assert_eq!(run(&guests, 2, changed).trim(), "1048576 hello");
    let removed = "memory = opened()
print(bytes(memory.buf[:5]).decode())
resource_tracker.register(memory._name, \"shared_memory\")
memory.unlink()";
    assert_eq!(run(&guests, 1, removed).trim(), "world");
    guests.pool().assert_clean();
}
