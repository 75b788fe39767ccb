//! `vshmem ls`: ipcs for a pool, with the domains and clients behind it. Looks without joining.

mod contents;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use vshmem_ipc::{ClientRow, DomainRow, Entry, Kind, Particulars, Pool, WaiterRow};
use vshmem_link::command_name;
use vshmem_session::open_pool;
use vshmem_wire::{ClientState, DomainState, Party};

use crate::failure::{Failure, Outcome, unreadable};
use crate::here::is_here;
use crate::pool::Parties;
use crate::{account, choice, show};
use contents::{
    ClientLine, Common, Contents, DomainLine, LockLine, QueueLine, SegmentLine, SemaphoreLine,
};

/// Show what is in a pool and who uses it (as ipcs does).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Ls {
    /// Segments only.
    #[arg(short = 'm', long = "shmems")]
    segments: bool,
    /// Queues only.
    #[arg(short = 'q', long = "queues")]
    queues: bool,
    /// Semaphore sets only.
    #[arg(short = 's', long = "semaphores")]
    semaphores: bool,
    /// Also who holds an internal lock at this moment.
    #[arg(long)]
    locks: bool,
    /// The pool. Without: as `vshmem run` finds it.
    #[arg(long)]
    pool: Option<String>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  vshmem ls                      your private pool
  vshmem ls -m --pool job7       its segments
  vshmem ls --pool job7 --json

A domain is alive, silent (alive, with clients, and no sign of life for 5 s: paused, or without an
agent), evicted (declared gone; what it has attached is kept), or dead.";

/// Seconds without a sign of life after which a domain with clients is called silent.
const SILENCE: u64 = 5;

