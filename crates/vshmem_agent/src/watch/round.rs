//! The rounds, and the sleep between them.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vshmem_ipc::{Client, Errno, Lease, LocalClient};
use vshmem_link::Link;
use vshmem_session::{Role, RoleLock, Session};

use super::clients::Clients;
use super::dead_domains::DeadDomains;
use super::doorbell::DoorbellListener;
use super::host_heartbeat::HostHeartbeat;
use super::namespaces::Namespaces;
use super::period::ROUND;
use super::silent_domains::SilentDomains;
use super::twins;
use crate::cleaner::CleanerHandle;
use crate::departure::{DEPARTURE_STEP, Departure, Progress};
use crate::notify::Notifier;
use crate::stay::Stay;

/// How long the last client has to be gone before the agent goes as well.
const IDLE: Duration = Duration::from_secs(5);

/// Why the rounds have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// No client is left.
    Idle,
    /// This domain has been evicted or declared dead.
    Evicted,
    /// The pool is corrupt.
    Broken,
    /// Another process is the agent of this domain.
    Replaced,
    /// This domain has left the pool, and only the agent is there.
    Left,
}

/// What the agent looks after.
pub struct Watch<'a> {
    link: &'a dyn Link,
    this_client: &'a Client,
    lock: &'a RoleLock,
    path: &'a Path,
    /// Whether the pool is a file of this machine, rather than a device that the host gave it.
    on_host: bool,
    /// By which this domain was distinguished from others when the agent joined.
    boot_id: [u8; 16],
    doorbell: DoorbellListener,
    host_heartbeat: HostHeartbeat,
    clients: Clients,
    namespaces: Namespaces,
    dead_domains: DeadDomains,
    silent_domains: SilentDomains,
    stay: Stay,
    alone_since: Option<Instant>,
    /// What carries out that this domain leaves, once that was asked for.
    departure: Option<Departure<'a>>,
    session: &'a Session,
    cleaner: Option<CleanerHandle>,
    /// Datagrams, where an operator has configured them.
    notifier: Option<&'a Notifier<'a>>,
}

/// What the agent was woken for.
#[derive(Debug, Default)]
struct Wakeup {
    /// Clients that have ended.
    ended: Vec<LocalClient>,
    /// A PID namespace below this one has ended.
    namespace_ended: bool,
    /// The domain was notified.
    notified: bool,
    /// The link has reported the end of a process.
    ends_reported: bool,
}

impl<'a> Watch<'a> {
    /// Before the first round.
    pub fn new(
        session: &'a Session,
        lock: &'a RoleLock,
        path: &'a Path,
        stay: Stay,
        cleaner: Option<CleanerHandle>,
        notifier: Option<&'a Notifier<'a>>,
    ) -> Self {
        let on_host = session.link().file().is_some();
        Self {
            link: session.link(),
            this_client: session.client(),
            lock,
            path,
            on_host,
            boot_id: session.boot_id(),
            doorbell: DoorbellListener::open(session.link()),
            host_heartbeat: HostHeartbeat::new(on_host),
            clients: Clients::default(),
            namespaces: Namespaces::new(),
            dead_domains: DeadDomains::default(),
            silent_domains: SilentDomains::default(),
            stay,
            alone_since: None,
            departure: None,
            session,
            cleaner,
            notifier,
        }
    }

    /// Makes rounds until there is a reason to end.
    pub fn run(mut self, lease: &mut Lease) -> Ending {
        loop {
            match self.round(lease) {
                Ok(None) => self.sleep(),
                Ok(Some(ending)) => return ending,
                Err(_) => return Ending::Broken,
            }
        }
    }

    fn round(&mut self, lease: &mut Lease) -> Result<Option<Ending>, Errno> {
        let this_client = self.this_client;
        // Before all else: what a copy has evicted shows as evicted, too.
        let other = this_client.renew_lease(std::process::id(), lease)?;
        if let Some(ending) = other.and_then(|pid| self.ending_by(pid)) {
            return Ok(Some(ending));
        }
        if this_client.is_drained()? {
            return self.depart();
        }
        if !this_client.is_active_member()? {
            return Ok(Some(Ending::Evicted));
        }
        this_client.publish_address()?;
        if let Some(notifier) = self.notifier {
            notifier.round()?;
        }
        self.doorbell.round(this_client)?;
        if self.host_heartbeat.evict_if_copied(this_client)? {
            return Ok(Some(Ending::Evicted));
        }
        self.clients.update(this_client)?;
        self.clients.recover_dead(this_client)?;
        self.namespaces.refresh(this_client)?;
        self.namespaces.reap_dead(this_client)?;
        self.dead_domains.finish(this_client)?;
        self.check_server()?;
        this_client
            .free_joining_slots(this_client.domain(), &|pid| vshmem_session::is_gone(pid, 0))?;
        this_client.reclaim_some()?;
        self.silent_domains.evict_silent(this_client)?;
        if let Some(cleaner) = &self.cleaner {
            cleaner.wake();
        }
        Ok(self.is_idle()?.then_some(Ending::Idle))
    }

