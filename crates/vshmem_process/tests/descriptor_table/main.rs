//! The table of descriptors, read and changed by many threads, and by handlers in the middle.

#![allow(unsafe_code)] // a signal handler

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use vshmem_process::object_descriptors::table::{
    Access, Descriptor, Identity, NoEntry, Object, Table,
};

/// A descriptor of which each part says the same number.
fn descriptor(number: u32) -> Descriptor {
    let id = number as i32;
    Descriptor {
        object: if number.is_multiple_of(2) { Object::Queue(id) } else { Object::SharedMemory(id) },
        access: Access { read: number.is_multiple_of(3), write: number.is_multiple_of(5) },
        identity: Identity { device: number.into(), inode: number.into() },
    }
}

fn number_of(descriptor: Descriptor) -> u32 {
    match descriptor.object {
        Object::Queue(id) | Object::SharedMemory(id) => id as u32,
    }
}

fn is_whole(found: Descriptor) -> bool {
    found == descriptor(number_of(found))
}

/// The queue that a number stands for, and whether it is nonblocking.
fn queue_at<const PAGES: usize>(table: &Table<PAGES>, number: i32) -> Option<(Descriptor, bool)> {
    let queue = table.queue(number)?;
    let known = descriptor(queue.id() as u32);
    let access = Access { read: queue.may_receive(), write: queue.may_send() };
    assert_eq!(access, known.access);
    Some((known, queue.is_nonblocking()))
}

#[test]
fn a_number_stands_for_what_it_was_last_set_to() {
    static TABLE: Table<4> = Table::new();
    assert!(TABLE.is_empty());
    for number in [0, 3, 511, 512, 2047] {
        assert_eq!(TABLE.get(number), None);
        TABLE.set(number, descriptor(number as u32)).unwrap();
        assert_eq!(TABLE.get(number), Some(descriptor(number as u32)));
    }
    assert_eq!(TABLE.set(3, descriptor(9)), Err(NoEntry), "it stands for another");
    for (number, result) in [(-1, Err(NoEntry)), (2048, Err(NoEntry)), (i32::MAX, Err(NoEntry))] {
        assert_eq!(TABLE.set(number, descriptor(1)), result, "{number}");
        assert_eq!((TABLE.get(number), TABLE.take(number)), (None, None), "{number}");
    }
    assert_eq!(
        (queue_at(&TABLE, 512), queue_at(&TABLE, 3)),
        (Some((descriptor(512), false)), None)
    );
    assert_eq!(TABLE.take_if(3, |found| found == descriptor(4)), None);
    assert_eq!(TABLE.take(3), Some(descriptor(3)));
    assert_eq!((TABLE.take(3), TABLE.get(3)), (None, None));
    let mut seen = Vec::new();
    TABLE.each_in(1, 2046, |number, found| seen.push((number, number_of(found))));
    assert_eq!(seen, [(511, 511), (512, 512)]);
    for number in [0, 511, 512, 2047] {
        TABLE.take(number);
    }
    assert!(TABLE.is_empty());
}

#[test]
fn what_threads_read_while_others_write_is_of_one_descriptor() {
    static TABLE: Table<2> = Table::new();
    static OVER: AtomicBool = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2_u32 {
            scope.spawn(move || {
                // Each at numbers of its own, as threads of a process have them.
                for turn in 0..100_000_u32 {
                    let number = (turn % 4 * 256 + writer) as i32;
                    let wanted = descriptor(turn * 2 + writer);
                    TABLE.set(number, wanted).unwrap();
                    assert_eq!(TABLE.get(number), Some(wanted));
                    assert_eq!(TABLE.take(number), Some(wanted));
                }
                OVER.store(true, Ordering::Relaxed);
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while !OVER.load(Ordering::Relaxed) {
                    TABLE.each_in(0, 1023, |_, found| assert!(is_whole(found), "{found:?}"));
                }
            });
        }
    });
    assert!(TABLE.is_empty());
}

#[test]
fn a_handler_sees_a_descriptor_whole_or_not_at_all() {
    static TABLE: Table<1> = Table::new();
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    static TORN: AtomicBool = AtomicBool::new(false);
    extern "C" fn look(_: libc::c_int) {
        // What the interrupted thread is writing, and a number of the handler's own.
        TORN.fetch_or(TABLE.get(7).is_some_and(|found| !is_whole(found)), Ordering::Relaxed);
        let own = descriptor(41);
        let kept = TABLE.set(8, own).is_ok() && TABLE.take(8) == Some(own);
        TORN.fetch_or(!kept, Ordering::Relaxed);
        LOOKS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler uses nothing but atomics.
    unsafe { libc::signal(libc::SIGUSR1, look as *const () as libc::sighandler_t) };
    // SAFETY: the thread that is named is this one, which outlives the one that signals.
    let me = unsafe { libc::pthread_self() };
    std::thread::scope(|scope| {
        let signals = scope.spawn(move || {
            for _ in 0..2000 {
                let before = LOOKS.load(Ordering::Relaxed);
                // SAFETY: the thread waits for this one.
                unsafe { libc::pthread_kill(me, libc::SIGUSR1) };
                while LOOKS.load(Ordering::Relaxed) == before {
                    std::hint::spin_loop();
                }
            }
        });
        let mut turn = 0_u32;
        while !signals.is_finished() {
            turn = turn.wrapping_add(1) & 0x7fff_ffff;
            TABLE.set(7, descriptor(turn)).unwrap();
            assert_eq!(TABLE.take(7), Some(descriptor(turn)));
        }
    });
    assert!(!TORN.load(Ordering::Relaxed));
    assert!(TABLE.is_empty());
}

/// A thread marks a file's descriptors while others come to their numbers.
#[test]
fn a_mark_gets_to_no_descriptor_that_has_come_since_the_look() {
    static TABLE: Table<1> = Table::new();
    static OVER: AtomicBool = AtomicBool::new(false);
    const NUMBER: i32 = 5;
    let (marked, other) = (descriptor(2), descriptor(4));
    let mut wrong = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !OVER.load(Ordering::Relaxed) {
                TABLE.mark(marked.identity, true);
            }
        });
        for _ in 0..300_000 {
            TABLE.set(NUMBER, marked).unwrap();
            assert_eq!(TABLE.take(NUMBER), Some(marked));
            TABLE.set(NUMBER, other).unwrap();
            for _ in 0..20 {
                std::hint::spin_loop();
            }
            wrong += u32::from(queue_at(&TABLE, NUMBER) != Some((other, false)));
            assert_eq!(TABLE.take(NUMBER), Some(other));
        }
        OVER.store(true, Ordering::Relaxed);
    });
    assert_eq!(wrong, 0, "marked, and not the file's");
    assert!(TABLE.is_empty());
}

#[test]
fn a_mark_goes_with_its_descriptor() {
    static TABLE: Table<1> = Table::new();
    let (one, other) = (descriptor(6), descriptor(8));
    TABLE.set(1, one).unwrap();
    TABLE.set(2, other).unwrap();
    TABLE.mark(one.identity, true);
    assert_eq!(queue_at(&TABLE, 1), Some((one, true)));
    assert_eq!(queue_at(&TABLE, 2), Some((other, false)));
    TABLE.mark(one.identity, false);
    assert_eq!(queue_at(&TABLE, 1), Some((one, false)));
    TABLE.mark(one.identity, true);
    assert_eq!((TABLE.take(1), TABLE.take(2)), (Some(one), Some(other)));
    TABLE.set(1, other).unwrap();
    assert_eq!(queue_at(&TABLE, 1), Some((other, false)), "it is of the one before");
    TABLE.take(1);
}
