//! Process-shared locks over waiting by address.

use std::sync::Arc;

use loom::thread;
use rustix::io::Errno;
use vshmem_mem::{AtomicU32, Clock, Ordering};
use vshmem_sync::{
    Futex, LockOwner, MutexKind, MutexType, SharedBarrier, SharedCondvar, SharedMutex,
    SharedRwLock, SharedSemaphore,
};
use vshmem_wire::ClientId;

use crate::addresses::{Addresses, DiesWhenWoken};
use crate::model::explore;

/// A thread of a client of its own.
fn owner(client: u32) -> LockOwner {
    LockOwner::new(ClientId::new(client, 1), 1 + client).expect("an owner")
}

fn mutex(robust: bool) -> SharedMutex {
    SharedMutex::new(MutexKind { mutex_type: MutexType::Normal, robust })
}

/// What only one thread at a time may have.
struct Alone(AtomicU32);

impl Alone {
    fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    fn have(&self) {
        assert_eq!(self.0.fetch_add(1, Ordering::Relaxed), 0, "another one has it as well");
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs the parts of several threads, the last one in this thread.
fn together<T: Send + Sync + 'static>(shared: T, parts: &[fn(&T)]) -> Arc<T> {
    let shared = Arc::new(shared);
    let (last, first) = parts.split_last().expect("a part");
    let threads: Vec<_> = first
        .iter()
        .map(|&part| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || part(&shared))
        })
        .collect();
    last(&shared);
    for thread in threads {
        thread.join().expect("a thread");
    }
    shared
}

struct Locked {
    futex: Addresses,
    mutex: SharedMutex,
    alone: Alone,
}

impl Locked {
    fn new(robust: bool) -> Self {
        Self { futex: Addresses::new(), mutex: mutex(robust), alone: Alone::new() }
    }

    /// Locks and unlocks; puts right what a dead owner has left.
    fn pass(&self, client: u32) {
        let me = owner(client);
        match self.mutex.lock(me, &self.futex, None) {
            Ok(()) => self.alone.have(),
            Err(Errno::OWNERDEAD) => {
                self.alone.have();
                self.mutex.make_consistent(me).expect("it is inconsistent");
            }
            Err(errno) => panic!("{errno}"),
        }
        self.mutex.unlock(me, &self.futex).expect("it is locked");
    }
}

#[test]
fn three_have_a_mutex_one_after_the_other() {
    explore(2, || {
        together(Locked::new(false), &[|s| s.pass(0), |s| s.pass(1), |s| s.pass(2)]);
    });
}

#[test]
fn two_that_wait_for_a_robust_mutex_have_it_after_its_owner_has_died() {
    explore(2, || {
        let locked = Locked::new(true);
        locked.mutex.lock(owner(0), &locked.futex, None).expect("it is free");
        together(locked, &[|s| s.pass(1), |s| s.pass(2), |s| s.futex.end(0)]);
    });
}

#[test]
fn a_late_unlock_of_an_owner_that_was_declared_dead_leaves_the_next_owner_its_mutex() {
    for abandons in [false, true] {
        explore(3, move || {
            let locked = Locked::new(true);
            locked.mutex.lock(owner(0), &locked.futex, None).expect("it is free");
            let late: fn(&Locked) = if abandons {
                |s: &Locked| {
                    if let Some(word) = s.mutex.abandon(owner(0)) {
                        s.futex.wake(word, 1);
                    }
                }
            } else {
                |s: &Locked| {
                    let unlocked = s.mutex.unlock(owner(0), &s.futex);
                    assert!(matches!(unlocked, Ok(()) | Err(Errno::PERM)));
                }
            };
            together(locked, &[late, |s| s.pass(1), |s| s.futex.end(0)]);
        });
    }
}

