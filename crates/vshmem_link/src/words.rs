//! The files that threads of a domain sleep on, where pool memory does not allow it: one for each user.
//!
//! `/dev/shm/vshmem-wait.UUID.UID` belongs to the user that is its name, and that user alone may write to it: who may
//! write to a file may shorten it, and whoever touches the pages that are gone ends with SIGBUS. So a process maps its own
//! user's file to touch it, and those of others for the kernel alone ([`ForeignWords`]): waking takes no more than leave
//! to read. Whoever is first makes its own user's file. It appears under its name when it is whole, and is never made
//! longer.
//!
//! A program that has confined itself opens no further files: it wakes whom it has woken before, and others look by themselves.
//!
//! Somebody else may have put something there before. Then the user takes another file with a number that cannot be known
//! ahead behind its name, and the pool says which.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat};
use rustix::io::Errno;
use vshmem_mem::{ForeignWords, Mapping, Protection, SLEEPING, map_file, unless_confined};
use vshmem_sync::{Neighbours, WordsOwner};

use crate::RegionError;
use crate::file_limit::{self, FILE_LIMIT};

/// Where the files are.
const DIRECTORY: &str = "/dev/shm";
/// Files with a number that are tried before another is made.
const KNOWN: usize = 16;
/// Numbers that are tried: one would do.
const FRESH: usize = 4;

/// A user's file, mapped.
#[derive(Debug)]
pub struct OwnWords {
    /// Its words.
    pub mapping: Mapping,
    /// What others find it by.
    pub owner: WordsOwner,
    /// How others are woken.
    pub neighbours: Files,
}

/// The files of a pool's wait words in this domain.
#[derive(Debug)]
pub struct Files {
    directory: PathBuf,
    /// What their names begin with.
    stem: String,
    bytes: usize,
    others: Others,
}

