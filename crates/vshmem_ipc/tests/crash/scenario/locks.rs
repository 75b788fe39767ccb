//! Process-shared locks in a segment.

#![allow(unsafe_code)] // a lock in shared memory is found by its address

use std::sync::atomic::AtomicU64;

use vshmem_ipc::{
    Futex, LockOwner, MutexKind, MutexType, SharedCondvar, SharedMutex, SharedRwLock,
    SharedSemaphore, WaitEnd, Woke,
};
use vshmem_mem::{Clock, Deadline, Mapping, Protection, signals_handled};

use super::*;

/// Of the semaphore.
const PERMITS: u32 = 2;

/// What lies at the beginning of the segment.
#[repr(C)]
struct Words {
    mutex: SharedMutex,
    condvar: SharedCondvar,
    semaphore: SharedSemaphore,
    lock: SharedRwLock,
    /// Both are raised by the thread that has the mutex: in between they differ.
    first: AtomicU64,
    second: AtomicU64,
    given: AtomicU64,
}

/// The segment as a process has it mapped.
struct Locks<'a> {
    me: &'a Client,
    mapping: Mapping,
    offset: u64,
}

impl<'a> Locks<'a> {
    /// Attaches the segment.
    fn attach(session: &'a Session) -> Self {
        let me = session.client();
        let place = me.shmat(segment(session), true, false, &ROOT).expect("an attach");
        let bytes = place.bytes as usize;
        let mapping = session.link().map(place.offset, bytes, Protection::READ_WRITE);
        Self { me, mapping: mapping.expect("a mapping"), offset: place.offset }
    }

    fn words(&self) -> &Words {
        let start = self.mapping.start();
        // SAFETY: a segment begins on a page and has more bytes than this; it stays mapped as long
        // as `self` lives. All fields are atomic words, of which any bits are values.
        unsafe { start.cast::<Words>().as_ref() }
    }

    fn owner(&self, thread: u32) -> LockOwner {
        LockOwner::new(self.me.client_id(), thread).expect("a client")
    }

    fn lock(&self, thread: u32) -> Result<(), Errno> {
        self.words().mutex.lock(self.owner(thread), self, soon())
    }

    fn unlock(&self, thread: u32) {
        self.words().mutex.unlock(self.owner(thread), self).expect("the mutex is this thread's");
    }

    /// Raises both counts.
    fn work(&self, thread: u32) {
        let words = self.words();
        self.lock(thread).expect("the mutex");
        let before = words.first.load(Ordering::Relaxed);
        words.first.store(before + 1, Ordering::Relaxed);
        words.second.store(before + 1, Ordering::Relaxed);
        self.unlock(thread);
    }

    /// Waits until something is given, and takes it.
    fn take(&self, thread: u32) {
        let words = self.words();
        self.lock(thread).expect("the mutex");
        while words.given.load(Ordering::Relaxed) == 0 {
            let wait = words.condvar.wait(&words.mutex, self.owner(thread), self, None);
            wait.expect("a wait");
        }
        words.given.fetch_sub(1, Ordering::Relaxed);
        self.unlock(thread);
    }

    fn give(&self, thread: u32, count: u64) {
        self.lock(thread).expect("the mutex");
        self.words().given.fetch_add(count, Ordering::Relaxed);
        self.unlock(thread);
    }
}

/// Ends a test that hangs.
fn soon() -> Option<Deadline> {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970");
    Some(Deadline { clock: Clock::Realtime, at: now + Duration::from_secs(30) })
}

impl Locks<'_> {
    fn at(&self, word: &AtomicU64) -> u64 {
        let start = self.mapping.start().addr().get();
        self.offset + (std::ptr::from_ref(word).addr() - start) as u64
    }
}

impl Futex for Locks<'_> {
    /// Every wait is one that sleeps.
    fn spin(&self, _: u32, _: &mut dyn FnMut() -> bool) -> bool {
        false
    }

    fn wait(
        &self,
        word: &AtomicU64,
        waits: &mut dyn FnMut() -> bool,
        deadline: Option<Deadline>,
    ) -> Result<WaitEnd, Errno> {
        self.me.futex_wait(self.at(word), waits, deadline, signals_handled())
    }

    fn wake(&self, word: &AtomicU64, most: u32) -> Woke {
        self.me.futex_wake(self.at(word), most).expect("a wake-up")
    }

    fn has_ended(&self, owner: LockOwner) -> bool {
        self.me.has_ended(owner)
    }
}

