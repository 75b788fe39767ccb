//! Opening a pool, and joining it.

use std::path::Path;
use std::sync::Arc;

use vshmem_ipc::{
    Backing, Client, DomainIdentity, Entry, Errno, Pool, Process, WAIT_WORDS_BEYOND, WaitFile,
    WaitPolicy, WakeScope,
};
use vshmem_link::{
    Anonymous, Life, Link, RegionError, Sleeping, domain_facts, open_wait_words, process_facts,
};
use vshmem_mem::{Map, Protection};
use vshmem_wire::PAGE_BYTES;

use crate::error::SessionError;
use crate::home_node::home_node;
use crate::host_record::host_record_of;
use crate::inspect::open_pool;

/// Refuses a copy of a pool: from then on there would be two pools, and no process would notice.
fn refuse_copy(link: &dyn Link, pool: &Pool) -> Result<(), SessionError> {
    let Some(file) = link.file() else { return Ok(()) };
    // A map too short for these words was refused before.
    if pool.is_copy(&host_record_of(file.device, file.inode)?).unwrap_or(false) {
        return Err(SessionError::Copy { name: pool.name(), path: link.path().to_owned() });
    }
    Ok(())
}

/// A pool that this process has joined.
#[derive(Debug)]
pub struct Session {
    link: Box<dyn Link>,
    this_client: Client,
    boot_id: [u8; 16],
}

impl Session {
    /// Joins the pool behind `link` as this process.
    ///
    /// # Errors
    /// Says what failed.
    pub fn join(link: Box<dyn Link>) -> Result<Self, SessionError> {
        Self::join_with(link, WaitPolicy::default())
    }

    /// As [`Session::join`]; `waits` says what this process's waiting threads do first.
    ///
    /// # Errors
    /// As [`Session::join`].
    pub fn join_with(link: Box<dyn Link>, waits: WaitPolicy) -> Result<Self, SessionError> {
        Self::join_as(link, own_domain()?, this_process(), waits, Entry::User)
    }

    /// As [`Session::join`], as a process of the domain that is named. For tests that need more
    /// domains than there are kernels.
    ///
    /// # Errors
    /// As [`Session::join`].
    pub fn join_in(link: Box<dyn Link>, identity: DomainIdentity) -> Result<Self, SessionError> {
        Self::join_as(link, identity, this_process(), WaitPolicy::default(), Entry::User)
    }

    /// As [`Session::join`], to carry out that this domain leaves the pool, or comes back: in a
    /// domain that has left, too.
    ///
    /// # Errors
    /// As [`Session::join`].
    pub fn join_to_leave(link: Box<dyn Link>) -> Result<Self, SessionError> {
        let waits = WaitPolicy::default();
        Self::join_as(link, own_domain()?, beside_this_process(), waits, Entry::Leaver)
    }

    /// As [`Session::join_with`], as a client beside the one that this process may be already: that
    /// of the library that answers its System V calls.
    ///
    /// # Errors
    /// As [`Session::join`].
    pub fn join_beside(link: Box<dyn Link>, waits: WaitPolicy) -> Result<Self, SessionError> {
        Self::join_as(link, own_domain()?, beside_this_process(), waits, Entry::User)
    }

    fn join_as(
        link: Box<dyn Link>,
        identity: DomainIdentity,
        process: Process,
        waits: WaitPolicy,
        entry: Entry,
    ) -> Result<Self, SessionError> {
        let pool = Arc::new(open_pool(link.as_ref())?);
        refuse_copy(link.as_ref(), &pool)?;
        let (words, wake_scope) = match link.capabilities().sleeping {
            Sleeping::InPool => (None, WakeScope::Kernel),
            Sleeping::InDomain => (Some(wait_file(&pool, link.path())?), WakeScope::Domain),
        };
        let name = pool.name();
        let over = (&is_gone as _, entry);
        let this_client =
            Client::join_over_dead(pool, &identity, process, words, (wake_scope, waits), over)
                .map_err(|error| SessionError::Join { name, error })?;
        if let Some(doorbell) = link.doorbell() {
            this_client.use_doorbell(doorbell);
        }
        link.register_process();
        Ok(Self { link, this_client, boot_id: identity.boot_id })
    }

    /// Boot id of this kernel.
    #[must_use]
    pub fn boot_id(&self) -> [u8; 16] {
        self.boot_id
    }

    /// The link.
    #[must_use]
    pub fn link(&self) -> &dyn Link {
        self.link.as_ref()
    }