impl Ls {
    /// Shows it.
    pub fn carry_out(self) -> Outcome {
        let link = choice::open(self.pool.as_deref())?;
        let pool = open_pool(link.as_ref())?;
        let contents = self.look(&pool)?;
        if self.json {
            show::json(&contents)?;
        } else {
            show::text(&contents.tables())?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn look(&self, pool: &Pool) -> Result<Contents, Failure> {
        let name = pool.name();
        let everything = !(self.segments || self.queues || self.semaphores);
        let sight = Sight {
            parties: Parties::of(pool)?,
            waiters: pool.waiters().map_err(unreadable(&name))?,
        };
        let entries = |kind: Kind, wanted: bool| -> Result<Option<Vec<Entry>>, Failure> {
            if !(wanted || everything) {
                return Ok(None);
            }
            pool.entries(kind).map(Some).map_err(unreadable(&name))
        };
        let locks = if self.locks { Some(sight.locks(pool)?) } else { None };
        Ok(Contents {
            segments: entries(Kind::Segment, self.segments)?
                .map(|rows| rows.iter().filter_map(|row| sight.segment(row)).collect()),
            queues: entries(Kind::Queue, self.queues)?
                .map(|rows| rows.iter().filter_map(|row| sight.queue(row)).collect()),
            semaphores: entries(Kind::Semaphore, self.semaphores)?
                .map(|rows| rows.iter().filter_map(|row| sight.semaphore(row)).collect()),
            domains: everything
                .then(|| sight.parties.domains.iter().map(|row| sight.domain(row)).collect()),
            clients: everything
                .then(|| sight.parties.clients.iter().map(|row| sight.client(row)).collect()),
            locks,
            pool: name,
        })
    }
}

/// What the lines are made from.
struct Sight {
    parties: Parties,
    waiters: Vec<WaiterRow>,
}

impl Sight {
    fn common(row: &Entry) -> Common {
        Common {
            key: format!("{:#010x}", row.permission.key),
            id: row.id,
            owner: account::user_name(row.permission.uid),
            uid: row.permission.uid,
            perms: format!("{:03o}", row.permission.mode & 0o777),
        }
    }

    /// A process as `domain:pid`; nobody when there has been none.
    fn process(&self, party: Party) -> Option<String> {
        (party.pid != 0).then(|| self.parties.process(party.domain, party.pid))
    }

    fn waiters(&self, row: &Entry) -> Vec<String> {
        let here = self
            .waiters
            .iter()
            .filter(|waiter| waiter.kind == row.kind && waiter.object == row.index);
        here.map(|waiter| self.parties.client(waiter.client)).collect()
    }

    fn segment(&self, row: &Entry) -> Option<SegmentLine> {
        const SHM_LOCKED: u32 = 0o2000;
        let Particulars::Segment { bytes, attached, doomed, creator, last } = row.particulars
        else {
            return None;
        };
        let flags = [(doomed, "dest"), (row.permission.mode & SHM_LOCKED != 0, "locked")];
        Some(SegmentLine {
            common: Self::common(row),
            bytes,
            nattch: attached,
            status: flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect(),
            domain: (creator.pid != 0).then(|| self.parties.name(creator.domain)),
            creator: self.process(creator),
            last: self.process(last),
        })
    }

    fn queue(&self, row: &Entry) -> Option<QueueLine> {
        let Particulars::Queue { bytes, count, limit, sender, receiver } = row.particulars else {
            return None;
        };
        Some(QueueLine {
            common: Self::common(row),
            used_bytes: bytes,
            messages: count,
            limit,
            sender: self.process(sender),
            receiver: self.process(receiver),
            waiters: self.waiters(row),
        })
    }

    fn semaphore(&self, row: &Entry) -> Option<SemaphoreLine> {
        let Particulars::Semaphore { count, last, .. } = row.particulars else {
            return None;
        };
        Some(SemaphoreLine {
            common: Self::common(row),
            nsems: count,
            last: self.process(last),
            waiters: self.waiters(row),
        })
    }

    fn domain(&self, row: &DomainRow) -> DomainLine {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let age = now.saturating_sub(u64::from(row.renewed));
        let state = match row.state {
            DomainState::Alive if row.clients > 0 && age > SILENCE => "silent",
            DomainState::Alive => "alive",
            DomainState::Evicted => "evicted",
            DomainState::Dead | DomainState::Free => "dead",
        };
        let clients = self.parties.clients.iter();
        DomainLine {
            index: row.index,
            name: row.name.clone(),
            state,
            epoch: row.epoch,
            lease_age: (row.state == DomainState::Alive && row.renewed != 0).then_some(age),
            clients: clients
                .filter(|client| client.domain == row.index && !self.parties.is_agent(client))
                .count(),
            agent: (row.agent != 0).then_some(row.agent),
            here: is_here(row),
        }
    }

    fn client(&self, row: &ClientRow) -> ClientLine {
        let here = self.parties.domain(row.domain).is_some_and(is_here);
        let over = self.parties.is_over(row);
        let state = match row.state {
            ClientState::Active if over => "ended",
            ClientState::Active if self.parties.is_agent(row) => "agent",
            ClientState::Active => "active",
            ClientState::Reserved => "reserved",
            ClientState::Dying | ClientState::Free => "dying",
            ClientState::Quarantined => "quarantined",
        };
        ClientLine {
            index: row.index,
            process: self.parties.process(row.domain, row.pid),
            domain: self.parties.name(row.domain),
            pid: row.pid,
            user: account::user_name(row.uid),
            uid: row.uid,
            command: (here && !over).then(|| command_name(row.pid)).flatten(),
            state,
            attaches: row.attaches,
            sleeping: row.sleeping,
        }
    }

    fn locks(&self, pool: &Pool) -> Result<Vec<LockLine>, Failure> {
        let rows = pool.locks().map_err(unreadable(&pool.name()))?;
        let line = |row: vshmem_ipc::LockRow| LockLine {
            lock: match row.object {
                None => "registry".to_owned(),
                Some(object) => {
                    let noun = match object.kind {
                        Kind::Segment => "segment",
                        Kind::Semaphore => "semaphore set",
                        Kind::Queue => "queue",
                    };
                    format!("{noun} {}", object.index)
                }
            },
            holder: row.client.map(|client| self.parties.client(client)),
            committed: row.committed,
        };
        Ok(rows.into_iter().map(line).collect())
    }
}
