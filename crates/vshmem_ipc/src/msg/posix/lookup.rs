//! A POSIX queue by its id.

use rustix::io::Errno;

use crate::context::Context;
use crate::error::Failure;
use crate::msg::queue::{self, Queue};

/// A POSIX queue that a descriptor of this process keeps.
#[inline]
pub(crate) fn find(context: &Context, id: i32) -> Result<Queue, Failure> {
    let queue = queue::find_any(context, id).map_err(gone)?;
    if !queue.is_posix(context.pool().map())? {
        return Err(Errno::BADF.into());
    }
    if queue.is_known_as_system_v(context) {
        // The id has come back.
        context.ring_hints.forget_system_v(queue.index);
    }
    Ok(queue)
}

/// A queue that somebody has removed in spite of its descriptors is as a descriptor that is closed.
pub(crate) fn gone(failure: Failure) -> Failure {
    match failure {
        Failure::Errno(Errno::INVAL | Errno::IDRM) => Errno::BADF.into(),
        other => other,
    }
}
