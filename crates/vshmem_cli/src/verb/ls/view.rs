//! Makes the lines from the rows of a pool's tables.

use std::time::{SystemTime, UNIX_EPOCH};

use vshmem_ipc::{ClientRow, DomainRow, FoundBy, ObjectDetails, Particulars, Pool, WaiterRow};
use vshmem_link::command_name;
use vshmem_wire::{ClientState, DomainState, ProcessRef};

use super::lines::{
    ClientLine, Common, DomainLine, LockLine, PosixCommon, PosixQueueLine, PosixShmLine, QueueLine,
    SegmentLine, SemaphoreLine,
};
use crate::failure::{Failure, unreadable};
use crate::here::is_here;
use crate::pool::Participants;
use crate::{account, show};

/// Seconds without a sign of life after which a domain with clients is called silent.
const SILENCE: u64 = 5;

/// What the lines are made from.
pub struct View {
    pub participants: Participants,
    pub waiters: Vec<WaiterRow>,
}

/// In place of the name of a POSIX object that has none any more.
pub const UNLINKED: &str = "(unlinked)";

/// A POSIX object's name as programs write it.
fn with_slash(name: &[u8]) -> String {
    format!("/{}", String::from_utf8_lossy(name))
}

impl View {
    /// What every object shows. A name is what a program chose: not yet fit for a terminal.
    pub fn common(row: &ObjectDetails) -> Common {
        Common {
            key: match &row.found_by {
                FoundBy::Key => format!("{:#010x}", row.permission.key),
                FoundBy::Name(name) => with_slash(name),
                FoundBy::Nothing => UNLINKED.to_owned(),
            },
            id: row.id,
            owner: account::user_name(row.permission.uid),
            uid: row.permission.uid,
            perms: format!("{:03o}", row.permission.mode & 0o777),
        }
    }

    /// A process as `domain:pid`; `-` when there has been none.
    fn process(&self, process_ref: ProcessRef) -> Option<String> {
        (process_ref.pid != 0)
            .then(|| self.participants.process(process_ref.domain, process_ref.pid))
    }

    fn waiters(&self, row: &ObjectDetails) -> Vec<String> {
        let here = self
            .waiters
            .iter()
            .filter(|waiter| waiter.kind == row.kind && waiter.object == row.index);
        here.map(|waiter| self.participants.client(waiter.client)).collect()
    }

    /// `None`: it is no segment of System V.
    pub fn segment(&self, row: &ObjectDetails) -> Option<SegmentLine> {
        const SHM_LOCKED: u32 = 0o2000;
        let Particulars::Segment { offset, bytes, attached, doomed, creator, last, .. } =
            row.particulars
        else {
            return None;
        };
        if row.found_by != FoundBy::Key {
            return None;
        }
        let flags = [(doomed, "dest"), (row.permission.mode & SHM_LOCKED != 0, "locked")];
        Some(SegmentLine {
            common: Self::common(row),
            offset,
            bytes,
            nattch: attached,
            status: flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect(),
            domain: (creator.pid != 0).then(|| self.participants.name(creator.domain)),
            creator: self.process(creator),
            last: self.process(last),
            nodes: None,
        })
    }

    /// `None`: it is no shared memory object of POSIX.
    pub fn posix_shm(&self, row: &ObjectDetails) -> Option<PosixShmLine> {
        let Particulars::Segment { bytes, attached, opened, creator, last, .. } = row.particulars
        else {
            return None;
        };
        if row.found_by == FoundBy::Key {
            return None;
        }
        Some(PosixShmLine {
            common: Self::posix_common(row),
            bytes,
            nattch: attached,
            nopen: opened,
            domain: (creator.pid != 0).then(|| self.participants.name(creator.domain)),
            creator: self.process(creator),
            last: self.process(last),
        })
    }

