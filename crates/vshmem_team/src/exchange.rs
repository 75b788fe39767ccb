//! Broadcast and reduction: texts in slots.
//!
//! A call is a number of steps, the same for all members: one for each piece of at most the
//! payload. In a step some members write to their slots, and some read them.

use vshmem_mem::Ordering;

use crate::backoff::AwaitedWord;
use crate::failure::TeamError;
use crate::layout::{SLOTS, STEP, TAKEN, TEXT, WHAT};
use crate::number::{Number, Operation, combine};
use crate::team::{Posted, Readers, Team};

/// With so many members or fewer each reads what all have; with more, one does and passes
/// it on.
const FEW: u32 = 4;

/// A word that tells what a text is, so that members who make different calls notice.
pub(crate) fn what(kind: u8, number: u8, operation: u8, bytes: usize) -> u64 {
    u64::from(kind) << 56 | u64::from(number) << 48 | u64::from(operation) << 40 | bytes as u64
}

/// What is reduced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elements {
    /// Number and operation; 0: what only the caller knows.
    number: u8,
    operation: u8,
    /// Bytes of one. Pieces hold whole ones.
    unit: usize,
}

impl Elements {
    fn numbers(number: Number, operation: Operation) -> Self {
        // Numbers begin with 1 here.
        Self { number: number as u8 + 1, operation: operation as u8, unit: number.bytes() }
    }

    pub(crate) fn of_caller(unit: usize) -> Self {
        Self { number: 0, operation: 0, unit }
    }

    pub(crate) fn what(self, kind: u8, bytes: usize) -> u64 {
        what(kind, self.number, self.operation, bytes)
    }
}

/// Makes what is given second, of a higher rank, into what both are together.
pub(crate) type Fold<'a> = &'a mut dyn FnMut(&[u8], &mut [u8]);

fn folded(number: Number, operation: Operation) -> impl FnMut(&[u8], &mut [u8]) {
    move |earlier, later| combine(later, earlier, number, operation)
}

pub(crate) const BROADCAST: u8 = 1;
const REDUCE: u8 = 2;
pub(crate) const ALLREDUCE: u8 = 3;

impl Team {
    /// Copies the root's bytes to all. Returns as soon as this member's part is done.
    ///
    /// # Errors
    /// [`TeamError`], when a member does not do its part.
    ///
    /// # Panics
    /// When `root` is no member.
    pub fn broadcast(&mut self, root: u32, data: &mut [u8]) -> Result<(), TeamError> {
        assert!(root < self.shape.members(), "no member");
        self.guarded(|team| team.spread(root, data))
    }

    /// Gives this member's numbers for the root's result, which has as many.
    ///
    /// # Errors
    /// [`TeamError`].
    ///
    /// # Panics
    /// When `root` is no other member.
    pub fn contribute(
        &mut self,
        root: u32,
        mine: &[u8],
        number: Number,
        operation: Operation,
    ) -> Result<(), TeamError> {
        self.contribute_as(root, mine, Elements::numbers(number, operation))
    }

    /// Makes one of all members' numbers, in the order of their ranks. `data` has this member's and
    /// gets the result.
    ///
    /// # Errors
    /// [`TeamError`]; `data` may then hold anything.
    pub fn collect(
        &mut self,
        data: &mut [u8],
        number: Number,
        operation: Operation,
    ) -> Result<(), TeamError> {
        let mut fold = folded(number, operation);
        self.guarded(|team| {
            team.gather_elements(data, Elements::numbers(number, operation), &mut fold)
        })
    }

    /// The same for all: each gets the same bytes.
    ///
    /// # Errors
    /// As [`Team::collect`].
    pub fn allreduce(
        &mut self,
        data: &mut [u8],
        number: Number,
        operation: Operation,
    ) -> Result<(), TeamError> {
        let mut fold = folded(number, operation);
        self.allreduce_as(data, Elements::numbers(number, operation), &mut fold)
    }

    /// As [`Team::contribute`], for elements of `unit` bytes each that only the caller knows.
    ///
    /// # Errors
    /// [`TeamError`].
    ///
    /// # Panics
    /// When `root` is no other member, or `unit` is none or more than the payload.
    pub fn contribute_by(&mut self, root: u32, mine: &[u8], unit: usize) -> Result<(), TeamError> {
        self.contribute_as(root, mine, Elements::of_caller(unit))
    }

