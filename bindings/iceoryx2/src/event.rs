//! Waking a listener: a word of the pool that notifiers count up, and at which it sleeps.
//!
//! What was notified lies beside it, in iceoryx2's own bit set.

use std::mem::MaybeUninit;
use std::ptr::{NonNull, drop_in_place};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use iceoryx2_bb_elementary_traits::testing::abandonable::Abandonable;
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

pub use crate::bell::Bell;
use crate::bell::BellRef;
use crate::dynamic_storage::Storage;
use crate::pool;
use crate::readiness::Readiness;

/// Events over a pool, for a set of notifications of this kind.
pub type PoolEvent<E> = EventImpl<E, Bell, Storage<State<E, Bell>>, Handle, Waiter>;

/// Those that iceoryx2's services use.
pub type Event = PoolEvent<RelocatableCountingBitSet>;

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
        Ok(Self { bell: BellRef::new(NonNull::from(bell)) })
    }

    fn notify(&self) -> Result<(), NotifierNotifyError> {
        let bell = self.bell.get();
        if bell.is_closed() {
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
        let rung = match self.readiness.get() {
            Some(readiness) => readiness.clear(),
            None => self.bell.get().rung().load(Ordering::SeqCst),
        };
        self.seen.swap(rung, Ordering::SeqCst) != rung
    }

    fn wait_until(&self, end: Option<Instant>) -> Result<(), ListenerWaitError> {
        loop {
            let seen = self.seen.load(Ordering::SeqCst);
            if self.take() {
                return Ok(());
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            match pool::wait(self.bell.get().rung(), seen, left) {
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
        self.readiness.get_or_init(begin).descriptor()
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
        self.bell.get().close();
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
        let bell = BellRef::new(NonNull::from(bell.write(Bell::default())));
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
