//! Lists of sleepers at an object, and sleeping in one.
//!
//! A sleeper hangs in the list of the object whose lock protects it. Whoever changes the object
//! either does the sleeper's work on its behalf (`Done`) or sends it to try again (`Retry`), takes
//! it off the list in the same step, and rings it afterwards.

use std::time::Duration;

use rustix::io::Errno;
use vshmem_mem::{
    Instant, Ordering, Sleeper, hide_sleeper, show_sleeper, signals_handled, take_sleeper,
};
use vshmem_sync::{Desk, Fault, Parked, Seat, Txn, field, load_value, park, with_lock};
use vshmem_wire::{Layout, ThreadSlot, WaitKind, WaitState};

use crate::context::Member;

/// A list of sleepers: the cells that hold its ends, and what goes with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub head: u64,
    pub tail: u64,
    /// The lock that protects it.
    pub lock: u64,
    /// The cell that counts its sleepers, if there is one.
    pub length: Option<u64>,
}

impl Line {
    /// As a signal handler finds it, with the slot of the thread that is in it.
    fn shown(self, slot: u32) -> Sleeper {
        [self.head, self.tail, self.lock, self.length.unwrap_or(0), slot.into()]
    }

    fn taken([head, tail, lock, length, slot]: Sleeper) -> (Self, u32) {
        (Self { head, tail, lock, length: (length != 0).then_some(length) }, slot as u32)
    }
}

pub(crate) fn thread_at(layout: &Layout, slot: u32) -> Result<u64, Fault> {
    layout.threads.at(slot).ok_or(Fault::corrupt(layout.threads.offset, "no such thread slot"))
}

/// Puts `slot`, which is the calling thread's, at the end of the line, as waiting.
pub(crate) fn join_line(
    txn: &mut Txn<'_>,
    layout: &Layout,
    line: Line,
    slot: u32,
    kind: WaitKind,
    object: u32,
) -> Result<(), Fault> {
    let at = thread_at(layout, slot)?;
    // Before the change can happen: a handler may run the moment that it has.
    show_sleeper(line.shown(slot));
    let tail = txn.get(line.tail)?;
    txn.update(field!(at, ThreadSlot, next), 0)?;
    txn.update(field!(at, ThreadSlot, previous), tail)?;
    txn.update(field!(at, ThreadSlot, kind), kind as u32)?;
    txn.update(field!(at, ThreadSlot, object), object)?;
    txn.set(field!(at, ThreadSlot, wait), WaitState::Waiting as u32)?;
    if let Some(length) = line.length {
        let before = txn.get(length)?;
        txn.set(length, before.saturating_add(1))?;
    }
    if let Some(last) = tail.checked_sub(1) {
        txn.set(field!(thread_at(layout, last)?, ThreadSlot, next), slot + 1)?;
    } else {
        txn.set(line.head, slot + 1)?;
    }
    txn.set(line.tail, slot + 1)
}

/// Takes `slot` off the line and leaves it in `state`. It must be waiting: so nobody is taken off
/// twice, and whoever serves a line comes to its end even if a peer has tied it together.
pub(crate) fn leave_line(
    txn: &mut Txn<'_>,
    layout: &Layout,
    line: Line,
    slot: u32,
    state: WaitState,
    result: u32,
) -> Result<(), Fault> {
    let at = thread_at(layout, slot)?;
    if txn.get(field!(at, ThreadSlot, wait))? != WaitState::Waiting as u32 {
        return Err(Fault::corrupt(at, "a line with somebody in it who does not wait"));
    }
    let next = txn.get(field!(at, ThreadSlot, next))?;
    let previous = txn.get(field!(at, ThreadSlot, previous))?;
    match next.checked_sub(1) {
        Some(after) => {
            txn.set(field!(thread_at(layout, after)?, ThreadSlot, previous), previous)?;
        }
        None => txn.set(line.tail, previous)?,
    }
    match previous.checked_sub(1) {
        Some(before) => txn.set(field!(thread_at(layout, before)?, ThreadSlot, next), next)?,
        None => txn.set(line.head, next)?,
    }
    if let Some(length) = line.length {
        let before = txn.get(length)?;
        txn.set(length, before.saturating_sub(1))?;
    }
    txn.update(field!(at, ThreadSlot, result), result)?;
    txn.set(field!(at, ThreadSlot, wait), state as u32)
}

