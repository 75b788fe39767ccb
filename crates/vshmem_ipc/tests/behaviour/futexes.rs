//! Waiting by address.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::fixture::*;
use vshmem_ipc::{Client, Errno, Kind, Pool, WaitEnd, Woke};
use vshmem_mem::{Clock, Deadline, signals_handled};
use vshmem_wire::{FutexBucket, Geometry, Place, RawCell, field, futex_bucket};

/// An offset in the data pages.
fn address(pool: &Pool, word: u64) -> u64 {
    pool.layout().data.offset() + word * 8
}

fn sleep(me: &Client, offset: u64, word: &AtomicU64) -> Result<WaitEnd, Errno> {
    let seen = signals_handled();
    me.futex_wait(offset, &mut || word.load(Ordering::SeqCst) == 0, None, seen)
}

fn monotonic(span: Duration) -> Option<Deadline> {
    let now = Deadline { clock: Clock::Monotonic, at: Duration::MAX }.remaining();
    Some(Deadline { clock: Clock::Monotonic, at: (Duration::MAX - now) + span })
}

#[test]
fn sleepers_are_woken_in_order_and_told_whether_others_sleep() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join_in(&pool, "b", 11));
    let (here, there) = (address(&pool, 3), address(&pool, 7));
    let word = AtomicU64::new(0);
    assert_eq!(me.futex_wake(here, 1), Ok(Woke::default()));
    std::thread::scope(|scope| {
        let mut sleepers = Vec::new();
        for nth in 0..3 {
            let who = if nth % 2 == 0 { &me } else { &other };
            sleepers.push(scope.spawn(|| sleep(who, here, &word)));
            until("one more", || asleep(&pool) == nth + 1);
        }
        let elsewhere = scope.spawn(|| sleep(&me, there, &word));
        until("all", || asleep(&pool) == 4);
        sound(&pool);
        let mut sleepers = sleepers.into_iter();
        for left in [2, 1, 0] {
            let more = left > 0;
            assert_eq!(other.futex_wake(here, 1), Ok(Woke { threads: 1, more }));
            let woken = sleepers.next().map(|sleeper| sleeper.join().unwrap());
            assert_eq!(woken, Some(Ok(WaitEnd::Woken { more })));
            assert_eq!(asleep(&pool), left + 1);
        }
        assert_eq!(me.futex_wake(here, 1), Ok(Woke::default()));
        assert_eq!(me.futex_wake(there, 9), Ok(Woke { threads: 1, more: false }));
        assert_eq!(elsewhere.join().unwrap(), Ok(WaitEnd::Woken { more: false }));
    });
    empty(&pool, &me);
}

#[test]
fn all_that_sleep_at_an_address_are_woken_at_once() {
    const SLEEPERS: usize = 30;
    let pool = pool();
    let me = join(&pool, 10);
    let here = address(&pool, 1);
    let word = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let sleepers: Vec<_> =
            (0..SLEEPERS).map(|_| scope.spawn(|| sleep(&me, here, &word))).collect();
        until("all asleep", || asleep(&pool) == SLEEPERS);
        let woke = me.futex_wake(here, u32::MAX).unwrap();
        assert_eq!(woke, Woke { threads: SLEEPERS as u32, more: false });
        for sleeper in sleepers {
            assert_eq!(sleeper.join().unwrap(), Ok(WaitEnd::Woken { more: false }));
        }
    });
    empty(&pool, &me);
}

/// A thread whose word changes while it lies down is in the queue for a moment. What is woken there
/// meanwhile is not for it: a signal of a condition variable would be lost.
#[test]
fn a_thread_that_does_not_sleep_passes_a_wake_up_on() {
    let pool = pool();
    let (me, other, waker) = (join(&pool, 10), join(&pool, 11), join(&pool, 12));
    let here = address(&pool, 2);
    let word = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let mut looks = 0;
        let mut next = None;
        let mut waits = || {
            looks += 1;
            if looks == 1 {
                return true;
            }
            until("it is queued", || asleep(&pool) == 1);
            next = Some(scope.spawn(|| sleep(&other, here, &word)));
            until("the next one behind it", || asleep(&pool) == 2);
            assert_eq!(waker.futex_wake(here, 1), Ok(Woke { threads: 1, more: true }));
            false
        };
        let ended = me.futex_wait(here, &mut waits, None, signals_handled());
        assert_eq!(ended, Ok(WaitEnd::Woken { more: true }));
        assert_eq!(asleep(&pool), 0, "the next one sleeps on");
        let next = next.map(|next| next.join().unwrap());
        assert_eq!(next, Some(Ok(WaitEnd::Woken { more: false })));
    });
    empty(&pool, &me);
}