#[test]
fn a_late_heir_that_was_declared_dead_as_well_leaves_the_next_owner_its_count() {
    explore(3, || {
        let locked = Locked::new(true);
        locked.mutex.init(MutexKind { mutex_type: MutexType::Recursive, robust: true });
        locked.mutex.lock(owner(0), &locked.futex, None).expect("it is free");
        locked.futex.end(0);
        let late = |s: &Locked| {
            // Stopped anywhere, and its client ended by the other.
            let _ = s.mutex.try_lock(owner(1), &s.futex);
        };
        let next = |s: &Locked| {
            s.futex.end(1);
            let me = owner(2);
            assert_eq!(s.mutex.lock(me, &s.futex, None), Err(Errno::OWNERDEAD));
            s.mutex.make_consistent(me).expect("it is inconsistent");
            s.mutex.lock(me, &s.futex, None).expect("it is its own");
            s.mutex.unlock(me, &s.futex).expect("it is locked twice");
            assert_eq!(s.mutex.unlock(me, &s.futex), Ok(()), "it is locked still");
        };
        together(locked, &[late, next]);
    });
}

#[test]
fn a_thread_that_dies_when_it_is_woken_for_a_mutex_keeps_no_other_asleep() {
    explore(2, || {
        let locked = Locked::new(false);
        locked.mutex.lock(owner(0), &locked.futex, None).expect("it is free");
        let dying = |s: &Locked| {
            let futex = DiesWhenWoken(&s.futex, 1);
            if s.mutex.lock(owner(1), &futex, None).is_ok() {
                s.alone.have();
                s.mutex.unlock(owner(1), &futex).expect("it is locked");
            }
        };
        let unlocks = |s: &Locked| {
            s.mutex.unlock(owner(0), &s.futex).expect("it is locked");
        };
        together(locked, &[dying, |s| s.pass(2), unlocks]);
    });
}

#[test]
fn a_mutex_may_be_destroyed_by_the_one_who_has_it_next() {
    explore(3, || {
        let locked = Locked::new(false);
        locked.mutex.lock(owner(0), &locked.futex, None).expect("it is free");
        let unlocks = |s: &Locked| {
            s.mutex.unlock(owner(0), &s.futex).expect("it is locked");
        };
        let destroys = |s: &Locked| {
            s.pass(1);
            s.mutex.destroy().expect("it is free");
            // The memory is another mutex now, and held.
            s.mutex.init(MutexKind { mutex_type: MutexType::ErrorCheck, robust: true });
            s.mutex.lock(owner(2), &s.futex, None).expect("it is free");
        };
        let shared = together(locked, &[unlocks, destroys]);
        assert_eq!(shared.mutex.lock(owner(2), &shared.futex, None), Err(Errno::DEADLK));
        assert_eq!(shared.mutex.unlock(owner(2), &shared.futex), Ok(()));
    });
}

struct Awaited {
    locked: Locked,
    condvar: SharedCondvar,
    given: AtomicU32,
}

impl Awaited {
    fn new() -> Self {
        Self {
            locked: Locked::new(false),
            condvar: SharedCondvar::new(Clock::Monotonic),
            given: AtomicU32::new(0),
        }
    }

    /// Waits until something is given, and takes it.
    fn take(&self, client: u32) {
        let (me, futex, mutex) = (owner(client), &self.locked.futex, &self.locked.mutex);
        mutex.lock(me, futex, None).expect("a lock");
        while self.given.load(Ordering::Relaxed) == 0 {
            self.condvar.wait(mutex, me, futex, None).expect("a wait");
        }
        self.given.fetch_sub(1, Ordering::Relaxed);
        mutex.unlock(me, futex).expect("it is locked");
    }

    fn give(&self, client: u32, count: u32) {
        let (me, futex, mutex) = (owner(client), &self.locked.futex, &self.locked.mutex);
        mutex.lock(me, futex, None).expect("a lock");
        self.given.fetch_add(count, Ordering::Relaxed);
        mutex.unlock(me, futex).expect("it is locked");
    }
}

