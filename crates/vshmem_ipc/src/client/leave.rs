//! A client that goes: at exit, or before its process ends.

use rustix::io::Errno;
use vshmem_mem::Ordering;

use crate::client::{join, lease};
use crate::context::Context;
use crate::error::Failure;
use crate::recovery::reap;
use crate::recovery::steps::{self, Ended, Occasion};
use crate::sem::recover;

/// Ends the membership of a process that goes on: gives up what it holds, and its slot.
///
/// Nothing happens when the domain has been evicted or buried meanwhile: what lies in the slot
/// is not this process's any more.
pub(crate) fn leave(context: &Context) -> Result<(), Failure> {
    if !lease::in_good_standing(context)? {
        return Ok(());
    }
    farewell(context)?;
    let (map, threads) = (context.pool.map(), context.pool.layout().threads);
    let client = context.me();
    // The burial frees the client's thread slots, so it must not work from one of them.
    context.seats.forget();
    context.client.store(context.as_stranger().word(), Ordering::Release);
    context.seats.stand_always();
    let seat = join::stranger_seat(context).map_err(|_| Errno::NOMEM)?;
    let left = reap::bury_client(context, &context.desk_of(&seat), client).map_err(Failure::from);
    drop(seat);
    context.seats.give_back(map, threads, context.as_stranger());
    left
}

/// Gives up what this process holds while it still runs, at exit: attaches and adjustments.
pub(crate) fn farewell(context: &Context) -> Result<(), Failure> {
    let seat = context.seat()?;
    let ended = Ended { client: context.me(), party: context.party().pack() };
    steps::run(context, &context.desk_of(&seat), ended, Occasion::Exit).map_err(Failure::from)
}

/// Applies this process's adjustments now.
pub(crate) fn leave_adjustments(context: &Context) -> Result<(), Failure> {
    let seat = context.seat()?;
    let party = context.party().pack();
    recover::leave_undos(context, &context.desk_of(&seat), context.me(), party)
        .map_err(Failure::from)
}
