//! Attaching by id, whatever has that id.

use vshmem_ipc::{Attachment, Errno};
use vshmem_session::Session;

use crate::caller::Credentials;

/// Attaches memory by its id: a segment, or a POSIX object.
pub fn attach_any(session: &Session, id: i32) -> Result<Attachment, Errno> {
    let this_client = session.client();
    match this_client.shmat(id, true, false, &Credentials) {
        Err(Errno::INVAL) => match this_client.posix_shm_attach(id) {
            // The object has no memory yet, so it is shorter than what the caller asks for.
            Err(Errno::NXIO) => Err(Errno::INVAL),
            attached => attached,
        },
        attached => attached,
    }
}
