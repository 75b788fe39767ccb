//! Process-shared locks over the waiting by address of a pool. They lie in the test's own memory:
//! the pool needs no more of them than a number for each address.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::fixture::*;
use vshmem_ipc::{
    Client, Errno, Futex, LockOwner, MutexKind, MutexType, SEM_VALUE_MAX, SharedBarrier,
    SharedCondvar, SharedMutex, SharedRwLock, SharedSemaphore, WaitEnd, Woke,
};
use vshmem_mem::{Clock, Deadline, signals_handled};

/// Threads, and turns of each.
const THREADS: u32 = 4;
const TURNS: u32 = if cfg!(miri) { 5 } else { 2000 };

struct At<'a>(&'a Client);

impl At<'_> {
    fn offset(&self, word: &AtomicU64) -> u64 {
        let data = self.0.pool().layout().data;
        let bytes = data.end() - data.offset();
        data.offset() + std::ptr::from_ref(word).addr() as u64 % bytes
    }
}

impl Futex for At<'_> {
    fn spin(&self, wakers: u32, waits: &mut dyn FnMut() -> bool) -> bool {
        self.0.futex_spin(wakers, waits)
    }

    fn wait(
        &self,
        word: &AtomicU64,
        waits: &mut dyn FnMut() -> bool,
        deadline: Option<Deadline>,
    ) -> Result<WaitEnd, Errno> {
        self.0.futex_wait(self.offset(word), waits, deadline, signals_handled())
    }

    fn wake(&self, word: &AtomicU64, most: u32) -> Woke {
        self.0.futex_wake(self.offset(word), most).unwrap_or_default()
    }

    fn has_ended(&self, owner: LockOwner) -> bool {
        self.0.has_ended(owner)
    }
}

/// A thread that is stopped at the end of each sleep until the test goes on. With a `slept` it does
/// not sleep in the pool at all: that is what each sleep comes to.
struct Stopped<'a> {
    at: At<'a>,
    goes_on: Receiver<()>,
    slept: Option<WaitEnd>,
    announced: Arc<AtomicU32>,
}

impl<'a> Stopped<'a> {
    fn new(client: &'a Client, slept: Option<WaitEnd>) -> (Sender<()>, Self) {
        let (lets_go, goes_on) = channel();
        (lets_go, Self { at: At(client), goes_on, slept, announced: Arc::default() })
    }
}

impl Futex for Stopped<'_> {
    fn spin(&self, _: u32, waits: &mut dyn FnMut() -> bool) -> bool {
        !waits()
    }

    fn wait(
        &self,
        word: &AtomicU64,
        waits: &mut dyn FnMut() -> bool,
        deadline: Option<Deadline>,
    ) -> Result<WaitEnd, Errno> {
        let ended = match self.slept {
            Some(ended) => ended,
            None => self.at.wait(word, waits, deadline)?,
        };
        self.announced.store(1, Ordering::Release);
        // Also when the test has failed.
        let _ = self.goes_on.recv();
        Ok(ended)
    }

    fn wake(&self, word: &AtomicU64, most: u32) -> Woke {
        self.at.wake(word, most)
    }

    fn has_ended(&self, owner: LockOwner) -> bool {
        self.at.has_ended(owner)
    }
}

fn owner(of: &Client, thread: u32) -> LockOwner {
    LockOwner::new(of.client_id(), thread).unwrap()
}

fn kind(mutex_type: MutexType, robust: bool) -> MutexKind {
    MutexKind { mutex_type, robust }
}

fn soon() -> Option<Deadline> {
    let at = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap() + Duration::from_millis(3);
    Some(Deadline { clock: Clock::Realtime, at })
}

/// Runs the same with several threads of two domains.
fn by_threads(work: impl Fn(LockOwner, &At<'_>) + Sync) {
    let pool = pool();
    let clients = [join(&pool, 10), join_in(&pool, "b", 11)];
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (client, work) = (&clients[thread as usize % 2], &work);
            scope.spawn(move || work(owner(client, 100 + thread), &At(client)));
        }
    });
    empty(&pool, &clients[0]);
}

/// A count that only a lock keeps right.
fn count(total: &AtomicU32) {
    let before = total.load(Ordering::Relaxed);
    std::hint::spin_loop();
    total.store(before + 1, Ordering::Relaxed);
}

