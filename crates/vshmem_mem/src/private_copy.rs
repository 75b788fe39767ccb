//! Memory that is shared by a file or device becomes private, at the same addresses and with the
//! same contents, while threads of the process use it.
//!
//! Part by part: a part is made read-only, copied, and the copy is moved over it. Loads go on all
//! the time. A thread that stores to the part meanwhile gets SIGSEGV, waits in the handler below,
//! and stores again, to the copy: no store is lost. A system call that stores there fails with
//! EFAULT in those moments. Makes no use of the heap: it is called in signal handlers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, MremapFlags, ProtFlags};

const PAGE: usize = 4096;
/// Bytes of a part at least: as long as copying them takes, stores wait.
const LEAST_PART: usize = 2 << 20;
/// Parts of a mapping at most: the kernel may keep each of them as a mapping of its own.
const MOST_PARTS: usize = 1024;

/// The file or device that a mapping is of, as /proc/self/maps names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappedFileId {
    major: u64,
    minor: u64,
    inode: u64,
}

impl MappedFileId {
    /// In words that a signal handler may read: the device, then the inode.
    #[must_use]
    pub const fn to_words(self) -> [u64; 2] {
        [self.major << 32 | self.minor, self.inode]
    }

    /// The reverse.
    #[must_use]
    pub const fn of_words([device, inode]: [u64; 2]) -> Self {
        Self { major: device >> 32, minor: device & u32::MAX as u64, inode }
    }

    /// Of the file with these numbers.
    #[must_use]
    pub fn new(device: u64, inode: u64) -> Self {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        Self { major: major.into(), minor: minor.into(), inode }
    }

    /// Of a line of a `maps` of /proc.
    #[must_use]
    pub fn of_line(line: &[u8]) -> Option<Self> {
        Row::parse(line).map(|row| row.file)
    }

    /// Of what is mapped at an address of this process.
    ///
    /// # Errors
    /// What opening or reading /proc/self/maps says; ENOENT when nothing of a file is there.
    pub fn at(address: usize) -> Result<Self, Errno> {
        let mut found = None;
        each_mapping(&mut |row| {
            if (row.start..row.end).contains(&address) && row.file.inode != 0 {
                found = Some(row.file);
            }
            found.is_none()
        })?;
        found.ok_or(Errno::NOENT)
    }
}

/// A mapping of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    start: usize,
    end: usize,
    /// `rwxs`, or a `-` or `p` for what is not so.
    mode: [u8; 4],
    file: MappedFileId,
}

impl Row {
    const NONE: Self = Self {
        start: 0,
        end: 0,
        mode: *b"---p",
        file: MappedFileId { major: 0, minor: 0, inode: 0 },
    };

    /// `START-END MODE OFFSET MAJOR:MINOR INODE PATH`
    fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let (start, end) = pair(words.next()?, b'-')?;
        let mode = words.next()?.get(..4)?.try_into().ok()?;
        let (major, minor) = pair(words.nth(1)?, b':')?;
        let inode = number(words.next()?, 10)?;
        let file = MappedFileId { major, minor, inode };
        Some(Self { start: start as usize, end: end as usize, mode, file })
    }

    fn is_shared(&self) -> bool {
        self.mode[3] == b's'
    }

    fn protection(&self) -> ProtFlags {
        let mut flags = ProtFlags::empty();
        flags.set(ProtFlags::READ, self.mode[0] == b'r');
        flags.set(ProtFlags::WRITE, self.mode[1] == b'w');
        flags.set(ProtFlags::EXEC, self.mode[2] == b'x');
        flags
    }
}

fn number(digits: &[u8], base: u32) -> Option<u64> {
    digits.iter().try_fold(0_u64, |value, digit| {
        let digit = char::from(*digit).to_digit(base)?;
        value.checked_mul(base.into())?.checked_add(digit.into())
    })
}

fn pair(word: &[u8], between: u8) -> Option<(u64, u64)> {
    let at = word.iter().position(|byte| *byte == between)?;
    Some((number(&word[..at], 16)?, number(&word[at + 1..], 16)?))
}

