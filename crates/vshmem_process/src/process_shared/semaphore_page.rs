//! The page of a named semaphore, in this process's addresses.

use std::ptr::NonNull;

use vshmem_ipc::{Attachment, Errno};
use vshmem_mem::Protection;
use vshmem_session::Session;

use crate::attached::attach_table::{Attaching, Marks, Piece, Rights};
use crate::attached::{mapping_cache, pieces};
use crate::mapping::{attach, user};

/// Attaches an object that this process has open.
///
/// # Errors
/// ENXIO as long as it has no memory; ENOMEM; EINVAL when there is no such object.
pub fn attach(session: &Session, id: i32) -> Result<NonNull<u8>, Errno> {
    let _attaching = Attaching::begin();
    let now = (libc::PROT_READ | libc::PROT_WRITE) as u32;
    // It is no attach of the program's, for shmdt.
    let rights = Rights { now, writable: true, marks: Marks::OF_DESCRIPTOR };
    let map = |object: Attachment| {
        let bytes = object.bytes as usize;
        let mapping = session.link().map(object.offset, bytes, Protection::READ_WRITE)?;
        Ok(mapping.leak())
    };
    let count = || session.client().posix_shm_attach(id);
    attach::counted(session, count, map, |object, start| attach::whole(object, start, rights))
}

/// Detaches what [`attach()`] has attached there.
pub fn detach(session: &Session, id: i32, start: usize) {
    let _attaching = Attaching::begin();
    let is_it = |piece: Piece| {
        (piece.id, piece.start) == (id, start) && piece.rights.marks.has(Marks::OF_DESCRIPTOR)
    };
    if let Some(piece) = pieces::take(is_it) {
        mapping_cache::detach(piece);
        let _ = session.client().shmdt(id);
    }
    user::forget();
}