#[test]
fn a_mutex_excludes_threads_of_all_domains() {
    for robust in [false, true] {
        let (mutex, total) = (SharedMutex::new(kind(MutexType::Normal, robust)), AtomicU32::new(0));
        by_threads(|me, futex| {
            for _ in 0..TURNS {
                mutex.lock(me, futex, None).unwrap();
                count(&total);
                mutex.unlock(me, futex).unwrap();
            }
        });
        assert_eq!(total.load(Ordering::Relaxed), THREADS * TURNS);
        assert_eq!(mutex.destroy(), Ok(()));
    }
}

#[test]
fn types_of_mutexes_differ_in_what_their_owner_may_do() {
    let pool = pool();
    let client = join(&pool, 10);
    let (futex, me, other) = (&At(&client), owner(&client, 1), owner(&client, 2));
    let errors = SharedMutex::new(kind(MutexType::ErrorCheck, false));
    errors.lock(me, futex, None).unwrap();
    assert_eq!(errors.lock(me, futex, None), Err(Errno::DEADLK));
    assert_eq!(errors.try_lock(me, futex), Err(Errno::BUSY));
    assert_eq!(errors.unlock(other, futex), Err(Errno::PERM));
    assert_eq!(errors.destroy(), Err(Errno::BUSY));
    assert_eq!(errors.unlock(me, futex), Ok(()));
    assert_eq!(errors.unlock(me, futex), Err(Errno::PERM));
    errors.init(kind(MutexType::ErrorCheck, true));
    errors.lock(me, futex, None).unwrap();
    assert_eq!(errors.try_lock(me, futex), Err(Errno::DEADLK));
    assert_eq!(errors.try_lock(other, futex), Err(Errno::BUSY));
    let again = SharedMutex::new(kind(MutexType::Recursive, true));
    for _ in 0..3 {
        again.lock(me, futex, None).unwrap();
    }
    again.try_lock(me, futex).unwrap();
    for _ in 0..3 {
        again.unlock(me, futex).unwrap();
    }
    assert_eq!(again.try_lock(other, futex), Err(Errno::BUSY));
    again.unlock(me, futex).unwrap();
    assert_eq!(again.unlock(me, futex), Err(Errno::PERM));
    assert_eq!(again.try_lock(other, futex), Ok(()));
    let normal = SharedMutex::new(kind(MutexType::Normal, false));
    normal.lock(me, futex, None).unwrap();
    for who in [me, other] {
        assert_eq!(normal.lock(who, futex, soon()), Err(Errno::TIMEDOUT));
        assert_eq!(normal.try_lock(who, futex), Err(Errno::BUSY));
    }
    assert_eq!(normal.unlock(other, futex), Ok(()));
    assert_eq!(normal.destroy(), Ok(()));
    assert!(!SharedMutex::is_marked(u32::MAX) && !SharedMutex::is_marked(0x3ff));
    empty(&pool, &client);
}

#[test]
fn a_robust_mutex_passes_from_a_dead_client_to_a_sleeper() {
    let pool = pool();
    let client = join(&pool, 10);
    let (futex, me) = (&At(&client), owner(&client, 1));
    for evicted in [false, true] {
        let mutex = SharedMutex::new(kind(MutexType::Recursive, true));
        let dead = join_in(&pool, "c", 30);
        let gone = owner(&dead, 7);
        mutex.lock(gone, &At(&dead), None).unwrap();
        mutex.lock(gone, &At(&dead), None).unwrap();
        assert_eq!(mutex.try_lock(me, futex), Err(Errno::BUSY));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| mutex.lock(me, futex, None));
            until("asleep", || asleep(&pool) == 1);
            if evicted {
                client.evict_domain(dead.domain()).unwrap();
            } else {
                client.reap(dead.client_id()).unwrap();
            }
            assert_eq!(sleeper.join().unwrap(), Err(Errno::OWNERDEAD));
        });
        assert_eq!(mutex.make_consistent(gone), Err(Errno::INVAL));
        assert_eq!(mutex.make_consistent(me), Ok(()));
        assert_eq!(mutex.make_consistent(me), Err(Errno::INVAL));
        assert_eq!(mutex.unlock(me, futex), Ok(()));
        assert_eq!((mutex.try_lock(me, futex), mutex.unlock(me, futex)), (Ok(()), Ok(())));
    }
    client.reap_domain(1).unwrap();
    empty(&pool, &client);
}

