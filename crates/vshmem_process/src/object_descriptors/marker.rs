//! The file behind a descriptor of an object: a memfd that is named after it, empty, and sealed.
//!
//! It has no memory of its own and never will. Calls that bypass this library (those inside libc,
//! or of a program that runs without the library) find an empty file that cannot be written, and
//! not pages that no other process sees. The name says all that a process needs which inherits the
//! descriptor or receives it from another: the pool, the object, and what it was opened for.
//!
//! Every process can make a memfd of any name. So the name ends with a signature: a hash of all
//! that it says and of the file itself, by its inode number, with a key that lies in the pool. Only
//! a member can have made it, and in a file of another process's the same name is worth nothing.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libc::c_int;
use vshmem_ipc::Errno;
use vshmem_session::Session;
use vshmem_wire::siphash_2_4;

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
/// `vshmem-UUID-mq-ID-rw-SIGNATURE` and a null.
const MOST: usize = 80;

/// The name of a marker, without the heap: callers may be signal handlers.
struct Name {
    bytes: [u8; MOST],
    used: usize,
}

impl Name {
    fn of(pool: &[u8; 16], object: Object, access: Option<Access>, signature: u64) -> Self {
        let mut name = Self { bytes: [0; MOST], used: 0 };
        name.put(BEGINNING);
        name.put_digits(pool);
        let (kind, id) = match object {
            Object::SharedMemory(id) => (b"-shm-".as_slice(), id),
            Object::Queue(id) => (b"-mq-".as_slice(), id),
        };
        name.put(kind);
        name.put_number(id as u32);
        name.put(b"-");
        if let Some(access) = access {
            name.put(if access.read { b"r" } else { b"" });
            name.put(if access.write { b"w" } else { b"" });
            name.put(b"-");
        }
        name.put_digits(&signature.to_be_bytes());
        name
    }

    fn put_digits(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.put(&[digit(byte >> 4), digit(byte & 15)]);
        }
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

/// What a name says: the object, of a queue the access, and the signature. `None` if it is not one
/// of this pool's.
fn parse(name: &[u8], pool: &[u8; 16]) -> Option<(Object, Option<Access>, u64)> {
    let text = |word| std::str::from_utf8(word).ok();
    let mut words = name.split(|&byte| byte == b'-').skip(2);
    let kind = words.next()?;
    let id: u32 = text(words.next()?)?.parse().ok()?;
    let (object, access) = match kind {
        b"shm" => (Object::SharedMemory(id as i32), None),
        b"mq" => {
            let rights = words.next()?;
            let access = Access { read: rights.contains(&b'r'), write: rights.contains(&b'w') };
            (Object::Queue(id as i32), Some(access))
        }
        _ => return None,
    };
    let signature = u64::from_str_radix(text(words.next()?)?, 16).ok()?;
    // What is written otherwise was not written here.
    let again = Name::of(pool, object, access, signature);
    (again.text() == name).then_some((object, access, signature))
}

/// What signatures of one pool are made with, in one kernel.
pub struct Signer {
    pool: [u8; 16],
    /// Those who can read it can open the pool.
    key: [u64; 2],
    /// Of this kernel: in another one, a file may have the same inode number.
    boot_id: [u8; 16],
}

impl Signer {
    /// For the pool that a process has joined.
    pub fn of(session: &Session) -> Self {
        let superblock = session.client().pool().superblock();
        let (pool, key) = (superblock.uuid, superblock.signing_key);
        Self { pool, key, boot_id: session.boot_id() }
    }

