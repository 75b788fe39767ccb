//! The agent's thread, on which waiters of its domain rely.

use vshmem_mem::{AtomicU32, Ordering, death_word};
use vshmem_sync::{Fault, field};
use vshmem_wire::{AGENT_THREAD_AT, DomainSlot};

use crate::context::Context;
use crate::context::waking::WakeScope;
use crate::pool::domains;

/// Where the agent's thread is named: beside the wait words, where waiters of its own user see it.
/// Others go on looking once a second.
fn agent_word(context: &Context) -> Result<&AtomicU32, Fault> {
    let layout = context.pool().layout();
    match context.waking.scope {
        WakeScope::Domain => context.waking.words.of(layout.threads.count as u32),
        WakeScope::Kernel => {
            let slot = domains::slot_at(layout, context.domain())?;
            Ok(context
                .pool()
                .map()
                .futex(field!(slot, DomainSlot, agent_thread) + AGENT_THREAD_AT)?)
        }
    }
}

/// The agent's word and what it holds, while there is an agent.
pub(crate) fn living_agent(context: &Context) -> Option<(&AtomicU32, u32)> {
    let word = agent_word(context).ok()?;
    let value = word.load(Ordering::SeqCst);
    death_word::is_owned(value).then_some((word, value))
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
