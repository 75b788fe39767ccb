//! What the agent does all day.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vshmem_ipc::{DomainRow, Errno, Member, Pool, Resident};
use vshmem_link::{Life, Link, measure_rates};
use vshmem_mem::Patience;
use vshmem_session::{Duty, Post, Session, find};
use vshmem_wire::{ClientState, DomainState};

use crate::failure::{Failure, failed};

use super::clean::{self, Poke};
use super::namespaces::Namespaces;
use super::notify::Notifier;
use super::start::UP;
use super::witness::{Peer, Verdict, Witness};

/// Between two looks at the client table, and between two renewals of the lease.
const ROUND: Duration = Duration::from_secs(1);
/// How long the last client has to be gone before the agent goes as well.
const IDLE: Duration = Duration::from_secs(5);
/// How long a child may take to come for the slot that its parent, dead by now, has kept for it.
const ORPHAN: Duration = Duration::from_secs(5);
/// How long a burial by somebody else may take before the agent sees to it.
const BURIAL: Duration = Duration::from_secs(2);

/// Is the agent, until nobody is left. Does nothing if there is one already.
pub fn serve(place: &Path) -> Result<(), Failure> {
    allow_many_descriptors();
    let cannot = |error| {
        Failure::Failed(format!("{}: cannot take the agent's post: {error}", place.display()))
    };
    while let Some(post) = Post::take(Duty::Agent, place).map_err(cannot)? {
        let session = Session::join(find(&place.to_string_lossy())?)?;
        let pool = Arc::clone(session.member().pool());
        let domain = session.member().domain();
        let me = std::process::id();
        if session.member().renew_lease(me).is_err() {
            return failed("the pool's domain table does not make sense");
        }
        session.member().guard_sleepers();
        let notifier = Notifier::start(&session);
        report_up();
        note_rates(&session);
        let ending = std::thread::scope(|scope| {
            if let Some(notifier) = &notifier {
                scope.spawn(|| notifier.listen());
                scope.spawn(|| notifier.send());
            }
            let poke = (pool.superblock().prepare > 0).then(|| {
                let (poke, pokes) = clean::channel();
                let session = &session;
                scope.spawn(move || clean::serve(session, &pokes));
                poke
            });
            let ending = Watch::new(&session, &post, place, poke, notifier.as_ref()).run();
            if let Some(notifier) = &notifier {
                notifier.end();
            }
            ending
        });
        // The words are about to be unmapped, so the kernel could not tell of this end.
        session.member().stop_guarding();
        if session.link().kind() == "local" {
            let _ = pool.attend_no_more();
        }
        if ending == Ending::Evicted {
            // What lies in our slots is not ours any more.
            return Ok(());
        }
        if let Some(notifier) = notifier {
            notifier.withdraw();
        }
        let _ = session.member().renew_lease(0);
        let _ = session.leave();
        drop(post);
        // Who joined before the post became free saw it held and has started nobody.
        if pool.residents(domain).is_ok_and(|left| left.is_empty()) || ending == Ending::Broken {
            return Ok(());
        }
    }
    Ok(())
}

