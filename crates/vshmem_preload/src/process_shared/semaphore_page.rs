//! The page of a named semaphore, in this process's addresses.

use std::ptr::NonNull;

use vshmem_ipc::Errno;
use vshmem_mem::Protection;
use vshmem_session::Session;

use crate::attached::addresses::drop_mapping;
use crate::attached::attach_table::{Attaching, Marks, Piece, Rights};
use crate::attached::{mapping_cache, pieces};
use crate::mapping::{attach, user};

/// Attaches an object that this process has open.
///
/// # Errors
/// ENXIO as long as it has no memory; ENOMEM; EINVAL when there is no such object.
pub fn attach(session: &Session, id: i32) -> Result<NonNull<u8>, Errno> {
    let _attaching = Attaching::begin();
    let object = session.client().posix_shm_attach(id)?;
    let mapped = session.link().map(object.offset, object.bytes as usize, Protection::READ_WRITE);
    let entered = mapped.and_then(|mapping| {
        let start = mapping.leak();
        let (base, bytes) = (start.as_ptr().addr(), object.bytes as usize);
        // It is no attach of the program's, for shmdt.
        let marks = Marks::OF_DESCRIPTOR;
        let now = (libc::PROT_READ | libc::PROT_WRITE) as u32;
        let rights = Rights { now, writable: true, marks };
        let (attach, offset) = (attach::number(), object.offset);
        let piece = Piece { id, attach, start: base, bytes, base, offset, whole: bytes, rights };
        pieces::add(piece).map(|()| start).map_err(|_| {
            drop_mapping(base, bytes);
            Errno::NOMEM
        })
    });
    if entered.is_err() {
        // The count goes back; there is nothing else to do with a failure of that.
        let _ = session.client().shmdt(id);
    }
    entered
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
