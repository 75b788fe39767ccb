//! Waking threads of other users of this domain.
//!
//! Where the kernel cannot sleep on the pool, wait words lie in files, one for each user of the
//! domain: a user that may write to a file may also shorten it, and a thread that touches its pages
//! then gets SIGBUS. So a process touches its own user's file alone. The thread that sleeps
//! on another's is found by its client's slot, and woken by way of the kernel
//! (`vshmem_sync::WakeOtherUsers`). What the slot says is no more than a hint where to wake.

use std::sync::atomic::Ordering;

use vshmem_sync::{Fault, WordsOwner, load_state, load_value, load_word, wake};
use vshmem_wire::{
    ClientId, ClientSlot, ClientState, Place, ProcessRef, Registry, ThreadSlot, WaitState, field,
};

use crate::context::Context;
use crate::pool::clients::slot_of;

/// Wakes a thread of this domain, whichever user's it is. Says whether it slept on this process's
/// own words.
pub(crate) fn wake_local(context: &Context, slot: u32) -> bool {
    // If the wake reached a thread, it was the right one. It may reach none although the word says
    // that one sleeps: a thread that was killed in its sleep leaves the word so.
    let woken = if context.waking.words.is_asleep(slot) {
        context.spin.wake(|| wake(&context.waking.words, slot))
    } else {
        wake(&context.waking.words, slot)
    };
    if woken == Ok(true) {
        return true;
    }
    if let Some(here) = &context.waking.domain_users
        && let Ok(Some(owner)) = words_of(context, slot)
        && owner != here.own
    {
        here.other_users.wake(owner, slot);
    }
    false
}

/// Whose words the thread in `slot` sleeps on, as its client's slot says, where they lie in a file.
fn words_of(context: &Context, slot: u32) -> Result<Option<WordsOwner>, Fault> {
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let thread = layout.threads.row(slot)?;
    let owner = load_word(map, field!(thread, ThreadSlot, owner))?;
    let Some(client) = ClientId::of(owner).filter(|client| !client.is_joining()) else {
        return Ok(None);
    };
    words_of_client(context, slot_of(layout, client)?)
}

/// Whose words a client sleeps on, as its slot says.
fn words_of_client(
    context: &Context,
    client: Place<ClientSlot>,
) -> Result<Option<WordsOwner>, Fault> {
    let map = context.pool().map();
    let uid = load_value(map, field!(client, ClientSlot, words_uid))?;
    let nonce = load_value(map, field!(client, ClientSlot, words_nonce))?;
    Ok(uid.checked_sub(1).map(|uid| WordsOwner { uid, nonce }))
}

/// Whether the thread in `slot` is of this domain and another user's, and waits or has been served.
pub(crate) fn is_other_user_waiting(context: &Context, slot: u32) -> bool {
    let Some(here) = &context.waking.domain_users else { return false };
    if !here.is_shared.load(Ordering::Relaxed) {
        return false;
    }
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let look = || -> Result<bool, Fault> {
        let at = layout.threads.row(slot)?;
        if load_state(map, field!(at, ThreadSlot, wait))? == Some(WaitState::Idle) {
            return Ok(false);
        }
        let process_ref = ProcessRef::unpack(load_value(map, field!(at, ThreadSlot, process_ref))?);
        Ok(process_ref.domain == context.domain()
            && words_of(context, slot)?.is_some_and(|owner| owner != here.own))
    };
    look().unwrap_or(false)
}

/// The other user of this domain on whose words the client in a slot sleeps; `None` when it is this
/// one, or none.
pub(crate) fn other_user_of(context: &Context, client: u32) -> Option<WordsOwner> {
    let here = context.waking.domain_users.as_ref()?;
    let client = context.pool().layout().clients.row(client).ok()?;
    words_of_client(context, client).ok()?.filter(|owner| *owner != here.own)
}

/// Wakes the thread that sleeps on a word of another user of this domain.
pub(crate) fn wake_other_user(context: &Context, owner: WordsOwner, word: u32) {
    if let Some(here) = &context.waking.domain_users {
        here.other_users.wake(owner, word);
    }
}

/// Whether there are clients of other users in this domain, as of the last look.
pub(crate) fn is_shared_by_users(context: &Context) -> bool {
    context.waking.domain_users.as_ref().is_some_and(|here| here.is_shared.load(Ordering::Relaxed))
}

/// Looks whether other users of this domain have clients: for its agent, which then looks after
/// their waiters as well.
pub(crate) fn look_for_other_users(context: &Context) -> Result<(), Fault> {
    let Some(here) = &context.waking.domain_users else { return Ok(()) };
    let (map, layout) = (context.pool().map(), context.pool().layout());
    let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
    let mut is_shared = false;
    for client in 0..high.min(layout.clients.count as u32) {
        let slot = layout.clients.row(client)?;
        let uid = load_value(map, field!(slot, ClientSlot, words_uid))?;
        let nonce = load_value(map, field!(slot, ClientSlot, words_nonce))?;
        is_shared |= uid != 0
            && (uid.wrapping_sub(1), nonce) != (here.own.uid, here.own.nonce)
            && load_state(map, field!(slot, ClientSlot, state))? == Some(ClientState::Active)
            && load_value(map, field!(slot, ClientSlot, domain))? == context.domain();
    }
    here.is_shared.store(is_shared, Ordering::Relaxed);
    Ok(())
}
