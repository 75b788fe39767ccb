//! The public face of a client: POSIX shared memory objects. A name is given without its slash.

use rustix::io::Errno;

use crate::api::client::Client;
use crate::api::errno::answer;
use crate::memory::backing::Backing;
use crate::registry::permission::Caller;
use crate::registry::table;
use crate::shm::posix::object::{PosixOpen, PosixShmStat};
use crate::shm::posix::open::Beginning;
use crate::shm::posix::places::{self, SeenPlace};
use crate::shm::posix::{descriptors, object, open, rename, size, status, unlink};
use crate::shm::segment::Attachment;

impl Client {
    /// shm_open(3): the id of the object, of which this process has one more descriptor.
    ///
    /// # Errors
    /// As the man page says; ENOSPC when the pool has no room for a name, ENFILE when it has no
    /// attach record left.
    pub fn posix_shm_open(
        &self,
        name: &[u8],
        how: PosixOpen,
        caller: &dyn Caller,
        backing: &dyn Backing,
    ) -> Result<i32, Errno> {
        let empty = Beginning { bytes: 0, fill: &|_| Ok(()) };
        self.posix_shm_open_filled(name, how, empty, caller, backing)
    }

    /// As [`Client::posix_shm_open`]. An object that it makes has its size and content before
    /// others can find it, so they never see it without.
    ///
    /// # Errors
    /// As [`Client::posix_shm_open`] and [`Client::posix_shm_set_size`], and what `fill` answers.
    pub fn posix_shm_open_filled(
        &self,
        name: &[u8],
        how: PosixOpen,
        beginning: Beginning<'_>,
        caller: &dyn Caller,
        backing: &dyn Backing,
    ) -> Result<i32, Errno> {
        self.refuse_while_leaving()?;
        answer(self.pool(), open::open(&self.context, name, how, beginning, caller, backing))
    }

    /// shm_unlink(3).
    ///
    /// # Errors
    /// As the man page says.
    pub fn posix_shm_unlink(&self, name: &[u8], caller: &dyn Caller) -> Result<(), Errno> {
        answer(self.pool(), unlink::unlink(&self.context, name, caller))
    }

    /// rename(2), in one step for all others: what has the new name already loses it, as by
    /// [`Client::posix_shm_unlink`], if `replaces`; else that is EEXIST.
    ///
    /// # Errors
    /// ENOENT; EPERM when the caller owns only one of the two; ENOSPC when the pool has no room for
    /// the name.
    pub fn posix_shm_rename(
        &self,
        from: &[u8],
        to: &[u8],
        replaces: bool,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        answer(self.pool(), rename::rename(&self.context, (from, to), replaces, caller))
    }

    /// The id of the object of a name, which is not opened by this.
    ///
    /// # Errors
    /// ENOENT when there is none.
    pub fn posix_shm_find(&self, name: &[u8]) -> Result<i32, Errno> {
        answer(self.pool(), status::find(&self.context, name))
    }

    /// access(2) of an object; `wanted` is its mode.
    ///
    /// # Errors
    /// EACCES when the caller may not; EINVAL when there is no such object.
    pub fn posix_shm_access(&self, id: i32, wanted: u32, caller: &dyn Caller) -> Result<(), Errno> {
        answer(self.pool(), status::access(&self.context, id, wanted, caller))
    }

    /// ftruncate(2). Memory stands behind the whole object when it returns. Beyond the memory that
    /// it has ([`PosixShmStat::capacity`]), an object grows only while no client has it attached.
    ///
    /// # Errors
    /// ENOSPC when the pool has no room, or the object cannot grow because it is attached; EFBIG
    /// above SHMMAX; EINVAL when there is no such object.
    pub fn posix_shm_set_size(
        &self,
        id: i32,
        bytes: u64,
        backing: &dyn Backing,
    ) -> Result<(), Errno> {
        answer(self.pool(), size::set_size(&self.context, id, bytes, backing))
    }

    /// What a write(2) behind the end does: makes the object so long, if it is shorter. Where its
    /// memory has to move for that, it gets room for `spare` bytes more.
    ///
    /// # Errors
    /// As [`Client::posix_shm_set_size`].
    pub fn posix_shm_extend(
        &self,
        id: i32,
        bytes: u64,
        spare: u64,
        backing: &dyn Backing,
    ) -> Result<(), Errno> {
        answer(self.pool(), size::extend(&self.context, id, bytes, spare, backing))
    }

