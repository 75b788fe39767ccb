//! Calls that are started, and looked after from time to time until they are done.
//!
//! A started call has one step, like a short call of the other kind. Calls are done in the order in
//! which they were started; several may be under way.

use crate::backoff::{AwaitedWord, has_arrived};
use crate::blocks::{ALLGATHER, ALLTOALL, Piece, Texts, others};
use crate::exchange::{ALLREDUCE, BROADCAST, Elements, Fold, what};
use crate::failure::TeamError;
use crate::team::{Readers, Team};

/// A call that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    step: u64,
    /// Looks in vain.
    looks: u64,
}

impl Started {
    /// Two words to keep it in.
    #[must_use]
    pub fn words(self) -> [u64; 2] {
        [self.step, self.looks]
    }

    /// What [`Started::words`] was made of.
    #[must_use]
    pub fn of([step, looks]: [u64; 2]) -> Self {
        Self { step, looks }
    }
}

/// Looks in vain between checks whether those live that are waited for.
const CHECK_EVERY: u64 = 1 << 14;

/// What is still to be done of a call that is looked after.
enum Part {
    /// Its turn has not come, or others have not.
    Later,
    /// All texts that this member reads are there.
    Read,
}

impl Team {
    /// Starts a call. All members start the same ones in the same order, and finish them before
    /// they make a call of another kind.
    pub fn start(&mut self) -> Started {
        if self.done == self.started {
            (self.shown, self.done) = (self.step, self.step);
        }
        self.step += 1;
        self.started = self.step;
        Started { step: self.step, looks: 0 }
    }

    /// Looks after an [`Team::allgather`] in place, of blocks that go at once. Says whether it is
    /// done; until then it is looked after again, with the same arguments.
    ///
    /// # Errors
    /// As [`Team::allgather`].
    ///
    /// # Panics
    /// As [`Team::allgather`], and when the blocks do not go at once.
    pub fn poll_allgather(
        &mut self,
        started: &mut Started,
        all: &mut [u8],
    ) -> Result<bool, TeamError> {
        let piece = Piece::whole(all.len() / self.shape.members() as usize);
        assert!(piece.bytes <= self.shape.payload(), "too long for a started call");
        self.polled(|team| {
            let what = what(ALLGATHER, 0, 0, piece.bytes);
            team.show_in_turn(started, what, std::iter::once((0, &all[piece.of(team.rank)])))?;
            let Part::Read = team.reads_all(started)? else { return Ok(false) };
            team.take_each(started.step, piece, what, Texts::ForAll, all)?;
            Ok(team.finish(started))
        })
    }

    /// The same of an [`Team::alltoall`].
    ///
    /// # Errors
    /// As [`Team::alltoall`].
    ///
    /// # Panics
    /// As [`Team::alltoall`], and when the blocks do not go at once.
    pub fn poll_alltoall(
        &mut self,
        started: &mut Started,
        given: Option<&[u8]>,
        got: &mut [u8],
    ) -> Result<bool, TeamError> {
        let (rank, members) = (self.rank, self.shape.members());
        let piece = Piece::whole(got.len() / members as usize);
        assert!(piece.bytes <= self.block_of_all(), "too long for a started call");
        self.polled(|team| {
            let what = what(ALLTOALL, 0, 0, piece.bytes);
            let parts = others(rank, members)
                .map(|to| (piece.in_text(rank, to, members), &given.unwrap_or(got)[piece.of(to)]));
            team.show_in_turn(started, what, parts)?;
            let Part::Read = team.reads_all(started)? else { return Ok(false) };
            if let Some(given) = given {
                got[piece.of(rank)].copy_from_slice(&given[piece.of(rank)]);
            }
            team.take_each(started.step, piece, what, Texts::ForEach, got)?;
            Ok(team.finish(started))
        })
    }