    /// `generation` tells the object from others that have had its id.
    fn sign(&self, descriptor: &Descriptor, generation: u64) -> u64 {
        let Descriptor { object, access, identity } = descriptor;
        let (kind, id) = match object {
            Object::SharedMemory(id) => (0, id),
            Object::Queue(id) => (1, id),
        };
        // A file of shared memory may be open in several ways: the kernel knows in which.
        let rights = signed(*object, *access)
            .map_or(0, |access| u64::from(access.read) << 33 | u64::from(access.write) << 34);
        let halves = |bytes: [u8; 16]| {
            let both = u128::from_be_bytes(bytes);
            [(both >> 64) as u64, both as u64]
        };
        let ([pool, pool_low], [boot, boot_low]) = (halves(self.pool), halves(self.boot_id));
        let what = kind << 32 | rights | u64::from(*id as u32);
        let (device, inode) = (identity.device, identity.inode);
        siphash_2_4(self.key, &[pool, pool_low, boot, boot_low, what, generation, device, inode])
    }
}

/// The access that the name of an object's file says.
fn signed(object: Object, access: Access) -> Option<Access> {
    match object {
        Object::SharedMemory(_) => None,
        Object::Queue(_) => Some(access),
    }
}

/// Makes a descriptor for an object. It is closed on exec, as shm_open(3) and mq_open(3) have it.
///
/// The file's name is given as it is made, and has its inode number in the signature. So the number
/// is predicted: the kernel counts up on each CPU. Where it is another one, the next is tried. A
/// `mode` says who may open the file anew, by way of /proc.
///
/// # Errors
/// EMFILE, ENFILE, ENOMEM; ENOSYS where the kernel has no memfd; EAGAIN where its inode numbers are
/// never those that are predicted.
pub fn make(
    signer: &Signer,
    object: Object,
    access: Access,
    generation: u64,
    mode: Option<u32>,
) -> Result<(OwnedFd, Descriptor), Errno> {
    /// Each fails only if this thread has come to another CPU since the last, or another thread to
    /// this one.
    const MOST_TRIES: u32 = 1 << 10;
    static LAST: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    let [mut device, mut last] = [&LAST[0], &LAST[1]].map(|word| word.load(Ordering::Relaxed));
    for _ in 0..MOST_TRIES {
        let identity = Identity { device, inode: last.wrapping_add(1) };
        let descriptor = Descriptor { object, access, identity };
        let signature = signer.sign(&descriptor, generation);
        let file = create(&Name::of(&signer.pool, object, signed(object, access), signature))?;
        let found = identity_of(file.as_raw_fd()).ok_or(Errno::BADF)?;
        if found == identity {
            LAST[0].store(device, Ordering::Relaxed);
            LAST[1].store(identity.inode, Ordering::Relaxed);
            if let Some(mode) = mode {
                set_mode(file.as_raw_fd(), mode)?;
            }
            seal(&file)?;
            return Ok((file, descriptor));
        }
        (device, last) = (found.device, found.inode);
    }
    Err(Errno::AGAIN)
}

/// Says who may open the file of a descriptor anew.
///
/// # Errors
/// EPERM: another user has made it.
pub fn set_mode(file: c_int, mode: u32) -> Result<(), Errno> {
    // SAFETY: the call changes the mode of a file.
    match unsafe { system_call(libc::SYS_fchmod, [file as usize, (mode & 0o666) as usize]) } {
        0 => Ok(()),
        _ => Err(Errno::from_raw_os_error(errno::get())),
    }
}

fn seal(file: &OwnedFd) -> Result<(), Errno> {
    let words = [file.as_raw_fd() as usize, libc::F_ADD_SEALS as usize, SEALS as usize];
    // SAFETY: the descriptor was just made here.
    match unsafe { system_call(libc::SYS_fcntl, words) } {
        0 => Ok(()),
        _ => Err(Errno::from_raw_os_error(errno::get())),
    }
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

/// The file behind a descriptor.
pub fn identity_of(file: c_int) -> Option<Identity> {
    if file < 0 {
        return None;
    }
    // SAFETY: the descriptor is only borrowed for one call.
    let state = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(file) }).ok()?;
    Some(Identity { device: state.st_dev, inode: state.st_ino })
}

/// What a descriptor that has come from elsewhere stands for, if it is a marker that a member of
/// this process's pool has made for an object that is still there.
///
/// The signature is all that is asked for: who made it has opened the object so, and by what ways
/// the descriptor has come from there is the program's business, as it is with the kernel.
pub fn recognize(file: c_int) -> Option<Descriptor> {
    let session = process::joined()?;
    if !is_sealed(file) {
        return None;
    }
    let descriptor = named(session, file)?;
    Some(match descriptor.object {
        Object::SharedMemory(_) => Descriptor { access: access_of(file)?, ..descriptor },
        Object::Queue(_) => descriptor,
    })
}

