//! The public face of a client: POSIX message queues.

use rustix::io::Errno;

use crate::api::client::Client;
use crate::api::errno::answer;
use crate::msg::posix::attributes::{self, PosixQueueStat};
use crate::msg::posix::mq_notify::{self, RegistrationEnd};
use crate::msg::posix::open::{self, QueueOpen};
use crate::msg::posix::{descriptors, transfer, unlink};
use crate::msg::queue::{Wait, find_posix};
use crate::msg::waiters::Deliver;
use crate::registry::permission::Caller;
use crate::registry::table;

impl Client {
    /// mq_open(3), by the name behind its slash: the queue's id. Counts one descriptor.
    ///
    /// # Errors
    /// As the man page says; ENFILE when the pool cannot count another descriptor.
    pub fn mq_open(&self, name: &[u8], how: &QueueOpen, caller: &dyn Caller) -> Result<i32, Errno> {
        self.refuse_while_leaving()?;
        answer(self.pool(), open::open(&self.context, name, how, caller))
    }

    /// mq_unlink(3), by the name behind its slash.
    ///
    /// # Errors
    /// EACCES, ENOENT; EPERM where mq_unlink(3) gives EACCES to others than the owner.
    pub fn mq_unlink(&self, name: &[u8], caller: &dyn Caller) -> Result<(), Errno> {
        answer(self.pool(), unlink::unlink(&self.context, name, caller))
    }

    /// One descriptor more of a queue: by dup(2), or from another process.
    ///
    /// # Errors
    /// EBADF when the queue has gone, ENFILE when the pool cannot count it.
    pub fn mq_keep(&self, id: i32) -> Result<(), Errno> {
        answer(self.pool(), descriptors::keep(&self.context, id))
    }

    /// mq_close(3): one descriptor less. The process's registration for a notice ends.
    ///
    /// # Errors
    /// EBADF when the queue has gone.
    pub fn mq_close(&self, id: i32) -> Result<(), Errno> {
        answer(self.pool(), descriptors::close(&self.context, id))
    }

    /// Sends a short message if nothing stands in the way; says whether it did. If not, nothing has
    /// happened: [`Self::mq_send`] does it, or says why not.
    #[inline(always)]
    #[must_use]
    pub fn mq_send_at_once(&self, id: i32, message: &[u8], priority: u32) -> bool {
        transfer::send_at_once(&self.context, id, message, priority)
    }

    /// Takes a short message if nothing stands in the way: its bytes. `is_ready` is asked, with the
    /// size, whether there is a place for it; `deliver` is given the priority and the message, if
    /// it is taken. If not, nothing has happened: [`Self::mq_receive`] does it, or says why not.
    #[inline(always)]
    #[must_use]
    pub fn mq_receive_at_once(
        &self,
        id: i32,
        room: usize,
        is_ready: impl FnOnce(usize) -> bool,
        deliver: impl FnOnce(u32, &[u8]),
    ) -> Option<usize> {
        transfer::receive_at_once(&self.context, id, room, is_ready, deliver)
    }

    /// mq_timedsend(3). If the message ends a registration of this process that has a number
    /// ([`Self::mq_await_first_message`]), that number: the caller is to tell the process.
    ///
    /// # Errors
    /// As the man page says.
    #[inline]
    pub fn mq_send(
        &self,
        id: i32,
        message: &[u8],
        priority: u32,
        wait: Wait,
    ) -> Result<Option<u64>, Errno> {
        answer(self.pool(), transfer::send(&self.context, id, message, priority, wait))
    }

    /// mq_timedreceive(3). `deliver` is given the priority and the message, once at most; its
    /// answer is the call's.
    ///
    /// # Errors
    /// As the man page says.
    #[inline]
    pub fn mq_receive(
        &self,
        id: i32,
        room: usize,
        wait: Wait,
        deliver: &mut Deliver<'_>,
    ) -> Result<usize, Errno> {
        answer(self.pool(), transfer::receive(&self.context, id, room, wait, deliver))
    }

    /// mq_getattr(3), and what fstat(2) says of a descriptor.
    ///
    /// # Errors
    /// EBADF when the queue has gone.
    pub fn mq_stat(&self, id: i32) -> Result<PosixQueueStat, Errno> {
        answer(self.pool(), attributes::stat(&self.context, id))
    }

    /// A number that no other queue of this id has, or has had.
    ///
    /// # Errors
    /// EBADF when the queue has gone.
    pub fn mq_generation(&self, id: i32) -> Result<u64, Errno> {
        let of = |slot| Ok(table::generation(self.pool().map(), slot)?);
        answer(self.pool(), find_posix(&self.context, id).and_then(|queue| of(queue.slot.header())))
    }

    /// fchmod(2) and fchown(2) of a descriptor.
    ///
    /// # Errors
    /// EPERM, EBADF.
    pub fn mq_set_owner(
        &self,
        id: i32,
        owner: (Option<u32>, Option<u32>),
        mode: Option<u32>,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        answer(self.pool(), attributes::set_owner(&self.context, id, owner, mode, caller))
    }

    /// mq_notify(3), for the calling thread: calls `registered` once it is to be told, and waits
    /// until a message comes to the empty queue, or the registration is taken back. With a `number`
    /// other than 0 a sender of this process is given that ([`Self::mq_send`]), and this thread
    /// [`RegistrationEnd::OwnMessage`].
    ///
    /// # Errors
    /// EBUSY when somebody is registered; EBADF when the queue has gone.
    pub fn mq_await_first_message(
        &self,
        id: i32,
        number: u64,
        registered: &mut dyn FnMut(),
    ) -> Result<RegistrationEnd, Errno> {
        answer(self.pool(), mq_notify::await_first_message(&self.context, id, number, registered))
    }

    /// mq_notify(3) with nothing: takes this process's registration back, if there is one.
    ///
    /// # Errors
    /// EBADF when the queue has gone.
    pub fn mq_unregister(&self, id: i32) -> Result<(), Errno> {
        answer(self.pool(), mq_notify::unregister(&self.context, id))
    }
}