#[test]
fn each_signal_ends_a_wait_for_a_condition() {
    let gives = |s: &Awaited| {
        for _ in 0..2 {
            s.give(0, 1);
            s.condvar.signal(&s.locked.futex);
        }
    };
    explore(1, move || {
        together(Awaited::new(), &[|s| s.take(1), |s| s.take(2), gives]);
    });
}

/// Two that wait for conditions of their own, the second after the first was signalled.
struct Stages {
    locked: Locked,
    condvar: SharedCondvar,
    stage: AtomicU32,
    second_waits: AtomicU32,
}

impl Stages {
    fn await_stage(&self, client: u32, stage: u32) {
        let (me, futex, mutex) = (owner(client), &self.locked.futex, &self.locked.mutex);
        mutex.lock(me, futex, None).expect("a lock");
        while self.stage.load(Ordering::Relaxed) < stage {
            self.second_waits.store(stage - 1, Ordering::Relaxed);
            self.condvar.wait(mutex, me, futex, None).expect("a wait");
        }
        mutex.unlock(me, futex).expect("it is locked");
    }

    /// Says whether the second one waits by now.
    fn reach(&self, client: u32, stage: u32) -> bool {
        let (me, futex, mutex) = (owner(client), &self.locked.futex, &self.locked.mutex);
        mutex.lock(me, futex, None).expect("a lock");
        self.stage.fetch_max(stage, Ordering::Relaxed);
        let waits = self.second_waits.load(Ordering::Relaxed) == 1;
        mutex.unlock(me, futex).expect("it is locked");
        waits
    }
}

#[test]
fn a_signal_is_not_lost_with_a_waiter_that_an_earlier_one_has_reached() {
    let signals_and_waits = |s: &Stages| {
        s.reach(0, 1);
        s.condvar.signal(&s.locked.futex);
        s.await_stage(0, 2);
    };
    let signals_the_second = |s: &Stages| {
        // The first was signalled before the second began to wait, and is owed nothing more.
        if s.reach(2, 2) {
            s.condvar.signal(&s.locked.futex);
        }
    };
    explore(3, move || {
        let stages = Stages {
            locked: Locked::new(false),
            condvar: SharedCondvar::new(Clock::Monotonic),
            stage: AtomicU32::new(0),
            second_waits: AtomicU32::new(0),
        };
        together(stages, &[|s| s.await_stage(1, 1), signals_and_waits, signals_the_second]);
    });
}

#[test]
fn a_broadcast_ends_all_waits_and_the_condition_variable_may_be_made_anew() {
    let gives = |s: &Awaited| {
        s.give(0, 2);
        s.condvar.broadcast(&s.locked.futex);
        s.condvar.destroy();
        s.condvar.init(Clock::Realtime);
    };
    explore(1, move || {
        let shared = together(Awaited::new(), &[|s| s.take(1), |s| s.take(2), gives]);
        assert_eq!(shared.given.load(Ordering::Relaxed), 0);
    });
}

struct Counted {
    futex: Addresses,
    semaphore: SharedSemaphore,
}

impl Counted {
    fn new(value: u32) -> Self {
        let semaphore = SharedSemaphore::new(value).expect("a value");
        Self { futex: Addresses::new(), semaphore }
    }

    fn wait(&self) {
        self.semaphore.wait(&self.futex, None).expect("a wait");
    }

    fn post(&self) {
        self.semaphore.post(&self.futex).expect("a post");
    }
}

#[test]
fn two_that_wait_at_a_semaphore_get_what_is_posted() {
    let posts = |s: &Counted| {
        s.post();
        s.post();
    };
    explore(2, move || {
        let shared = together(Counted::new(0), &[Counted::wait, Counted::wait, posts]);
        assert_eq!(shared.semaphore.value(), 0);
    });
}

#[test]
fn two_posts_at_once_wake_a_waiter_for_each() {
    let waits = |s: &Counted| {
        s.wait();
        s.wait();
    };
    explore(2, move || {
        let shared = together(Counted::new(0), &[Counted::post, Counted::post, waits]);
        assert_eq!(shared.semaphore.value(), 0);
    });
}

