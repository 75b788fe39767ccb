//! What is known of this process before any call is looked at: the session that it has joined with,
//! whose memory it runs in, and whether it is a child that has come about without our knowledge.
//!
//! Words that are set once or swapped whole, so that a signal handler may read them at any moment.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use vshmem_mem::unless_confined;
use vshmem_session::Session;

use crate::errno;
use crate::next::system_call;

static SESSION: AtomicPtr<Session> = AtomicPtr::new(std::ptr::null_mut());
/// Whether children do not have the mappings of their parents.
static BARE_CHILDREN: AtomicBool = AtomicBool::new(false);
/// A page that reads 1 here and 0 in a child that was not prepared.
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// The session, if there is one already that can be used as it is. A child that has come about
/// behind our back has none while it has not its parent's mappings.
#[inline]
pub fn joined() -> Option<&'static Session> {
    inherited().filter(|_| !BARE_CHILDREN.load(Ordering::Relaxed) || !is_unknown_child())
}

/// The session of this process, or of the one that it is a child of.
#[inline]
pub fn inherited() -> Option<&'static Session> {
    let session = SESSION.load(Ordering::Acquire);
    // SAFETY: once published, a session is never freed or moved.
    unsafe { session.as_ref() }
}

/// Makes a session this process's, for as long as it runs.
pub fn publish(session: Session) {
    BARE_CHILDREN.store(!session.link().capabilities().children_inherit, Ordering::Relaxed);
    SESSION.store(Box::into_raw(Box::new(session)), Ordering::Release);
}

/// Sets up the mark. Once, at set-up.
pub fn prepare_mark() {
    if let Ok(page) = vshmem_mem::Mapping::anonymous(4096) {
        let start = page.leak().as_ptr();
        // SAFETY: the page is ours and stays mapped.
        unsafe {
            if system_call(libc::SYS_madvise, [start.addr(), 4096, libc::MADV_WIPEONFORK as usize])
                == 0
            {
                let mark = start.cast::<AtomicU32>();
                (*mark).store(1, Ordering::Relaxed);
                MARK.store(mark, Ordering::Release);
            }
        }
    }
}

fn mark() -> Option<&'static AtomicU32> {
    // SAFETY: the page is never unmapped once published.
    unsafe { MARK.load(Ordering::Relaxed).as_ref() }
}

/// A word of this process's threads alone: 0 in every child, however it has come about and whatever
/// its pid. To be used after set-up.
pub fn word_of_process() -> &'static AtomicU32 {
    let mark = MARK.load(Ordering::Relaxed);
    if mark.is_null() {
        return &WORD_OF_KNOWN;
    }
    // SAFETY: the page has room for it behind the mark, and is never unmapped.
    unsafe { &*mark.add(1) }
}

/// Which thread is making a client of a child that was created without passing through this
/// library, and what it has done of that ([`crate::session::child`]): two words, 0 in every child.
pub fn words_of_child() -> Option<[&'static AtomicU32; 2]> {
    let mark = MARK.load(Ordering::Relaxed);
    // SAFETY: the page has room for them, and is never unmapped.
    (!mark.is_null()).then(|| unsafe { [&*mark.add(2), &*mark.add(3)] })
}

/// In place of [`word_of_process`] where the kernel wipes no page: for children that this library
/// knows of.
static WORD_OF_KNOWN: AtomicU32 = AtomicU32::new(0);

/// Whether this is a child that was created without passing through this library.
#[inline]
pub fn is_unknown_child() -> bool {
    mark().is_some_and(|mark| mark.load(Ordering::Relaxed) == 0)
}

/// As the opposite of [`is_unknown_child`], for who finds no mark at all to be unknown.
pub fn is_known() -> bool {
    mark().is_some_and(|mark| mark.load(Ordering::Relaxed) != 0)
}

/// The child is known from here on.
pub fn mark_as_known() {
    WORD_OF_KNOWN.store(0, Ordering::Relaxed);
    if let Some(mark) = mark() {
        mark.store(1, Ordering::Relaxed);
    }
}

/// Pid of the process whose memory this is, as far as known: a vfork child runs in its parent's.
static HOME: AtomicU32 = AtomicU32::new(0);

/// What the first thread of that process has told the kernel for the case of its end
/// (set_robust_list(2)), which a C library does for each thread that it makes; 0 where it has not.
/// The kernel forgets it in a child that runs in its parent's memory.
static HOME_LIST: AtomicUsize = AtomicUsize::new(0);

/// Whether this is the process whose memory it runs in: a child of vfork runs in its parent's.
pub fn owns_its_memory() -> bool {
    HOME.load(Ordering::Relaxed) == own_pid() && !has_parents_pid()
}

/// Whether this is a child that runs in its parent's memory and, in a PID namespace of its own, has
/// its parent's number. Of a process's threads, the first alone has its number.
pub fn has_parents_pid() -> bool {
    HOME_LIST.load(Ordering::Relaxed) != 0
        && robust_list() == Some(0)
        && rustix::thread::gettid() == rustix::process::getpid()
}

/// The address of the calling thread's list. A filter of system calls may end a process for asking.
fn robust_list() -> Option<usize> {
    let (mut list, mut bytes) = (0usize, 0usize);
    let words = [0, (&raw mut list).addr(), (&raw mut bytes).addr()];
    // SAFETY: the kernel writes a word to each of the two.
    let ask = || unsafe { system_call(libc::SYS_get_robust_list, words) };
    (unless_confined(ask)? == 0).then_some(list)
}

/// The pid of this process; in a child of vfork its own.
pub fn own_pid() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get() as u32
}

/// This process's memory is its own: at load, and in a child that `fork` has made.
pub fn record_own_memory() {
    HOME.store(own_pid(), Ordering::Relaxed);
    HOME_LIST.store(errno::untouched(robust_list).unwrap_or(0), Ordering::Relaxed);
}

/// A number, and a multiple of 4, that differs between the threads of a process, and that a thread
/// keeps in a child.
pub fn this_thread() -> usize {
    // SAFETY: the address is only distinguished from others.
    unsafe { libc::__errno_location() }.addr()
}