/// The sleepers of a line in order; ends with an error if the line has no end.
pub(crate) fn walk(
    txn: &mut Txn<'_>,
    layout: &Layout,
    line: Line,
    mut each: impl FnMut(&mut Txn<'_>, u32) -> Result<bool, Fault>,
) -> Result<(), Fault> {
    let mut next = txn.get(line.head)?;
    for _ in 0..=layout.threads.count {
        let Some(slot) = next.checked_sub(1) else {
            return Ok(());
        };
        let at = thread_at(layout, slot)?;
        // Read before `each`, which may take the sleeper off the line.
        let after = txn.get(field!(at, ThreadSlot, next))?;
        if !each(txn, slot)? {
            return Ok(());
        }
        next = after;
    }
    Err(Fault::corrupt(line.head, "a line of sleepers without an end"))
}

/// Sleepers to ring once a change has happened. More than fit are all rung.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    pub slots: arrayvec::ArrayVec<u32, 16>,
    pub everybody: bool,
}

impl Rings {
    pub fn clear(&mut self) {
        self.slots.clear();
        self.everybody = false;
    }

    pub fn add(&mut self, slot: u32) {
        if self.slots.try_push(slot).is_err() {
            self.everybody = true;
        }
    }
}

/// How a sleep ended for the caller of a blocking operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The work has been done on its behalf, with this errno (0: success).
    Done(u32),
    /// Worth another try.
    Retry,
    /// The deadline has passed.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}

impl Member {
    /// Sleeps in `line` until somebody acts on the wait cell of `seat`, the deadline passes, or a
    /// signal handler runs. Whatever it is, the thread is in no line afterwards.
    ///
    /// `tend` is called now and then, outside any lock: a chance to notice what a waker that died
    /// has left undone.
    ///
    /// `has_looked`: this thread need not look before it sleeps.
    pub(crate) fn sleep_in_line(
        &self,
        seat: &Seat<'_>,
        line: Line,
        has_looked: bool,
        deadline: Option<Instant>,
        signals_seen: u32,
        tend: impl FnMut() -> Result<(), Fault>,
    ) -> Result<Woken, Fault> {
        let woken = self.sleep_until(seat, has_looked, deadline, signals_seen, tend);
        let ended = self.end_sleep(seat, line, woken);
        // Only now: a handler that does not come back must not leave anybody in the line.
        hide_sleeper();
        ended
    }

    /// Takes the thread out of the line, however its sleep has ended.
    fn end_sleep(
        &self,
        seat: &Seat<'_>,
        line: Line,
        woken: Result<Option<Woken>, Fault>,
    ) -> Result<Woken, Fault> {
        let desk = self.desk_of(seat);
        let left = match woken {
            Ok(None) => return self.wait_result(seat),
            Ok(Some(reason)) => self.leave_one(&desk, line, seat.slot).map(|left| (left, reason)),
            Err(fault) => {
                let _ = self.leave_one(&desk, line, seat.slot);
                Err(fault)
            }
        };
        match left {
            Ok((true, reason)) => Ok(reason),
            Ok((false, _)) => self.wait_result(seat),
            // Whoever buries this process finds the thread in its line, and takes it out.
            Err(Fault::Evicted) => Err(Fault::Evicted),
            Err(fault) => {
                // The line makes no sense: at least nobody finds this thread in it any more.
                let _ = self.wait_result(seat);
                Err(fault)
            }
        }
    }

