//! Waking a listener: a word of the pool that notifiers count up, and at which it sleeps.
//!
//! What was notified lies beside it, in iceoryx2's own bit set. A listener that is attached to a
//! WaitSet needs a file descriptor: a thread then waits at the word, and makes an eventfd readable.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use std::mem::MaybeUninit;
use std::ptr::{NonNull, drop_in_place};

use iceoryx2_bb_elementary_traits::testing::abandonable::Abandonable;
use iceoryx2_bb_elementary_traits::zero_copy_send::ZeroCopySend;
use iceoryx2_bb_lock_free::mpmc::counting_bit_set::RelocatableCountingBitSet;
use iceoryx2_bb_posix::file_descriptor::{FileDescriptor, FileDescriptorBased};
use iceoryx2_bb_posix::file_descriptor_set::SynchronousMultiplexing;
use iceoryx2_cal::dynamic_storage::DynamicStorage;
use iceoryx2_cal::event::common::EventImpl;
use iceoryx2_cal::event::event_state::EventState;
use iceoryx2_cal::event::trigger::{Configuration, HandlerInterface, State, WaiterInterface};
use iceoryx2_cal::event::{
    ListenerCreateError, ListenerWaitError, NotifierNotifyError, NotifierOpenError,
};
use iceoryx2_cal::named_concept::{
    FileName, NamedConceptPathHintRemoveError, NamedConceptRemoveError, Path,
};

use crate::dynamic_storage::Storage;
use crate::pool::{self, Errno};

/// Events over a pool, for a set of notifications of this kind.
pub type PoolEvent<E> = EventImpl<E, Bell, Storage<State<E, Bell>>, Handle, Waiter>;

/// Those that iceoryx2's services use.
pub type Event = PoolEvent<RelocatableCountingBitSet>;

/// What lies in the pool.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Bell {
    /// How often it was rung; wraps.
    rung: AtomicU32,
    /// Not 0: the listener has gone.
    closed: AtomicU32,
}

// SAFETY: two words, which mean the same in each process.
unsafe impl ZeroCopySend for Bell {}

impl Bell {
    fn ring(&self) -> Result<(), Errno> {
        self.rung.fetch_add(1, Ordering::SeqCst);
        pool::wake(&self.rung)
    }
}

/// A bell in a storage that this process has open as long as this lives.
#[derive(Debug, Clone, Copy)]
struct BellRef(NonNull<Bell>);

// SAFETY: a bell is shared by threads as by processes.
unsafe impl Send for BellRef {}
// SAFETY: as above.
unsafe impl Sync for BellRef {}

impl BellRef {
    fn get(&self) -> &Bell {
        // SAFETY: `EventImpl` keeps the storage beside the handle or waiter, and drops it later.
        unsafe { self.0.as_ref() }
    }
}

/// A notifier's side.
#[derive(Debug)]
pub struct Handle {
    bell: BellRef,
}

impl Abandonable for Handle {
    unsafe fn abandon_in_place(_: NonNull<Self>) {}
}

impl<E: EventState, S: DynamicStorage<State<E, Bell>>> HandlerInterface<E, Bell, S> for Handle {
    fn open(_: &FileName, _: &Configuration, bell: &Bell) -> Result<Self, NotifierOpenError> {
        Ok(Self { bell: BellRef(NonNull::from(bell)) })
    }

    fn notify(&self) -> Result<(), NotifierNotifyError> {
        let bell = self.bell.get();
        if bell.closed.load(Ordering::SeqCst) != 0 {
            return Err(NotifierNotifyError::Disconnected);
        }
        bell.ring().map_err(|_| NotifierNotifyError::InternalFailure)
    }
}

/// A listener's side.
#[derive(Debug)]
pub struct Waiter {
    bell: BellRef,
    /// How often the bell was rung when this listener looked last.
    seen: AtomicU32,
    readiness: OnceLock<Readiness>,
}

impl Waiter {
    /// Takes what has come. False: nothing.
    fn take(&self) -> bool {
        if let Some(readiness) = self.readiness.get() {
            readiness.clear();
        }
        let rung = self.bell.get().rung.load(Ordering::SeqCst);
        self.seen.swap(rung, Ordering::SeqCst) != rung
    }

