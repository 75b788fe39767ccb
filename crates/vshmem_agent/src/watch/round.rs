//! The rounds, and the sleep between them.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vshmem_ipc::{Errno, Member, Resident};
use vshmem_link::Link;
use vshmem_session::{Duty, Post, Session};

use super::clients::Clients;
use super::doorbell::Doorbell;
use super::host::Host;
use super::leases::Leases;
use super::namespaces::Namespaces;
use super::period::ROUND;
use crate::clean::Poke;
use crate::notify::Notifier;

/// How long the last client has to be gone before the agent goes as well.
const IDLE: Duration = Duration::from_secs(5);

/// Why the rounds have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Nobody is left.
    Idle,
    /// This domain has been evicted or declared dead.
    Evicted,
    /// The pool does not make sense.
    Broken,
}

/// What the agent looks after.
pub struct Watch<'a> {
    link: &'a dyn Link,
    member: &'a Member,
    lock: &'a Post,
    place: &'a Path,
    /// Whether the pool is a file of this machine, rather than lent to it.
    on_host: bool,
    doorbell: Doorbell,
    host: Host,
    clients: Clients,
    namespaces: Namespaces,
    leases: Leases,
    alone_since: Option<Instant>,
    poke: Option<Poke>,
    /// Datagrams, where an operator has configured them.
    notifier: Option<&'a Notifier<'a>>,
}

/// What the agent was woken for.
#[derive(Debug, Default)]
struct News {
    /// Clients that have ended.
    ended: Vec<Resident>,
    /// A PID namespace below this one has ended.
    namespace_ended: bool,
    /// The domain was rung.
    rung: bool,
    /// The link has told of the end of a process.
    told: bool,
}

impl<'a> Watch<'a> {
    /// Before the first round.
    pub fn new(
        session: &'a Session,
        lock: &'a Post,
        place: &'a Path,
        poke: Option<Poke>,
        notifier: Option<&'a Notifier<'a>>,
    ) -> Self {
        let on_host = session.link().file().is_some();
        Self {
            link: session.link(),
            member: session.member(),
            lock,
            place,
            on_host,
            doorbell: Doorbell::open(session.link()),
            host: Host::new(on_host),
            clients: Clients::default(),
            namespaces: Namespaces::new(),
            leases: Leases::default(),
            alone_since: None,
            poke,
            notifier,
        }
    }

    /// Makes rounds until there is a reason to end.
    pub fn run(mut self) -> Ending {
        loop {
            match self.round() {
                Ok(None) => self.sleep(),
                Ok(Some(ending)) => return ending,
                Err(_) => return Ending::Broken,
            }
        }
    }

    fn round(&mut self) -> Result<Option<Ending>, Errno> {
        let member = self.member;
        if !member.in_good_standing()? {
            return Ok(Some(Ending::Evicted));
        }
        member.renew_lease(std::process::id())?;
        member.publish_address()?;
        if let Some(notifier) = self.notifier {
            notifier.round()?;
        }
        self.doorbell.round(member)?;
        if self.host.check(member)? {
            return Ok(Some(Ending::Evicted));
        }
        self.clients.update(member)?;
        self.clients.recover_dead(member)?;
        self.namespaces.take_stock(member)?;
        self.namespaces.bury_dead(member)?;
        self.check_server()?;
        member.free_strangers(member.domain(), &|pid| vshmem_session::is_gone(pid, 0))?;
        member.reclaim_some()?;
        self.leases.evict_silent(member)?;
        if let Some(poke) = &self.poke {
            poke.poke();
        }
        Ok(self.is_idle()?.then_some(Ending::Idle))
    }

    /// Without a server (`vshmem pool serve`) nobody passes rings on to this host or from it, so
    /// nobody is to rely on being rung.
    fn check_server(&self) -> Result<(), Errno> {
        if self.on_host && !Duty::Server.is_manned(self.place) {
            self.member.lose_bells()?;
        }
        Ok(())
    }

    fn is_idle(&mut self) -> Result<bool, Errno> {
        if !self.clients.is_empty() || self.namespaces.are_in_use(self.member)? {
            self.alone_since = None;
            return Ok(false);
        }
        let since = *self.alone_since.get_or_insert_with(Instant::now);
        Ok(since.elapsed() >= IDLE || self.lock.is_orphaned(self.place))
    }

    /// Sleeps for a round. Meanwhile, wakes threads when the domain is rung, and recovers clients
    /// as soon as they die.
    fn sleep(&mut self) {
        let end = Instant::now() + ROUND;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let news = self.wait(left);
            if news.rung {
                self.doorbell.answer(self.member);
            }
            if self.recover(&news).is_err() {
                // The round that follows fails in the same way and ends the watch.
                return;
            }
        }
    }

    fn recover(&mut self, news: &News) -> Result<(), Errno> {
        if !news.ended.is_empty() {
            self.clients.mark_ended(&news.ended);
            self.clients.recover_dead(self.member)?;
            self.check_server()?;
        }
        if news.namespace_ended {
            self.namespaces.bury_dead(self.member)?;
        }
        // The link has told of ends: maybe of processes that are too new to be known here.
        if news.told
            && let Some(descriptor) = self.doorbell.descriptor()
            && !self.link.ended_processes(descriptor).is_empty()
        {
            self.clients.update(self.member)?;
            self.clients.recover_dead(self.member)?;
        }
        Ok(())
    }

    /// What happens within a time.
    fn wait(&self, within: Duration) -> News {
        let readable = |handle| PollFd::from_borrowed_fd(handle, PollFlags::IN);
        let clients: Vec<(Resident, _)> = self.clients.handles().collect();
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
            return News::default();
        }
        let has_news = |look: &PollFd<'_>| !look.revents().is_empty();
        let ended = looks.iter().zip(&clients).filter(|(look, _)| has_news(look));
        let notice = looks.get(namespaces.end).map_or(PollFlags::empty(), PollFd::revents);
        News {
            ended: ended.map(|(_, (resident, _))| *resident).collect(),
            namespace_ended: looks[namespaces].iter().any(has_news),
            // A device that is gone hangs up: reading it says so.
            rung: notice.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
            told: notice.contains(PollFlags::PRI),
        }
    }
}
