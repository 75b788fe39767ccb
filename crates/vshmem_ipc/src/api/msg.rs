//! The public face of a client: message queues.

use rustix::io::Errno;

use crate::api::client::Client;
use crate::api::errno::answer;
use crate::msg::queue::{MsgInfo, QueueStat, Receive};
use crate::msg::waiters::Deliver;
use crate::msg::{create, fast_receive, fast_send, receive, remove, send, status};
use crate::registry::permission::Caller;

impl Client {
    /// msgget(2).
    ///
    /// # Errors
    /// As the man page says.
    pub fn msgget(&self, key: i32, flags: i32, caller: &dyn Caller) -> Result<i32, Errno> {
        self.refuse_while_leaving()?;
        answer(self.pool(), create::msgget(&self.context, key, flags, caller))
    }

    /// Takes a message if nothing stands in the way: its bytes. `is_ready` is asked, with the size,
    /// whether there is a place for it; `deliver` is given the type and the payload, if it is
    /// taken. If not, nothing has happened: [`Self::msgrcv`] does it, or says why not.
    #[inline(always)]
    #[must_use]
    pub fn msgrcv_at_once(
        &self,
        id: i32,
        wanted: Receive,
        caller: &impl Caller,
        is_ready: impl FnOnce(usize) -> bool,
        deliver: impl FnOnce(i64, &[u8]),
    ) -> Option<usize> {
        fast_receive::msgrcv_at_once(&self.context, id, wanted, caller, is_ready, deliver)
    }

    /// Sends a message if nothing stands in the way; says whether it did. If not, nothing has
    /// happened: [`Self::msgsnd`] does it, or says why not.
    #[inline(always)]
    #[must_use]
    pub fn msgsnd_at_once(&self, id: i32, kind: i64, payload: &[u8], caller: &impl Caller) -> bool {
        fast_send::msgsnd_at_once(&self.context, id, kind, payload, caller).is_some()
    }

    /// msgrcv(2). `deliver` is given the type and the payload, and is called once at most; its
    /// answer is the call's.
    ///
    /// # Errors
    /// As the man page says.
    pub fn msgrcv(
        &self,
        id: i32,
        wanted: Receive,
        caller: &dyn Caller,
        deliver: &mut Deliver<'_>,
    ) -> Result<usize, Errno> {
        answer(self.pool(), receive::msgrcv(&self.context, id, wanted, caller, deliver))
    }

    /// IPC_RMID.
    ///
    /// # Errors
    /// EINVAL, EPERM.
    pub fn queue_remove(&self, id: i32, caller: &dyn Caller) -> Result<(), Errno> {
        answer(self.pool(), remove::queue_remove(&self.context, id, caller))
    }

    /// msgsnd(2).
    ///
    /// # Errors
    /// As the man page says.
    pub fn msgsnd(
        &self,
        id: i32,
        kind: i64,
        payload: &[u8],
        no_wait: bool,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        answer(self.pool(), send::msgsnd(&self.context, id, kind, payload, no_wait, caller))
    }

    /// IPC_SET.
    ///
    /// # Errors
    /// EINVAL, EPERM.
    pub fn queue_change(
        &self,
        id: i32,
        uid: u32,
        gid: u32,
        mode: u32,
        limit: u64,
        caller: &dyn Caller,
    ) -> Result<(), Errno> {
        answer(self.pool(), status::queue_change(&self.context, id, uid, gid, mode, limit, caller))
    }

    /// IPC_STAT.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn queue_stat(&self, id: i32, caller: &dyn Caller) -> Result<QueueStat, Errno> {
        answer(self.pool(), status::queue_stat(&self.context, id, caller))
    }

    /// MSG_STAT (`any` false) and MSG_STAT_ANY.
    ///
    /// # Errors
    /// EINVAL, EACCES.
    pub fn queue_at_index(
        &self,
        index: u32,
        any: bool,
        caller: &dyn Caller,
    ) -> Result<QueueStat, Errno> {
        answer(self.pool(), status::queue_at_index(&self.context, index, any, caller))
    }

    /// MSG_INFO.
    ///
    /// # Errors
    /// EIO when the pool is corrupt.
    pub fn msg_info(&self) -> Result<MsgInfo, Errno> {
        answer(self.pool(), status::msg_info(&self.context))
    }
}