/// What a path is when it is not the file that is sought.
type Attempt<T> = Result<T, (&'static str, Errno)>;

fn fail(tried: &'static str) -> impl Fn(Errno) -> (&'static str, Errno) {
    move |errno| (tried, errno)
}

/// Opens this user's wait file for a pool, makes it if there is none, and maps it. `known`: numbers of files of this user's,
/// as the pool has them.
///
/// # Errors
/// Says what was tried and what came back.
pub fn open_wait_words(
    uuid: &[u8; 16],
    bytes: usize,
    device: &Path,
    known: &dyn Fn() -> Vec<u32>,
) -> Result<OwnWords, RegionError> {
    let place = Path::new(DIRECTORY);
    let audience = rustix::fs::stat(device).map_err(|errno| RegionError::Failed {
        place: device.to_owned(),
        tried: "see whom it lets in",
        errno,
    })?;
    Files::new(place, uuid, bytes).open(&audience, known)
}

/// What the names of a pool's wait files begin with, in their directory.
#[must_use]
pub fn wait_files(uuid: &[u8; 16]) -> (PathBuf, String) {
    let digits: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    (PathBuf::from(DIRECTORY), format!("vshmem-wait.{digits}"))
}

impl Files {
    fn new(directory: &Path, uuid: &[u8; 16], bytes: usize) -> Self {
        let stem = wait_files(uuid).1;
        Self { directory: directory.to_owned(), stem, bytes, others: Others::new() }
    }

    fn place(&self, owner: WordsOwner) -> PathBuf {
        let WordsOwner { uid, nonce } = owner;
        self.directory.join(match nonce {
            0 => format!("{}.{uid}", self.stem),
            nonce => format!("{}.{uid}.{nonce:08x}", self.stem),
        })
    }

    fn open(self, audience: &Stat, known: &dyn Fn() -> Vec<u32>) -> Result<OwnWords, RegionError> {
        let opened = self.open_any(audience, known).and_then(|(owner, file)| {
            // SAFETY: no address is given.
            unsafe { map_file(file.as_fd(), 0, self.bytes, Protection::READ_WRITE, None) }
                .map(|mapping| (owner, mapping))
                .map_err(fail("map it"))
        });
        match opened {
            Ok((owner, mapping)) => Ok(OwnWords { mapping, owner, neighbours: self }),
            Err((tried, errno)) => {
                let uid = rustix::process::geteuid().as_raw();
                let place = self.place(WordsOwner { uid, nonce: 0 });
                Err(match errno {
                    Errno::FBIG => RegionError::NoRoom { place, tried, errno, remedy: FILE_LIMIT },
                    errno => RegionError::Failed { place, tried, errno },
                })
            }
        }
    }

    /// The plain name first, then those that the pool has, then new ones.
    fn open_any(
        &self,
        audience: &Stat,
        known: &dyn Fn() -> Vec<u32>,
    ) -> Attempt<(WordsOwner, OwnedFd)> {
        let uid = rustix::process::geteuid().as_raw();
        let plain = WordsOwner { uid, nonce: 0 };
        if let Some(file) = self.open_or_make(plain, audience)? {
            return Ok((plain, file));
        }
        for nonce in known().into_iter().filter(|&nonce| nonce != 0).take(KNOWN) {
            let owner = WordsOwner { uid, nonce };
            if let Ok(Some(file)) = self.open_own(owner) {
                return Ok((owner, file));
            }
        }
        for _ in 0..FRESH {
            let owner = WordsOwner { uid, nonce: unguessable() };
            if let Some(file) = self.open_or_make(owner, audience)? {
                return Ok((owner, file));
            }
        }
        Err(("make it: something lies at every name", Errno::EXIST))
    }

    /// `None`: somebody else has that name.
    fn open_or_make(&self, owner: WordsOwner, audience: &Stat) -> Attempt<Option<OwnedFd>> {
        match self.open_own(owner) {
            Err(Errno::NOENT) => {}
            other => return other.map_err(fail("open it")),
        }
        self.make(owner, audience)?;
        // As made just now, by this process or by another.
        self.open_own(owner).map_err(fail("open it"))
    }

    /// A file that is this user's in every respect.
    fn open_own(&self, owner: WordsOwner) -> Result<Option<OwnedFd>, Errno> {
        // Without waiting for whoever has a lease on what lies there.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match rustix::fs::open(self.place(owner), flags, Mode::empty()) {
            Ok(file) => file,
            Err(
                errno @ (Errno::NOENT | Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::INTR),
            ) => {
                return Err(errno);
            }
            Err(_) => return Ok(None),
        };
        let stat = rustix::fs::fstat(&file)?;
        let mine = self.is_words_of(&stat, owner.uid) && stat.st_mode & 0o022 == 0;
        Ok(mine.then_some(file))
    }

    /// Whether a file is what its name says.
    fn is_words_of(&self, stat: &Stat, uid: u32) -> bool {
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && stat.st_uid == uid
            && stat.st_size as u64 >= self.bytes as u64
    }

    /// Makes this user's file, whole before it has a name.
    fn make(&self, owner: WordsOwner, audience: &Stat) -> Attempt<()> {
        file_limit::allows(self.bytes as u64).map_err(fail("make it"))?;
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = rustix::fs::open(&self.directory, flags, Mode::RUSR | Mode::WUSR)
            .map_err(fail("make it"))?;
        rustix::fs::ftruncate(&file, self.bytes as u64).map_err(fail("size it"))?;
        // A page that cannot be had would be a signal at its first touch.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, self.bytes as u64)
            .map_err(fail("back it with memory"))?;
        let group = Gid::from_raw(audience.st_gid);
        let has_group = rustix::fs::fchown(&file, None, Some(group)).is_ok();
        rustix::fs::fchmod(&file, readers(audience, owner.uid, has_group))
            .map_err(fail("share it"))?;
        let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
        match rustix::fs::linkat(
            rustix::fs::CWD,
            itself,
            rustix::fs::CWD,
            self.place(owner),
            AtFlags::SYMLINK_FOLLOW,
        ) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(("give it its name", errno)),
        }
    }

    /// Another user's file.
    fn open_other(&self, owner: WordsOwner) -> Option<OwnedFd> {
        let mut room = [0u8; 512];
        let place = self.path_in(owner, &mut room)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = rustix::fs::open(place, flags, Mode::empty()).ok()?;
        let stat = rustix::fs::fstat(&file).ok()?;
        self.is_words_of(&stat, owner.uid).then_some(file)
    }

    /// As [`Files::place`], without the heap.
    fn path_in<'a>(&self, owner: WordsOwner, room: &'a mut [u8]) -> Option<&'a CStr> {
        use std::io::Write;
        let mut rest = &mut room[..];
        let WordsOwner { uid, nonce } = owner;
        rest.write_all(self.directory.as_os_str().as_encoded_bytes()).ok()?;
        write!(rest, "/{}.{uid}", self.stem).ok()?;
        if nonce != 0 {
            write!(rest, ".{nonce:08x}").ok()?;
        }
        rest.write_all(&[0]).ok()?;
        CStr::from_bytes_until_nul(room).ok()
    }

    /// Uses another user's words: mapped once, or for this time where there is no room to keep them.
    fn with_other(&self, owner: WordsOwner, use_them: impl FnOnce(&ForeignWords)) {
        if let Some(start) = self.others.find(owner) {
            return use_them(&ForeignWords::mapped_at(start, self.bytes));
        }
        let Some(file) = unless_confined(|| self.open_other(owner)).flatten() else { return };
        let Ok(words) = ForeignWords::map(file.as_fd(), self.bytes) else { return };
        use_them(&words);
        if !self.others.keep(owner, words.start()) {
            words.unmap();
        }
    }
}