    /// As [`Team::collect`], for elements of `unit` bytes each. `fold` is given some of a lower
    /// rank, or made of those of several, and as many of a higher one, which become what both are
    /// together.
    ///
    /// # Errors
    /// As [`Team::collect`].
    ///
    /// # Panics
    /// When `unit` is none or more than the payload.
    pub fn collect_by(
        &mut self,
        data: &mut [u8],
        unit: usize,
        fold: &mut dyn FnMut(&[u8], &mut [u8]),
    ) -> Result<(), TeamError> {
        self.guarded(|team| team.gather_elements(data, Elements::of_caller(unit), fold))
    }

    /// The same for all.
    ///
    /// # Errors
    /// As [`Team::collect`].
    ///
    /// # Panics
    /// As [`Team::collect_by`].
    pub fn allreduce_by(
        &mut self,
        data: &mut [u8],
        unit: usize,
        fold: &mut dyn FnMut(&[u8], &mut [u8]),
    ) -> Result<(), TeamError> {
        self.allreduce_as(data, Elements::of_caller(unit), fold)
    }

    fn contribute_as(
        &mut self,
        root: u32,
        mine: &[u8],
        elements: Elements,
    ) -> Result<(), TeamError> {
        assert!(root < self.shape.members() && root != self.rank, "no other member");
        self.guarded(|team| team.send_elements(root, mine, elements))
    }

    fn allreduce_as(
        &mut self,
        data: &mut [u8],
        elements: Elements,
        fold: Fold<'_>,
    ) -> Result<(), TeamError> {
        self.guarded(|team| {
            if team.shape.members() <= FEW {
                return team.gather_everywhere(data, elements, fold);
            }
            if team.rank == 0 {
                team.gather_elements(data, elements, fold)?;
            } else {
                team.send_elements(0, data, elements)?;
            }
            team.spread(0, data)
        })
    }

    fn spread(&mut self, root: u32, data: &mut [u8]) -> Result<(), TeamError> {
        for piece in data.chunks_mut(self.shape.payload()) {
            self.step += 1;
            let what = what(BROADCAST, 0, 0, piece.len());
            if self.rank == root {
                self.post(Readers::All, what, piece)?;
            } else {
                self.take(root, what, piece)?;
                self.taken(self.step)?;
            }
        }
        Ok(())
    }

    fn send_elements(
        &mut self,
        root: u32,
        mine: &[u8],
        elements: Elements,
    ) -> Result<(), TeamError> {
        for piece in mine.chunks(self.piece(elements)) {
            self.step += 1;
            self.post(Readers::One(root), elements.what(REDUCE, piece.len()), piece)?;
        }
        Ok(())
    }

    fn gather_elements(
        &mut self,
        data: &mut [u8],
        elements: Elements,
        fold: Fold<'_>,
    ) -> Result<(), TeamError> {
        for piece in data.chunks_mut(self.piece(elements)) {
            self.step += 1;
            self.make_one(self.step, piece, elements.what(REDUCE, piece.len()), fold)?;
        }
        Ok(())
    }

    fn gather_everywhere(
        &mut self,
        data: &mut [u8],
        elements: Elements,
        fold: Fold<'_>,
    ) -> Result<(), TeamError> {
        for piece in data.chunks_mut(self.piece(elements)) {
            self.step += 1;
            let what = elements.what(ALLREDUCE, piece.len());
            self.post(Readers::All, what, piece)?;
            self.make_one(self.step, piece, what, fold)?;
        }
        Ok(())
    }

    /// Bytes that go at once: whole elements.
    pub(crate) fn piece(&self, elements: Elements) -> usize {
        let payload = self.shape.payload();
        assert!((1..=payload).contains(&elements.unit), "no unit of this team");
        payload / elements.unit * elements.unit
    }

