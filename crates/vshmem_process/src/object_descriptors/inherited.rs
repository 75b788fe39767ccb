//! Descriptors of objects that the program before this one has left open through its exec, or a
//! parent through posix_spawn(3).

use std::mem::MaybeUninit;

use libc::c_int;
use rustix::fs::{Mode, OFlags, RawDir};
use vshmem_ipc::Client;

use super::table::Object;
use super::{marker, open};

/// Descriptors of one process that are taken over at most.
const MOST: usize = 4096;

/// Calls `each` with every number that is open, as /proc lists them.
fn each_open(mut each: impl FnMut(c_int)) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(folder) = rustix::fs::open(c"/proc/self/fd", flags, Mode::empty()) else { return };
    let mut room = [MaybeUninit::uninit(); 1024];
    let mut entries = RawDir::new(&folder, &mut room);
    while let Some(Ok(entry)) = entries.next() {
        let name = std::str::from_utf8(entry.file_name().to_bytes());
        if let Some(number) = name.ok().and_then(|name| name.parse().ok()) {
            each(number);
        }
    }
}

/// Whether there are any, of whatever pool.
pub fn are_there() -> bool {
    let mut found = false;
    each_open(|file| found |= marker::is_one(file));
    found
}

/// Enters them, for a process that has just joined: they are counted for it, and what else the
/// program before it had open is not any more.
pub fn take_over(this_client: &Client) {
    let mut held: Vec<(i32, u32)> = Vec::new();
    let mut entered = 0;
    each_open(|file| {
        if entered == MOST {
            return;
        }
        // One more than before its exec, until that is decided below.
        let Some(known) = open::take_in(file) else { return };
        entered += 1;
        if let Object::SharedMemory(id) = known.object {
            match held.iter_mut().find(|(other, _)| *other == id) {
                Some((_, count)) => *count += 1,
                None => held.push((id, 1)),
            }
        }
    });
    // A corrupt pool says so at the first call.
    let _ = this_client.posix_shm_keep_only(&held);
}