#[test]
fn an_inconsistent_mutex_that_is_unlocked_is_lost_to_all_that_wait() {
    let pool = pool();
    let client = join(&pool, 10);
    let (futex, me, other) = (&At(&client), owner(&client, 1), owner(&client, 2));
    let mutex = SharedMutex::new(kind(MutexType::Normal, true));
    mutex.lock(other, futex, None).unwrap();
    // A thread that ends while its process goes on.
    assert!(mutex.abandon(other).is_none(), "nobody sleeps");
    assert_eq!(mutex.try_lock(me, futex), Err(Errno::OWNERDEAD));
    std::thread::scope(|scope| {
        let waits = || mutex.lock(other, futex, None);
        let sleepers = [scope.spawn(waits), scope.spawn(waits)];
        until("asleep", || asleep(&pool) == 2);
        assert_eq!(mutex.unlock(me, futex), Ok(()));
        for sleeper in sleepers {
            assert_eq!(sleeper.join().unwrap(), Err(Errno::NOTRECOVERABLE));
        }
    });
    assert_eq!(mutex.try_lock(me, futex), Err(Errno::NOTRECOVERABLE));
    assert_eq!(mutex.unlock(me, futex), Err(Errno::PERM));
    mutex.init(kind(MutexType::Normal, true));
    assert_eq!(mutex.try_lock(me, futex), Ok(()));
    empty(&pool, &client);
}

#[test]
fn a_mutex_that_is_not_robust_stays_locked_when_its_owner_dies() {
    let pool = pool();
    let (client, dead) = (join(&pool, 10), join(&pool, 11));
    let mutex = SharedMutex::new(kind(MutexType::Normal, false));
    mutex.lock(owner(&dead, 1), &At(&dead), None).unwrap();
    client.reap(dead.client_id()).unwrap();
    let (futex, me) = (&At(&client), owner(&client, 1));
    assert_eq!(mutex.try_lock(me, futex), Err(Errno::BUSY));
    assert_eq!(mutex.lock(me, futex, soon()), Err(Errno::TIMEDOUT));
    empty(&pool, &client);
}

#[test]
fn a_semaphore_passes_on_what_is_posted() {
    let (tokens, filled) = (SharedSemaphore::new(1).unwrap(), SharedSemaphore::new(0).unwrap());
    by_threads(|me, futex| {
        for _ in 0..TURNS {
            if me.thread() % 2 == 0 {
                tokens.wait(futex, None).unwrap();
                filled.post(futex).unwrap();
            } else {
                filled.wait(futex, None).unwrap();
                tokens.post(futex).unwrap();
            }
        }
    });
    assert_eq!((tokens.value(), filled.value()), (1, 0));
    let pool = pool();
    let client = join(&pool, 10);
    let futex = &At(&client);
    assert_eq!(filled.try_wait(), Err(Errno::AGAIN));
    assert_eq!(filled.wait(futex, soon()), Err(Errno::TIMEDOUT));
    assert_eq!(SharedSemaphore::new(SEM_VALUE_MAX + 1).err(), Some(Errno::INVAL));
    filled.init(SEM_VALUE_MAX).unwrap();
    assert_eq!(filled.post(futex), Err(Errno::OVERFLOW));
    empty(&pool, &client);
}

#[test]
fn many_sleepers_at_a_semaphore_get_one_each() {
    let pool = pool();
    let client = join(&pool, 10);
    let futex = &At(&client);
    let semaphore = SharedSemaphore::new(0).unwrap();
    std::thread::scope(|scope| {
        let sleepers: Vec<_> =
            (0..20).map(|_| scope.spawn(|| semaphore.wait(&At(&client), None))).collect();
        until("all asleep", || asleep(&pool) == 20);
        for _ in 0..20 {
            semaphore.post(futex).unwrap();
        }
        for sleeper in sleepers {
            assert_eq!(sleeper.join().unwrap(), Ok(()));
        }
    });
    assert_eq!(semaphore.value(), 0);
    empty(&pool, &client);
}

