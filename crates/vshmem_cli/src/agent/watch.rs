//! What the agent does all day.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vshmem_ipc::{Errno, Member, Pool, Resident};
use vshmem_session::{Session, find};
use vshmem_wire::{ClientState, DomainState};

use crate::failure::{Failure, failed};
use crate::life::Life;

use super::post::Post;
use super::start::UP;

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
    while let Some(post) = Post::take(place).map_err(cannot)? {
        let session = Session::join(find(&place.to_string_lossy())?)?;
        let pool = Arc::clone(session.member().pool());
        let domain = session.member().domain();
        let me = std::process::id();
        if session.member().renew_lease(me).is_err() {
            return failed("the pool's domain table does not make sense");
        }
        report_up();
        let ending = Watch::new(session.member(), &post, place).run();
        if ending == Ending::Evicted {
            // What lies in our slots is not ours any more.
            return Ok(());
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

fn allow_many_descriptors() {
    let now = getrlimit(Resource::Nofile);
    let most = Rlimit { current: now.maximum, maximum: now.maximum };
    // Without, some clients are looked at once a second instead of being watched.
    let _ = setrlimit(Resource::Nofile, most);
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
    /// Since when its process (while reserved, its parent) is known to be dead, or, for one that
    /// somebody buries, since when that is known.
    over: Option<Instant>,
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
            self.over = Some(Instant::now());
            return;
        }
        match Life::of(self.resident.pid, self.resident.start) {
            Life::Over => self.over = Some(Instant::now()),
            Life::Watched(handle) => self.handle = Some(handle),
            Life::Unwatched => {}
        }
    }

    /// Whether it is time to bury it.
    fn is_due(&self) -> bool {
        let patience = match self.resident.state {
            ClientState::Active => Duration::ZERO,
            ClientState::Reserved => ORPHAN,
            ClientState::Dying => BURIAL,
            // Its attaches stay until somebody confirms the death of its domain.
            ClientState::Free | ClientState::Quarantined => return false,
        };
        self.over.is_some_and(|since| since.elapsed() >= patience)
    }
}

struct Watch<'a> {
    member: &'a Member,
    post: &'a Post,
    place: &'a Path,
    wards: HashMap<u32, Ward>,
    leases: HashMap<u32, Lease>,
    alone_since: Option<Instant>,
}

/// What was last seen of another domain's lease.
struct Lease {
    epoch: u32,
    value: u32,
    since: Instant,
}

impl<'a> Watch<'a> {
    fn new(member: &'a Member, post: &'a Post, place: &'a Path) -> Self {
        Self {
            member,
            post,
            place,
            wards: HashMap::new(),
            leases: HashMap::new(),
            alone_since: None,
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
        self.take_stock()?;
        self.bury_dead()?;
        let domain = self.member.domain();
        self.member.free_strangers(domain, &|pid| vshmem_session::is_gone(pid, 0))?;
        self.evict_silent()?;
        Ok(self.is_idle().then_some(Ending::Idle))
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
        let due: Vec<Resident> =
            self.wards.values().filter(|ward| ward.is_due()).map(|ward| ward.resident).collect();
        for resident in due {
            self.member.bury_resident(&resident)?;
            self.wards.remove(&resident.index);
        }
        Ok(())
    }

    /// Evicts domains that have been silent for too long, in a pool that asks for it. Judged by
    /// this domain's own clock: those of two machines need not agree.
    fn evict_silent(&mut self) -> Result<(), Errno> {
        let patience = Duration::from_secs(self.pool().superblock().evict_after);
        if patience.is_zero() {
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
            let fresh = || Lease { epoch: row.epoch, value: row.lease, since: Instant::now() };
            let lease = self.leases.entry(row.index).or_insert_with(fresh);
            if (lease.epoch, lease.value) != (row.epoch, row.lease) {
                *lease = fresh();
            } else if lease.since.elapsed() >= patience {
                silent.push(row.index);
            }
        }
        for index in silent {
            self.leases.remove(&index);
            self.member.evict_domain(index)?;
        }
        Ok(())
    }

    fn is_idle(&mut self) -> bool {
        if !self.wards.is_empty() {
            self.alone_since = None;
            return false;
        }
        let since = *self.alone_since.get_or_insert_with(Instant::now);
        since.elapsed() >= IDLE || self.post.is_orphaned(self.place)
    }

    /// Sleeps until a ward dies and buries it at once, or for a round.
    fn sleep(&mut self) {
        let end = Instant::now() + ROUND;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let ended = self.wait(left);
            if ended.is_empty() {
                continue;
            }
            for index in ended {
                if let Some(ward) = self.wards.get_mut(&index) {
                    ward.handle = None;
                    ward.over = Some(Instant::now());
                }
            }
            if self.bury_dead().is_err() {
                // The round that follows fails in the same way and ends the watch.
                return;
            }
        }
    }

    /// Slots of wards that end within a time.
    fn wait(&self, within: Duration) -> Vec<u32> {
        let watched: Vec<(u32, &OwnedFd)> = self
            .wards
            .iter()
            .filter_map(|(&index, ward)| Some((index, ward.handle.as_ref()?)))
            .collect();
        let mut looks: Vec<PollFd<'_>> =
            watched.iter().map(|(_, handle)| PollFd::new(*handle, PollFlags::IN)).collect();
        let timeout =
            Timespec { tv_sec: within.as_secs() as i64, tv_nsec: i64::from(within.subsec_nanos()) };
        // An error (EINTR, ENOMEM) is as good as nothing to report.
        if poll(&mut looks, Some(&timeout)).is_err() {
            return Vec::new();
        }
        looks
            .iter()
            .zip(&watched)
            .filter(|(look, _)| !look.revents().is_empty())
            .map(|(_, (index, _))| *index)
            .collect()
    }
}