    /// In a child that does not inherit mappings ([`vshmem_link::Capabilities`]), first: keeps the
    /// addresses of the pool's tables from being used for something else.
    ///
    /// # Errors
    /// EEXIST when they are used already.
    pub fn reserve_tables(&self) -> Result<(), Errno> {
        let map = self.this_client.pool().map();
        vshmem_mem::reserve(map.start(), map.bytes() as usize)
    }

    /// Then: maps the tables again, where they were. Makes no use of the heap.
    ///
    /// # Errors
    /// What the link says.
    pub fn renew_tables(&self) -> Result<(), Errno> {
        let map = self.this_client.pool().map();
        let (start, bytes) = (map.start(), map.bytes() as usize);
        // SAFETY: the range was just reserved, and the map finds the same memory there as before.
        #[allow(unsafe_code)]
        let mapped = unsafe { self.link.map_at(0, bytes, Protection::READ_WRITE, start) }?;
        mapped.leak();
        Ok(())
    }

    /// Leaves the pool; the process goes on and is no client any more.
    ///
    /// # Errors
    /// As [`Client::leave`].
    pub fn leave(self) -> Result<(), Errno> {
        self.this_client.leave()
    }

    /// This process's place in the pool.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.this_client
    }
}

/// The wait words of this user, found or made.
fn wait_file(pool: &Pool, device: &Path) -> Result<WaitFile, RegionError> {
    let superblock = pool.superblock();
    // One for each thread slot, and those of the agent.
    let bytes = (superblock.geometry.threads + WAIT_WORDS_BEYOND) as usize * 4;
    let uid = rustix::process::geteuid().as_raw();
    let known = || pool.wait_files_of(uid).unwrap_or_default();
    let own = open_wait_words(&superblock.uuid, bytes, device, &known)?;
    let words = Arc::new(Map::of(own.mapping));
    Ok(WaitFile::new(words, own.owner, Arc::new(own.other_users)))
}

/// The domain of this process.
fn own_domain() -> Result<DomainIdentity, Anonymous> {
    let facts = domain_facts()?;
    Ok(DomainIdentity {
        boot_id: facts.boot_id,
        pid_namespace: facts.pid_namespace,
        born: facts.born,
        name: facts.name,
        named: facts.named,
    })
}

/// To be asked in a child that has just been forked: its domain, if it may be another one than its
/// parent's. A parent that is outside the child's PID namespace has no pid there.
///
/// # Errors
/// When it may be another one, and which one is not known.
pub fn domain_of_child() -> Result<Option<DomainIdentity>, SessionError> {
    match rustix::process::getppid() {
        Some(_) => Ok(None),
        None => Ok(Some(own_domain()?)),
    }
}

/// Whether a process of this domain has ended, or its pid is another's by now.
#[must_use]
pub fn is_gone(pid: u32, start: u64) -> bool {
    !Life::of(pid, start).goes_on()
}

/// This process, as a pool knows it.
#[must_use]
pub fn this_process() -> Process {
    let facts = process_facts();
    Process { pid: facts.pid, start: facts.start, uid: facts.uid }
}

/// This process, as a client beside the one that it may be already. The start time is given as
/// unknown, so that it is not taken for that one: an unknown start time is not compared.
fn beside_this_process() -> Process {
    Process { start: 0, ..this_process() }
}

impl Session {
    /// Maps data pages for a short time, to back them or write zeros.
    fn data(&self, offset: u64, bytes: u64, protection: Protection) -> Result<Map, Errno> {
        let bytes = usize::try_from(bytes).map_err(|_| Errno::NOMEM)?;
        self.link.map(offset, bytes, protection).map(Map::of)
    }
}

impl Backing for Session {
    fn prepare(&self, offset: u64, bytes: u64, dirty: bool) -> Result<(), Errno> {
        self.link.back(offset, bytes, dirty)
    }

    fn zero(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        if bytes == 0 { Ok(()) } else { self.link.zero(offset, bytes) }
    }

    fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), Errno> {
        let source = self.data(from, bytes, Protection::default())?;
        let target = self.data(to, bytes, Protection::READ_WRITE)?;
        let mut buffer = [0; PAGE_BYTES as usize];
        for at in (0..bytes).step_by(buffer.len()) {
            let part = &mut buffer[..(bytes - at).min(PAGE_BYTES) as usize];
            source.read(at, part).map_err(|_| Errno::IO)?;
            target.write(at, part).map_err(|_| Errno::IO)?;
        }
        Ok(())
    }

    fn node(&self) -> Option<u32> {
        home_node(self.link.as_ref())
    }
}
