//! Datagrams between agents: a doorbell for links that have none (docs/internals/decisions/0019).
//!
//! Agents whose operators have configured each other's addresses send each other datagrams of one
//! byte. A program that has served a waiter of such a domain asks its own agent to send one, by a
//! word beside the wait words; the other agent then does what it does on a notification by a
//! doorbell (`Client::deliver_wakeups`).
//!
//! A domain's waiters rest only if its agent has lately heard the agent of every domain that could
//! wake them. So a domain without configuration, an agent that has ended, or a network that loses
//! everything makes waiters look again by themselves, as on a link without doorbells. What an agent
//! has heard it notes in its domain's slot, and a waker asks for a datagram only where it is waited
//! for.
//!
//! All this is a hint. Where to send is never read from the pool: a slot holds a digest of an
//! address, and the agent looks among the addresses that it was configured with for one that has
//! it.
//!
//! Memory ordering: a waker sets the bits of whom it asks for and then notifies the agent's word;
//! the agent announces itself in the word and then reads the bits. Both sequentially consistent, as
//! with the wait words of threads.

use std::time::Duration;

use vshmem_mem::{AtomicU32, FutexOutcome, Ordering, SLEEPING, WAKE, futex_wait};
use vshmem_sync::{Fault, claim_word, load_state, load_value, load_word, wake_word};
use vshmem_wire::{DomainSlot, Place, ProcessRef, RawCell, ThreadSlot, WaitState, field};

use crate::context::Context;
use crate::context::waking::WakeScope;
use crate::error::Failure;
use crate::pool::domains::{self, DomainSet};
use crate::pool::open::Pool;
use crate::wait::domain_users;

/// Domains that are to be notified. Those whose numbers are the same modulo 32 cannot be
/// distinguished here: one of them is then notified for nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NotifySet(u32);

impl NotifySet {
    /// All of them.
    pub const ALL: Self = Self(!0);

    /// Adds a domain.
    pub fn add(&mut self, index: u32) {
        self.0 |= 1 << (index & 31);
    }

    /// Adds those of another.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether a domain is meant.
    #[must_use]
    pub fn has(self, index: u32) -> bool {
        self.0 & 1 << (index & 31) != 0
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Another domain whose agent says that it listens for datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    /// Its slot.
    pub index: u32,
    /// A digest of its address.
    pub digest: u32,
    /// Whether it says that it has heard this domain's agent, and so relies on being notified.
    pub relies_on_us: bool,
}

/// The two words by which programs ask the agent of their domain.
struct AgentWords<'a> {
    agent_words: &'a AtomicU32,
    asked: &'a AtomicU32,
}

/// What the agent of a domain says of itself: 0 when it does not listen.
pub(super) fn notify_of(pool: &Pool, index: u32) -> Result<u64, Fault> {
    load_word(pool.map(), field!(pool.layout().domains.row(index)?, DomainSlot, notify))
}

/// The domains that the agent of one has heard lately, as its slot says.
pub(crate) fn heard_by(pool: &Pool, index: u32) -> Result<DomainSet, Fault> {
    let at = field!(pool.layout().domains.row(index)?, DomainSlot, heard);
    let low = load_word(pool.map(), at.element(0))?;
    let high = load_word(pool.map(), at.element(1))?;
    Ok(DomainSet(u128::from(high) << 64 | u128::from(low)))
}

/// Whether this domain's agent sends datagrams, as far as the pool says.
pub(crate) fn is_notifying(context: &Context) -> bool {
    notify_of(context.pool(), context.domain()).is_ok_and(|notify| notify != 0)
}

/// Whether another domain says that it relies on being notified by this one's agent.
pub(crate) fn relies_on_us(context: &Context, index: u32) -> bool {
    heard_by(context.pool(), index).is_ok_and(|heard| heard.has(context.domain()))
}

/// The agent of this domain, if it is another user's.
pub(super) fn agent_of_other_user(
    context: &Context,
    notify: u64,
) -> Option<vshmem_sync::WordsOwner> {
    domain_users::other_user_of(context, ((notify >> 32) as u32).checked_sub(1)?)
}

/// The agent's words: in this user's own file, or in the pool.
fn agent_words(context: &Context) -> Result<AgentWords<'_>, Fault> {
    let layout = context.pool().layout();
    let beyond = layout.threads.count as u32;
    Ok(match context.waking.scope {
        WakeScope::Domain => AgentWords {
            agent_words: context.waking.words.of(beyond + 1)?,
            asked: context.waking.words.of(beyond + 2)?,
        },
        WakeScope::Kernel => {
            let map = context.pool().map();
            let slot = layout.domains.row(context.domain())?;
            AgentWords {
                agent_words: map.futex(field!(slot, DomainSlot, agent_words.wake).offset())?,
                asked: map.futex(field!(slot, DomainSlot, agent_words.asked).offset())?,
            }
        }
    })
}