/// Tells the process in between, which is the last that hears from here.
fn report_up() {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{UP}");
    let _ = std::io::stdout().flush();
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

/// Where the administrator of a guest looks. Only root may; the refusals that follow say it as well.
fn note_in_kernel_log(line: &str) {
    let _ = std::fs::write("/dev/kmsg", line);
}

fn allow_many_descriptors() {
    let now = getrlimit(Resource::Nofile);
    let most = Rlimit { current: now.maximum, maximum: now.maximum };
    // Without, some clients are looked at once a second instead of being watched.
    let _ = setrlimit(Resource::Nofile, most);
}

/// Measures the pool's memory where that is a device's, once per boot, for whoever lists pools.
fn note_rates(session: &Session) {
    let member = session.member();
    let measured = member
        .pool()
        .domains()
        .is_ok_and(|rows| rows.iter().any(|row| row.index == member.domain() && row.rates[0] != 0));
    if session.link().kind() == "local" || measured {
        return;
    }
    if let Ok(rates) = measure_rates(session.link()) {
        let _ = member.note_rates(rates.to_array());
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Nobody is left.
    Idle,
    /// This domain has been evicted or declared dead.
    Evicted,
    /// The pool does not make sense.
    Broken,
}

/// One client under watch.
#[derive(Debug)]
struct Ward {
    resident: Resident,
    handle: Option<OwnedFd>,
    /// Its process (while reserved, its parent) is known to be dead, or somebody is known to bury it: how long it is left alone
    /// yet. Who could come for it, or buries it, may be stopped together with this agent.
    over: Option<Patience>,
}

impl Ward {
    fn of(resident: Resident) -> Self {
        let mut ward = Self { resident, handle: None, over: None };
        ward.look();
        ward
    }

    fn look(&mut self) {
        if self.handle.is_some() || self.over.is_some() {
            return;
        }
        if self.resident.state == ClientState::Dying {
            self.end();
            return;
        }
        match Life::of(self.resident.pid, self.resident.start) {
            Life::Over => self.end(),
            Life::Watched(handle) => self.handle = Some(handle),
            Life::Unwatched => {}
        }
    }

    fn end(&mut self) {
        let span = match self.resident.state {
            ClientState::Reserved => ORPHAN,
            ClientState::Dying => BURIAL,
            ClientState::Active | ClientState::Free | ClientState::Quarantined => Duration::ZERO,
        };
        self.over = Some(Patience::new(vshmem_mem::Instant::now(), span, ROUND));
    }

    /// Whether it is time to bury it.
    fn is_due(&mut self, now: vshmem_mem::Instant) -> bool {
        // Its attaches stay until somebody confirms the death of its domain.
        if matches!(self.resident.state, ClientState::Free | ClientState::Quarantined) {
            return false;
        }
        self.over.as_mut().is_some_and(|patience| patience.is_over(now))
    }
}

struct Watch<'a> {
    link: &'a dyn Link,
    /// Where the link says that this domain was rung, or that a process has ended.
    notices: Option<OwnedFd>,
    member: &'a Member,
    post: &'a Post,
    place: &'a Path,
    /// Whether the pool is a file of this machine, rather than lent to it.
    on_host: bool,
    /// Whether sleepers of this domain may rely on being rung, when last looked.
    all_can_ring: bool,
    wards: HashMap<u32, Ward>,
    namespaces: Namespaces,
    leases: HashMap<u32, Lease>,
    alone_since: Option<Instant>,
    poke: Option<Poke>,
    /// Datagrams, where an operator has configured them.
    notifier: Option<&'a Notifier<'a>>,
    witness: Witness,
}

/// What the agent was woken for.
#[derive(Debug, Default)]
struct News {
    /// Wards that have ended.
    ended: Vec<Resident>,
    /// A PID namespace below this one has ended.
    namespace_ended: bool,
    /// The domain was rung.
    rung: bool,
    /// The link has told of the end of a process.
    told: bool,
}

/// Notes the ends of wards. A slot may have its next holder by now: that one lives.
fn mark_ended(wards: &mut HashMap<u32, Ward>, ended: &[Resident]) {
    for resident in ended {
        if let Some(ward) = wards.get_mut(&resident.index)
            && ward.resident == *resident
        {
            ward.handle = None;
            ward.end();
        }
    }
}

/// What was last seen of another domain's lease.
struct Lease {
    epoch: u32,
    value: u32,
    /// With a value that stays as it is. Rounds are counted: while this agent is stopped it hears nobody.
    patience: Patience,
}

impl Lease {
    fn new(epoch: u32, value: u32, evict_after: Duration, now: vshmem_mem::Instant) -> Self {
        Self { epoch, value, patience: Patience::new(now, evict_after, ROUND) }
    }

    /// Takes note of what a round finds, and says whether the domain has been silent for too long.
    fn is_silent(
        &mut self,
        epoch: u32,
        value: u32,
        evict_after: Duration,
        now: vshmem_mem::Instant,
    ) -> bool {
        if (self.epoch, self.value) != (epoch, value) {
            *self = Self::new(epoch, value, evict_after, now);
            return false;
        }
        self.patience.is_over(now)
    }
}

impl<'a> Watch<'a> {
    fn new(
        session: &'a Session,
        post: &'a Post,
        place: &'a Path,
        poke: Option<Poke>,
        notifier: Option<&'a Notifier<'a>>,
    ) -> Self {
        Self {
            link: session.link(),
            // Without, sleepers look again by themselves.
            notices: session.link().doorbell_descriptor().unwrap_or_default(),
            member: session.member(),
            post,
            place,
            on_host: session.link().kind() == "local",
            all_can_ring: true,
            wards: HashMap::new(),
            namespaces: Namespaces::new(),
            leases: HashMap::new(),
            alone_since: None,
            poke,
            notifier,
            witness: Witness::default(),
        }
    }

    fn pool(&self) -> &Pool {
        self.member.pool()
    }

    fn run(mut self) -> Ending {
        loop {
            match self.round() {
                Ok(None) => self.sleep(),
                Ok(Some(ending)) => return ending,
                Err(_) => return Ending::Broken,
            }
        }
    }

    fn round(&mut self) -> Result<Option<Ending>, Errno> {
        if !self.member.in_good_standing()? {
            return Ok(Some(Ending::Evicted));
        }
        self.member.renew_lease(std::process::id())?;
        self.member.publish_address()?;
        if let Some(notifier) = self.notifier {
            notifier.round()?;
        }
        // A ring may have been lost, or whoever was to ring may have died or been stopped.
        self.member.deliver_rings();
        self.member.tend_sleepers()?;
        self.mind_the_mute()?;
        if self.mind_the_host()? {
            return Ok(Some(Ending::Evicted));
        }
        self.take_stock()?;
        self.bury_dead()?;
        self.namespaces.take_stock(self.member)?;
        self.namespaces.bury_dead(self.member)?;
        self.mind_server()?;
        let domain = self.member.domain();
        self.member.free_strangers(domain, &|pid| vshmem_session::is_gone(pid, 0))?;
        self.member.reclaim_some()?;
        self.evict_silent()?;
        if let Some(poke) = &self.poke {
            poke.poke();
        }
        Ok(self.is_idle()?.then_some(Ending::Idle))
    }

    /// On the host, attends to the pool. In a guest, sees whether the host's memory is still behind the device; if it is a
    /// copy, evicts this domain in it, so that its programs get EIO instead of waiting for nobody, and returns true.
    fn mind_the_host(&mut self) -> Result<bool, Errno> {
        let pool = self.member.pool();
        if self.on_host {
            pool.attend().map_err(|_| Errno::IO)?;
            return Ok(false);
        }
        let beat = pool.beat().map_err(|_| Errno::IO)?;
        let peers = self.foreign_peers()?;
        let name = pool.name();
        match self.witness.judge(beat, peers) {
            Verdict::Well => return Ok(false),
            Verdict::HostSilent => {
                note_in_kernel_log(&format!(
                    "vshmem: pool {name}: nobody attends to it on the host any more. Should this machine have been moved, or restored \
                     from a snapshot, then it has a copy of the pool and must be booted anew. If not, run `vshmem pool serve {name}` \
                     on the host\n"
                ));
                return Ok(false);
            }
            Verdict::Alone => {}
        }
        note_in_kernel_log(&format!(
            "vshmem: pool {name}: the host and all other members have fallen silent together: this machine was moved, or restored \
             from a snapshot, and has a copy of the pool. Programs get EIO from it. Boot this machine anew with the pool's own \
             memory behind its device\n"
        ));
        self.member.evict_domain(self.member.domain())?;
        Ok(true)
    }

    /// The domains with an agent that are neither of this kernel nor of the host's: what the host's own agents do falls silent with
    /// the host's beat, as one agent may be behind both.
    fn foreign_peers(&self) -> Result<Vec<Peer>, Errno> {
        let pool = self.member.pool();
        // Who the host is was not written down: then nobody can be told from it.
        let Some(host) = pool.host_boot().map_err(|_| Errno::IO)? else { return Ok(Vec::new()) };
        let rows = pool.domains()?;
        let own = rows.iter().find(|row| row.index == self.member.domain()).map(|row| row.boot);
        let is_peer = |row: &&DomainRow| {
            let is_foreign = row.boot != host && Some(row.boot) != own;
            is_foreign && row.state == DomainState::Alive && row.agent != 0
        };
        let peer = |row: &DomainRow| Peer { index: row.index, epoch: row.epoch, lease: row.lease };
        Ok(rows.iter().filter(is_peer).map(peer).collect())
    }

    /// Wakes those who rely on being rung when somebody has come who cannot ring.
    fn mind_the_mute(&mut self) -> Result<(), Errno> {
        let before = self.all_can_ring;
        self.all_can_ring = self.member.is_rung_by_all()?;
        if before && !self.all_can_ring {
            self.member.ring_everybody();
        }
        Ok(())
    }

    /// Brings the list of wards up to what the client table says.
    fn take_stock(&mut self) -> Result<(), Errno> {
        let mut residents = self.pool().residents(self.member.domain())?;
        residents.retain(|resident| resident.index != self.member.client());
        self.wards.retain(|_, ward| residents.contains(&ward.resident));
        for resident in residents {
            let ward = self.wards.entry(resident.index).or_insert_with(|| Ward::of(resident));
            ward.look();
        }
        Ok(())
    }

    fn bury_dead(&mut self) -> Result<(), Errno> {
        let now = vshmem_mem::Instant::now();
        let due: Vec<Resident> = self
            .wards
            .values_mut()
            .filter_map(|ward| ward.is_due(now).then_some(ward.resident))
            .collect();
        for resident in due {
            self.member.bury_resident(&resident)?;
            self.wards.remove(&resident.index);
        }
        Ok(())
    }

    /// Without a server (`vshmem pool serve`) nobody passes rings on to this host or from it, so
    /// nobody is to rely on being rung.
    fn mind_server(&self) -> Result<(), Errno> {
        if self.on_host && !Duty::Server.is_manned(self.place) {
            self.member.lose_bells()?;
        }
        Ok(())
    }

    /// Evicts domains that have been silent for too long, in a pool that asks for it. Judged by
    /// this domain's own clock: those of two machines need not agree.
    fn evict_silent(&mut self) -> Result<(), Errno> {
        let evict_after = Duration::from_secs(self.pool().superblock().evict_after);
        if evict_after.is_zero() {
            return Ok(());
        }
        let mut silent = Vec::new();
        for row in self.pool().domains()? {
            let watched = row.state == DomainState::Alive
                && row.clients > 0
                && row.index != self.member.domain();
            if !watched {
                self.leases.remove(&row.index);
                continue;
            }
            let now = vshmem_mem::Instant::now();
            let fresh = || Lease::new(row.epoch, row.lease, evict_after, now);
            let lease = self.leases.entry(row.index).or_insert_with(fresh);
            if lease.is_silent(row.epoch, row.lease, evict_after, now) {
                silent.push((row.index, row.epoch));
            }
        }
        for (index, epoch) in silent {
            self.leases.remove(&index);
            self.member.evict_epoch(index, epoch)?;
        }
        Ok(())
    }

    fn is_idle(&mut self) -> Result<bool, Errno> {
        if !self.wards.is_empty() || self.namespaces.are_in_use(self.member)? {
            self.alone_since = None;
            return Ok(false);
        }
        let since = *self.alone_since.get_or_insert_with(Instant::now);
        Ok(since.elapsed() >= IDLE || self.post.is_orphaned(self.place))
    }

    fn deliver(&self) {
        if self.notices.is_some() {
            self.member.deliver_rings();
        }
    }

    /// Sleeps for a round. Meanwhile, passes on rings, and buries wards as soon as they die.
    fn sleep(&mut self) {
        let end = Instant::now() + ROUND;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let news = self.wait(left);
            if news.rung {
                self.silence();
            }
            mark_ended(&mut self.wards, &news.ended);
            let buried = if news.ended.is_empty() {
                Ok(())
            } else {
                self.bury_dead().and_then(|()| self.mind_server())
            };
            let buried = match news.namespace_ended {
                true => buried.and(self.namespaces.bury_dead(self.member)),
                false => buried,
            };
            let looked = if news.told { self.look_after_told() } else { Ok(()) };
            if buried.and(looked).is_err() {
                // The round that follows fails in the same way and ends the watch.
                return;
            }
        }
    }

    /// Passes a ring on: the descriptor first, so that a ring that comes meanwhile is not lost.
    fn silence(&mut self) {
        let Some(notices) = &self.notices else { return };
        match rustix::io::read(notices, &mut [0; 8]) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => self.deliver(),
            // The device is gone.
            Err(_) => self.notices = None,
        }
    }

    /// The link has told of ends: maybe of processes that are too new to be wards.
    fn look_after_told(&mut self) -> Result<(), Errno> {
        let Some(notices) = &self.notices else { return Ok(()) };
        if self.link.ended_processes(notices.as_fd()).is_empty() {
            return Ok(());
        }
        self.take_stock()?;
        self.bury_dead()
    }

    /// What happens within a time.
    fn wait(&self, within: Duration) -> News {
        let watched: Vec<(Resident, &OwnedFd)> = self
            .wards
            .values()
            .filter_map(|ward| Some((ward.resident, ward.handle.as_ref()?)))
            .collect();
        let mut looks: Vec<PollFd<'_>> =
            watched.iter().map(|(_, handle)| PollFd::new(*handle, PollFlags::IN)).collect();
        looks.extend(
            self.namespaces.handles().map(|init| PollFd::from_borrowed_fd(init, PollFlags::IN)),
        );
        let inits = watched.len()..looks.len();
        if let Some(notices) = &self.notices {
            looks.push(PollFd::new(notices, PollFlags::IN | PollFlags::PRI));
        }
        let timeout =
            Timespec { tv_sec: within.as_secs() as i64, tv_nsec: i64::from(within.subsec_nanos()) };
        // An error (EINTR, ENOMEM) is as good as nothing to report.
        if poll(&mut looks, Some(&timeout)).is_err() {
            return News::default();
        }
        let ended = looks
            .iter()
            .zip(&watched)
            .filter(|(look, _)| !look.revents().is_empty())
            .map(|(_, (resident, _))| *resident)
            .collect();
        let notice = looks.get(inits.end).map_or(PollFlags::empty(), PollFd::revents);
        News {
            ended,
            namespace_ended: looks[inits].iter().any(|look| !look.revents().is_empty()),
            // A device that is gone hangs up: reading it says so.
            rung: notice.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
            told: notice.contains(PollFlags::PRI),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_holder_of_a_slot_is_not_buried_for_the_former_ones_end() {
        let me = vshmem_session::this_process();
        let former = Resident {
            index: 3,
            name: vshmem_wire::ClientName::new(3, 1),
            domain: 0,
            pid: me.pid,
            start: me.start,
            state: ClientState::Active,
        };
        let next = Resident { state: ClientState::Reserved, ..former };
        let mut wards = HashMap::from([(3, Ward::of(next))]);
        mark_ended(&mut wards, &[former]);
        assert!(wards[&3].over.is_none());
        mark_ended(&mut wards, &[next]);
        assert!(wards[&3].over.is_some());
    }

    /// The agent was stopped, and with it, it may be, the child that has yet to come for the slot.
    #[test]
    fn a_stop_of_the_agent_takes_no_slot_from_a_child() {
        let me = vshmem_session::this_process();
        let mut ward = Ward::of(Resident {
            index: 3,
            name: vshmem_wire::ClientName::new(3, 1),
            domain: 0,
            pid: me.pid,
            start: me.start,
            state: ClientState::Reserved,
        });
        ward.end();
        let mut now = vshmem_mem::Instant::now().after(100 * ORPHAN);
        assert!(!ward.is_due(now), "the stop counts as a round");
        let rounds = (2..).find(|_| {
            now = now.after(ROUND);
            ward.is_due(now)
        });
        assert_eq!(rounds.map(|rounds| rounds * ROUND), Some(ORPHAN));
    }

    /// All machines go on together, and this agent looks before the others have renewed their leases.
    #[test]
    fn a_stop_of_the_agent_evicts_nobody() {
        let after = 30 * ROUND;
        let mut now = vshmem_mem::Instant::now();
        let mut lease = Lease::new(1, 7, after, now);
        now = now.after(100 * after);
        assert!(!lease.is_silent(1, 7, after, now), "the stop counts as a round");
        let rounds = (2..).find(|_| {
            now = now.after(ROUND);
            lease.is_silent(1, 7, after, now)
        });
        assert_eq!(rounds.map(|rounds| rounds * ROUND), Some(after));
        assert!(!lease.is_silent(1, 8, after, now), "renewed");
    }
}
