//! Sleeping in a wait queue, and how long one may sleep: on whom a sleeper can rely.

use std::time::Duration;

use vshmem_mem::tuning::SHORTEST_SLEEP;
use vshmem_mem::tuning::recheck::{GUARDED, LONGEST, LOOKS_PER_RECOVERY, NOTIFIABLE};
use vshmem_mem::{
    AtomicU32, Instant, Ordering, SecondWord, death_word, hide_waiter, signals_handled, take_waiter,
};
use vshmem_sync::{
    Fault, LockContext, ParkResult, SlotGuard, load_state, load_value, park, with_lock,
};
use vshmem_wire::{
    ClientSlot, ClientState, DomainSlot, Registry, State, ThreadSlot, WaitCounts, WaitState, field,
};

use crate::context::Context;
use crate::context::waking::WakeScope;
use crate::pool::domains::{self, DomainSet};
use crate::registry::table;
use crate::wait::wait_queue::{WaitQueue, dequeue};
use crate::wait::{datagrams, doorbell, waker_cpus};

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

/// Sleeps in `wait_queue` until another thread writes the wait cell of `slot_guard`, the deadline
/// passes, or a signal handler runs. In each case the thread is in no wait queue afterwards.
///
/// `recover` is called now and then, outside any lock: a chance to notice what a waker that died
/// has left undone.
///
/// `has_spun`: this thread need not spin before it sleeps.
pub(crate) fn sleep_in_wait_queue(
    context: &Context,
    slot_guard: &SlotGuard<'_>,
    wait_queue: WaitQueue,
    has_spun: bool,
    deadline: Option<Instant>,
    signals_seen: u32,
    recover: impl FnMut() -> Result<(), Fault>,
) -> Result<Woken, Fault> {
    count(context, slot_guard, |counts| counts.waits = counts.waits.wrapping_add(1))?;
    let woken = sleep_until(context, slot_guard, has_spun, deadline, signals_seen, recover);
    let ended = end_sleep(context, slot_guard, wait_queue, woken);
    if matches!(ended, Ok(Woken::Done(_) | Woken::Retry)) {
        count(context, slot_guard, |counts| counts.wakeups = counts.wakeups.wrapping_add(1))?;
    }
    // Only now: a handler that does not return must not leave a thread in the wait queue.
    hide_waiter();
    ended
}

/// Counts a wait, or its end. Only this thread writes the word.
fn count(
    context: &Context,
    slot_guard: &SlotGuard<'_>,
    raise: impl FnOnce(&mut WaitCounts),
) -> Result<(), Fault> {
    let map = context.pool().map();
    let at = context.pool().layout().threads.row(slot_guard.slot)?;
    let counts_at = field!(at, ThreadSlot, waits);
    let mut counts = WaitCounts::unpack(map.load(counts_at, Ordering::Relaxed)?);
    raise(&mut counts);
    Ok(map.store(counts_at, counts.pack(), Ordering::Relaxed)?)
}

/// Sleeps until the wait cell says something else than *waiting* (`None`), or for another
/// reason.
fn sleep_until(
    context: &Context,
    slot_guard: &SlotGuard<'_>,
    has_spun: bool,
    deadline: Option<Instant>,
    signals_seen: u32,
    mut recover: impl FnMut() -> Result<(), Fault>,
) -> Result<Option<Woken>, Fault> {
    let map = context.pool().map();
    let at = context.pool().layout().threads.row(slot_guard.slot)?;
    let wait_at = field!(at, ThreadSlot, wait);
    let waiting = || {
        map.load(wait_at.cell().word(), Ordering::SeqCst)
            .is_ok_and(|word| WaitState::of(word as u32) == Some(WaitState::Waiting))
    };
    // A thread that has others ahead will not be served within a spin's time, and the CPU is better
    // left to them.
    let is_first = load_value(map, field!(at, ThreadSlot, previous))? == 0;
    if !has_spun && is_first {
        let interrupted = || signals_handled() != signals_seen;
        context.spin.until(waker_cpus::waker_cpu(context), || interrupted() || !waiting());
        if !waiting() {
            return Ok(None);
        }
    }
    let mut looked = 0;
    let mut meter = context.spin.measure_sleep();
    loop {
        let (recheck, second_word) = recheck(context, looked);
        let words = &context.waking.words;
        let slot = slot_guard.slot;
        let park_result =
            park(words, slot, deadline, recheck, second_word, signals_seen, || !waiting())?;
        meter.slept_once();
        match park_result {
            ParkResult::Interrupted => return Ok(Some(Woken::Interrupted)),
            ParkResult::TimedOut => return Ok(Some(Woken::TimedOut)),
            ParkResult::Recheck | ParkResult::Changed if waiting() => {
                looked += 1;
                if recheck >= NOTIFIABLE || looked.is_multiple_of(LOOKS_PER_RECOVERY) {
                    recover()?;
                    // The thread that evicted this domain may have ended before it came to this
                    // client.
                    if !context.is_in_active_domain()? {
                        return Err(Fault::Evicted);
                    }
                    context.watchdog();
                }
            }
            ParkResult::Recheck | ParkResult::Changed => {
                meter.woken();
                return Ok(None);
            }
        }
    }
}

