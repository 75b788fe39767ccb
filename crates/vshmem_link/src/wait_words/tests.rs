//! Files of several users, as one process finds, makes and notifies them.

use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use rustix::fs::Stat;
use vshmem_mem::{Map, SLEEPING};
use vshmem_sync::{WakeOtherUsers, WordsOwner};

use super::names::Names;
use super::others::Files;
use super::own::readers;
use super::{OwnWords, open_in};

const UUID: [u8; 16] = [7; 16];
const BYTES: usize = 4100;

fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn none() -> Vec<u32> {
    Vec::new()
}

struct Setup {
    directory: tempfile::TempDir,
    audience: Stat,
}

impl Setup {
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let device = tempfile::tempfile().unwrap();
        device.set_permissions(std::fs::Permissions::from_mode(0o660)).unwrap();
        Self { directory, audience: rustix::fs::fstat(&device).unwrap() }
    }

    fn names(&self) -> Names {
        Names::new(self.directory.path(), &UUID, BYTES)
    }

    fn files(&self) -> Files {
        Files::new(self.names())
    }

    fn open(&self, known: &dyn Fn() -> Vec<u32>) -> OwnWords {
        open_in(self.names(), &self.audience, known).unwrap()
    }

    fn plain(&self) -> PathBuf {
        self.names().path(WordsOwner { uid: me(), nonce: 0 })
    }

    fn count(&self) -> usize {
        std::fs::read_dir(self.directory.path()).unwrap().count()
    }
}

/// Another user's file, where this test may make one.
fn planted(path: &Path, bytes: u64) -> bool {
    let file = std::fs::File::create(path).unwrap();
    file.set_len(bytes).unwrap();
    me() == 0 && fchown(&file, Some(12345), Some(12345)).is_ok()
}

#[test]
fn processes_of_a_user_share_a_file_that_no_other_user_may_write() {
    let setup = Setup::new();
    let (one, other) = (setup.open(&none), setup.open(&none));
    assert_eq!((one.owner, other.owner.nonce), (other.owner, 0));
    let (one, other) = (Map::of(one.mapping), Map::of(other.mapping));
    one.futex(8).unwrap().store(5, Ordering::SeqCst);
    assert_eq!(other.futex(8).unwrap().load(Ordering::SeqCst), 5);
    let meta = std::fs::metadata(setup.plain()).unwrap();
    assert_eq!((meta.mode() & 0o777, meta.len(), setup.count()), (0o640, BYTES as u64, 1));
}

/// Root has used the pool before the driver was loaded.
#[test]
fn a_file_that_was_made_for_fewer_is_opened_to_those_who_may_use_the_device_now() {
    let mut setup = Setup::new();
    setup.audience.st_mode = libc::S_IFREG | 0o600;
    let before = setup.open(&none);
    let mode = || std::fs::metadata(setup.plain()).unwrap().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    let mut audience = setup.audience;
    audience.st_mode = libc::S_IFREG | 0o660;
    let now = open_in(setup.names(), &audience, &none).unwrap();
    assert_eq!(mode(), 0o640);
    assert_eq!(now.owner, before.owner);
    // Nor is it closed to them by a process that comes by the former device.
    setup.open(&none);
    assert_eq!(mode(), 0o640);
}

#[test]
fn a_file_of_another_user_is_neither_used_nor_touched_nor_in_the_way() {
    let setup = Setup::new();
    if !planted(&setup.plain(), 1 << 20) {
        return;
    }
    let one = setup.open(&none);
    assert_ne!(one.owner.nonce, 0);
    let known = || vec![77, one.owner.nonce];
    assert_eq!(setup.open(&known).owner, one.owner, "the next process finds it");
    let meta = std::fs::metadata(setup.plain()).unwrap();
    assert_eq!((meta.uid(), meta.len()), (12345, 1 << 20));
}

