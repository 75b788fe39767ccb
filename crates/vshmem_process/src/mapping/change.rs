//! What every call does that changes mappings: the attach table is for this thread alone until both
//! the kernel and the table have changed.

use vshmem_session::Session;

use crate::attached::addresses::PAGE;
use crate::attached::attach_table::Changing;
use crate::attached::{mapping_cache, pieces};
use crate::mapping::{reconcile, user};
use crate::session::current;
use crate::{errno, process};

/// The attach table for this thread alone. It is to live until both the kernel and the attach table
/// have changed: a thread that attaches could be given the addresses in between, and its attach be
/// taken for the one that has gone. So the session that a change needs is had by way of it.
#[must_use]
pub struct TableChange {
    _changing: Changing,
    session: &'static Session,
}

impl TableChange {
    /// The session whose attaches it changes.
    pub fn session(&self) -> &'static Session {
        self.session
    }
}

/// The attach table for this thread alone, if a call is about to change a range in which something
/// is attached.
///
/// What is unmapped without that is a range that no piece lies in; what the kernel gives to another
/// thread afterwards is not looked at any more.
pub fn change(start: usize, bytes: usize) -> Option<TableChange> {
    process::joined()?;
    if !pieces::may_touch(start, bytes) {
        return None;
    }
    let session = errno::untouched(current::session).ok()?;
    Some(TableChange { _changing: Changing::begin(), session })
}

/// Makes a call that unmaps a range, or covers it; `done` says whether it has.
pub fn replacing<T>(
    start: usize,
    bytes: usize,
    call: impl FnOnce() -> T,
    done: impl FnOnce(&T) -> bool,
) -> T {
    let bytes = bytes.checked_next_multiple_of(PAGE).unwrap_or(usize::MAX);
    errno::untouched(|| mapping_cache::drop_range(start, bytes));
    let change = change(start, bytes);
    let result = call();
    if done(&result) {
        user::forget();
        if let Some(change) = &change {
            pieces::forget_range(change.session().client(), start, bytes);
        }
    } else if let Some(change) = &change {
        reconcile::unmapped(change.session().client(), start, bytes);
    }
    result
}
