//! poll(2) and select(2) on descriptors of message queues.
//!
//! The file behind such a descriptor is always ready, as files are. So these calls ask the queue,
//! and the kernel about all other descriptors. While nothing is ready they look again: at first
//! after 50 us, later every 4 ms, as waiters do where nobody can wake them. Calls without such a
//! descriptor go to libc at once.

use std::time::Duration;

use libc::{c_int, c_short, fd_set, pollfd, sigset_t, timespec};
use vshmem_ipc::Errno;
use vshmem_mem::tuning::SHORTEST_SLEEP;
use vshmem_mem::tuning::recheck::LONGEST;
use vshmem_mem::{Instant, Scratch, signals_handled};

use crate::object_descriptors::open;
use crate::session::cancel;
use crate::{errno, process};

/// Bytes of a mask of signals, as the kernel has it.
const MASK_BYTES: usize = 8;

/// What can be done with a queue, in the words of poll(2).
fn readiness(file: c_int) -> c_short {
    let Some(queue) = open::queue(file) else { return libc::POLLNVAL };
    let state = errno::untouched(|| process::joined()?.client().mq_stat(queue.id()).ok());
    let Some(state) = state else { return libc::POLLERR };
    let full = state.messages >= state.size.most_messages;
    let reads = if state.messages > 0 { libc::POLLIN | libc::POLLRDNORM } else { 0 };
    let writes = if full { 0 } else { libc::POLLOUT | libc::POLLWRNORM };
    reads | writes
}

/// When a wait is over.
#[derive(Debug, Clone, Copy)]
pub struct Until(Option<Instant>);

impl Until {
    /// After so long; for ever without.
    pub fn after(span: Option<Duration>) -> Self {
        Self(span.map(|span| Instant::now().after(span)))
    }

    /// In so many milliseconds; for ever when there are fewer than none.
    pub fn after_milliseconds(milliseconds: c_int) -> Self {
        Self::after(u64::try_from(milliseconds).ok().map(Duration::from_millis))
    }

    fn left(self) -> Duration {
        self.0.map_or(Duration::MAX, |until| until.remaining(Instant::now()))
    }
}

/// Whether any of these descriptors is a queue.
#[inline]
pub fn has_queue(mut files: impl Iterator<Item = c_int>) -> bool {
    !open::is_empty() && files.any(|file| open::queue(file).is_some())
}

/// poll(2) of descriptors with queues among them.
///
/// # Errors
/// ENOMEM; EINTR, EINVAL as the kernel says.
#[cold]
pub fn poll(asked: &mut [pollfd], until: Until, mask: *const sigset_t) -> Result<c_int, Errno> {
    let mut room = Scratch::<u64>::new(asked.len()).ok_or(Errno::NOMEM)?;
    let others: *mut pollfd = room.values().as_mut_ptr().cast();
    const { assert!(size_of::<pollfd>() == 8 && align_of::<pollfd>() <= 4) };
    // SAFETY: the room is of this size and alignment, and any bytes are a pollfd.
    let others = unsafe { std::slice::from_raw_parts_mut(others, asked.len()) };
    let signals_seen = signals_handled();
    let mut pause = SHORTEST_SLEEP;
    loop {
        let mut ready = 0;
        for (other, one) in others.iter_mut().zip(&mut *asked) {
            *other = *one;
            if open::queue(one.fd).is_some() {
                one.revents = readiness(one.fd) & (one.events | libc::POLLERR | libc::POLLNVAL);
                ready += c_int::from(one.revents != 0);
                // The kernel passes over it.
                other.fd = -1;
            }
        }
        // One that ran between two questions to the kernel.
        if ready == 0 && signals_handled() != signals_seen {
            return Err(Errno::INTR);
        }
        let left = until.left();
        let span = if ready > 0 { Duration::ZERO } else { left.min(pause) };
        let found = ask_kernel(others, span, mask)?;
        for (other, one) in others.iter().zip(&mut *asked) {
            if other.fd != -1 {
                one.revents = other.revents;
            }
        }
        if ready + found > 0 || left.is_zero() {
            return Ok(ready + found);
        }
        pause = (2 * pause).min(LONGEST);
    }
}

