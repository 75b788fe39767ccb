//! The file behind a descriptor of an object: a memfd that is named after it, empty, and sealed.
//!
//! It has no memory of its own and never will. Calls that bypass this library (those inside libc,
//! or of a program that runs without the library) find an empty file that cannot be written, and
//! not pages that no other process sees. The name says all that a process needs which inherits the
//! descriptor or receives it from another: the pool, the object, and what it was opened for.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_int;
use vshmem_ipc::Errno;

use super::table::{Access, Descriptor, Identity, Object};
use crate::next::system_call;
use crate::{errno, process};

/// It can be neither written nor given another size, and that stays so.
const SEALS: c_int =
    libc::F_SEAL_SEAL | libc::F_SEAL_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK;
/// MFD_NOEXEC_SEAL (Linux 6.3).
const MFD_NOEXEC_SEAL: libc::c_uint = 8;
/// What /proc/PID/fd shows before and behind the name of a memfd.
const SHOWN_BEFORE: &[u8] = b"/memfd:";
const SHOWN_BEHIND: &[u8] = b" (deleted)";
const BEGINNING: &[u8] = b"vshmem-";
/// `vshmem-UUID-shm-ID-rw` and a null.
const MOST: usize = 80;

/// The name of a marker, without the heap: callers may be signal handlers.
struct Name {
    bytes: [u8; MOST],
    used: usize,
}

impl Name {
    fn of(pool: &[u8; 16], object: Object, access: Access) -> Self {
        let mut name = Self { bytes: [0; MOST], used: 0 };
        name.put(BEGINNING);
        for byte in pool {
            name.put(&[digit(byte >> 4), digit(byte & 15)]);
        }
        let (kind, id) = match object {
            Object::SharedMemory(id) => (b"-shm-".as_slice(), id),
            Object::Queue(id) => (b"-mq-".as_slice(), id),
        };
        name.put(kind);
        name.put_number(id as u32);
        name.put(b"-");
        name.put(if access.read { b"r" } else { b"" });
        name.put(if access.write { b"w" } else { b"" });
        name
    }

    fn put(&mut self, text: &[u8]) {
        for &byte in text {
            if self.used + 1 < MOST {
                self.bytes[self.used] = byte;
                self.used += 1;
            }
        }
    }

    fn put_number(&mut self, number: u32) {
        let mut digits = [0; 10];
        let mut rest = number;
        let mut first = digits.len();
        loop {
            first -= 1;
            digits[first] = digit((rest % 10) as u8);
            rest /= 10;
            if rest == 0 {
                return self.put(&digits[first..]);
            }
        }
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

fn digit(value: u8) -> u8 {
    b"0123456789abcdef"[usize::from(value & 15)]
}

/// What a name says, if it is one of this pool's.
fn parse(name: &[u8], pool: &[u8; 16]) -> Option<(Object, Access)> {
    let mut words = name.split(|&byte| byte == b'-').skip(2);
    let kind = words.next()?;
    let id: u32 = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let rights = words.next()?;
    let object = match kind {
        b"shm" => Object::SharedMemory(id as i32),
        b"mq" => Object::Queue(id as i32),
        _ => return None,
    };
    let access = Access { read: rights.contains(&b'r'), write: rights.contains(&b'w') };
    // What is written otherwise was not written here.
    (Name::of(pool, object, access).text() == name).then_some((object, access))
}

/// Makes a descriptor for an object. It is closed on exec, as shm_open(3) and mq_open(3) have it.
///
/// # Errors
/// EMFILE, ENFILE, ENOMEM; ENOSYS where the kernel has no memfd.
pub fn make(
    pool: &[u8; 16],
    object: Object,
    access: Access,
) -> Result<(OwnedFd, Descriptor), Errno> {
    let name = Name::of(pool, object, access);
    let file = create(&name)?;
    let words = [file.as_raw_fd() as usize, libc::F_ADD_SEALS as usize, SEALS as usize];
    // SAFETY: the descriptor was just made here.
    if unsafe { system_call(libc::SYS_fcntl, words) } != 0 {
        return Err(Errno::from_raw_os_error(errno::get()));
    }
    let identity = identity_of(file.as_raw_fd()).ok_or(Errno::BADF)?;
    Ok((file, Descriptor { object, access, identity }))
}

fn create(name: &Name) -> Result<OwnedFd, Errno> {
    /// Whether the kernel knows MFD_NOEXEC_SEAL, as far as is known.
    static KNOWS_NOEXEC: AtomicBool = AtomicBool::new(true);
    let usual = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    if KNOWS_NOEXEC.load(Ordering::Relaxed) {
        match create_with(name, usual | MFD_NOEXEC_SEAL) {
            Err(Errno::INVAL) => KNOWS_NOEXEC.store(false, Ordering::Relaxed),
            other => return other,
        }
    }
    create_with(name, usual)
}

fn create_with(name: &Name, flags: libc::c_uint) -> Result<OwnedFd, Errno> {
    let words = [name.bytes.as_ptr().addr(), flags as usize];
    // SAFETY: the name ends with a null.
    let file = unsafe { system_call(libc::SYS_memfd_create, words) };
    match c_int::try_from(file) {
        // SAFETY: the kernel has just made it, and no other code knows it.
        Ok(file) if file >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(file) }),
        _ => Err(Errno::from_raw_os_error(errno::get())),
    }
}

