//! Joining and leaving.

use std::sync::Arc;

use vshmem_mem::{Map, Ordering};

use crate::backoff;
use crate::failure::TeamError;
use crate::layout::{
    ABSENT, DOMAIN, FAILURE_AT, JOINED, JOINING, LEFT, LEFT_AT, PID, SHAPE_AT, SLOTS, START, STATE,
    Shape,
};
use crate::team::{Person, Posted, Team};

/// Why a member cannot join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The memory is too short, or not on a cache line, or there is no member of that rank.
    #[error("the memory does not hold such a team, or there is no such rank")]
    Invalid,
    /// The memory holds a team of another shape, or something else.
    #[error("the memory holds something else: it must be zero before the first member joins")]
    Mismatch,
    /// A member has joined with this rank.
    #[error("a member has joined with this rank")]
    Taken,
    /// The team has failed, and is not to be joined any more.
    #[error("the team has ended: {0}")]
    Ended(TeamError),
}

/// How often a word that others change too is tried.
const TRIES: u32 = 10_000;

impl Team {
    /// Joins the team that lies at the beginning of the map, or lays it out there if the memory is
    /// zero. `is_gone` tells of a process of this domain, by pid and start, whether it has
    /// ended.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn join(
        map: &Arc<Map>,
        shape: Shape,
        rank: u32,
        me: Person,
        is_gone: fn(u32, u64) -> bool,
    ) -> Result<Self, JoinError> {
        if map.bytes() < shape.bytes() || rank >= shape.members() {
            return Err(JoinError::Invalid);
        }
        let inside = |_| JoinError::Invalid;
        // All that join write the same; zero is what a new segment holds.
        let laid_out = map.replace(SHAPE_AT, 0, shape.pack()).map_err(inside)?;
        if !laid_out && map.load(SHAPE_AT, Ordering::Acquire).map_err(inside)? != shape.pack() {
            return Err(JoinError::Mismatch);
        }
        let failure = map.load(FAILURE_AT, Ordering::Acquire).map_err(inside)?;
        if let Some(error) = TeamError::unpack(failure, shape.members()) {
            return Err(JoinError::Ended(error));
        }
        let block = shape.member(rank);
        if !map.replace(block + STATE, ABSENT, JOINING).map_err(inside)? {
            return Err(JoinError::Taken);
        }
        for (at, value) in [(DOMAIN, me.domain), (PID, me.pid.into()), (START, me.start)] {
            map.store(block + at, value, Ordering::Relaxed).map_err(inside)?;
        }
        map.store(block + STATE, JOINED, Ordering::Release).map_err(inside)?;
        Ok(Self {
            map: Arc::clone(map),
            shape,
            rank,
            me,
            is_gone,
            timeout: backoff::DEFAULT,
            looks: 1024,
            idle: None,
            stop: None,
            epoch: 0,
            step: 0,
            started: 0,
            shown: 0,
            done: 0,
            is_polled: false,
            posted: [Posted::default(); SLOTS as usize],
            sum: vec![0; shape.payload()],
            next: vec![0; shape.payload()],
            failure: None,
        })
    }

    /// Leaves. When all have left, the memory is as if no member had ever joined.
    pub fn leave(self) {
        let _ = self.map.store(self.shape.member(self.rank) + STATE, LEFT, Ordering::Release);
        for _ in 0..TRIES {
            let Ok(left) = self.map.load(LEFT_AT, Ordering::Acquire) else { return };
            if self.map.replace(LEFT_AT, left, left.wrapping_add(1)) == Ok(true) {
                if left.wrapping_add(1) == u64::from(self.shape.members()) {
                    self.clear();
                }
                return;
            }
        }
    }

    /// The last one out leaves zeros. No member joins before a rank's state is zero, and all else
    /// is by then.
    fn clear(&self) {
        let ranks = 0..self.shape.members();
        for rank in ranks.clone() {
            let block = self.shape.member(rank);
            let bytes = (self.shape.member(rank + 1) - block - DOMAIN) as usize;
            let _ = self.map.zero(block + DOMAIN, bytes);
        }
        for at in [FAILURE_AT, LEFT_AT] {
            let _ = self.map.store(at, 0, Ordering::Release);
        }
        for rank in ranks {
            let _ = self.map.store(self.shape.member(rank) + STATE, ABSENT, Ordering::Release);
        }
        let _ = self.map.store(SHAPE_AT, 0, Ordering::Release);
    }
}
