//! A POSIX queue by its id.

use rustix::io::Errno;
use vshmem_sync::load_value;

use crate::context::Context;
use crate::error::Failure;
use crate::msg::queue::{self, Queue, at};

/// A POSIX queue that a descriptor of this process keeps.
#[inline]
pub(crate) fn find(context: &Context, id: i32) -> Result<Queue, Failure> {
    let queue = queue::find_any(context, id).map_err(gone)?;
    match load_value(context.pool().map(), at!(queue, most_messages))? {
        0 => Err(Errno::BADF.into()),
        _ => Ok(queue),
    }
}

/// A queue that somebody has removed in spite of its descriptors is as a descriptor that is closed.
pub(crate) fn gone(failure: Failure) -> Failure {
    match failure {
        Failure::Errno(Errno::INVAL | Errno::IDRM) => Errno::BADF.into(),
        other => other,
    }
}