/// What the name of a file says that it stands for, if a member has signed it for this very file.
/// The access is that of a queue; of shared memory it says nothing.
///
/// It may be asked of a descriptor that was opened with O_PATH. Whether the file is sealed has to
/// be asked as well.
pub fn named(session: &Session, file: c_int) -> Option<Descriptor> {
    let mut shown = [0; 128];
    let name = shown_name(file, &mut shown)?;
    let signer = Signer::of(session);
    let (object, access, signature) = parse(name, &signer.pool)?;
    let access = access.unwrap_or(Access { read: false, write: false });
    let descriptor = Descriptor { object, access, identity: identity_of(file)? };
    let generation = generation_of(session, object).ok()?;
    (signer.sign(&descriptor, generation) == signature).then_some(descriptor)
}

/// Whether a file can be neither written nor given another size.
pub fn is_sealed(file: c_int) -> bool {
    let words = [file as usize, libc::F_GET_SEALS as usize];
    // SAFETY: the call reads what it is asked for, and changes nothing.
    let seals = errno::untouched(|| unsafe { system_call(libc::SYS_fcntl, words) });
    seals >= 0 && seals as c_int & SEALS == SEALS
}

/// What a descriptor was opened for, as the kernel knows it.
fn access_of(file: c_int) -> Option<Access> {
    let words = [file as usize, libc::F_GETFL as usize];
    // SAFETY: the call reads the flags of a descriptor.
    let flags = errno::untouched(|| unsafe { system_call(libc::SYS_fcntl, words) });
    if flags < 0 { None } else { Access::of_flags(flags as c_int) }
}

/// What tells an object from others that have had its id.
///
/// # Errors
/// It has gone.
pub fn generation_of(session: &Session, object: Object) -> Result<u64, Errno> {
    match object {
        Object::SharedMemory(id) => session.client().posix_shm_generation(id),
        Object::Queue(id) => session.client().mq_generation(id),
    }
}

/// Whether a descriptor bears the name of one, of whatever pool.
pub fn is_one(file: c_int) -> bool {
    shown_name(file, &mut [0; 128]).is_some_and(|name| name.starts_with(BEGINNING))
}

/// Where /proc shows what a process, or this one, has open under a number: it ends with a null.
pub fn path_of(pid: Option<u32>, file: u32) -> [u8; MOST] {
    let mut path = Name { bytes: [0; MOST], used: 0 };
    path.put(b"/proc/");
    match pid {
        Some(pid) => path.put_number(pid),
        None => path.put(b"self"),
    }
    path.put(b"/fd/");
    path.put_number(file);
    path.bytes
}

/// Where /proc shows the locks of a descriptor of this process: it ends with a null.
pub fn path_of_locks(file: u32) -> [u8; MOST] {
    let mut path = Name { bytes: [0; MOST], used: 0 };
    path.put(b"/proc/self/fdinfo/");
    path.put_number(file);
    path.bytes
}

