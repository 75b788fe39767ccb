//! Robust mutexes that a thread holds. When it ends and its process goes on, the next thread that
//! locks one of them gets EOWNERDEAD; the end of a process is seen by its client.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{c_void, pthread_key_t};
use vshmem_ipc::{Errno, LockOwner, SharedMutex};
use vshmem_mem::Mapping;

use crate::attached::attach_table::Changing;
use crate::process_shared::whose::marked_mutex;
use crate::process_shared::{owner, sleeper};
use crate::session::thread_words::{self, ThreadWords};

/// Mutexes of one thread at most; further ones are not noted.
const MOST: usize = 8192;

/// So many are given up while the attach table is held once: blocking signals takes two system
/// calls, which cost more than giving up a mutex does.
const GIVEN_UP_AT_ONCE: usize = 64;

/// What is called in a thread that ends.
static AT_END: OnceLock<Option<pthread_key_t>> = OnceLock::new();

/// After a robust mutex was locked, or was not.
pub fn note_lock(mutex: &SharedMutex, result: Result<(), Errno>) {
    if matches!(result, Ok(()) | Err(Errno::OWNERDEAD)) {
        thread_words::with(|words| add(words, mutex));
    }
}

/// After a robust mutex was unlocked, once.
pub fn note_unlock(mutex: &SharedMutex) {
    thread_words::with(|words| remove(words, mutex));
}

fn address_of(mutex: &SharedMutex) -> usize {
    std::ptr::from_ref(mutex).addr()
}

/// The thread's array.
fn entries(words: &ThreadWords) -> &[AtomicUsize] {
    let start = words.held.load(Ordering::Relaxed);
    if start.is_null() {
        return &[];
    }
    // SAFETY: `prepare` has mapped so many words, all zero, and they stay until the thread ends.
    unsafe { std::slice::from_raw_parts(start, MOST) }
}

fn add(words: &ThreadWords, mutex: &SharedMutex) {
    if words.held.load(Ordering::Relaxed).is_null() {
        prepare(words);
    }
    let count = words.held_count.load(Ordering::Relaxed);
    if let Some(entry) = entries(words).get(count) {
        entry.store(address_of(mutex), Ordering::Relaxed);
        words.held_count.store(count + 1, Ordering::Relaxed);
    }
}

fn remove(words: &ThreadWords, mutex: &SharedMutex) {
    let count = words.held_count.load(Ordering::Relaxed);
    let held = entries(words).get(..count).unwrap_or_default();
    let is_it = |entry: &AtomicUsize| entry.load(Ordering::Relaxed) == address_of(mutex);
    // The last one locked is unlocked first, mostly.
    if let Some(at) = held.iter().rposition(is_it) {
        held[at].store(held[count - 1].load(Ordering::Relaxed), Ordering::Relaxed);
        words.held_count.store(count - 1, Ordering::Relaxed);
    }
}

/// Once in each thread that locks a robust mutex.
#[cold]
fn prepare(words: &ThreadWords) {
    unsafe extern "C" fn at_end(turn: *mut c_void) {
        end_of_thread(turn.addr());
    }
    let make_key = || {
        let mut key = 0;
        // SAFETY: the key is written to a live place; the function is this library's, which is
        // never unloaded.
        let result = unsafe { libc::pthread_key_create(&raw mut key, Some(at_end)) };
        (result == 0).then_some(key)
    };
    let Some(key) = *AT_END.get_or_init(make_key) else { return };
    let Ok(array) = Mapping::anonymous(MOST * size_of::<usize>()) else { return };
    words.held.store(array.leak().as_ptr().cast(), Ordering::Relaxed);
    set_turn(key, 1);
}

fn set_turn(key: pthread_key_t, turn: usize) {
    // SAFETY: the key was made by `prepare`; the value is a number, and never followed.
    unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(turn)) };
}

/// A thread ends. In the second turn: in the first, destructors of the program's may still unlock.
fn end_of_thread(turn: usize) {
    if turn == 1 {
        if let Some(Some(key)) = AT_END.get() {
            set_turn(*key, 2);
        }
        return;
    }
    thread_words::with(|words| {
        let count = words.held_count.swap(0, Ordering::Relaxed);
        let held = entries(words).get(..count).unwrap_or_default();
        held.chunks(GIVEN_UP_AT_ONCE).for_each(abandon);
        let array = words.held.swap(std::ptr::null_mut(), Ordering::Relaxed);
        if let Some(array) = std::ptr::NonNull::new(array.cast()) {
            // SAFETY: `prepare` has mapped it, and nothing points there any more.
            let _ = unsafe { vshmem_mem::unmap(array, MOST * size_of::<usize>()) };
        }
    });
}

/// Gives up the mutexes whose addresses these are, those that are still there and attached. No
/// other thread, and no handler, detaches one meanwhile. The threads that wait for them are woken
/// afterwards: that takes a thread slot of the pool, and others may have to detach before there is
/// one.
fn abandon(held: &[AtomicUsize]) {
    let Ok(me) = owner::me() else { return };
    let mut to_wake = [None; GIVEN_UP_AT_ONCE];
    {
        let _changing = Changing::begin();
        for (entry, woken) in held.iter().zip(&mut to_wake) {
            *woken = abandon_one(entry.load(Ordering::Relaxed), me);
        }
    }
    for offset in to_wake.into_iter().flatten() {
        sleeper::wake_at(offset, 1);
    }
}

/// Where a thread that waits for the mutex is to be woken. The attach table is the caller's.
fn abandon_one(address: usize, me: LockOwner) -> Option<u64> {
    let at: *const SharedMutex = std::ptr::with_exposed_provenance(address);
    sleeper::offset_of(at)?;
    // SAFETY: the address is attached, whole, and is not detached as long as the attach table is
    // this thread's alone.
    let mutex = unsafe { marked_mutex(at.cast()) }?;
    sleeper::offset_of(mutex.abandon(me)?)
}