    /// The same of an [`Team::allreduce_by`].
    ///
    /// # Errors
    /// As [`Team::allreduce_by`].
    ///
    /// # Panics
    /// As [`Team::allreduce_by`], and when the elements do not go at once.
    pub fn poll_allreduce_by(
        &mut self,
        started: &mut Started,
        data: &mut [u8],
        unit: usize,
        fold: Fold<'_>,
    ) -> Result<bool, TeamError> {
        let elements = Elements::of_caller(unit);
        assert!(data.len() <= self.piece(elements), "too long for a started call");
        self.polled(|team| {
            let what = elements.what(ALLREDUCE, data.len());
            team.show_in_turn(started, what, std::iter::once((0, &*data)))?;
            let Part::Read = team.reads_all(started)? else { return Ok(false) };
            team.make_one(started.step, data, what, fold)?;
            Ok(team.finish(started))
        })
    }

    /// The same of a [`Team::broadcast`].
    ///
    /// # Errors
    /// As [`Team::broadcast`].
    ///
    /// # Panics
    /// As [`Team::broadcast`], and when the text does not go at once.
    pub fn poll_broadcast(
        &mut self,
        started: &mut Started,
        root: u32,
        data: &mut [u8],
    ) -> Result<bool, TeamError> {
        assert!(root < self.shape.members(), "no member");
        assert!(data.len() <= self.shape.payload(), "too long for a started call");
        self.polled(|team| {
            let what = what(BROADCAST, 0, 0, data.len());
            if team.rank == root {
                team.show_in_turn(started, what, std::iter::once((0, &*data)))?;
                if team.shown < started.step || team.done + 1 != started.step {
                    return Ok(false);
                }
            } else {
                if team.shown + 1 == started.step {
                    team.shown = started.step;
                }
                if team.done + 1 != started.step {
                    return Ok(false);
                }
                let Part::Read = team.reads(started, std::iter::once(root))? else {
                    return Ok(false);
                };
                team.take_part(started.step, root, what, 0, data)?;
                team.taken(started.step)?;
            }
            Ok(team.finish(started))
        })
    }

    /// Runs a look after a call, in which nothing is waited for.
    fn polled(
        &mut self,
        look: impl FnOnce(&mut Self) -> Result<bool, TeamError>,
    ) -> Result<bool, TeamError> {
        self.is_polled = true;
        let done = self.guarded(look);
        self.is_polled = false;
        done
    }

    /// Shows the text of a call, if those before it are shown and its slot has been read.
    fn show_in_turn<'a>(
        &mut self,
        started: &mut Started,
        what: u64,
        parts: impl Iterator<Item = (usize, &'a [u8])>,
    ) -> Result<(), TeamError> {
        if self.shown + 1 != started.step {
            return Ok(());
        }
        for by in others(self.rank, self.shape.members()) {
            if let Some(wanted) = self.has_to_be_read(started.step, by)
                && !self.look_at(started, wanted)?
            {
                return Ok(());
            }
        }
        self.show(started.step, Readers::All, what, parts)?;
        self.shown = started.step;
        Ok(())
    }

    fn reads_all(&mut self, started: &mut Started) -> Result<Part, TeamError> {
        if self.shown < started.step || self.done + 1 != started.step {
            return Ok(Part::Later);
        }
        let (rank, members) = (self.rank, self.shape.members());
        self.reads(started, others(rank, members))
    }

    fn reads(
        &mut self,
        started: &mut Started,
        mut from: impl Iterator<Item = u32>,
    ) -> Result<Part, TeamError> {
        let missing = from.try_for_each(|rank| {
            match self.look_at(started, self.text_of(started.step, rank)) {
                Ok(true) => Ok(()),
                Ok(false) => Err(None),
                Err(error) => Err(Some(error)),
            }
        });
        match missing {
            Ok(()) => Ok(Part::Read),
            Err(None) => Ok(Part::Later),
            Err(Some(error)) => Err(error),
        }
    }

    /// Looks once; now and then also at who has to write it.
    fn look_at(&self, started: &mut Started, wanted: AwaitedWord) -> Result<bool, TeamError> {
        if self.has_come(wanted)? {
            return Ok(true);
        }
        started.looks += 1;
        if started.looks.is_multiple_of(CHECK_EVERY)
            && let Some(error) = self.verdict(wanted.by)
            // It may have written it last.
            && !self.has_come(wanted)?
        {
            return Err(error);
        }
        Ok(false)
    }

    fn finish(&mut self, started: &Started) -> bool {
        self.done = started.step;
        if started.looks > 0 {
            has_arrived();
        }
        true
    }
}
