//! Waiting for a word that another member raises.
//!
//! First by looking, without any system call; then giving the CPU away between looks; then asleep
//! between looks, for up to a millisecond. No thread is woken: the other one may be in a guest
//! where nothing can interrupt. How long it is looked at first adapts to whether that helped.
//!
//! A caller who has something to do meanwhile is called instead, between looks; the CPU is then its
//! to give away.

use std::time::Duration;

use vshmem_mem::tuning::team::{
    CHECK_EVERY, LEAST_LOOKS, LEAST_LOOKS_OF_BUSY, LEAST_OF_A_CHECK, LONGEST_SLEEP, MOST_LOOKS,
    MOST_LOOKS_OF_BUSY, PART_OF_A_CHECK, YIELDS,
};
use vshmem_mem::tuning::{FIRST_SLEEP, PEER_TIMEOUT};
use vshmem_mem::{AtomicU64, Instant, Ordering, StallProofTimeout, spin_hint};

use crate::failure::TeamError;
use crate::layout::FAILURE_AT;
use crate::team::{Idle, RankState, Stop, Team};

/// How long a member is waited for when nothing else is said.
pub(crate) const DEFAULT: Duration = PEER_TIMEOUT;

/// A word that is waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AwaitedWord {
    pub at: u64,
    /// Values from here on are what is waited for, ...
    pub least: u64,
    /// ... and none above this one can be.
    pub most: u64,
    /// Who writes it.
    pub by: u32,
    /// Whether this is a barrier's flag: then others may be the ones that are missing.
    pub is_flag: bool,
}

static ARRIVALS: AtomicU64 = AtomicU64::new(0);

/// How often a member of this process has waited for longer than a short look, and what it waited
/// for has come. A thread that gives the CPU away while members wait learns by this that they have
/// stopped waiting.
#[must_use]
pub fn arrivals() -> u64 {
    ARRIVALS.load(Ordering::Relaxed)
}

/// A member has waited for longer than a short look, and what it waited for has come.
pub(crate) fn has_arrived() {
    ARRIVALS.fetch_add(1, Ordering::Relaxed);
}

impl Team {
    /// Waits until a word is what is wanted.
    #[inline]
    pub(crate) fn wait(&mut self, wanted: AwaitedWord) -> Result<(), TeamError> {
        for _ in 0..self.looks {
            if self.has_come(wanted)? {
                let most = if self.idle.is_none() { MOST_LOOKS } else { MOST_LOOKS_OF_BUSY };
                self.looks = (self.looks + 1).min(most);
                return Ok(());
            }
            spin_hint();
        }
        self.wait_slowly(wanted)?;
        has_arrived();
        Ok(())
    }

    #[inline]
    pub(crate) fn has_come(&self, wanted: AwaitedWord) -> Result<bool, TeamError> {
        // Pairs with the writer's release.
        match self.map.load(wanted.at, Ordering::Acquire) {
            Ok(value) if value < wanted.least => Ok(false),
            Ok(value) if value <= wanted.most => Ok(true),
            _ => Err(TeamError::Corrupt(wanted.by)),
        }
    }

    #[cold]
    fn wait_slowly(&mut self, wanted: AwaitedWord) -> Result<(), TeamError> {
        // It was there a moment ago. Waiting would let the caller in again, in the middle of this.
        if self.is_polled {
            return Err(TeamError::Corrupt(wanted.by));
        }
        let least = if self.idle.is_none() { LEAST_LOOKS } else { LEAST_LOOKS_OF_BUSY };
        self.looks = (self.looks / 2).max(least);
        if self.idle.is_none() {
            for _ in 0..YIELDS {
                std::thread::yield_now();
                if self.has_come(wanted)? {
                    return Ok(());
                }
            }
        }
        // The clock is a system call in some guests, and more so is whether a process lives.
        if self.idle_until(wanted)? {
            return Ok(());
        }
        let now = Instant::now();
        let most = (self.timeout / PART_OF_A_CHECK).max(LEAST_OF_A_CHECK);
        let mut timeout = StallProofTimeout::new(now, self.timeout, most);
        let (mut check, mut pause) = (now, FIRST_SLEEP);
        if self.idle.is_some() {
            check = now.after(CHECK_EVERY);
        }
        loop {
            let now = Instant::now();
            let mut verdict = None;
            if check.remaining(now).is_zero() {
                check = now.after(CHECK_EVERY);
                verdict = self.verdict(wanted.by);
                if verdict.is_none() && timeout.is_over(now) {
                    verdict = Some(TeamError::Missing(self.missing(wanted)));
                }
                if verdict.is_none() && self.stop.as_mut().is_some_and(|Stop(stop)| stop()) {
                    verdict = Some(TeamError::Left(self.rank));
                }
            }
            // A member that died or left may have written it last.
            if self.has_come(wanted)? {
                return Ok(());
            }
            if let Some(error) = verdict {
                return Err(error);
            }
            if self.idle.is_none() {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_SLEEP);
            } else if self.idle_until(wanted)? {
                return Ok(());
            }
        }
    }

    /// Lets the caller do its work for a while, if it has any; says whether what is wanted has
    /// come.
    fn idle_until(&mut self, wanted: AwaitedWord) -> Result<bool, TeamError> {
        for _ in 0..MOST_LOOKS_OF_BUSY {
            let Some(Idle(idle)) = &mut self.idle else { break };
            idle();
            if self.has_come(wanted)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the team has failed, or cannot go on because of the one that is waited for.
    pub(crate) fn verdict(&self, by: u32) -> Option<TeamError> {
        let failure = self.map.load(FAILURE_AT, Ordering::Acquire).unwrap_or(u64::MAX);
        if let Some(error) = TeamError::unpack(failure, self.shape.members()) {
            return Some(error);
        }
        match self.rank_state(by) {
            RankState::Left => Some(TeamError::Left(by)),
            RankState::Here(person) if self.has_ended(person) => Some(TeamError::Dead(by)),
            RankState::Here(_) | RankState::Absent => None,
        }
    }

    /// The member at fault: in a barrier, one that has not even come to it.
    fn missing(&self, wanted: AwaitedWord) -> u32 {
        let members = self.shape.members();
        let has_come = |rank: u32| {
            let flag = self.shape.flag((rank + 1) % members, 0);
            self.map.load(flag, Ordering::Acquire).is_ok_and(|value| value >= wanted.least)
        };
        let late = |rank: &u32| wanted.is_flag && *rank != self.rank && !has_come(*rank);
        (0..members).find(late).unwrap_or(wanted.by)
    }

    /// Runs a call: a failure is published to all, and stays.
    pub(crate) fn guarded<T>(
        &mut self,
        call: impl FnOnce(&mut Self) -> Result<T, TeamError>,
    ) -> Result<T, TeamError> {
        if let Some(error) = self.failure {
            return Err(error);
        }
        call(self).map_err(|error| {
            // The first one counts.
            let _ = self.map.replace(FAILURE_AT, 0, error.pack());
            let word = self.map.load(FAILURE_AT, Ordering::Acquire).unwrap_or(0);
            let first = TeamError::unpack(word, self.shape.members()).unwrap_or(error);
            self.failure = Some(first);
            first
        })
    }
}
