//! Waiting by address, as the layer above does it, for the models of locks.

use std::collections::VecDeque;

use loom::sync::{Condvar, Mutex};
use rustix::io::Errno;
use vshmem_mem::{AtomicU32, AtomicU64, Deadline, Ordering, fence};
use vshmem_sync::{Futex, LockOwner, WaitEnd, Woke};

/// How a sleeper stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sleeper {
    Asleep,
    Woken {
        more: bool,
    },
    /// A client has ended.
    ToLookAgain,
}

#[derive(Debug, Default)]
struct Queue {
    /// Who sleeps, in order: number and address.
    order: VecDeque<(usize, usize)>,
    /// All that ever slept.
    sleepers: Vec<Option<Sleeper>>,
}

/// The wait queues by address of a pool, as one; and which clients have ended.
pub struct Addresses {
    queue: Mutex<Queue>,
    woken: Condvar,
    count: AtomicU32,
    ended: AtomicU32,
}

impl Addresses {
    pub fn new() -> Self {
        Self {
            queue: Mutex::new(Queue::default()),
            woken: Condvar::new(),
            count: AtomicU32::new(0),
            ended: AtomicU32::new(0),
        }
    }

    /// Takes some off the queue, under its lock.
    fn take(&self, mut is_meant: impl FnMut(usize) -> bool, most: u32) -> Woke {
        let mut queue = self.queue.lock().expect("no panic");
        let mut taken = Vec::new();
        let mut more = false;
        let before = std::mem::take(&mut queue.order);
        for (number, address) in before {
            let meant = is_meant(address);
            if meant && (taken.len() as u32) < most {
                taken.push(number);
            } else {
                more |= meant;
                queue.order.push_back((number, address));
            }
        }
        for number in &taken {
            queue.sleepers[*number] = Some(Sleeper::Woken { more });
        }
        self.count.store(queue.order.len() as u32, Ordering::SeqCst);
        self.woken.notify_all();
        Woke { threads: taken.len() as u32, more }
    }

    /// What becomes of a client that has died: it is marked, and all that sleep are woken.
    pub fn end(&self, client: u32) {
        self.ended.fetch_or(1 << client, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut queue = self.queue.lock().expect("no panic");
        for (number, _) in std::mem::take(&mut queue.order) {
            queue.sleepers[number] = Some(Sleeper::ToLookAgain);
        }
        self.count.store(0, Ordering::SeqCst);
        self.woken.notify_all();
    }

    fn enter(&self, address: usize) -> usize {
        let mut queue = self.queue.lock().expect("no panic");
        let number = queue.sleepers.len();
        queue.sleepers.push(Some(Sleeper::Asleep));
        queue.order.push_back((number, address));
        self.count.store(queue.order.len() as u32, Ordering::SeqCst);
        number
    }

    fn leave(&self, number: usize) -> WaitEnd {
        let mut queue = self.queue.lock().expect("no panic");
        match queue.sleepers[number].take() {
            Some(Sleeper::Woken { more }) => WaitEnd::Woken { more },
            Some(Sleeper::ToLookAgain) => WaitEnd::Woken { more: true },
            _ => {
                queue.order.retain(|(other, _)| *other != number);
                self.count.store(queue.order.len() as u32, Ordering::SeqCst);
                WaitEnd::Changed
            }
        }
    }

    /// `None`: a client has ended.
    fn sleep(&self, number: usize) -> Option<WaitEnd> {
        let mut queue = self.queue.lock().expect("no panic");
        loop {
            match queue.sleepers[number] {
                Some(Sleeper::Woken { more }) => return Some(WaitEnd::Woken { more }),
                Some(Sleeper::ToLookAgain) => return None,
                _ => {}
            }
            queue = self.woken.wait(queue).expect("no panic");
        }
    }
}

fn address_of(word: &AtomicU64) -> usize {
    std::ptr::from_ref(word).addr()
}

impl Futex for Addresses {
    fn spin(&self, _: u32, waits: &mut dyn FnMut() -> bool) -> bool {
        !waits()
    }

    fn wait(
        &self,
        word: &AtomicU64,
        waits: &mut dyn FnMut() -> bool,
        _: Option<Deadline>,
    ) -> Result<WaitEnd, Errno> {
        let number = loop {
            let number = self.enter(address_of(word));
            fence(Ordering::SeqCst);
            if !waits() {
                break number;
            }
            match self.sleep(number) {
                Some(woken) => return Ok(woken),
                None if waits() => {}
                None => return Ok(WaitEnd::Woken { more: true }),
            }
        };
        let left = self.leave(number);
        if matches!(left, WaitEnd::Woken { .. }) {
            // It did not sleep: the next one in its place.
            self.wake(word, 1);
        }
        Ok(left)
    }

    fn wake(&self, word: &AtomicU64, most: u32) -> Woke {
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::SeqCst) == 0 {
            return Woke::default();
        }
        let meant = address_of(word);
        self.take(|address| address == meant, most)
    }

    fn has_ended(&self, owner: LockOwner) -> bool {
        self.ended.load(Ordering::SeqCst) & 1 << owner.slot() != 0
    }
}

/// A thread that dies when it is woken for the first time: it does nothing more, and all others
/// that sleep are woken.
pub struct DiesWhenWoken<'a>(pub &'a Addresses, pub u32);

impl Futex for DiesWhenWoken<'_> {
    fn spin(&self, wakers: u32, waits: &mut dyn FnMut() -> bool) -> bool {
        self.0.spin(wakers, waits)
    }

    fn wait(
        &self,
        word: &AtomicU64,
        waits: &mut dyn FnMut() -> bool,
        deadline: Option<Deadline>,
    ) -> Result<WaitEnd, Errno> {
        match self.0.wait(word, waits, deadline)? {
            WaitEnd::Woken { .. } => {
                self.0.end(self.1);
                Err(Errno::IO)
            }
            ended => Ok(ended),
        }
    }

    fn wake(&self, word: &AtomicU64, most: u32) -> Woke {
        self.0.wake(word, most)
    }

    fn has_ended(&self, owner: LockOwner) -> bool {
        self.0.has_ended(owner)
    }
}