/// The name of a memfd, as /proc shows it.
fn shown_name(file: c_int, into: &mut [u8; 128]) -> Option<&[u8]> {
    let path = path_of(None, u32::try_from(file).ok()?);
    let words =
        [libc::AT_FDCWD as usize, path.as_ptr().addr(), into.as_mut_ptr().addr(), into.len()];
    // SAFETY: the path ends with a null, and the room is as large as is said.
    let length = errno::untouched(|| unsafe { system_call(libc::SYS_readlinkat, words) });
    let shown = into.get(..usize::try_from(length).ok()?)?;
    shown.strip_prefix(SHOWN_BEFORE)?.strip_suffix(SHOWN_BEHIND)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNER: Signer = Signer { pool: [0x0f; 16], key: [1, 2], boot_id: [3; 16] };
    const BOTH: Access = Access { read: true, write: true };

    #[test]
    fn a_name_says_what_it_was_made_of() {
        for (object, access, end) in [
            (Object::SharedMemory(16384), None, "-shm-16384"),
            (Object::Queue(0), Some(BOTH), "-mq-0-rw"),
            (Object::Queue(1), Some(Access { write: false, ..BOTH }), "-mq-1-r"),
            (Object::Queue(i32::MAX), Some(Access { read: false, ..BOTH }), "-mq-2147483647-w"),
        ] {
            let name = Name::of(&SIGNER.pool, object, access, 0xab);
            let text = std::str::from_utf8(name.text()).unwrap();
            assert_eq!(text, format!("vshmem-{}{end}-00000000000000ab", "0f".repeat(16)));
            assert_eq!(parse(name.text(), &SIGNER.pool), Some((object, access, 0xab)));
            assert_eq!(parse(name.text(), &[0xf0; 16]), None, "another pool's");
        }
    }

    #[test]
    fn other_names_are_nothing() {
        let digits = "0f".repeat(16);
        let signature = "00000000000000ab";
        let parsed = |end: &str| parse(format!("vshmem-{digits}{end}").as_bytes(), &SIGNER.pool);
        assert!(parsed(&format!("-mq-5-rw-{signature}")).is_some());
        assert!(parsed(&format!("-shm-5-{signature}")).is_some());
        for end in ["-mq-05-rw", "-mq-5-wr", "-sem-5-rw", "-mq-5-rw-", "-shm-5-rw", "-shm-05"] {
            assert_eq!(parsed(&format!("{end}-{signature}")), None, "{end}");
        }
        for end in ["", "-shm", "-shm-5", "-mq-5-rw", "-mq-5-rw-ab", "-mq-5-rw-+0000000000000ab"] {
            assert_eq!(parsed(end), None, "{end}");
        }
    }

    #[test]
    fn a_signature_is_of_one_file_for_one_use_of_one_object() {
        let identity = Identity { device: 1, inode: 2 };
        let descriptor = Descriptor { object: Object::Queue(5), access: BOTH, identity };
        let signature = SIGNER.sign(&descriptor, 6);
        let read_only = Access { write: false, ..BOTH };
        let others = [
            SIGNER.sign(&descriptor, 7),
            SIGNER.sign(&Descriptor { object: Object::Queue(6), ..descriptor }, 6),
            SIGNER.sign(&Descriptor { object: Object::SharedMemory(5), ..descriptor }, 6),
            SIGNER.sign(&Descriptor { access: read_only, ..descriptor }, 6),
            SIGNER
                .sign(&Descriptor { identity: Identity { inode: 3, ..identity }, ..descriptor }, 6),
            SIGNER.sign(
                &Descriptor { identity: Identity { device: 2, ..identity }, ..descriptor },
                6,
            ),
            Signer { pool: [0; 16], ..SIGNER }.sign(&descriptor, 6),
            Signer { boot_id: [0; 16], ..SIGNER }.sign(&descriptor, 6),
            Signer { key: [1, 3], ..SIGNER }.sign(&descriptor, 6),
        ];
        assert!(!others.contains(&signature));
    }

    #[test]
    fn the_file_behind_a_descriptor_can_neither_be_written_nor_grow() {
        let (file, made) =
            make(&SIGNER, Object::SharedMemory(16385), BOTH, 9, Some(0o600)).unwrap();
        assert_eq!(identity_of(file.as_raw_fd()), Some(made.identity));
        assert_eq!(rustix::io::write(&file, b"x"), Err(rustix::io::Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(&file, 1), Err(rustix::io::Errno::PERM));
        let mut shown = [0; 128];
        let name = shown_name(file.as_raw_fd(), &mut shown).unwrap();
        let signature = SIGNER.sign(&made, 9);
        let said = Some((Object::SharedMemory(16385), None, signature));
        assert_eq!(parse(name, &SIGNER.pool), said);
    }

    #[test]
    fn files_are_made_while_other_threads_make_files() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for generation in 0..500 {
                        make(&SIGNER, Object::Queue(1), BOTH, generation, None).unwrap();
                    }
                });
            }
        });
    }
}
