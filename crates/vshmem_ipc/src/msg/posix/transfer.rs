//! mq_send(3) and mq_receive(3).

use std::cell::Cell;

use rustix::io::Errno;
use vshmem_sync::load_value;
use vshmem_wire::{MOST_QUEUE_MESSAGE_BYTES, QUEUE_PRIORITIES};

use crate::context::Context;
use crate::error::Failure;
use crate::msg::fast_receive::{ReceiveCall, mq_receive_at_once};
use crate::msg::fast_send::{SendCall, mq_send_at_once};
use crate::msg::glimpse::Glimpse;
use crate::msg::queue::{Receive, Wait, at, find_posix, gone};
use crate::msg::waiters::Deliver;
use crate::msg::{receive, send};
use crate::registry::permission::Superuser;

/// The type that messages of a priority have.
fn type_of(priority: u32) -> i64 {
    i64::from(priority) + 1
}

/// The priority of messages of a type; one that a peer has made up becomes one that there is.
fn priority_of(mtype: i64) -> u32 {
    mtype.saturating_sub(1).clamp(0, i64::from(QUEUE_PRIORITIES) - 1) as u32
}

/// Sends a short message if nothing stands in the way; says whether it did.
#[inline(always)]
pub(crate) fn send_at_once(context: &Context, id: i32, message: &[u8], priority: u32) -> bool {
    priority < QUEUE_PRIORITIES
        && mq_send_at_once(context, id, type_of(priority), message).is_some()
}

/// Takes a short message if nothing stands in the way; see [`mq_receive_at_once`].
#[inline(always)]
pub(crate) fn receive_at_once(
    context: &Context,
    id: i32,
    room: usize,
    is_ready: impl FnOnce(usize) -> bool,
    deliver: impl FnOnce(u32, &[u8]),
) -> Option<usize> {
    mq_receive_at_once(context, id, room, is_ready, |mtype, payload| {
        deliver(priority_of(mtype), payload)
    })
}

/// mq_timedsend(3). Whether the descriptor is open for it is the caller's to know. If the
/// caller is to tell this process of the message, the number of the registration.
pub(crate) fn send(
    context: &Context,
    id: i32,
    message: &[u8],
    priority: u32,
    wait: Wait,
) -> Result<Option<u64>, Failure> {
    if priority >= QUEUE_PRIORITIES {
        return Err(Errno::INVAL.into());
    }
    let queue = find_posix(context, id)?;
    let most = load_value(context.pool().map(), at!(queue, most_bytes))?;
    if message.len() > most.min(MOST_QUEUE_MESSAGE_BYTES) as usize {
        return Err(Errno::MSGSIZE.into());
    }
    let call: SendCall<'_> = SendCall {
        context,
        glimpse: Glimpse::of(context, queue, true)?,
        mtype: type_of(priority),
        payload: message,
        no_wait: wait == Wait::Never,
        // The access was checked when the queue was opened.
        caller: &Superuser,
    };
    let ended_registration = Cell::new(None);
    send::send_to(&call, wait, &ended_registration).map_err(gone)?;
    Ok(ended_registration.get())
}

/// mq_timedreceive(3). `deliver` is given the priority and the message.
pub(crate) fn receive(
    context: &Context,
    id: i32,
    room: usize,
    wait: Wait,
    deliver: &mut Deliver<'_>,
) -> Result<usize, Failure> {
    let queue = find_posix(context, id)?;
    if room < load_value(context.pool().map(), at!(queue, most_bytes))? as usize {
        return Err(Errno::MSGSIZE.into());
    }
    let wanted = Receive { no_wait: wait == Wait::Never, ..Receive::oldest(room) };
    let glimpse = Glimpse::of(context, queue, true)?;
    let call = ReceiveCall { context, glimpse, wanted, caller: &Superuser };
    let mut deliver = |mtype: i64, size: usize, copy: &dyn Fn(&mut [u8])| {
        deliver(i64::from(priority_of(mtype)), size, copy)
    };
    receive::receive_from(&call, wait.deadline(), &mut deliver).map_err(|failure| match failure {
        Failure::Errno(Errno::NOMSG) => Errno::AGAIN.into(),
        other => gone(other),
    })
}