#[test]
fn posts_wake_others_while_a_woken_thread_is_stopped() {
    let pool = pool();
    let client = join(&pool, 10);
    let semaphore = SharedSemaphore::new(0).unwrap();
    std::thread::scope(|scope| {
        let (lets_go, stopped) = Stopped::new(&client, None);
        let semaphore = &semaphore;
        let first = scope.spawn(move || semaphore.wait(&stopped, None));
        until("one asleep", || asleep(&pool) == 1);
        let second = scope.spawn(|| semaphore.wait(&At(&client), None));
        until("both asleep", || asleep(&pool) == 2);
        for _ in 0..3 {
            semaphore.post(&At(&client)).unwrap();
        }
        until("the other one has its turn", || second.is_finished());
        assert_eq!(semaphore.value(), 2);
        drop(lets_go);
        assert_eq!((first.join().unwrap(), second.join().unwrap()), (Ok(()), Ok(())));
    });
    assert_eq!(semaphore.value(), 1);
    empty(&pool, &client);
}

#[test]
fn a_condition_variable_loses_no_signal() {
    let mutex = SharedMutex::new(kind(MutexType::ErrorCheck, true));
    let (turned, turn) = (SharedCondvar::new(Clock::Monotonic), AtomicU32::new(0));
    assert_eq!(turned.clock(), Clock::Monotonic);
    by_threads(|me, futex| {
        let mine = me.thread() - 100;
        for round in 0..TURNS / 4 {
            mutex.lock(me, futex, None).unwrap();
            while turn.load(Ordering::Relaxed) % THREADS != mine {
                turned.wait(&mutex, me, futex, None).unwrap();
            }
            count(&turn);
            mutex.unlock(me, futex).unwrap();
            // Each waits for a turn of its own.
            turned.broadcast(futex);
            assert!(turn.load(Ordering::Relaxed) > round * THREADS);
        }
    });
    let (queue, room) = (AtomicU32::new(0), SharedCondvar::new(Clock::Realtime));
    by_threads(|me, futex| {
        for _ in 0..TURNS / 4 {
            mutex.lock(me, futex, None).unwrap();
            if me.thread() % 2 == 0 {
                queue.fetch_add(1, Ordering::Relaxed);
                room.signal(futex);
            } else {
                while queue.load(Ordering::Relaxed) == 0 {
                    room.wait(&mutex, me, futex, None).unwrap();
                }
                queue.fetch_sub(1, Ordering::Relaxed);
            }
            mutex.unlock(me, futex).unwrap();
        }
    });
    assert_eq!(queue.load(Ordering::Relaxed), 0);
}

#[test]
fn a_wait_for_a_condition_ends_with_the_mutex_locked() {
    let pool = pool();
    let client = join(&pool, 10);
    let (futex, me) = (&At(&client), owner(&client, 1));
    let mutex = SharedMutex::new(kind(MutexType::ErrorCheck, true));
    let condvar = SharedCondvar::new(Clock::Realtime);
    assert_eq!(condvar.wait(&mutex, me, futex, None), Err(Errno::PERM));
    mutex.lock(me, futex, None).unwrap();
    assert_eq!(condvar.wait(&mutex, me, futex, soon()), Err(Errno::TIMEDOUT));
    assert_eq!(mutex.lock(me, futex, None), Err(Errno::DEADLK));
    // The owner dies while another thread waits for the condition: it is told.
    let dead = join(&pool, 11);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| condvar.wait(&mutex, me, futex, None));
        until("asleep", || asleep(&pool) == 1);
        mutex.lock(owner(&dead, 5), futex, None).unwrap();
        client.reap(dead.client_id()).unwrap();
        assert_eq!(waiter.join().unwrap(), Err(Errno::OWNERDEAD));
    });
    assert_eq!((mutex.make_consistent(me), mutex.unlock(me, futex)), (Ok(()), Ok(())));
    empty(&pool, &client);
}

#[test]
fn a_read_write_lock_admits_readers_together_and_writers_alone() {
    for prefers_writers in [false, true] {
        let (lock, total) = (SharedRwLock::new(prefers_writers), AtomicU32::new(0));
        by_threads(|me, futex| {
            for turn in 0..TURNS {
                if turn % 4 == 0 {
                    lock.write(me, futex, None).unwrap();
                    count(&total);
                } else {
                    lock.read(me, futex, None).unwrap();
                    std::hint::black_box(total.load(Ordering::Relaxed));
                }
                lock.unlock(futex).unwrap();
            }
        });
        assert_eq!(total.load(Ordering::Relaxed), THREADS * TURNS.div_ceil(4));
    }
}

