//! Allgather, alltoall, gather and scatter: what each member has for all, or for each other one, in
//! blocks of the same size. They use the slots of `exchange.rs` in the same way.

use std::ops::Range;

use crate::exchange::what;
use crate::failure::TeamError;
use crate::team::{Readers, Team};

pub(crate) const ALLGATHER: u8 = 4;
pub(crate) const ALLTOALL: u8 = 5;
const GATHER: u8 = 6;
const SCATTER: u8 = 7;

/// A piece of each block, and where it lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// Bytes of a block.
    block: usize,
    /// From the block's beginning.
    at: usize,
    pub(crate) bytes: usize,
}

impl Piece {
    /// The blocks as a whole.
    pub(crate) fn whole(block: usize) -> Self {
        Self { block, at: 0, bytes: block }
    }

    /// Where it lies in a row of all members' blocks.
    pub(crate) fn of(self, rank: u32) -> Range<usize> {
        let first = rank as usize * self.block + self.at;
        first..first + self.bytes
    }

    /// Where it lies in a text that has this piece of the blocks for all others: the first is for
    /// the next member.
    pub(crate) fn in_text(self, from: u32, to: u32, members: u32) -> usize {
        ((to + members - from) % members - 1) as usize * self.bytes
    }
}

/// What texts hold.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Texts {
    /// The same for all.
    ForAll,
    /// A block for each other member.
    ForEach,
}

impl Team {
    /// Copies each member's bytes to all, in the order of ranks. Without `mine`, this member's are
    /// in their place in `all`.
    ///
    /// # Errors
    /// [`TeamError`], when a member does not do its part.
    ///
    /// # Panics
    /// When `all` is not as long as all members' bytes.
    pub fn allgather(&mut self, mine: Option<&[u8]>, all: &mut [u8]) -> Result<(), TeamError> {
        let block = self.place_own(mine, all);
        self.guarded(|team| {
            for piece in team.pieces(block, team.shape.payload()) {
                team.step += 1;
                let what = what(ALLGATHER, 0, 0, piece.bytes);
                team.post(Readers::All, what, &all[piece.of(team.rank)])?;
                team.take_all(piece, what, Texts::ForAll, all)?;
            }
            Ok(())
        })
    }

    /// Each member has a block for each: copies those for this one into `got`, in the order of
    /// ranks. Without `given`, what this member gives is in `got`.
    ///
    /// # Errors
    /// As [`Team::allgather`].
    ///
    /// # Panics
    /// When there are more members than bytes that go at once, or the two are not of the same
    /// length, a block for each.
    pub fn alltoall(&mut self, given: Option<&[u8]>, got: &mut [u8]) -> Result<(), TeamError> {
        let (rank, members) = (self.rank, self.shape.members());
        let own = given.map(|given| {
            assert_eq!(given.len(), got.len(), "a block for each");
            &given[Piece::whole(given.len() / members as usize).of(rank)]
        });
        let block = self.place_own(own, got);
        let most = self.block_of_all();
        self.guarded(|team| {
            for piece in team.pieces(block, most) {
                team.step += 1;
                let what = what(ALLTOALL, 0, 0, piece.bytes);
                let parts = others(rank, members).map(|to| {
                    (piece.in_text(rank, to, members), &given.unwrap_or(got)[piece.of(to)])
                });
                team.post_parts(Readers::All, what, parts)?;
                team.take_all(piece, what, Texts::ForEach, got)?;
            }
            Ok(())
        })
    }

    /// Gives this member's bytes to the root.
    ///
    /// # Errors
    /// As [`Team::allgather`].
    ///
    /// # Panics
    /// When `root` is no other member.
    pub fn give(&mut self, root: u32, mine: &[u8]) -> Result<(), TeamError> {
        assert!(root < self.shape.members() && root != self.rank, "no other member");
        self.guarded(|team| {
            for text in mine.chunks(team.shape.payload()) {
                team.step += 1;
                team.post(Readers::One(root), what(GATHER, 0, 0, text.len()), text)?;
            }
            Ok(())
        })
    }

