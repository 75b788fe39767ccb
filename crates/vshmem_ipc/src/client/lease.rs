//! The lease of this domain and its agent.

use vshmem_mem::{Ordering, not_copied, seconds_now};
use vshmem_sync::{Fault, claim_cell, load_value};
use vshmem_wire::{AGENT_STARTER, DomainSlot, field};

use crate::context::Context;
use crate::error::Failure;

/// Whether this process has to start an agent for its domain: there is none, and no other process
/// is about to start one. `exists` tells whether there is a process of a pid here.
pub(crate) fn must_start_agent(
    context: &Context,
    exists: fn(u32) -> bool,
) -> Result<bool, Failure> {
    // An agent of an evicted domain could not join.
    if !context.is_in_active_domain()? {
        return Ok(false);
    }
    let look = || -> Result<bool, Fault> {
        let map = context.pool.map();
        let at = field!(context.pool.layout().domains.row(context.domain())?, DomainSlot, agent);
        let me = context.identity.pid.load(Ordering::Relaxed) | AGENT_STARTER;
        let now = load_value(map, at)?;
        if now == me {
            // What this process has started before has not come up.
            return Ok(true);
        }
        let pid = now & !AGENT_STARTER;
        if pid != 0 && exists(pid) {
            return Ok(false);
        }
        claim_cell(map, at, now, me)
    };
    look().map_err(Failure::from)
}

/// To be called when this process cannot start an agent: if it has said that it will, takes that
/// back, so that another process does.
pub(crate) fn renounce_agent(context: &Context) {
    let renounce = || -> Result<bool, Fault> {
        let map = context.pool.map();
        let at = field!(context.pool.layout().domains.row(context.domain())?, DomainSlot, agent);
        let me = context.identity.pid.load(Ordering::Relaxed) | AGENT_STARTER;
        if load_value(map, at)? == me { claim_cell(map, at, me, 0) } else { Ok(false) }
    };
    // If this fails, another process starts an agent once this one has ended.
    let _ = renounce();
}

/// A domain's lease, as its agent holds it: what the agent has written last. No other process
/// writes that word.
#[derive(Debug, Default)]
pub struct Lease(Option<u32>);

/// Renews this domain's lease; for the agent. `Some`: another agent has written it, of this pid
/// where it is; it finds what is written now, and so learns of this one. Nothing is done to a slot
/// that is another domain's by now.
pub(crate) fn renew_lease(
    context: &Context,
    agent_pid: u32,
    held: &mut Lease,
) -> Result<Option<u32>, Failure> {
    let mut renew = || -> Result<Option<u32>, Fault> {
        let slot = context.pool.layout().domains.row(context.domain())?;
        let map = context.pool.map();
        let epoch = load_value(map, field!(slot, DomainSlot, epoch))?;
        if epoch != context.identity.epoch.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let agent = load_value(map, field!(slot, DomainSlot, agent))?;
        let lease = field!(slot, DomainSlot, lease);
        let before = load_value(map, lease)?;
        // Two copies that counted would write the same.
        let now = before.wrapping_add(not_copied() as u32 | 1);
        let is_ours =
            claim_cell(map, lease, before, now)? && held.0.is_none_or(|was| was == before);
        held.0 = Some(now);
        if !is_ours {
            return Ok(Some(agent & !AGENT_STARTER));
        }
        for (at, value) in [
            (field!(slot, DomainSlot, renewed), seconds_now()),
            (field!(slot, DomainSlot, agent), agent_pid),
        ] {
            let before = load_value(map, at)?;
            if before != value {
                claim_cell(map, at, before, value)?;
            }
        }
        Ok(None)
    };
    renew().map_err(Failure::from)
}
