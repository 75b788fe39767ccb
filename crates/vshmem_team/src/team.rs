//! A member's view of its team: what the other files share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use vshmem_mem::{Map, Ordering};

use crate::failure::TeamError;
use crate::layout::{DOMAIN, JOINED, LEFT, PID, SLOTS, START, STATE, Shape};

/// Which process a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Person {
    /// A number that tells its domain from others; 0 when it is not known.
    pub domain: u64,
    /// Process there.
    pub pid: u32,
    /// When the process began, in ticks of its kernel; 0 when that is not known.
    pub start: u64,
}

/// What a slot held last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Posted {
    /// The step in which it was written.
    pub(crate) step: u64,
    /// Who reads it.
    pub(crate) readers: Readers,
}

/// Who reads a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Readers {
    #[default]
    NoMember,
    One(u32),
    All,
}

/// What the caller does between looks.
pub(crate) struct Idle(pub Box<dyn FnMut() + Send>);

impl fmt::Debug for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Idle")
    }
}

/// Whether the caller wants to wait no longer.
pub(crate) struct Stop(pub Box<dyn FnMut() -> bool + Send>);

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stop")
    }
}

/// What a member's block says of it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RankState {
    Absent,
    Here(Person),
    Left,
}

/// One member's view of a team.
#[derive(Debug)]
pub struct Team {
    pub(crate) map: Arc<Map>,
    pub(crate) shape: Shape,
    pub(crate) rank: u32,
    pub(crate) me: Person,
    pub(crate) is_gone: fn(u32, u64) -> bool,
    pub(crate) timeout: Duration,
    pub(crate) looks: u32,
    pub(crate) idle: Option<Idle>,
    pub(crate) stop: Option<Stop>,
    /// Barriers so far.
    pub(crate) epoch: u64,
    /// Steps so far.
    pub(crate) step: u64,
    /// Steps of started calls: the last one, the last whose text is shown, the last that is done.
    pub(crate) started: u64,
    pub(crate) shown: u64,
    pub(crate) done: u64,
    /// A started call is looked after: nothing is waited for.
    pub(crate) is_polled: bool,
    pub(crate) posted: [Posted; SLOTS as usize],
    pub(crate) sum: Vec<u8>,
    pub(crate) next: Vec<u8>,
    pub(crate) failure: Option<TeamError>,
}

impl Team {
    /// How long a member is waited for; 10 s when nothing else is said, for ever with
    /// [`Duration::MAX`].
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// What is called again and again while this member waits, after a short look, instead of
    /// yielding and sleeping: the program that sets this says how the CPU is given away.
    pub fn set_idle(&mut self, idle: Option<Box<dyn FnMut() + Send>>) {
        self.idle = idle.map(Idle);
    }

    /// What is asked from time to time while this member waits. When it says yes, the member gives
    /// up: the team has then failed, as if this one had left.
    pub fn set_stop(&mut self, stop: Option<Box<dyn FnMut() -> bool + Send>>) {
        self.stop = stop.map(Stop);
    }

    /// This member's rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The team's shape.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Why the team has failed, if it has; known to members whose calls have said so.
    #[must_use]
    pub fn failure(&self) -> Option<TeamError> {
        self.failure
    }

    pub(crate) fn rank_state(&self, rank: u32) -> RankState {
        let block = self.shape.member(rank);
        let word = |at| self.map.load(block + at, Ordering::Acquire).unwrap_or(0);
        match word(STATE) {
            JOINED => RankState::Here(Person {
                domain: word(DOMAIN),
                pid: word(PID) as u32,
                start: word(START),
            }),
            LEFT => RankState::Left,
            _ => RankState::Absent,
        }
    }

    /// Whether a process of this domain has ended. Of others nothing is known.
    pub(crate) fn has_ended(&self, person: Person) -> bool {
        person.domain != 0
            && person.domain == self.me.domain
            && (self.is_gone)(person.pid, person.start)
    }

    /// A sentence about a failure.
    #[must_use]
    pub fn explain(&self, error: TeamError) -> String {
        let rank = error.rank();
        let who = match self.rank_state(rank) {
            RankState::Here(person) if person.domain == self.me.domain => {
                format!("process {}", person.pid)
            }
            RankState::Here(person) => format!("process {} of another domain", person.pid),
            RankState::Absent => "which has never joined".to_owned(),
            RankState::Left => "which has left".to_owned(),
        };
        let members = self.shape.members();
        format!("{error} ({who}; {members} members, this is {}). The team has ended", self.rank)
    }
}