/// Who has made a file: its owner, whom the kernel has written there, and nobody else can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Maker {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// What a descriptor that has come from elsewhere says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// What its name says that it is.
    pub descriptor: Descriptor,
    /// Who says so.
    pub maker: Maker,
}

/// The file behind a descriptor.
pub fn identity_of(file: c_int) -> Option<Identity> {
    state_of(file).map(|(identity, _)| identity)
}

fn state_of(file: c_int) -> Option<(Identity, Maker)> {
    if file < 0 {
        return None;
    }
    // SAFETY: the descriptor is only borrowed for one call.
    let state = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(file) }).ok()?;
    let identity = Identity { device: state.st_dev, inode: state.st_ino };
    Some((identity, Maker { uid: state.st_uid, gid: state.st_gid }))
}

/// What a descriptor that has come from elsewhere stands for, if it is a marker of this process's
/// pool.
///
/// Every process can make a memfd of that name. So it is no proof of a right to the object: the
/// caller asks whether this process may use it (`session::right`).
pub fn recognize(file: c_int) -> Option<Found> {
    let session = process::joined()?;
    let words = [file as usize, libc::F_GET_SEALS as usize];
    // SAFETY: the call reads what it is asked for, and changes nothing.
    let seals = errno::untouched(|| unsafe { system_call(libc::SYS_fcntl, words) });
    if seals < 0 || seals as c_int & SEALS != SEALS {
        return None;
    }
    let mut shown = [0; 128];
    let name = shown_name(file, &mut shown)?;
    let (object, access) = parse(name, &session.client().pool().superblock().uuid)?;
    let (identity, maker) = state_of(file)?;
    Some(Found { descriptor: Descriptor { object, access, identity }, maker })
}

/// Whether a descriptor bears the name of one, of whatever pool.
pub fn is_one(file: c_int) -> bool {
    shown_name(file, &mut [0; 128]).is_some_and(|name| name.starts_with(BEGINNING))
}

/// The name of a memfd, as /proc shows it.
fn shown_name(file: c_int, into: &mut [u8; 128]) -> Option<&[u8]> {
    let mut path = Name { bytes: [0; MOST], used: 0 };
    path.put(b"/proc/self/fd/");
    path.put_number(u32::try_from(file).ok()?);
    let words =
        [libc::AT_FDCWD as usize, path.bytes.as_ptr().addr(), into.as_mut_ptr().addr(), into.len()];
    // SAFETY: the path ends with a null, and the room is as large as is said.
    let length = errno::untouched(|| unsafe { system_call(libc::SYS_readlinkat, words) });
    let shown = into.get(..usize::try_from(length).ok()?)?;
    shown.strip_prefix(SHOWN_BEFORE)?.strip_suffix(SHOWN_BEHIND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_it_was_made_of() {
        let pool = [0x0f; 16];
        let both = Access { read: true, write: true };
        for (object, access, end) in [
            (Object::SharedMemory(16384), both, "-shm-16384-rw"),
            (Object::SharedMemory(0), Access { write: false, ..both }, "-shm-0-r"),
            (Object::Queue(i32::MAX), Access { read: false, ..both }, "-mq-2147483647-w"),
        ] {
            let name = Name::of(&pool, object, access);
            let text = std::str::from_utf8(name.text()).unwrap();
            assert_eq!(text, format!("vshmem-{}{end}", "0f".repeat(16)));
            assert_eq!(parse(name.text(), &pool), Some((object, access)));
            assert_eq!(parse(name.text(), &[0xf0; 16]), None, "another pool's");
        }
    }

    #[test]
    fn other_names_are_nothing() {
        let pool = [0x0f; 16];
        let digits = "0f".repeat(16);
        for end in ["", "-shm", "-shm-5", "-shm-05-rw", "-shm-5-wr", "-sem-5-rw", "-shm-5-rw-"] {
            assert_eq!(parse(format!("vshmem-{digits}{end}").as_bytes(), &pool), None, "{end}");
        }
    }

    #[test]
    fn the_file_behind_a_descriptor_can_neither_be_written_nor_grow() {
        let pool = [0x0f; 16];
        let both = Access { read: true, write: true };
        let (file, made) = make(&pool, Object::SharedMemory(16385), both).unwrap();
        assert_eq!(identity_of(file.as_raw_fd()), Some(made.identity));
        assert_eq!(rustix::io::write(&file, b"x"), Err(rustix::io::Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(&file, 1), Err(rustix::io::Errno::PERM));
        let mut shown = [0; 128];
        let name = shown_name(file.as_raw_fd(), &mut shown).unwrap();
        assert_eq!(parse(name, &pool), Some((Object::SharedMemory(16385), both)));
    }
}