/// Who may read a user's file, and so wake its threads: as near as modes can say it, who may use the pool's device.
fn readers(audience: &Stat, uid: u32, has_group: bool) -> Mode {
    let lets_in = |bits: u32| audience.st_mode & bits == bits;
    // Its owner, where that is neither this user nor root, is reached as one of all.
    let all = lets_in(0o006) || !has_group || ![0, uid].contains(&audience.st_uid);
    let mut mode = Mode::RUSR | Mode::WUSR;
    mode.set(Mode::RGRP, lets_in(0o060) && has_group);
    mode.set(Mode::ROTH, all);
    mode
}

/// A number that nobody can know ahead, other than 0.
fn unguessable() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    (RandomState::new().hash_one(0) as u32).max(1)
}

/// Words of other users that stay mapped. Takes no lock: it is used in signal handlers, and by children of fork.
#[derive(Debug)]
struct Others([Other; Self::ROOM]);

#[derive(Debug)]
struct Other {
    /// Whose: 0 for nobody's.
    key: AtomicU64,
    /// Where: 0 until it is known.
    start: AtomicUsize,
}

impl Others {
    const ROOM: usize = 64;

    fn new() -> Self {
        Self(std::array::from_fn(|_| Other { key: AtomicU64::new(0), start: AtomicUsize::new(0) }))
    }

    fn key(owner: WordsOwner) -> u64 {
        (u64::from(owner.uid) + 1) << 32 | u64::from(owner.nonce)
    }

    fn find(&self, owner: WordsOwner) -> Option<usize> {
        let key = Self::key(owner);
        for other in &self.0 {
            match other.key.load(Ordering::Acquire) {
                0 => return None,
                found if found == key => {
                    let start = other.start.load(Ordering::Acquire);
                    return (start != 0).then_some(start);
                }
                _ => {}
            }
        }
        None
    }

    /// False: there is no room, or it is there already.
    fn keep(&self, owner: WordsOwner, start: usize) -> bool {
        let key = Self::key(owner);
        for other in &self.0 {
            match other.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    other.start.store(start, Ordering::Release);
                    return true;
                }
                Err(found) if found == key => return false,
                Err(_) => {}
            }
        }
        false
    }
}