/// After what time a waiter has to look again by itself, and which other word ends its sleep. The
/// time is long when every domain that could wake it can notify it, and an agent looks after it
/// (`recover_waiters`). Otherwise it is short.
fn recheck(context: &Context, looked: u32) -> (Duration, Option<SecondWord<'_>>) {
    if !is_woken_by_all(context).unwrap_or(false) {
        return (polling_interval(looked), None);
    }
    // Short sleeps are made with the simpler call.
    let agent = if looked > 0 { living_agent(context) } else { None };
    match agent {
        None => (NOTIFIABLE, None),
        Some((word, expected)) => (GUARDED, Some(SecondWord { word, expected, alone: NOTIFIABLE })),
    }
}

/// The pause of a thread that nothing may wake, after so many looks: longer after each four.
pub(crate) fn polling_interval(looked: u32) -> Duration {
    (SHORTEST_SLEEP * 2u32.saturating_pow(looked / 4)).min(LONGEST)
}

/// Whether every thread that could wake a waiter of this domain can also notify it.
pub(crate) fn is_woken_by_all(context: &Context) -> Result<bool, Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let mine = load_value(map, field!(layout.domains.row(context.domain())?, DomainSlot, address))?;
    let heard = heard_now(context)?;
    let mut unnotifiable = DomainSet::default();
    for other in domains::other_alive_domains(context.pool(), context.domain()) {
        let (index, slot) = other?;
        let address = load_value(map, field!(slot, DomainSlot, address))?;
        let wakes = doorbell::is_address(mine) && doorbell::is_address(address);
        if wakes
            || heard.is_some_and(|heard| heard.has(index))
            || doorbell::is_near(context, index)?
        {
            continue;
        }
        if !doorbell::is_address(mine) && heard.is_none() {
            return Ok(false);
        }
        unnotifiable.add(index);
    }
    // A domain that cannot notify this one does not matter while it has no clients.
    Ok(unnotifiable.0 == 0 || !has_clients(context, unnotifiable)?)
}

/// The domains that will have this one notified; `None` when its agent does not listen. None of
/// them counts while the agent is dead: its successor will say so again.
fn heard_now(context: &Context) -> Result<Option<DomainSet>, Fault> {
    let notify = datagrams::notify_of(context.pool(), context.domain())?;
    if notify == 0 {
        return Ok(None);
    }
    // Whether another user's agent lives cannot be seen; those waiters look once a second.
    let lives = living_agent(context).is_some()
        || datagrams::agent_of_other_user(context, notify).is_some();
    Ok(Some(if lives {
        datagrams::heard_by(context.pool(), context.domain())?
    } else {
        DomainSet::default()
    }))
}