/// ppoll(2), a cancellation point.
fn ask_kernel(asked: &mut [pollfd], span: Duration, mask: *const sigset_t) -> Result<c_int, Errno> {
    let span = timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() };
    cancel::point(|| {
        let words = [
            asked.as_mut_ptr().addr(),
            asked.len(),
            (&raw const span).addr(),
            mask.addr(),
            MASK_BYTES,
        ];
        // SAFETY: the kernel writes into the slice, and reads what is this function's own.
        match unsafe { vshmem_mem::system_call(libc::SYS_ppoll, words) } {
            failed @ ..0 => Err(Errno::from_raw_os_error(-failed as i32)),
            found => Ok(found as c_int),
        }
    })
}

/// The three sets of select(2); null where there is none.
#[derive(Debug, Clone, Copy)]
pub struct Sets {
    /// To be read from.
    pub read: *mut fd_set,
    /// To be written to.
    pub write: *mut fd_set,
    /// Of which something else is to be told.
    pub except: *mut fd_set,
}

impl Sets {
    fn each(self) -> [(*mut fd_set, c_short); 3] {
        // As the kernel turns one into the other.
        let (reads, writes) = (libc::POLLIN, libc::POLLOUT);
        [(self.read, reads), (self.write, writes), (self.except, libc::POLLPRI)]
    }

    /// # Safety
    /// The sets are null, or sets.
    unsafe fn events(self, file: c_int) -> c_short {
        let in_set = |(set, event): (*mut fd_set, c_short)| {
            // SAFETY: by contract; the number is below FD_SETSIZE.
            if !set.is_null() && unsafe { libc::FD_ISSET(file, set) } { event } else { 0 }
        };
        self.each().into_iter().map(in_set).fold(0, |all, event| all | event)
    }

    /// Whether a queue is in one of them.
    ///
    /// # Safety
    /// As for `events`.
    #[inline]
    pub unsafe fn have_queue(self, count: c_int) -> bool {
        // SAFETY: the same contract.
        has_queue(
            (0..count.min(libc::FD_SETSIZE as c_int))
                .filter(|file| unsafe { self.events(*file) != 0 }),
        )
    }
}

/// select(2) of sets with queues in them, by way of poll(2).
///
/// # Errors
/// EBADF, EINTR, ENOMEM.
///
/// # Safety
/// The sets are null, or sets.
#[cold]
pub unsafe fn select(
    count: c_int,
    sets: Sets,
    until: Until,
    mask: *const sigset_t,
) -> Result<c_int, Errno> {
    let most = count.clamp(0, libc::FD_SETSIZE as c_int);
    let mut asked = [pollfd { fd: -1, events: 0, revents: 0 }; libc::FD_SETSIZE];
    let mut used = 0;
    for file in 0..most {
        // SAFETY: by contract.
        let events = unsafe { sets.events(file) };
        if events != 0 {
            asked[used] = pollfd { fd: file, events, revents: 0 };
            used += 1;
        }
    }
    let asked = &mut asked[..used];
    poll(asked, until, mask)?;
    if asked.iter().any(|one| one.revents & libc::POLLNVAL != 0) {
        return Err(Errno::BADF);
    }
    let mut found = 0;
    for one in asked {
        for (set, event) in sets.each() {
            // As the kernel has it: an end or an error is ready to be read, an error to be written.
            let also = match event {
                libc::POLLIN => libc::POLLHUP | libc::POLLERR,
                libc::POLLOUT => libc::POLLERR,
                _ => 0,
            };
            if one.events & event == 0 {
                continue;
            }
            if one.revents & (event | also) != 0 {
                found += 1;
            } else {
                // SAFETY: the descriptor is in this set, which so is one.
                unsafe { libc::FD_CLR(one.fd, set) };
            }
        }
    }
    Ok(found)
}