    /// fstat(2).
    ///
    /// # Errors
    /// EINVAL when there is no such object.
    pub fn posix_shm_stat(&self, id: i32) -> Result<PosixShmStat, Errno> {
        answer(self.pool(), status::stat(&self.context, id))
    }

    /// A number that no other object of this id has, or has had.
    ///
    /// # Errors
    /// EINVAL when there is no such object.
    pub fn posix_shm_generation(&self, id: i32) -> Result<u64, Errno> {
        let of = |slot| Ok(table::generation(self.pool().map(), slot)?);
        answer(
            self.pool(),
            object::find(&self.context, id).and_then(|object| of(object.slot.header())),
        )
    }

    /// Where a file behind the object's descriptors may be found open in this domain.
    ///
    /// # Errors
    /// EINVAL when there is no such object.
    pub fn posix_shm_seen_place(&self, id: i32) -> Result<SeenPlace, Errno> {
        answer(self.pool(), places::seen(&self.context, id))
    }

    /// Notes the descriptor `file` of this process instead of what was seen. False when another one
    /// was noted meanwhile.
    ///
    /// # Errors
    /// EINVAL when there is no such object.
    pub fn posix_shm_note_place(&self, id: i32, seen: SeenPlace, file: u32) -> Result<bool, Errno> {
        answer(self.pool(), places::note(&self.context, id, seen, file))
    }

    /// The object's name.
    ///
    /// # Errors
    /// ENOENT when it has none any more; EINVAL when there is no such object.
    pub fn posix_shm_name(&self, id: i32) -> Result<Vec<u8>, Errno> {
        answer(self.pool(), status::name_of(&self.context, id)).map(|name| name.to_vec())
    }

    /// fchmod(2).
    ///
    /// # Errors
    /// EPERM for another than the owner; EINVAL when there is no such object.
    pub fn posix_shm_set_mode(&self, id: i32, mode: u32, caller: &dyn Caller) -> Result<(), Errno> {
        answer(self.pool(), status::set_mode(&self.context, id, mode, caller))
    }

    /// fchown(2); what is `None` stays.
    ///
    /// # Errors
    /// EPERM when the caller may not; EINVAL when there is no such object.
    pub fn posix_shm_set_owner(
        &self,
        id: i32,
        uid: Option<u32>,
        gid: Option<u32>,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        answer(self.pool(), status::set_owner(&self.context, id, uid, gid, caller))
    }

    /// The shared part of mmap(2) of a descriptor: counts an attach, and says where the object's
    /// memory lies. No mode is looked at: that was when it was opened. [`Client::attach_again`]
    /// counts further ones, [`Client::shmdt`] gives one up.
    ///
    /// # Errors
    /// ENXIO as long as the object has no memory; ENOMEM; EINVAL when there is no such object.
    pub fn posix_shm_attach(&self, id: i32) -> Result<Attachment, Errno> {
        answer(self.pool(), descriptors::attach_object(&self.context, id))
    }

    /// One more descriptor of this process: it has come by dup(2), from another process, or through
    /// an exec.
    ///
    /// # Errors
    /// EINVAL when the object has gone, ENFILE when the pool has no attach record left.
    pub fn posix_shm_keep(&self, id: i32) -> Result<(), Errno> {
        answer(self.pool(), descriptors::keep(&self.context, id))
    }

    /// One descriptor of this process less: the object goes with the last one of all processes if
    /// it has been unlinked and nobody has it attached.
    ///
    /// # Errors
    /// EINVAL when this process has none.
    pub fn posix_shm_close(&self, id: i32) -> Result<(), Errno> {
        answer(self.pool(), descriptors::close(&self.context, id))
    }

    /// For a program that has just been exec'ed: the descriptors that it has found, as id and
    /// count. Those that the program before it had and that are not among them are closed.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn posix_shm_keep_only(&self, found: &[(i32, u32)]) -> Result<(), Errno> {
        answer(self.pool(), descriptors::keep_only(&self.context, found))
    }
}