#[test]
fn what_others_may_write_to_or_is_too_short_or_no_file_is_not_used() {
    type Plant = fn(&Path);
    let plants: [Plant; 5] = [
        |path| {
            let file = std::fs::File::create(path).unwrap();
            file.set_len(1 << 20).unwrap();
            file.set_permissions(std::fs::Permissions::from_mode(0o620)).unwrap();
        },
        |path| std::fs::write(path, "short").unwrap(),
        |path| std::fs::create_dir(path).unwrap(),
        |path| std::os::unix::fs::symlink("/etc/passwd", path).unwrap(),
        |path| drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
    ];
    for plant in plants {
        let setup = Setup::new();
        plant(&setup.plain());
        assert_ne!(setup.open(&none).owner.nonce, 0);
    }
    let setup = Setup::new();
    std::fs::write(setup.plain(), "short").unwrap();
    setup.open(&none);
    assert_eq!(std::fs::read(setup.plain()).unwrap(), b"short", "it was made longer");
}

#[test]
fn who_may_use_the_device_may_wake() {
    let setup = Setup::new();
    let device = |mode: u32, uid| {
        let mut stat = setup.audience;
        (stat.st_mode, stat.st_uid) = (mode, uid);
        stat
    };
    for (mode, owner, has_group, wanted) in [
        (0o100_600, 0, true, 0o600),
        (0o100_600, 1000, true, 0o600),
        (0o100_600, 1001, true, 0o604),
        (0o100_660, 0, true, 0o640),
        (0o100_660, 0, false, 0o604),
        (0o100_666, 0, true, 0o644),
        (0o100_640, 0, true, 0o600),
    ] {
        let mode_of = readers(&device(mode, owner), 1000, has_group);
        assert_eq!(mode_of.as_raw_mode(), wanted, "{mode:o} {owner} {has_group}");
    }
}

#[test]
fn a_waiter_of_another_file_is_woken_and_a_shortened_file_harms_no_process() {
    let setup = Setup::new();
    let owner = setup.open(&none);
    let waker = setup.files();
    let words = Map::of(owner.mapping);
    let word = words.futex(40).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let announced = word.fetch_or(SLEEPING, Ordering::SeqCst) | SLEEPING;
            let long = std::time::Duration::from_secs(60);
            let outcome = vshmem_mem::futex_wait(word, announced, long);
            word.store(0, Ordering::SeqCst);
            outcome
        });
        while !waiter.is_finished() {
            waker.wake(owner.owner, 10);
        }
        assert_eq!(waiter.join().unwrap(), vshmem_mem::FutexOutcome::Woken);
    });
    std::fs::File::options().write(true).open(setup.plain()).unwrap().set_len(0).unwrap();
    waker.wake(owner.owner, 10);
    // Never mapped before.
    setup.files().wake(owner.owner, 10);
    setup.files().wake(WordsOwner { uid: me(), nonce: 9 }, 10);
    waker.wake(owner.owner, u32::MAX);
}

/// Installs a filter that ends the process at calls which docs/reference/sysv-differences.md does
/// not list, as far as [`Files`] could make them.
fn forbid() {
    const RETURN: u16 = 0x06;
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    let forbidden =
        [libc::SYS_openat, libc::SYS_process_vm_readv, libc::SYS_newfstatat, libc::SYS_close];
    let step = |code, jt, k| libc::sock_filter { code, jt, jf: 0, k };
    let mut filter = [step(RETURN, 0, libc::SECCOMP_RET_ALLOW); 7];
    filter[0] = step(LOAD, 0, 0);
    for (nth, number) in forbidden.into_iter().enumerate() {
        filter[nth + 1] = step(EQUAL, 4 - nth as u8, number as u32);
    }
    filter[6] = step(RETURN, 0, libc::SECCOMP_RET_KILL_PROCESS);
    let program = libc::sock_fprog { len: 7, filter: filter.as_mut_ptr() };
    // SAFETY: the filter outlives the calls, which copy it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program, 0, 0), 0);
    }
}

#[test]
fn a_waker_that_has_confined_itself_makes_no_call_that_its_filter_may_not_know() {
    let setup = Setup::new();
    let words = setup.open(&none);
    let (known, unknown) = (setup.files(), setup.files());
    known.wake(words.owner, 10);
    // As if it were about to sleep: the waker is in no hurry to give up.
    let map = Map::of(words.mapping);
    map.futex(40).unwrap().store(SLEEPING, Ordering::SeqCst);
    // SAFETY: the child makes system calls on what was prepared before, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        vshmem_mem::confine(vshmem_mem::Confined::OneThread, || 0);
        forbid();
        known.wake(words.owner, 10);
        unknown.wake(words.owner, 10);
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: `status` is live.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "ended by signal {}", libc::WTERMSIG(status));
}