    /// A step of carrying out that this domain leaves the pool. Where that cannot be done here, who
    /// has asked for it evicts the domain.
    fn depart(&mut self) -> Result<Option<Ending>, Errno> {
        if self.departure.is_none() {
            self.departure = Departure::new(self.session).ok();
        }
        let Some(departure) = &self.departure else { return Ok(None) };
        Ok((departure.step()? == Progress::Done).then_some(Ending::Left))
    }

    /// What follows when an agent of this pid has written the lease.
    fn ending_by(&self, pid: u32) -> Option<Ending> {
        // A member that wrote this word of a host's domain would have all its programs cut off, and
        // a host is not copied.
        if self.on_host {
            return None;
        }
        // In a container with the guest's PID namespace and a device node of its own.
        if pid != 0 && pid != std::process::id() && !vshmem_session::is_gone(pid, 0) {
            return Some(Ending::Replaced);
        }
        twins::part(self.this_client, self.boot_id);
        Some(Ending::Evicted)
    }

    /// Without a server (`vshmem pool serve`) no process forwards notifications to this host or
    /// from it, so no waiter is to rely on being notified.
    fn check_server(&self) -> Result<(), Errno> {
        if self.on_host && !Role::Server.is_held(self.path) {
            self.this_client.lose_doorbells()?;
        }
        Ok(())
    }

    fn is_idle(&mut self) -> Result<bool, Errno> {
        if !self.clients.is_empty() || self.namespaces.are_in_use(self.this_client)? {
            self.alone_since = None;
            return Ok(false);
        }
        let since = *self.alone_since.get_or_insert_with(Instant::now);
        let may_leave = self.stay == Stay::WhileInUse && since.elapsed() >= IDLE;
        Ok(may_leave || self.lock.is_orphaned(self.path))
    }

    /// Sleeps for a round. Meanwhile, wakes threads when the domain is notified, and recovers
    /// clients as soon as they die.
    fn sleep(&mut self) {
        let pause = if self.departure.is_some() { DEPARTURE_STEP } else { ROUND };
        let end = Instant::now() + pause;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let wakeup = self.wait(left);
            if wakeup.notified {
                self.doorbell.answer(self.this_client);
            }
            if self.recover(&wakeup).is_err() {
                // The round that follows fails in the same way and ends the watch.
                return;
            }
        }
    }

    fn recover(&mut self, wakeup: &Wakeup) -> Result<(), Errno> {
        if !wakeup.ended.is_empty() {
            self.clients.mark_ended(&wakeup.ended);
            self.clients.recover_dead(self.this_client)?;
            self.check_server()?;
        }
        if wakeup.namespace_ended {
            self.namespaces.reap_dead(self.this_client)?;
        }
        // The link has reported ends: maybe of processes that are too new to be known here.
        if wakeup.ends_reported
            && let Some(descriptor) = self.doorbell.descriptor()
            && !self.link.ended_processes(descriptor).is_empty()
        {
            self.clients.update(self.this_client)?;
            self.clients.recover_dead(self.this_client)?;
        }
        Ok(())
    }

    /// What happens within a time.
    fn wait(&self, within: Duration) -> Wakeup {
        let readable = |handle| PollFd::from_borrowed_fd(handle, PollFlags::IN);
        let clients: Vec<(LocalClient, _)> = self.clients.handles().collect();
        let mut looks: Vec<PollFd<'_>> =
            clients.iter().map(|(_, handle)| readable(*handle)).collect();
        looks.extend(self.namespaces.handles().map(readable));
        let namespaces = clients.len()..looks.len();
        if let Some(descriptor) = self.doorbell.descriptor() {
            looks.push(PollFd::from_borrowed_fd(descriptor, PollFlags::IN | PollFlags::PRI));
        }
        let timeout =
            Timespec { tv_sec: within.as_secs() as i64, tv_nsec: i64::from(within.subsec_nanos()) };
        // An error (EINTR, ENOMEM) is as good as nothing to report.
        if poll(&mut looks, Some(&timeout)).is_err() {
            return Wakeup::default();
        }
        let has_news = |look: &PollFd<'_>| !look.revents().is_empty();
        let ended = looks.iter().zip(&clients).filter(|(look, _)| has_news(look));
        let notice = looks.get(namespaces.end).map_or(PollFlags::empty(), PollFd::revents);
        Wakeup {
            ended: ended.map(|(_, (local_client, _))| *local_client).collect(),
            namespace_ended: looks[namespaces].iter().any(has_news),
            // A device that is gone hangs up: reading it says so.
            notified: notice.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
            ends_reported: notice.contains(PollFlags::PRI),
        }
    }
}
