//! A listener that is attached to a WaitSet needs a file descriptor: an eventfd, and a thread that
//! waits at the bell and makes it readable.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use iceoryx2_bb_posix::file_descriptor::FileDescriptor;

use crate::bell::BellRef;
use crate::pool;

/// An eventfd that is readable when a bell was rung.
#[derive(Debug)]
pub(crate) struct Readiness {
    shown: Arc<Shown>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread works with.
#[derive(Debug)]
struct Shown {
    descriptor: FileDescriptor,
    bell: BellRef,
    /// How often the bell had been rung when the descriptor was last made readable, or cleared.
    told: AtomicU32,
    stops: AtomicBool,
}

/// Those of this process.
fn all() -> MutexGuard<'static, Vec<Arc<Shown>>> {
    static ALL: Mutex<Vec<Arc<Shown>>> = Mutex::new(Vec::new());
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the descriptors of all bells readable that were rung by now, without waiting for their
/// threads: who looks after having notified finds it.
pub(crate) fn show_all() {
    all().iter().for_each(|shown| _ = shown.show());
}

impl Readiness {
    /// Panics where the process has no descriptor or thread left: the trait has no error for it.
    pub fn begin(bell: BellRef, seen: u32) -> Self {
        // SAFETY: plain numbers.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        let descriptor = FileDescriptor::new(descriptor).expect("a WaitSet needs an eventfd");
        let (told, stops) = (AtomicU32::new(seen), AtomicBool::new(false));
        let shown = Arc::new(Shown { descriptor, bell, told, stops });
        let for_thread = Arc::clone(&shown);
        let thread = without_signals(move || for_thread.show_until_stopped());
        all().push(Arc::clone(&shown));
        Self { shown, thread: Some(thread) }
    }

    pub fn descriptor(&self) -> &FileDescriptor {
        &self.shown.descriptor
    }

    /// Not readable until the bell is rung once more. Returns how often it was. What comes in
    /// between is seen, and may leave the descriptor readable once too often; never too seldom.
    pub fn clear(&self) -> u32 {
        let mut count = 0u64;
        // SAFETY: the descriptor is open, and the buffer has the 8 bytes that an eventfd gives.
        unsafe { libc::read(self.shown.descriptor.native_handle(), (&raw mut count).cast(), 8) };
        let rung = self.shown.bell.get().rung().load(Ordering::SeqCst);
        self.shown.told.store(rung, Ordering::SeqCst);
        rung
    }
}

impl Drop for Readiness {
    fn drop(&mut self) {
        all().retain(|shown| !Arc::ptr_eq(shown, &self.shown));
        self.shown.stops.store(true, Ordering::SeqCst);
        // Counted up, so that the thread does not sleep any more. Where nobody can be woken, the
        // pool has failed, and the thread with it.
        let _ = self.shown.bell.get().ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shown {
    /// Makes the descriptor readable if the bell was rung since. Returns how often it was.
    fn show(&self) -> u32 {
        let rung = self.bell.get().rung().load(Ordering::SeqCst);
        if self.told.swap(rung, Ordering::SeqCst) != rung {
            let one = 1u64;
            // SAFETY: the descriptor is open as long as `self` lives; eight bytes are read.
            unsafe { libc::write(self.descriptor.native_handle(), (&raw const one).cast(), 8) };
        }
        rung
    }

    fn show_until_stopped(&self) {
        while !self.stops.load(Ordering::SeqCst) {
            let rung = self.show();
            let woken = pool::wait(self.bell.get().rung(), rung, None);
            if !matches!(woken, Ok(()) | Err(libc::EINTR)) {
                return;
            }
        }
    }
}

/// Signals go to the program's own threads.
fn without_signals(work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let mut every = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: places for two sets; the first is filled before it is used.
    unsafe {
        libc::sigfillset(every.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, every.as_ptr(), before.as_mut_ptr());
    }
    let thread = std::thread::Builder::new().name("vshmem-listener".to_owned()).spawn(work);
    // SAFETY: the set that this thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    thread.expect("a WaitSet needs a thread")
}