    fn wait_until(&self, end: Option<Instant>) -> Result<(), ListenerWaitError> {
        loop {
            let seen = self.seen.load(Ordering::SeqCst);
            if self.take() {
                return Ok(());
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            match pool::wait(&self.bell.get().rung, seen, left) {
                Ok(()) => {}
                Err(libc::ETIMEDOUT) => {
                    self.take();
                    return Ok(());
                }
                Err(libc::EINTR) => return Err(ListenerWaitError::InterruptSignal),
                Err(_) => return Err(ListenerWaitError::InternalFailure),
            }
        }
    }
}

impl FileDescriptorBased for Waiter {
    fn file_descriptor(&self) -> &FileDescriptor {
        let begin = || Readiness::begin(self.bell, self.seen.load(Ordering::SeqCst));
        &self.readiness.get_or_init(begin).descriptor
    }
}

impl SynchronousMultiplexing for Waiter {}

impl Abandonable for Waiter {
    unsafe fn abandon_in_place(mut this: NonNull<Self>) {
        // SAFETY: a whole waiter, which is not used after this: without its drop, the bell stays
        // open, as a killed process leaves it.
        unsafe { drop_in_place(&mut this.as_mut().readiness) };
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.bell.get().closed.store(1, Ordering::SeqCst);
    }
}

impl<E: EventState, S: DynamicStorage<State<E, Bell>>> WaiterInterface<E, Bell, S> for Waiter {
    const IS_FILE_DESCRIPTOR_BASED: bool = true;

    unsafe fn remove(_: &FileName, _: &Configuration) -> Result<bool, NamedConceptRemoveError> {
        Ok(true)
    }

    fn remove_path_hint(_: &Path) -> Result<(), NamedConceptPathHintRemoveError> {
        Ok(())
    }

    fn create(
        _: &FileName,
        _: &Configuration,
        bell: &mut MaybeUninit<Bell>,
    ) -> Result<Self, ListenerCreateError> {
        let bell = BellRef(NonNull::from(bell.write(Bell::default())));
        Ok(Self { bell, seen: AtomicU32::new(0), readiness: OnceLock::new() })
    }

    fn try_wait(&self) -> Result<(), ListenerWaitError> {
        self.take();
        Ok(())
    }

    fn timed_wait(&self, timeout: Duration) -> Result<(), ListenerWaitError> {
        self.wait_until(Instant::now().checked_add(timeout))
    }

    fn blocking_wait(&self) -> Result<(), ListenerWaitError> {
        self.wait_until(None)
    }

    fn empty_buffer(&self) -> Result<(), ListenerWaitError> {
        self.take();
        Ok(())
    }
}

/// An eventfd that is readable when a bell was rung, and the thread that makes it so.
#[derive(Debug)]
struct Readiness {
    descriptor: FileDescriptor,
    bell: BellRef,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Readiness {
    /// Panics where the process has no descriptor or thread left: the trait has no error for it.
    fn begin(bell: BellRef, seen: u32) -> Self {
        // SAFETY: plain numbers.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        let descriptor = FileDescriptor::new(descriptor).expect("a WaitSet needs an eventfd");
        let stops = Arc::new(AtomicBool::new(false));
        // SAFETY: the descriptor is closed after the thread has ended.
        let number = unsafe { descriptor.native_handle() };
        let told = Arc::clone(&stops);
        let thread = without_signals(move || tell(bell, seen, number, &told));
        Self { descriptor, bell, stops, thread: Some(thread) }
    }

    fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: the descriptor is open, and the buffer has the 8 bytes that an eventfd gives.
        unsafe { libc::read(self.descriptor.native_handle(), (&raw mut count).cast(), 8) };
    }
}

impl Drop for Readiness {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::SeqCst);
        // Counted up, so that the thread does not sleep any more. Where nobody can be woken, the
        // pool has failed, and the thread with it.
        let _ = self.bell.get().ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Signals go to the program's own threads.
fn without_signals(work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: places for two sets; the first is filled before it is used.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let thread = std::thread::Builder::new().name("vshmem-listener".to_owned()).spawn(work);
    // SAFETY: the set that this thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    thread.expect("a WaitSet needs a thread")
}

/// Makes the eventfd readable each time that the bell was rung since.
fn tell(bell: BellRef, mut told: u32, descriptor: i32, stops: &AtomicBool) {
    let bell = bell.get();
    while !stops.load(Ordering::SeqCst) {
        let rung = bell.rung.load(Ordering::SeqCst);
        if rung != told {
            told = rung;
            let one = 1u64;
            // SAFETY: the descriptor is open until this thread has ended; eight bytes are read.
            unsafe { libc::write(descriptor, (&raw const one).cast(), 8) };
        }
        if !matches!(pool::wait(&bell.rung, told, None), Ok(()) | Err(libc::EINTR)) {
            return;
        }
    }
}
