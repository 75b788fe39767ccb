//! What the end of a client is made of: one ordered table, a row for each module's recover step.
//!
//! The order matters. First what the client had begun is ended: its committed changes are carried
//! out, and its threads leave their wait queues. Then its adjustments are applied, which may wake
//! others. Then what it held is given back: undo records, attaches, pages. Every step can be
//! repeated and can be left halfway, because the thread that does it may die as well, and two may
//! do it at once. A step looks only at what is listed for this client, so the cost grows with what
//! the client held. Its chunks of the heap are released later (`reclaim.rs`): no thread waits for
//! them.
//!
//! A module that gets something which clients can hold gets a row here.

use vshmem_sync::{Fault, LockContext};
use vshmem_wire::{AttachCount, ClientId};

use crate::claims;
use crate::context::Context;
use crate::futex::end;
use crate::msg::posix::descriptors;
use crate::recovery::threads;
use crate::sem::recover;
use crate::shm::{attach, clean};

/// Why a client gives things up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// It has died.
    Death,
    /// Its domain is evicted, and may still write: what it has attached stays as it is.
    Eviction,
    /// Another program runs in its process now: adjustments stay.
    Exec,
    /// It is about to end, and runs on for a moment.
    Exit,
}

/// A client that has come to an end, as [`Occasion`] says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub client: ClientId,
    /// Its domain and pid, as the sets that it operated on note them.
    pub process_ref: u32,
}

/// A row: when it is done, and the module's step.
struct Step {
    occasions: &'static [Occasion],
    run: fn(&Context, &LockContext<'_>, Ended) -> Result<(), Fault>,
}

const STEPS: [Step; 10] = [
    // Committed changes are carried out, wait queues are left, objects half made or half removed
    // are finished.
    Step {
        occasions: &[Occasion::Death, Occasion::Exec],
        run: |context, lock_context, ended| {
            threads::reap_threads_of(context, lock_context, ended.client)
        },
    },
    // Wait queues are left, and the thread slots stay.
    Step {
        occasions: &[Occasion::Eviction],
        run: |context, lock_context, ended| {
            threads::dequeue_waiters_of(context, lock_context, ended.client)
        },
    },
    // Claims on file locks that it has asked for, or was about to use.
    Step {
        occasions: &[Occasion::Death, Occasion::Eviction, Occasion::Exec],
        run: |context, lock_context, ended| {
            claims::end::drop_wants(context, lock_context, ended.client.word())
        },
    },
    // Those who sleep by address look whether it was the client that they wait for. A thread that
    // exec has ended may have been about to wake one of them.
    Step {
        occasions: &[Occasion::Death, Occasion::Eviction, Occasion::Exec],
        run: |context, lock_context, _| end::wake_every_sleeper(context, lock_context),
    },
    // SEM_UNDO.
    Step {
        occasions: &[Occasion::Death, Occasion::Eviction, Occasion::Exit],
        run: |context, lock_context, ended| {
            recover::apply_undos(context, lock_context, ended.client, ended.process_ref)
        },
    },
    // Undo records, whose adjustments are applied.
    Step {
        occasions: &[Occasion::Death],
        run: |context, _, ended| recover::free_undos(context, ended.client),
    },
    // POSIX queues that are open. They are closed on exec.
    Step {
        occasions: &[Occasion::Death, Occasion::Exec, Occasion::Exit],
        run: |context, lock_context, ended| {
            descriptors::close_all(context, lock_context, ended.client)
        },
    },
    // Attached segments, and POSIX objects that are open.
    Step {
        occasions: &[Occasion::Death, Occasion::Exit],
        run: |context, lock_context, ended| {
            attach::release_attaches(context, lock_context, ended.client, AttachCount::ALL)
        },
    },
    // Attached segments; the program that runs now says which descriptors it has found.
    Step {
        occasions: &[Occasion::Exec],
        run: |context, lock_context, ended| {
            let mappings = AttachCount::ALL_MAPPINGS;
            attach::release_attaches(context, lock_context, ended.client, mappings)
        },
    },
    // Pages that it was zeroing ahead of demand.
    Step {
        occasions: &[Occasion::Death],
        run: |context, lock_context, ended| {
            clean::release_cleaning(context, lock_context, ended.client.word())
        },
    },
];

/// Does in order what an occasion asks for.
pub(crate) fn run(
    context: &Context,
    lock_context: &LockContext<'_>,
    ended: Ended,
    occasion: Occasion,
) -> Result<(), Fault> {
    STEPS
        .iter()
        .filter(|step| step.occasions.contains(&occasion))
        .try_for_each(|step| (step.run)(context, lock_context, ended))
}