    /// Copies what all members give, in the order of ranks. Without `mine`, this member's is in its
    /// place in `all`.
    ///
    /// # Errors
    /// As [`Team::allgather`].
    ///
    /// # Panics
    /// As [`Team::allgather`].
    pub fn gather(&mut self, mine: Option<&[u8]>, all: &mut [u8]) -> Result<(), TeamError> {
        let block = self.place_own(mine, all);
        self.guarded(|team| {
            for piece in team.pieces(block, team.shape.payload()) {
                team.step += 1;
                team.take_all(piece, what(GATHER, 0, 0, piece.bytes), Texts::ForAll, all)?;
            }
            Ok(())
        })
    }

    /// Copies to each other member its block of `all`, in the order of ranks.
    ///
    /// # Errors
    /// As [`Team::allgather`].
    ///
    /// # Panics
    /// As [`Team::alltoall`].
    pub fn scatter(&mut self, all: &[u8]) -> Result<(), TeamError> {
        let (rank, members) = (self.rank, self.shape.members());
        let block = self.block_in(all.len());
        let most = self.block_of_all();
        self.guarded(|team| {
            for piece in team.pieces(block, most) {
                team.step += 1;
                let parts = others(rank, members)
                    .map(|to| (piece.in_text(rank, to, members), &all[piece.of(to)]));
                team.post_parts(Readers::All, what(SCATTER, 0, 0, piece.bytes), parts)?;
            }
            Ok(())
        })
    }

    /// Copies the block that the root has for this member.
    ///
    /// # Errors
    /// As [`Team::allgather`].
    ///
    /// # Panics
    /// When `root` is no other member, or there are more members than bytes that go at once.
    pub fn take_block(&mut self, root: u32, mine: &mut [u8]) -> Result<(), TeamError> {
        assert!(root < self.shape.members() && root != self.rank, "no other member");
        let (rank, members) = (self.rank, self.shape.members());
        let most = self.block_of_all();
        self.guarded(|team| {
            for piece in team.pieces(mine.len(), most) {
                team.step += 1;
                let text = &mut mine[piece.of(0)];
                let what = what(SCATTER, 0, 0, text.len());
                let at = piece.in_text(root, rank, members);
                team.take_part(team.step, root, what, at, text)?;
                team.taken(team.step)?;
            }
            Ok(())
        })
    }

    /// The most bytes of a block that go at once where a text has one for each other member.
    pub(crate) fn block_of_all(&self) -> usize {
        let others = (self.shape.members() - 1).max(1);
        let most = self.shape.payload() / others as usize;
        assert!(most > 0, "more members than bytes that go at once");
        most
    }

    fn block_in(&self, bytes: usize) -> usize {
        let members = self.shape.members() as usize;
        assert_eq!(bytes % members, 0, "a block for each member");
        bytes / members
    }

    /// Copies this member's block to its place, if it is not there; says how long blocks are.
    fn place_own(&self, own: Option<&[u8]>, all: &mut [u8]) -> usize {
        let block = self.block_in(all.len());
        if let Some(own) = own {
            all[Piece::whole(block).of(self.rank)].copy_from_slice(own);
        }
        block
    }

    fn pieces(&self, block: usize, most: usize) -> impl Iterator<Item = Piece> + use<> {
        (0..block).step_by(most).map(move |at| Piece { block, at, bytes: most.min(block - at) })
    }

    /// Reads all others' texts of this step.
    fn take_all(
        &mut self,
        piece: Piece,
        what: u64,
        texts: Texts,
        all: &mut [u8],
    ) -> Result<(), TeamError> {
        self.take_each(self.step, piece, what, texts, all)
    }

    /// The same of any step.
    pub(crate) fn take_each(
        &mut self,
        step: u64,
        piece: Piece,
        what: u64,
        texts: Texts,
        all: &mut [u8],
    ) -> Result<(), TeamError> {
        let (rank, members) = (self.rank, self.shape.members());
        for from in others(rank, members) {
            let at = match texts {
                Texts::ForAll => 0,
                Texts::ForEach => piece.in_text(from, rank, members),
            };
            self.take_part(step, from, what, at, &mut all[piece.of(from)])?;
        }
        self.taken(step)
    }
}

/// All other members, beginning with the next one: so not all look at the same one first.
pub(crate) fn others(rank: u32, members: u32) -> impl Iterator<Item = u32> {
    (1..members).map(move |distance| (rank + distance) % members)
}