    /// Reads all others' texts of a step. The order is that of ranks, so that all who do this get
    /// the same.
    pub(crate) fn make_one(
        &mut self,
        step: u64,
        piece: &mut [u8],
        what: u64,
        fold: Fold<'_>,
    ) -> Result<(), TeamError> {
        let (mut sum, mut next) = (std::mem::take(&mut self.sum), std::mem::take(&mut self.next));
        let mut result = Ok(());
        for rank in 0..self.shape.members() {
            let text = &mut next[..piece.len()];
            if rank == self.rank {
                text.copy_from_slice(piece);
            } else {
                result = self.take_part(step, rank, what, 0, text);
                if result.is_err() {
                    break;
                }
            }
            if rank > 0 {
                fold(&sum[..piece.len()], text);
            }
            std::mem::swap(&mut sum, &mut next);
        }
        if result.is_ok() {
            piece.copy_from_slice(&sum[..piece.len()]);
            result = self.taken(step);
        }
        (self.sum, self.next) = (sum, next);
        result
    }

    /// Shows a text of this step to others.
    pub(crate) fn post(
        &mut self,
        readers: Readers,
        what: u64,
        text: &[u8],
    ) -> Result<(), TeamError> {
        self.post_parts(readers, what, std::iter::once((0, text)))
    }

    /// Shows a text of this step that has these parts, each at its place.
    pub(crate) fn post_parts<'a>(
        &mut self,
        readers: Readers,
        what: u64,
        parts: impl Iterator<Item = (usize, &'a [u8])>,
    ) -> Result<(), TeamError> {
        for rank in 0..self.shape.members() {
            if let Some(wanted) = self.has_to_be_read(self.step, rank) {
                self.wait(wanted)?;
            }
        }
        self.show(self.step, readers, what, parts)
    }

    /// What a member has to have read before the slot of a step is written again; `None`: nothing.
    pub(crate) fn has_to_be_read(&self, step: u64, by: u32) -> Option<AwaitedWord> {
        let last = self.posted[(step % SLOTS) as usize];
        let reads = last.readers == Readers::All || last.readers == Readers::One(by);
        let at = self.shape.member(by) + TAKEN;
        // It may be further than we are, in steps that do not need us.
        let (least, most) = (last.step, u64::MAX);
        (reads && by != self.rank).then_some(AwaitedWord { at, least, most, by, is_flag: false })
    }

    /// Writes a slot that all have read.
    pub(crate) fn show<'a>(
        &mut self,
        step: u64,
        readers: Readers,
        what: u64,
        parts: impl Iterator<Item = (usize, &'a [u8])>,
    ) -> Result<(), TeamError> {
        self.posted[(step % SLOTS) as usize] = Posted { step, readers };
        let slot = self.shape.slot(self.rank, step);
        let ours = |_| TeamError::Corrupt(self.rank);
        self.map.store(slot + WHAT, what, Ordering::Relaxed).map_err(ours)?;
        for (at, part) in parts {
            self.map.write(slot + TEXT + at as u64, part).map_err(ours)?;
        }
        // Pairs with the reader's acquire.
        self.map.store(slot + STEP, step, Ordering::Release).map_err(ours)
    }

    /// A member's text of a step, as it is waited for.
    pub(crate) fn text_of(&self, step: u64, from: u32) -> AwaitedWord {
        // It does not use the slot again before we have taken this.
        let at = self.shape.slot(from, step) + STEP;
        AwaitedWord { at, least: step, most: step, by: from, is_flag: false }
    }

    /// Copies a member's text of this step.
    fn take(&mut self, from: u32, expected: u64, text: &mut [u8]) -> Result<(), TeamError> {
        self.take_part(self.step, from, expected, 0, text)
    }

    /// Copies a part of a member's text of a step, which lies so far from its beginning.
    pub(crate) fn take_part(
        &mut self,
        step: u64,
        from: u32,
        expected: u64,
        at: usize,
        text: &mut [u8],
    ) -> Result<(), TeamError> {
        self.wait(self.text_of(step, from))?;
        let slot = self.shape.slot(from, step);
        let corrupt = |_| TeamError::Corrupt(from);
        if self.map.load(slot + WHAT, Ordering::Relaxed).map_err(corrupt)? != expected {
            return Err(TeamError::Mismatch(from));
        }
        self.map.read(slot + TEXT + at as u64, text).map_err(corrupt)
    }

    /// Everything up to a step is read.
    pub(crate) fn taken(&mut self, step: u64) -> Result<(), TeamError> {
        let at = self.shape.member(self.rank) + TAKEN;
        // Pairs with the acquire of the member that writes to a slot again.
        let stored = self.map.store(at, step, Ordering::Release);
        stored.map_err(|_| TeamError::Corrupt(self.rank))
    }
}