#[test]
fn a_thread_that_dies_when_it_is_woken_at_a_semaphore_keeps_no_other_asleep() {
    let dies = |s: &Counted| {
        let futex = DiesWhenWoken(&s.futex, 1);
        if s.semaphore.wait(&futex, None).is_ok() {
            // It had no need to sleep. What it has taken is given back for the other.
            s.post();
        }
    };
    let lives = |s: &Counted| {
        s.wait();
        s.post();
    };
    explore(2, move || {
        let shared = together(Counted::new(0), &[dies, lives, Counted::post]);
        assert_eq!(shared.semaphore.value(), 1);
    });
}

#[test]
fn a_semaphore_may_be_destroyed_by_the_one_who_has_waited() {
    let destroys = |s: &Counted| {
        s.wait();
        s.semaphore.destroy();
        s.semaphore.init(7).expect("a value");
    };
    explore(3, move || {
        let shared = together(Counted::new(0), &[Counted::post, destroys]);
        assert_eq!(shared.semaphore.value(), 7);
        assert_eq!(shared.semaphore.try_wait(), Ok(()));
    });
}

struct Shared {
    futex: Addresses,
    lock: SharedRwLock,
    written: AtomicU32,
}

impl Shared {
    fn write(&self, client: u32) {
        self.lock.write(owner(client), &self.futex, None).expect("a lock");
        let before = self.written.load(Ordering::Relaxed);
        self.written.store(before + 1, Ordering::Relaxed);
        self.lock.unlock(&self.futex).expect("it is locked");
    }

    fn read(&self, client: u32) {
        self.lock.read(owner(client), &self.futex, None).expect("a lock");
        let before = self.written.load(Ordering::Relaxed);
        assert_eq!(self.written.load(Ordering::Relaxed), before, "a writer beside a reader");
        self.lock.unlock(&self.futex).expect("it is locked");
    }
}

#[test]
fn readers_and_writers_exclude_each_other_and_all_come_to_their_turn() {
    for prefers_writers in [false, true] {
        explore(1, move || {
            let shared = Shared {
                futex: Addresses::new(),
                lock: SharedRwLock::new(prefers_writers),
                written: AtomicU32::new(0),
            };
            let shared = together(shared, &[|s| s.read(0), |s| s.write(1), |s| s.write(2)]);
            assert_eq!(shared.written.load(Ordering::Relaxed), 2);
        });
    }
}

struct Met {
    futex: Addresses,
    barrier: SharedBarrier,
    arrived: AtomicU32,
}

impl Met {
    fn meet(&self, threads: u32) -> bool {
        self.arrived.fetch_add(1, Ordering::Relaxed);
        let is_serial = self.barrier.wait(&self.futex).expect("a wait");
        assert!(self.arrived.load(Ordering::Relaxed) >= threads);
        is_serial
    }
}

#[test]
fn a_barrier_may_be_destroyed_by_the_first_one_who_leaves_it() {
    let meets = |s: &Met| {
        if s.meet(2) {
            s.barrier.destroy(&s.futex).expect("no thread waits for others");
            s.barrier.init(1).expect("a count");
        }
    };
    explore(2, move || {
        let barrier = SharedBarrier::new(2).expect("a count");
        let met = Met { futex: Addresses::new(), barrier, arrived: AtomicU32::new(0) };
        let met = together(met, &[meets, meets]);
        assert_eq!(met.barrier.wait(&met.futex), Ok(true));
        assert_eq!(met.barrier.destroy(&met.futex), Ok(()));
    });
}

#[test]
fn three_meet_at_a_barrier() {
    let meets = |s: &Met| {
        s.meet(3);
    };
    explore(1, move || {
        let barrier = SharedBarrier::new(3).expect("a count");
        let met = Met { futex: Addresses::new(), barrier, arrived: AtomicU32::new(0) };
        together(met, &[meets, meets, meets]);
    });
}