/// Calls `each` with every mapping of this process until it returns false.
fn each_mapping(each: &mut dyn FnMut(Row) -> bool) -> Result<(), Errno> {
    let maps = open(c"/proc/self/maps", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    // Of a line only this much is of use; the path at its end may be long.
    let (mut line, mut used) = ([0_u8; 128], 0);
    let mut buffer = [0_u8; 1024];
    loop {
        let bytes = match rustix::io::read(&maps, &mut buffer) {
            Err(Errno::INTR) => continue,
            read => read?,
        };
        if bytes == 0 {
            return Ok(());
        }
        for byte in &buffer[..bytes] {
            if *byte != b'\n' {
                if let Some(place) = line.get_mut(used) {
                    *place = *byte;
                    used += 1;
                }
            } else {
                let row = Row::parse(&line[..used]);
                used = 0;
                if row.is_some_and(|row| !each(row)) {
                    return Ok(());
                }
            }
        }
    }
}

/// What becomes of a shared mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Becomes {
    /// It is as it was.
    Shared,
    /// A private copy.
    Private,
    /// Nothing that may be accessed.
    Nothing,
}

/// Makes shared mappings of a file private. `becomes` says of a range of addresses, and whether
/// they may be accessed at all, what is to become of it. `unit`: what the file maps at least at
/// once.
///
/// # Errors
/// ENOMEM when there is no memory for the copy; else what /proc/self/maps or the kernel says. What
/// was not copied is as it was.
///
/// # Safety
/// No other thread maps, unmaps or moves these mappings meanwhile, and no code relies on their
/// memory being shared. All signals are blocked in the calling thread.
pub unsafe fn make_private(
    file: MappedFileId,
    unit: usize,
    becomes: &dyn Fn(std::ops::Range<usize>, bool) -> Becomes,
) -> Result<(), Errno> {
    let what = |row: &Row| match row.file == file && row.is_shared() {
        true => becomes(row.start..row.end, !row.protection().is_empty()),
        false => Becomes::Shared,
    };
    let mut handles_stores = false;
    loop {
        let mut rows = [Row::NONE; 16];
        let mut count = 0;
        each_mapping(&mut |row| {
            if what(&row) != Becomes::Shared {
                rows[count] = row;
                count += 1;
            }
            count < rows.len()
        })?;
        if count == 0 {
            return Ok(());
        }
        if !handles_stores {
            wait_for_stores()?;
            handles_stores = true;
        }
        for row in &rows[..count] {
            let bytes = row.end - row.start;
            // SAFETY: by this function's own contract.
            unsafe {
                match what(row) {
                    Becomes::Private => replace(row, unit)?,
                    _ => cover(row.start, bytes)?,
                }
            }
        }
    }
}

/// Puts what may not be accessed in the place of whatever is mapped in a range.
///
/// # Errors
/// What mmap(2) says.
///
/// # Safety
/// Nobody accesses the range any more.
pub unsafe fn cover(start: usize, bytes: usize) -> Result<(), Errno> {
    let at = std::ptr::with_exposed_provenance_mut(start);
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: by this function's own contract.
    unsafe { rustix::mm::mmap_anonymous(at, bytes, ProtFlags::empty(), flags)? };
    Ok(())
}

/// Puts a private copy in the place of a mapping, part by part.
unsafe fn replace(row: &Row, unit: usize) -> Result<(), Errno> {
    let bytes = row.end - row.start;
    let copy = crate::Mapping::anonymous(bytes)?.leak().as_ptr();
    let least = LEAST_PART.next_multiple_of(unit);
    let part = (bytes / MOST_PARTS).max(1).next_multiple_of(least);
    let mut done = 0;
    while done < bytes {
        // Parts end where units do.
        let end = (row.start + done + 1).next_multiple_of(part).min(row.end);
        let length = end - (row.start + done);
        // SAFETY: the caller's contract; the part lies in the mapping, and its copy in ours.
        let moved = unsafe { replace_part(row, row.start + done, length, copy.add(done)) };
        if let Err(error) = moved {
            // SAFETY: the rest of the copy has not been moved away.
            unsafe { rustix::mm::munmap(copy.add(done).cast(), bytes - done)? };
            return Err(error);
        }
        done += length;
    }
    Ok(())
}