fn has_clients(context: &Context, of: DomainSet) -> Result<bool, Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
    for client in 0..high.min(layout.clients.count as u32) {
        let slot = layout.clients.row(client)?;
        let state = load_state(map, field!(slot, ClientSlot, state))?;
        if state != Some(ClientState::Free)
            && of.has(load_value(map, field!(slot, ClientSlot, domain))?)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The agent's word and what it holds, while there is an agent.
fn living_agent(context: &Context) -> Option<(&AtomicU32, u32)> {
    let word = agent_word(context).ok()?;
    let value = word.load(Ordering::SeqCst);
    death_word::is_owned(value).then_some((word, value))
}

/// Where the agent's thread is named: beside the wait words, where waiters of its own user see it.
/// Others go on looking once a second.
fn agent_word(context: &Context) -> Result<&AtomicU32, Fault> {
    let layout = context.pool().layout();
    match context.waking.scope {
        WakeScope::Domain => context.waking.words.of(layout.threads.count as u32),
        WakeScope::Kernel => {
            let slot = layout.domains.row(context.domain())?;
            Ok(context.pool().map().futex(field!(slot, DomainSlot, agent_words.thread).offset())?)
        }
    }
}

/// To be called by the thread that is the agent: from now on waiters rely on it, until it ends or
/// calls `stop_guarding`. Where that cannot be, they go on looking once a second.
pub(crate) fn guard_waiters(context: &Context) {
    if let Ok(word) = agent_word(context) {
        death_word::own(word);
    }
}

/// Waiters no longer rely on the calling thread.
pub(crate) fn stop_guarding(context: &Context) {
    if let Ok(word) = agent_word(context) {
        death_word::disown(word);
    }
}

/// Takes the thread out of the wait queue, however its sleep has ended.
fn end_sleep(
    context: &Context,
    slot_guard: &SlotGuard<'_>,
    wait_queue: WaitQueue,
    woken: Result<Option<Woken>, Fault>,
) -> Result<Woken, Fault> {
    let lock_context = context.lock_context_of(slot_guard);
    let left = match woken {
        Ok(None) => return wait_result(context, slot_guard),
        Ok(Some(reason)) => leave_one(context, &lock_context, wait_queue, slot_guard.slot)
            .map(|left| (left, reason)),
        Err(fault) => {
            let _ = leave_one(context, &lock_context, wait_queue, slot_guard.slot);
            Err(fault)
        }
    };
    match left {
        Ok((true, reason)) => Ok(reason),
        Ok((false, _)) => wait_result(context, slot_guard),
        // The thread that reaps this process finds the thread in its wait queue, and takes it out.
        Err(Fault::Evicted) => Err(Fault::Evicted),
        Err(fault) => {
            // The wait queue is corrupt: at least this thread can no longer be found in it.
            let _ = wait_result(context, slot_guard);
            Err(fault)
        }
    }
}

/// Takes a waiter off its wait queue, if no thread has acted on it yet.
fn leave_one(
    context: &Context,
    lock_context: &LockContext<'_>,
    wait_queue: WaitQueue,
    slot: u32,
) -> Result<bool, Fault> {
    let layout = context.pool().layout();
    let at = layout.threads.row(slot)?;
    with_lock(*lock_context, wait_queue.lock, "dequeue", |txn| {
        let waits = txn.state(field!(at, ThreadSlot, wait))? == Some(WaitState::Waiting);
        if waits {
            dequeue(txn, layout, wait_queue, slot, WaitState::Idle, 0)?;
        }
        Ok(waits)
    })
}

/// What the wait cell says now, made idle again.
pub(crate) fn wait_result(context: &Context, slot_guard: &SlotGuard<'_>) -> Result<Woken, Fault> {
    let map = context.pool().map();
    let at = context.pool().layout().threads.row(slot_guard.slot)?;
    let wait_at = field!(at, ThreadSlot, wait).cell();
    let wait = load_value(map, wait_at)?;
    let state = WaitState::of(wait);
    if state == Some(WaitState::Idle) {
        // A signal handler has taken this waiter off its wait queue as it was entered; or the
        // thread that evicted this domain has.
        let is_member = context.is_in_active_domain()?;
        return if is_member { Ok(Woken::Interrupted) } else { Err(Fault::Evicted) };
    }
    let result = load_value(map, field!(at, ThreadSlot, result))?;
    vshmem_sync::claim_cell(map, wait_at, wait, WaitState::Idle.number())?;
    Ok(if state == Some(WaitState::Done) { Woken::Done(result) } else { Woken::Retry })
}

/// Takes a thread out of the wait queue that it has just entered, because it need not sleep.
/// Returns what another thread has done for it meanwhile, if one has.
pub(crate) fn leave_wait_queue(
    context: &Context,
    slot_guard: &SlotGuard<'_>,
    wait_queue: WaitQueue,
) -> Result<Option<Woken>, Fault> {
    let lock_context = context.lock_context_of(slot_guard);
    let left = leave_one(context, &lock_context, wait_queue, slot_guard.slot);
    let acted = match left {
        Ok(true) => Ok(None),
        Ok(false) => wait_result(context, slot_guard).map(Some),
        Err(fault) => Err(fault),
    };
    hide_waiter();
    acted
}

/// To be called as a signal handler is entered: a call that it has interrupted is over, as far
/// as others can see, before the handler runs.
pub(crate) fn interrupt(context: &Context) {
    let Some((wait_queue, slot)) = take_waiter().map(WaitQueue::taken) else { return };
    // A call that ended without a sleep may have noted a wait queue that it never entered. Its slot
    // may belong to another thread by now, or to no thread. The noted offset is checked as well, so
    // that nothing but a lock is taken as one.
    if !context.slot_cache.is_mine(slot) || !table::is_lock(context, wait_queue.lock) {
        return;
    }
    if let Ok(slot_guard) = context.slot_guard() {
        // The waiter itself finds out how it stands when it goes on.
        let _ = leave_one(context, &context.lock_context_of(&slot_guard), wait_queue, slot);
    }
}
