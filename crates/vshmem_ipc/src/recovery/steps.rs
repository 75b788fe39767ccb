//! What the end of a client is made of: one ordered table, a row for each room's recover step.
//!
//! The order matters. First nothing of the client is under way any more: its committed changes are
//! carried out and its threads leave their wait queues. Then its adjustments are applied, which may
//! wake others. Then what it held is given back: undo records, attaches, pages. Every step can be
//! repeated and can be left halfway, since whoever does it may die as well and two may do it at
//! once; all that a step looks at is listed by client, so that the whole costs what the client
//! held. What nobody waits for, its chunks of the heap, is taken back later (`reclaim.rs`).
//!
//! A room that gets something which clients can hold gets a row here.

use vshmem_sync::{Desk, Fault};
use vshmem_wire::ClientName;

use crate::context::Context;
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
    pub client: ClientName,
    /// Its domain and pid, as the sets that it operated on note them.
    pub party: u32,
}

/// A row: when it is done, and the room's step.
struct Step {
    occasions: &'static [Occasion],
    run: fn(&Context, &Desk<'_>, Ended) -> Result<(), Fault>,
}

const STEPS: [Step; 6] = [
    // Committed changes are carried out, wait queues are left, objects half made or half removed
    // are finished.
    Step {
        occasions: &[Occasion::Death, Occasion::Exec],
        run: |context, desk, ended| threads::leave_threads(context, desk, ended.client),
    },
    // Wait queues are left, and the thread slots stay.
    Step {
        occasions: &[Occasion::Eviction],
        run: |context, desk, ended| threads::leave_sleepers(context, desk, ended.client),
    },
    // SEM_UNDO.
    Step {
        occasions: &[Occasion::Death, Occasion::Eviction, Occasion::Exit],
        run: |context, desk, ended| recover::leave_undos(context, desk, ended.client, ended.party),
    },
    // Undo records, whose adjustments are applied.
    Step {
        occasions: &[Occasion::Death],
        run: |context, _, ended| recover::free_undos(context, ended.client),
    },
    // Attached segments.
    Step {
        occasions: &[Occasion::Death, Occasion::Exec, Occasion::Exit],
        run: |context, desk, ended| attach::leave_attaches(context, desk, ended.client),
    },
    // Pages that it was zeroing ahead of demand.
    Step {
        occasions: &[Occasion::Death],
        run: |context, desk, ended| clean::leave_cleaning(context, desk, ended.client.word()),
    },
];

/// Does in order what an occasion asks for.
pub(crate) fn run(
    context: &Context,
    desk: &Desk<'_>,
    ended: Ended,
    occasion: Occasion,
) -> Result<(), Fault> {
    STEPS
        .iter()
        .filter(|step| step.occasions.contains(&occasion))
        .try_for_each(|step| (step.run)(context, desk, ended))
}