unsafe fn replace_part(row: &Row, start: usize, bytes: usize, copy: *mut u8) -> Result<(), Errno> {
    let place = std::ptr::with_exposed_provenance_mut::<u8>(start);
    let protection = row.protection();
    let is_written = protection.contains(ProtFlags::WRITE);
    let changed = is_written || !protection.contains(ProtFlags::READ);
    let protect = |at: *mut u8, flags: ProtFlags| {
        let flags = MprotectFlags::from_bits_retain(flags.bits());
        // SAFETY: the caller's contract: the range is a part of the mapping, or of its copy.
        unsafe { rustix::mm::mprotect(at.cast(), bytes, flags) }
    };
    if changed {
        STORES_WAIT.store(true, Ordering::SeqCst);
        protect(place, ProtFlags::READ)?;
    }
    let moved = (|| {
        // SAFETY: both ranges are readable or writable now; the copy is nobody else's.
        unsafe { copy_pages(place, copy, bytes)? };
        if protection != ProtFlags::READ | ProtFlags::WRITE {
            protect(copy, protection)?;
        }
        // SAFETY: what lies there has just been copied, and no store came since.
        unsafe {
            let (from, to) = (copy.cast(), place.cast());
            rustix::mm::mremap_fixed(from, bytes, bytes, MremapFlags::MAYMOVE, to)?;
        }
        Ok(())
    })();
    if moved.is_err() && changed {
        let _ = protect(place, protection);
    }
    STORES_WAIT.store(false, Ordering::SeqCst);
    moved
}

/// Copies what is not zero: the copy of a table that is mostly empty takes no memory. Other
/// processes may store meanwhile. ENOMEM: there is no memory for a page.
unsafe fn copy_pages(from: *const u8, to: *mut u8, bytes: usize) -> Result<(), Errno> {
    let words = PAGE / size_of::<u64>();
    for at in (0..bytes).step_by(PAGE) {
        // SAFETY: the caller's contract: mappings are whole pages, readable here and writable
        // there; loads of words that others write are atomic.
        unsafe {
            let source = from.add(at).cast::<std::sync::atomic::AtomicU64>();
            let target = to.add(at).cast::<u64>();
            let word = |index: usize| (*source.add(index)).load(Ordering::Relaxed);
            if (0..words).any(|index| word(index) != 0) {
                for index in 0..words {
                    target.add(index).write(word(index));
                }
            }
        }
    }
    fence(Ordering::SeqCst);
    Ok(())
}

/// A part is read-only that the program may write: stores wait.
static STORES_WAIT: AtomicBool = AtomicBool::new(false);
/// Where the last store was refused when none waits.
static LAST_REFUSED: AtomicUsize = AtomicUsize::new(0);
/// What the program does on SIGSEGV: its handler, SIG_DFL or SIG_IGN, and the flags.
static BEFORE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Has SIGSEGV come by [`on_refused_store`], from now on for good: a store may have been refused
/// before a part was released, and its signal come after.
fn wait_for_stores() -> Result<(), Errno> {
    // SAFETY: all-zero bytes are a valid sigaction; both structures are live, and the handler is a
    // function of this library, which is not unloaded while the process has its memory.
    unsafe {
        let (mut ours, mut before): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
        ours.sa_sigaction = handler_address();
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        if libc::sigaction(libc::SIGSEGV, &raw const ours, &raw mut before) != 0 {
            return Err(Errno::INVAL);
        }
        if before.sa_sigaction != handler_address() {
            BEFORE[1].store(before.sa_flags as usize, Ordering::Relaxed);
            BEFORE[0].store(before.sa_sigaction, Ordering::Release);
        }
    }
    Ok(())
}

fn handler_address() -> usize {
    on_refused_store as unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void)
        as usize
}

unsafe extern "C" fn on_refused_store(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    /// SEGV_ACCERR: something is mapped there, with fewer rights.
    const REFUSED: libc::c_int = 2;
    // SAFETY: the kernel passes what has happened.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    if code == REFUSED {
        let mut waited = false;
        while STORES_WAIT.load(Ordering::SeqCst) {
            waited = true;
            // Not by way of libc: this may be any thread.
            rustix::thread::sched_yield();
        }
        // What was refused a moment ago is tried once more.
        if waited || LAST_REFUSED.swap(address, Ordering::SeqCst) != address {
            return;
        }
    }
    // SAFETY: the same arguments, of the same kernel.
    unsafe { pass_on(signal, info, context) };
}

/// Does what the program does on that signal.
unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let handler = BEFORE[0].load(Ordering::Acquire);
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // The store is tried again, and ends the process as it would have.
        // SAFETY: an action of zeros is SIG_DFL.
        unsafe {
            let default: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, &raw const default, std::ptr::null_mut());
        }
        return;
    }
    // SAFETY: the program has given this address for its handler; one that takes a single argument
    // ignores the others by the C calling convention.
    unsafe {
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
            std::mem::transmute(handler);
        handler(signal, info, context);
    }
}