#[test]
fn a_thread_that_finds_no_slot_to_sleep_in_looks_at_its_word() {
    let pool = pool_of(Geometry { threads: 4, ..small() });
    let me = join(&pool, 10);
    let here = address(&pool, 1);
    let (word, looks) = (AtomicU64::new(0), AtomicU64::new(0));
    let waits = || {
        looks.fetch_add(1, Ordering::SeqCst);
        word.load(Ordering::SeqCst) == 0
    };
    std::thread::scope(|scope| {
        let sleepers: Vec<_> = (0..3).map(|_| scope.spawn(|| sleep(&me, here, &word))).collect();
        until("all slots are slept in", || asleep(&pool) == 3);
        let until_then = monotonic(Duration::from_millis(1));
        let ended = me.futex_wait(here, &mut || true, until_then, signals_handled());
        assert_eq!(ended, Ok(WaitEnd::TimedOut));
        let poller = scope.spawn(|| me.futex_wait(here, &mut { waits }, None, signals_handled()));
        until("it looks", || looks.load(Ordering::SeqCst) > 100);
        assert_eq!(asleep(&pool), 3);
        word.store(1, Ordering::SeqCst);
        assert_eq!(poller.join().unwrap(), Ok(WaitEnd::Changed));
        let woke = me.futex_wake(here, u32::MAX);
        assert_eq!(woke, Ok(Woke { threads: 3, more: false }));
        for sleeper in sleepers {
            assert_eq!(sleeper.join().unwrap(), Ok(WaitEnd::Woken { more: false }));
        }
    });
    empty(&pool, &me);
}

#[test]
fn who_need_not_sleep_or_not_for_longer_leaves_no_trace() {
    let pool = pool();
    let me = join(&pool, 10);
    let here = address(&pool, 1);
    let word = AtomicU64::new(1);
    assert_eq!(sleep(&me, here, &word), Ok(WaitEnd::Changed));
    // The word changes when the thread can be found already.
    let mut looks = 0;
    let mut waits = || {
        looks += 1;
        looks == 1
    };
    assert_eq!(me.futex_wait(here, &mut waits, None, signals_handled()), Ok(WaitEnd::Changed));
    assert_eq!(looks, 2);
    for span in [Duration::ZERO, Duration::from_millis(3)] {
        let wait = me.futex_wait(here, &mut || true, monotonic(span), signals_handled());
        assert_eq!(wait, Ok(WaitEnd::TimedOut));
    }
    let past = Some(Deadline { clock: Clock::Realtime, at: Duration::from_secs(1) });
    let wait = me.futex_wait(here, &mut || true, past, signals_handled());
    assert_eq!(wait, Ok(WaitEnd::TimedOut));
    assert_eq!(asleep(&pool), 0);
    empty(&pool, &me);
}

#[test]
fn what_is_no_word_of_a_program_is_refused() {
    let pool = pool();
    let me = join(&pool, 10);
    let data = pool.layout().data;
    for offset in [0, 8, data.offset() - 8, data.offset() + 2, data.end(), !7] {
        let wait = me.futex_wait(offset, &mut || true, None, signals_handled());
        assert_eq!(wait, Err(Errno::INVAL), "{offset:#x}");
        assert_eq!(me.futex_wake(offset, 1), Err(Errno::INVAL), "{offset:#x}");
    }
    empty(&pool, &me);
}

/// Those whom the end concerns find their words changed, or the owner of a lock gone: here every
/// other one. The others' calls go on.
#[test]
fn the_end_of_a_client_wakes_those_by_address_whom_it_concerns() {
    let pool = pool();
    let (me, far) = (join(&pool, 10), join_in(&pool, "b", 20));
    for evicted in [false, true] {
        let dead = join_in(&pool, "c", 30);
        let (words, looks) = ([const { AtomicU64::new(0) }; 12], [const { AtomicU64::new(0) }; 12]);
        std::thread::scope(|scope| {
            let sleepers: Vec<_> = (0..12)
                .map(|nth| {
                    let who = if nth % 4 < 2 { &me } else { &far };
                    let (word, looks) = (&words[nth], &looks[nth]);
                    let offset = address(&pool, nth as u64);
                    scope.spawn(move || {
                        let mut waits = || {
                            looks.fetch_add(1, Ordering::SeqCst);
                            word.load(Ordering::SeqCst) == 0
                        };
                        who.futex_wait(offset, &mut waits, None, signals_handled())
                    })
                })
                .collect();
            // Each has looked once more behind its entry.
            let settled = || looks.iter().all(|n| n.load(Ordering::SeqCst) == 2);
            until("all asleep", || asleep(&pool) == 12 && settled());
            for word in words.iter().step_by(2) {
                word.store(1, Ordering::SeqCst);
            }
            if evicted {
                me.evict_domain(dead.domain()).unwrap();
            } else {
                me.reap(dead.client_id()).unwrap();
            }
            let looked = || looks.iter().skip(1).step_by(2).all(|n| n.load(Ordering::SeqCst) == 4);
            let ended = || sleepers.iter().filter(|sleeper| sleeper.is_finished()).count();
            until("six back", || ended() > 6 || ended() == 6 && looked() && asleep(&pool) == 6);
            assert_eq!(ended(), 6, "the others sleep on");
            for nth in 0..12 {
                me.futex_wake(address(&pool, nth), 1).unwrap();
            }
            for (nth, sleeper) in sleepers.into_iter().enumerate() {
                let more = nth % 2 == 0;
                assert_eq!(sleeper.join().unwrap(), Ok(WaitEnd::Woken { more }));
            }
        });
        assert_eq!(asleep(&pool), 0);
    }
    me.reap_domain(2).unwrap();
    empty(&pool, &me);
}