#[test]
fn a_read_write_lock_says_who_may_not_have_it() {
    let pool = pool();
    let client = join(&pool, 10);
    let (futex, me, other) = (&At(&client), owner(&client, 1), owner(&client, 2));
    let lock = SharedRwLock::new(true);
    assert_eq!(lock.unlock(futex), Err(Errno::PERM));
    lock.write(me, futex, None).unwrap();
    assert_eq!(lock.write(me, futex, None), Err(Errno::DEADLK));
    assert_eq!(lock.read(me, futex, None), Err(Errno::DEADLK));
    assert_eq!((lock.try_read(futex), lock.try_write(other)), (Err(Errno::BUSY), Err(Errno::BUSY)));
    assert_eq!(lock.read(other, futex, soon()), Err(Errno::TIMEDOUT));
    lock.unlock(futex).unwrap();
    lock.read(me, futex, None).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| lock.write(other, futex, None));
        until("asleep", || asleep(&pool) == 1);
        assert_eq!(lock.try_read(futex), Err(Errno::BUSY), "a writer is first");
        lock.unlock(futex).unwrap();
        assert_eq!(writer.join().unwrap(), Ok(()));
    });
    lock.unlock(futex).unwrap();
    assert_eq!(lock.try_read(futex), Ok(()));
    empty(&pool, &client);
}

#[test]
fn readers_go_on_when_the_writer_they_let_go_first_gives_up_or_dies() {
    for (dies, reader_sleeps) in [(false, true), (true, true), (true, false)] {
        let pool = pool();
        let (client, of_writer) = (join(&pool, 10), join_in(&pool, "c", 30));
        let (futex, lock) = (&At(&client), SharedRwLock::new(true));
        lock.read(owner(&client, 1), futex, None).unwrap();
        std::thread::scope(|scope| {
            let (lets_go, stopped) = Stopped::new(&of_writer, Some(WaitEnd::TimedOut));
            let (lock, announced) = (&lock, Arc::clone(&stopped.announced));
            let of_writer = &of_writer;
            let writer = scope.spawn(move || lock.write(owner(of_writer, 2), &stopped, None));
            until("a writer waits", || announced.load(Ordering::Acquire) == 1);
            assert_eq!(lock.try_read(futex), Err(Errno::BUSY), "a writer is first");
            let read = || lock.read(owner(&client, 3), &At(&client), None);
            let reader = reader_sleeps.then(|| scope.spawn(read));
            let has_lock = || reader.as_ref().is_none_or(|reader| reader.is_finished());
            until("a reader sleeps", || asleep(&pool) == usize::from(reader_sleeps));
            if dies {
                client.reap(of_writer.client_id()).unwrap();
                until("the reader has the lock", has_lock);
                assert_eq!(lock.try_read(futex), Ok(()), "its writer is dead");
            }
            drop(lets_go);
            assert_eq!(writer.join().unwrap(), Err(Errno::TIMEDOUT));
            assert_eq!(lock.try_read(futex), Ok(()), "no writer waits");
            until("the reader has the lock", has_lock);
        });
        empty(&pool, &client);
    }
}

#[test]
fn a_barrier_lets_all_go_at_once_and_tells_one() {
    let barrier = SharedBarrier::new(THREADS).unwrap();
    let (arrived, serial) = (AtomicU32::new(0), AtomicU32::new(0));
    by_threads(|_, futex| {
        for round in 1..=TURNS / 8 {
            arrived.fetch_add(1, Ordering::SeqCst);
            serial.fetch_add(barrier.wait(futex).unwrap().into(), Ordering::SeqCst);
            assert!(arrived.load(Ordering::SeqCst) >= round * THREADS);
        }
        if barrier.wait(futex).unwrap() {
            // Others may still be on their way out.
            barrier.destroy(futex).unwrap();
        }
    });
    assert_eq!(serial.load(Ordering::SeqCst), TURNS / 8);
    assert_eq!(SharedBarrier::new(0).err(), Some(Errno::INVAL));
}