impl Neighbours for Files {
    fn ring(&self, owner: WordsOwner, slot: u32) {
        /// A sleeper that has announced itself and is not asleep yet may have looked before the change was made. It is
        /// about to sleep, so this is enough, unless it was preempted just there: then it looks by itself a second later.
        const PATIENCE: u32 = 32;
        let at = slot as usize * 4;
        // After the change that the ring is for.
        fence(Ordering::SeqCst);
        self.with_other(owner, |words| {
            for _ in 0..PATIENCE {
                if words.wake(at) != Ok(0) {
                    return;
                }
                match unless_confined(|| words.read(at)) {
                    // It is awake and will look; or nobody is left whose file this was.
                    Some(Ok(word)) if word & SLEEPING == 0 => return,
                    Some(Err(Errno::FAULT | Errno::INVAL)) => return,
                    // It may be about to sleep. So it may where a filter does not let us look.
                    _ => rustix::thread::sched_yield(),
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

    use vshmem_mem::Map;

    use super::*;

    const UUID: [u8; 16] = [7; 16];
    const BYTES: usize = 4100;

    fn me() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn none() -> Vec<u32> {
        Vec::new()
    }

    struct Scene {
        directory: tempfile::TempDir,
        audience: Stat,
    }

    impl Scene {
        fn new() -> Self {
            let directory = tempfile::tempdir_in("/dev/shm").unwrap();
            let device = tempfile::tempfile().unwrap();
            device.set_permissions(std::fs::Permissions::from_mode(0o660)).unwrap();
            Self { directory, audience: rustix::fs::fstat(&device).unwrap() }
        }

        fn files(&self) -> Files {
            Files::new(self.directory.path(), &UUID, BYTES)
        }

        fn open(&self, known: &dyn Fn() -> Vec<u32>) -> OwnWords {
            self.files().open(&self.audience, known).unwrap()
        }

        fn plain(&self) -> PathBuf {
            self.files().place(WordsOwner { uid: me(), nonce: 0 })
        }

        fn names(&self) -> usize {
            std::fs::read_dir(self.directory.path()).unwrap().count()
        }
    }

    /// Somebody else's file, where this test may make one.
    fn planted(place: &Path, bytes: u64) -> bool {
        let file = std::fs::File::create(place).unwrap();
        file.set_len(bytes).unwrap();
        me() == 0 && fchown(&file, Some(12345), Some(12345)).is_ok()
    }

    #[test]
    fn processes_of_a_user_share_a_file_that_nobody_else_may_write() {
        let scene = Scene::new();
        let (one, other) = (scene.open(&none), scene.open(&none));
        assert_eq!((one.owner, other.owner.nonce), (other.owner, 0));
        let (one, other) = (Map::of(one.mapping), Map::of(other.mapping));
        one.futex(8).unwrap().store(5, Ordering::SeqCst);
        assert_eq!(other.futex(8).unwrap().load(Ordering::SeqCst), 5);
        let meta = std::fs::metadata(scene.plain()).unwrap();
        assert_eq!((meta.mode() & 0o777, meta.len(), scene.names()), (0o640, BYTES as u64, 1));
    }

    #[test]
    fn a_file_of_another_user_is_neither_used_nor_touched_nor_in_the_way() {
        let scene = Scene::new();
        if !planted(&scene.plain(), 1 << 20) {
            return;
        }
        let one = scene.open(&none);
        assert_ne!(one.owner.nonce, 0);
        let known = || vec![77, one.owner.nonce];
        assert_eq!(scene.open(&known).owner, one.owner, "the next process finds it");
        let meta = std::fs::metadata(scene.plain()).unwrap();
        assert_eq!((meta.uid(), meta.len()), (12345, 1 << 20));
    }

    #[test]
    fn what_others_may_write_to_or_is_too_short_or_no_file_is_not_used() {
        type Plant = fn(&Path);
        let plants: [Plant; 5] = [
            |place| {
                let file = std::fs::File::create(place).unwrap();
                file.set_len(1 << 20).unwrap();
                file.set_permissions(std::fs::Permissions::from_mode(0o620)).unwrap();
            },
            |place| std::fs::write(place, "short").unwrap(),
            |place| std::fs::create_dir(place).unwrap(),
            |place| std::os::unix::fs::symlink("/etc/passwd", place).unwrap(),
            |place| drop(std::os::unix::net::UnixListener::bind(place).unwrap()),
        ];
        for plant in plants {
            let scene = Scene::new();
            plant(&scene.plain());
            assert_ne!(scene.open(&none).owner.nonce, 0);
        }
        let scene = Scene::new();
        std::fs::write(scene.plain(), "short").unwrap();
        scene.open(&none);
        assert_eq!(std::fs::read(scene.plain()).unwrap(), b"short", "it was made longer");
    }

    #[test]
    fn who_may_use_the_device_may_wake() {
        let scene = Scene::new();
        let device = |mode: u32, uid| {
            let mut stat = scene.audience;
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
    fn a_sleeper_of_another_file_is_woken_and_a_shortened_file_harms_nobody() {
        let scene = Scene::new();
        let owner = scene.open(&none);
        let waker = scene.files();
        let words = Map::of(owner.mapping);
        let word = words.futex(40).unwrap();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let announced = word.fetch_or(SLEEPING, Ordering::SeqCst) | SLEEPING;
                let long = std::time::Duration::from_secs(60);
                let outcome = vshmem_mem::futex_wait(word, announced, long);
                word.store(0, Ordering::SeqCst);
                outcome
            });
            while !sleeper.is_finished() {
                waker.ring(owner.owner, 10);
            }
            assert_eq!(sleeper.join().unwrap(), vshmem_mem::FutexOutcome::Woken);
        });
        std::fs::File::options().write(true).open(scene.plain()).unwrap().set_len(0).unwrap();
        waker.ring(owner.owner, 10);
        // Never mapped before.
        scene.files().ring(owner.owner, 10);
        scene.files().ring(WordsOwner { uid: me(), nonce: 9 }, 10);
        waker.ring(owner.owner, u32::MAX);
    }

    /// Installs a filter that ends the process at calls which docs/reference/sysv-differences.md does not list, as far as [`Files`] could make them.
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
        let scene = Scene::new();
        let words = scene.open(&none);
        let (known, unknown) = (scene.files(), scene.files());
        known.ring(words.owner, 10);
        // As if it were about to sleep: the waker is in no hurry to give up.
        let map = Map::of(words.mapping);
        map.futex(40).unwrap().store(SLEEPING, Ordering::SeqCst);
        // SAFETY: the child makes system calls on what was prepared before, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            vshmem_mem::confine(true);
            forbid();
            known.ring(words.owner, 10);
            unknown.ring(words.owner, 10);
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: `status` is live.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status), "ended by signal {}", libc::WTERMSIG(status));
    }

    #[test]
    fn more_users_than_there_is_room_for_are_rung_as_well() {
        let others = Others::new();
        let owner = |uid| WordsOwner { uid, nonce: 0 };
        for uid in 0..Others::ROOM as u32 {
            assert_eq!(others.find(owner(uid)), None);
            assert!(others.keep(owner(uid), 4096 + uid as usize));
            assert!(!others.keep(owner(uid), 1), "twice");
        }
        assert!(!others.keep(owner(1000), 1));
        assert_eq!(others.find(owner(1000)), None);
        assert_eq!(others.find(owner(63)), Some(4096 + 63));
    }
}