#[test]
fn an_exec_wakes_those_by_address_whom_it_concerns() {
    let pool = pool();
    let (me, before) = (join(&pool, 10), join(&pool, 11));
    let here = address(&pool, 5);
    let word = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| sleep(&me, here, &word));
        until("asleep", || asleep(&pool) == 1);
        // One of the threads that exec has ended was about to wake the sleeper.
        word.store(1, Ordering::SeqCst);
        let after = join(&pool, 11);
        assert_eq!(after.client_id(), before.client_id());
        let left_asleep = me.futex_wake(here, 1).unwrap();
        assert_eq!(sleeper.join().unwrap(), Ok(WaitEnd::Woken { more: left_asleep.threads == 0 }));
        assert_eq!(left_asleep, Woke::default());
    });
    empty(&pool, &me);
}

#[test]
fn a_dead_sleeper_is_taken_out_of_its_wait_queue() {
    let pool = pool();
    let (me, dead) = (join(&pool, 10), join(&pool, 11));
    let here = address(&pool, 5);
    let word = AtomicU64::new(0);
    std::thread::scope(|scope| {
        // A thread of this process plays the dead client's: what it returns does not matter.
        let sleeper = scope.spawn(|| sleep(&dead, here, &word));
        until("asleep", || asleep(&pool) == 1);
        me.reap(dead.client_id()).unwrap();
        assert_eq!(asleep(&pool), 0);
        sound(&pool);
        let _ = sleeper.join().unwrap();
    });
    assert_eq!(me.futex_wake(here, 1), Ok(Woke::default()));
    empty(&pool, &me);
}

#[test]
fn listings_show_who_sleeps_in_which_segment() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.segment(PRIVATE, 8192, CREATE).unwrap();
    let place = me.shmat(id, true, false, &ROOT).unwrap();
    let word = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| sleep(&me, place.offset + 4096 + 24, &word));
        until("asleep", || asleep(&pool) == 1);
        let rows = pool.waiters().unwrap();
        let object = pool.objects(Kind::Segment).unwrap()[0].index;
        assert_eq!((rows[0].kind, rows[0].object), (Kind::Segment, object));
        let threads = pool.thread_activities().unwrap();
        let wait = threads.iter().find_map(|thread| thread.wait).unwrap();
        assert_eq!((wait.kind, wait.id), (Kind::Segment, id));
        assert_eq!(wait.awaited, vshmem_ipc::Awaited::Address { offset: 4096 + 24 });
        me.futex_wake(place.offset + 4096 + 24, 1).unwrap();
    });
    me.shmdt(id).unwrap();
    me.segment_remove(id, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_damaged_wait_queue_is_found_and_keeps_no_dead_client() {
    let pool = pool();
    let (me, dead) = (join(&pool, 10), join(&pool, 11));
    let here = address(&pool, 5);
    let bucket = futex_bucket(here, pool.layout().futexes.count);
    let at = pool.layout().futexes.at(bucket).unwrap();
    let word = AtomicU64::new(0);
    let store = |at: Place<RawCell>, value: u64| {
        pool.map().store(at.word(), value, Ordering::Relaxed).unwrap()
    };
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| sleep(&me, here, &word));
        until("asleep", || asleep(&pool) == 1);
        let head =
            pool.map().load(field!(at, FutexBucket, head).word(), Ordering::Relaxed).unwrap();
        // Its count is wrong; its head is nowhere; it is a cycle.
        store(field!(at, FutexBucket, count), 9);
        assert_eq!(pool.check().unwrap().len(), 1);
        store(field!(at, FutexBucket, count), 1);
        sound(&pool);
        store(field!(at, FutexBucket, head), 9999);
        assert!(!pool.check().unwrap().is_empty());
        assert_eq!(me.futex_wake(here, 1), Err(Errno::IO));
        me.reap(dead.client_id()).unwrap();
        store(field!(at, FutexBucket, head), head);
        let slot = pool.layout().threads.at(head as u32 - 1).unwrap();
        let next = field!(slot, vshmem_wire::ThreadSlot, next);
        store(next, head);
        assert!(!pool.check().unwrap().is_empty());
        assert_eq!(me.futex_wake(address(&pool, 6), 1).unwrap_or_default().threads, 0);
        store(next, 0);
        sound(&pool);
        assert_eq!(me.futex_wake(here, 1), Ok(Woke { threads: 1, more: false }));
        assert_eq!(sleeper.join().unwrap(), Ok(WaitEnd::Woken { more: false }));
    });
    empty(&pool, &me);
}