fn join_all(threads: [std::thread::ScopedJoinHandle<'_, ()>; 2]) {
    for thread in threads {
        thread.join().expect("a thread");
    }
}

pub(super) fn prepare_locks(session: &Session) {
    prepare(session);
    let locks = Locks::attach(session);
    let words = locks.words();
    words.mutex.init(MutexKind { mutex_type: MutexType::Normal, robust: true });
    words.condvar.init(Clock::Monotonic);
    words.semaphore.init(PERMITS).expect("a value");
    words.lock.init(true);
    session.client().shmdt(segment(session)).expect("a detach");
}

/// Waits and wakes by address in every way.
pub(super) fn locks(session: Session) {
    let locks = &Locks::attach(&session);
    let (me, words) = (locks.me, locks.words());
    locks.work(1);
    std::thread::scope(|scope| {
        locks.lock(1).expect("the mutex");
        let sleepers = [2, 3].map(|thread| scope.spawn(move || locks.work(thread)));
        asleep(me, 2);
        locks.unlock(1);
        join_all(sleepers);

        for _ in 0..PERMITS {
            words.semaphore.wait(locks, soon()).expect("a permit");
        }
        let waits = || words.semaphore.wait(locks, soon()).expect("a permit");
        let sleepers = [scope.spawn(waits), scope.spawn(waits)];
        asleep(me, 2);
        for _ in 0..2 * PERMITS {
            words.semaphore.post(locks).expect("room for a permit");
        }
        join_all(sleepers);

        let sleepers = [2, 3].map(|thread| scope.spawn(move || locks.take(thread)));
        asleep(me, 2);
        locks.give(1, 2);
        words.condvar.signal(locks);
        words.condvar.signal(locks);
        join_all(sleepers);
        let sleepers = [2, 3].map(|thread| scope.spawn(move || locks.take(thread)));
        asleep(me, 2);
        locks.give(1, 2);
        words.condvar.broadcast(locks);
        join_all(sleepers);

        words.lock.write(locks.owner(1), locks, soon()).expect("the lock");
        let reads = || words.lock.read(locks.owner(2), locks, soon()).expect("the lock");
        let sleepers = [scope.spawn(reads), scope.spawn(reads)];
        asleep(me, 2);
        words.lock.unlock(locks).expect("it is locked");
        join_all(sleepers);
        for _ in 0..2 {
            words.lock.unlock(locks).expect("it is locked");
        }
    });
    locks.work(1);
    me.shmdt(segment(&session)).expect("a detach");
}

/// As [`survive`]; and the mutex is free, or held, or to be had from the dead.
pub(super) fn survive_locks(session: &Session) {
    survive(session);
    let locks = Locks::attach(session);
    let words = locks.words();
    words.condvar.signal(&locks);
    match words.mutex.try_lock(locks.owner(9), &locks) {
        Ok(()) => locks.unlock(9),
        Err(Errno::OWNERDEAD) => {
            repair_counts(words);
            words.mutex.make_consistent(locks.owner(9)).expect("it is inconsistent");
            locks.unlock(9);
        }
        held => assert_eq!(held, Err(Errno::BUSY)),
    }
    session.client().shmdt(segment(session)).expect("a detach");
}

fn repair_counts(words: &Words) {
    let most = words.first.load(Ordering::Relaxed).max(words.second.load(Ordering::Relaxed));
    words.first.store(most, Ordering::Relaxed);
    words.second.store(most, Ordering::Relaxed);
}

/// No thread is left waiting for the dead, and what they protected is whole.
pub(super) fn verify_locks(session: &Session, order: &Order) -> Result<(), String> {
    let locks = Locks::attach(session);
    let words = locks.words();
    // `survive_locks` has come before: a dead owner has been noticed.
    words
        .mutex
        .try_lock(locks.owner(9), &locks)
        .map_err(|errno| format!("the mutex of a dead client: {errno}"))?;
    let counts = [&words.first, &words.second].map(|count| count.load(Ordering::Relaxed));
    if counts[0] != counts[1] && order.fate != Fate::Evicted {
        return Err(format!("what the mutex protects is {counts:?}"));
    }
    locks.unlock(9);
    let permits = words.semaphore.value();
    if permits > 2 * PERMITS {
        return Err(format!("{permits} permits"));
    }
    session.client().shmdt(segment(session)).map_err(|errno| format!("detach: {errno}"))?;
    verify_all(session, ALL_TOKENS)
}