    /// To be called as a signal handler is entered: a call that it has interrupted is over, as far
    /// as others can see, before the handler runs.
    pub fn interrupt(&self) {
        let Some((line, slot)) = take_sleeper().map(Line::taken) else { return };
        // A call that came to its end without a sleep may have left word of a line that it never joined; its slot is not this
        // thread's any more then. And whatever stands there: what is no lock is never taken for one.
        if !self.seats.is_mine(slot) || !self.is_lock(line.lock) {
            return;
        }
        if let Ok(seat) = self.seat() {
            // The sleeper itself finds out how it stands when it goes on.
            let _ = self.leave_one(&self.desk_of(&seat), line, slot);
        }
    }

    /// Takes a sleeper off its line, if nobody has acted on it yet.
    fn leave_one(&self, desk: &Desk<'_>, line: Line, slot: u32) -> Result<bool, Fault> {
        let layout = self.pool().layout();
        let at = thread_at(layout, slot)?;
        with_lock(*desk, line.lock, "give-up", |txn| {
            let waits = txn.get(field!(at, ThreadSlot, wait))? == WaitState::Waiting as u32;
            if waits {
                leave_line(txn, layout, line, slot, WaitState::Idle, 0)?;
            }
            Ok(waits)
        })
    }

    /// Sleeps until the wait cell says something else than *waiting* (`None`), or for another
    /// reason.
    fn sleep_until(
        &self,
        seat: &Seat<'_>,
        has_looked: bool,
        deadline: Option<Instant>,
        signals_seen: u32,
        mut tend: impl FnMut() -> Result<(), Fault>,
    ) -> Result<Option<Woken>, Fault> {
        let map = self.pool().map();
        let at = thread_at(self.pool().layout(), seat.slot)?;
        let wait_at = field!(at, ThreadSlot, wait);
        let waiting = || {
            map.load(wait_at, Ordering::SeqCst)
                .is_ok_and(|word| word as u32 == WaitState::Waiting as u32)
        };
        // Who has others ahead will not be served within a spin's time, and the CPU is better left to them.
        let is_first = load_value(map, field!(at, ThreadSlot, previous))? == 0;
        if !has_looked && is_first {
            let interrupted = || signals_handled() != signals_seen;
            self.spin.until(self.answerer(), || interrupted() || !waiting());
            if !waiting() {
                return Ok(None);
            }
        }
        let mut looked = 0;
        let mut meter = self.spin.measure_sleep();
        loop {
            let (recheck, beside) = self.recheck(looked);
            let words = &self.words;
            let slot = seat.slot;
            let parked = park(words, slot, deadline, recheck, beside, signals_seen, || !waiting())?;
            meter.slept_once();
            match parked {
                Parked::Interrupted => return Ok(Some(Woken::Interrupted)),
                Parked::TimedOut => return Ok(Some(Woken::TimedOut)),
                Parked::Recheck | Parked::Changed if waiting() => {
                    looked += 1;
                    if recheck >= Duration::from_millis(1000) || looked % 256 == 0 {
                        tend()?;
                        self.vigil();
                    }
                }
                Parked::Recheck | Parked::Changed => {
                    meter.woken();
                    return Ok(None);
                }
            }
        }
    }

    /// What the wait cell says now, made idle again.
    pub(crate) fn wait_result(&self, seat: &Seat<'_>) -> Result<Woken, Fault> {
        let map = self.pool().map();
        let at = thread_at(self.pool().layout(), seat.slot)?;
        let state = load_value(map, field!(at, ThreadSlot, wait))?;
        if state == WaitState::Idle as u32 {
            // A signal handler has taken this sleeper off its line as it was entered.
            return Ok(Woken::Interrupted);
        }
        let result = load_value(map, field!(at, ThreadSlot, result))?;
        vshmem_sync::claim_cell(map, field!(at, ThreadSlot, wait), state, 0)?;
        Ok(if state == WaitState::Done as u32 { Woken::Done(result) } else { Woken::Retry })
    }
}

/// errno as the result cell carries it.
pub(crate) fn result_of(errno: Errno) -> u32 {
    errno.raw_os_error() as u32
}

/// The reverse; what a peer has made up is EIO.
pub(crate) fn errno_of(result: u32) -> Errno {
    match result {
        1..4096 => Errno::from_raw_os_error(result as i32),
        _ => Errno::IO,
    }
}