    /// What every POSIX object shows.
    fn posix_common(row: &ObjectDetails) -> PosixCommon {
        let Common { id, owner, uid, perms, .. } = Self::common(row);
        let name = match &row.found_by {
            FoundBy::Name(name) => Some(with_slash(name)),
            FoundBy::Key | FoundBy::Nothing => None,
        };
        PosixCommon { name, id, owner, uid, perms }
    }

    /// `None`: it is no message queue of System V.
    pub fn queue(&self, row: &ObjectDetails) -> Option<QueueLine> {
        let Particulars::Queue { bytes, count, limit, sender, receiver, .. } = row.particulars
        else {
            return None;
        };
        if row.found_by != FoundBy::Key {
            return None;
        }
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

    /// `None`: it is no message queue of POSIX.
    pub fn posix_queue(&self, row: &ObjectDetails) -> Option<PosixQueueLine> {
        let Particulars::Queue {
            bytes,
            count,
            most_messages,
            most_bytes,
            opened,
            sender,
            receiver,
            ..
        } = row.particulars
        else {
            return None;
        };
        if row.found_by == FoundBy::Key {
            return None;
        }
        Some(PosixQueueLine {
            common: Self::posix_common(row),
            used_bytes: bytes,
            messages: count,
            maxmsg: most_messages,
            msgsize: most_bytes,
            nopen: opened,
            sender: self.process(sender),
            receiver: self.process(receiver),
            waiters: self.waiters(row),
        })
    }

    /// `None`: it is no semaphore set.
    pub fn semaphore(&self, row: &ObjectDetails) -> Option<SemaphoreLine> {
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

    /// The line of a domain, with its state as of now.
    pub fn domain(&self, row: &DomainRow) -> DomainLine {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let age = now.saturating_sub(u64::from(row.renewed));
        let state = match row.state {
            DomainState::Alive if row.clients > 0 && age > SILENCE => "silent",
            DomainState::Alive => "alive",
            DomainState::Evicted => "evicted",
            DomainState::Leaving => "leaving",
            DomainState::Left => "left",
            DomainState::Dead | DomainState::Free => "dead",
        };
        let clients = self.participants.clients.iter();
        DomainLine {
            index: row.index,
            name: row.name.clone(),
            state,
            epoch: row.epoch,
            lease_age: (row.state == DomainState::Alive && row.renewed != 0).then_some(age),
            clients: clients
                .filter(|client| client.domain == row.index && !self.participants.is_agent(client))
                .count(),
            agent: (row.agent != 0).then_some(row.agent),
            here: is_here(row),
        }
    }

    /// The line of a process, with its state as of now.
    pub fn client(&self, row: &ClientRow) -> ClientLine {
        let here = self.participants.domain(row.domain).is_some_and(is_here);
        let over = self.participants.is_over(row);
        let state = match row.state {
            ClientState::Active if over => "ended",
            ClientState::Active if self.participants.is_agent(row) => "agent",
            ClientState::Active => "active",
            ClientState::Reserved => "reserved",
            ClientState::Dying | ClientState::Free => "dying",
            ClientState::Quarantined => "quarantined",
        };
        ClientLine {
            index: row.index,
            process: self.participants.process(row.domain, row.pid),
            domain: self.participants.name(row.domain),
            pid: row.pid,
            // Another kernel has other names for its users.
            user: if here { account::user_name(row.uid) } else { row.uid.to_string() },
            uid: row.uid,
            command: (here && !over).then(|| command_name(row.pid)).flatten(),
            state,
            attaches: row.attaches,
            sleeping: row.sleeping,
        }
    }

    /// The locks that are held now.
    pub fn locks(&self, pool: &Pool) -> Result<Vec<LockLine>, Failure> {
        let rows = pool.locks().map_err(unreadable(&pool.name()))?;
        let line = |row: vshmem_ipc::LockRow| LockLine {
            lock: match row.object {
                None => "registry".to_owned(),
                Some(object) => format!("{} {}", show::noun(object.kind), object.index),
            },
            holder: row.client.map(|client| self.participants.client(client)),
            committed: row.committed,
        };
        Ok(rows.into_iter().map(line).collect())
    }
}