/// Has this domain's agent notify others. Called with changes already made visible; makes no use of
/// the heap.
pub(crate) fn ask_agent(context: &Context, to_notify: NotifySet) {
    let notify = notify_of(context.pool(), context.domain()).unwrap_or(0);
    if let Some(owner) = agent_of_other_user(context, notify) {
        // Nothing can be written there. The agent then notifies all that rely on it.
        domain_users::wake_other_user(
            context,
            owner,
            context.pool().layout().threads.count as u32 + 1,
        );
        return;
    }
    if let Ok(AgentWords { agent_words, asked }) = agent_words(context) {
        asked.fetch_or(to_notify.0, Ordering::SeqCst);
        wake_word(agent_words);
    }
}

/// For the agent's thread that sends: sleeps until programs have asked for others to be notified,
/// or for at most `within`.
pub(crate) fn await_asked(context: &Context, within: Duration) -> Result<NotifySet, Failure> {
    let AgentWords { agent_words, asked } = agent_words(context)?;
    let take = || NotifySet(asked.swap(0, Ordering::SeqCst));
    let taken = take();
    if !taken.is_empty() {
        return Ok(taken);
    }
    let announced = agent_words.fetch_or(SLEEPING, Ordering::SeqCst) | SLEEPING;
    let mut taken = take();
    let mut outcome = FutexOutcome::TimedOut;
    if taken.is_empty() {
        outcome = futex_wait(agent_words, announced, within);
        taken = take();
    }
    let notified = agent_words.fetch_and(!SLEEPING, Ordering::SeqCst) / WAKE != announced / WAKE;
    let by_another_user = outcome == FutexOutcome::Woken && !notified;
    // Another user's programs leave no bits, and are not distinguished from this one's when both
    // ask.
    let notify_all = by_another_user
        || outcome == FutexOutcome::Woken && domain_users::is_shared_by_users(context);
    Ok(if notify_all { NotifySet::ALL } else { taken })
}

/// Those of some domains that have threads which have been served and have not noticed yet: what
/// was sent to them is still on its way, or lost.
pub(crate) fn not_noticed(context: &Context, among: NotifySet) -> Result<NotifySet, Failure> {
    let look = || -> Result<NotifySet, Fault> {
        let (layout, map) = (context.pool().layout(), context.pool().map());
        let mut found = NotifySet::default();
        for slot in 0..layout.threads.count as u32 {
            let at = layout.threads.row(slot)?;
            let wait = load_state(map, field!(at, ThreadSlot, wait))?;
            if wait != Some(WaitState::Idle) && wait != Some(WaitState::Waiting) {
                let process_ref = load_value(map, field!(at, ThreadSlot, process_ref))?;
                found.add(ProcessRef::unpack(process_ref).domain);
            }
        }
        Ok(NotifySet(found.0 & among.0))
    };
    look().map_err(Failure::from)
}

/// Wakes the thread in `await_asked`.
pub(crate) fn wake_agent(context: &Context) {
    if let Ok(AgentWords { agent_words, .. }) = agent_words(context) {
        wake_word(agent_words);
    }
}

/// Says that the calling agent listens for datagrams, at an address with that digest; `None`: not,
/// or no longer.
pub(crate) fn publish_listening(context: &Context, digest: Option<u32>) -> Result<(), Failure> {
    let word = match digest {
        Some(digest) => u64::from(context.client_slot().wrapping_add(1)) << 32 | u64::from(digest),
        None => 0,
    };
    let publish = || -> Result<(), Fault> {
        let slot = context.pool().layout().domains.row(context.domain())?;
        replace_word(context, field!(slot, DomainSlot, notify), word)
    };
    publish().map_err(Failure::from)
}

/// Says which domains' agents have been heard lately. True when that is new.
pub(crate) fn publish_heard(context: &Context, heard: DomainSet) -> Result<bool, Failure> {
    let publish = || -> Result<bool, Fault> {
        let at = field!(context.pool().layout().domains.row(context.domain())?, DomainSlot, heard);
        let before = heard_by(context.pool(), context.domain())?;
        replace_word(context, at.element(0), heard.0 as u64)?;
        replace_word(context, at.element(1), (heard.0 >> 64) as u64)?;
        Ok(before != heard)
    };
    publish().map_err(Failure::from)
}

fn replace_word(context: &Context, at: Place<RawCell>, word: u64) -> Result<(), Fault> {
    let before = load_word(context.pool().map(), at)?;
    if before != word {
        claim_word(context.pool().map(), at, before, word)?;
    }
    Ok(())
}

/// The other domains whose agents say that they listen.
pub(crate) fn listeners(context: &Context) -> Result<Vec<Listener>, Failure> {
    let look = || -> Result<Vec<Listener>, Fault> {
        let mut found = Vec::new();
        for other in domains::other_alive_domains(context.pool(), context.domain()) {
            let (index, _) = other?;
            let digest = notify_of(context.pool(), index)? as u32;
            if digest != 0 {
                found.push(Listener { index, digest, relies_on_us: relies_on_us(context, index) });
            }
        }
        Ok(found)
    };
    look().map_err(Failure::from)
}
