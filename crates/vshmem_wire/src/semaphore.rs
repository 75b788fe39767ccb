//! The word of one semaphore, the word of one client's adjustment of it (semadj), and that of a
//! set's last array of operations. Each is the word of a cell; the cell's tag tells how often it
//! was written.

/// The word of one semaphore.
///
/// It is taken apart and put together in place, always: a struct that is handed to a function lies
/// in memory, in fields that are stored one by one and then loaded together, which waits for the
/// stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SemWord {
    /// The semaphore's value, up to 32767.
    pub value: u32,
    /// The fast path is closed: take the set's lock.
    pub slow: bool,
    /// The last operation was one with SEM_UNDO: `operator` is the undo record of who did it, and
    /// the adjustment there may still be prepared.
    pub undo: bool,
    /// Last operator as a `ProcessRef`; with `undo`, an undo record.
    pub operator: u32,
    /// `value` is what an array of operations makes of the semaphore. Whether it has happened is
    /// decided by the set's [`ArrayWord`]; as long as it has not, the value is `before`.
    pub tentative: bool,
    /// With `tentative`: the value before the array.
    pub before: u32,
    /// With `tentative`: the array's [`ArrayWord::mark`].
    pub mark: u32,
}

impl SemWord {
    const OPERATOR_BITS: u32 = 29;
    const BEFORE_AT: u32 = 47;
    const MARK_AT: u32 = 62;

    /// Takes a word apart. The bits that it does not use are ignored.
    #[inline(always)]
    #[must_use]
    pub const fn unpack(word: u64) -> Self {
        Self {
            value: (word & 0x7fff) as u32,
            slow: word & (1 << 15) != 0,
            undo: word & (1 << 16) != 0,
            operator: (word >> 17) as u32 & ((1 << Self::OPERATOR_BITS) - 1),
            tentative: word & (1 << 46) != 0,
            before: (word >> Self::BEFORE_AT) as u32 & 0x7fff,
            mark: (word >> Self::MARK_AT) as u32,
        }
    }

    /// Puts the word together.
    #[inline(always)]
    #[must_use]
    pub const fn pack(self) -> u64 {
        (self.value & 0x7fff) as u64
            | (self.slow as u64) << 15
            | (self.undo as u64) << 16
            | ((self.operator & ((1 << Self::OPERATOR_BITS) - 1)) as u64) << 17
            | (self.tentative as u64) << 46
            | ((self.before & 0x7fff) as u64) << Self::BEFORE_AT
            | ((self.mark & ArrayWord::MARKS) as u64) << Self::MARK_AT
    }

    /// The word after an operation of `process_ref` that leaves `value`.
    #[inline(always)]
    #[must_use]
    pub const fn of(value: u32, process_ref: u32, slow: bool) -> Self {
        Self {
            value,
            slow,
            undo: false,
            operator: process_ref,
            tentative: false,
            before: 0,
            mark: 0,
        }
    }

    /// The word after an operation with SEM_UNDO of the owner of an undo record.
    #[inline(always)]
    #[must_use]
    pub const fn of_undoable(value: u32, record: u32) -> Self {
        Self { undo: true, ..Self::of(value, record, false) }
    }

    /// The word after an array of operations of `process_ref`, as far as it happens: `value`
    /// instead of `before`.
    #[inline]
    #[must_use]
    pub const fn tentatively(value: u32, before: u32, process_ref: u32, mark: u32) -> Self {
        Self { tentative: true, before, mark, ..Self::of(value, process_ref, false) }
    }
}

/// State of an array of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u64)]
pub enum ArrayState {
    /// No semaphore says anything of it any more.
    #[default]
    Decided = 0,
    /// Under way: it has not happened, and any thread may cancel it.
    Open = 1,
    /// It has happened.
    Done = 2,
    /// It never will.
    Cancelled = 3,
}

/// The last array of operations on a set that was done without its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArrayWord {
    /// Its state.
    pub state: ArrayState,
    /// Whether the array before it has happened.
    pub former_done: bool,
    /// What its semaphores name it by. The array before it is named by the mark below.
    pub mark: u32,
    /// How many semaphores it is about.
    pub count: u32,
    /// Their numbers.
    pub numbers: [u16; Self::MOST],
}

impl ArrayWord {
    /// Semaphores of an array that is done without the lock, at most.
    pub const MOST: usize = 4;
    /// Their numbers are below this.
    pub const NUMBERS: u32 = 1 << Self::NUMBER_BITS;
    /// The highest mark.
    pub const MARKS: u32 = 3;
    const NUMBER_BITS: u32 = 12;
    const NUMBERS_AT: u32 = 16;

    /// Takes a word apart.
    #[inline]
    #[must_use]
    pub const fn unpack(word: u64) -> Self {
        let state = match word & 3 {
            0 => ArrayState::Decided,
            1 => ArrayState::Open,
            2 => ArrayState::Done,
            _ => ArrayState::Cancelled,
        };
        let mut numbers = [0; Self::MOST];
        let mut nth = 0;
        while nth < Self::MOST {
            let at = Self::NUMBERS_AT + nth as u32 * Self::NUMBER_BITS;
            numbers[nth] = (word >> at) as u16 & (Self::NUMBERS - 1) as u16;
            nth += 1;
        }
        let count = (word >> 5) as u32 & 7;
        let count = if count > Self::MOST as u32 { Self::MOST as u32 } else { count };
        let (former_done, mark) = (word & 4 != 0, (word >> 3) as u32 & Self::MARKS);
        Self { state, former_done, mark, count, numbers }
    }

    /// Puts the word together.
    #[inline]
    #[must_use]
    pub const fn pack(self) -> u64 {
        let mut word = self.state as u64
            | (self.former_done as u64) << 2
            | ((self.mark & Self::MARKS) as u64) << 3
            | ((self.count & 7) as u64) << 5;
        let mut nth = 0;
        while nth < Self::MOST {
            let number = self.numbers[nth] as u64 & (Self::NUMBERS - 1) as u64;
            word |= number << (Self::NUMBERS_AT + nth as u32 * Self::NUMBER_BITS);
            nth += 1;
        }
        word
    }

    /// The mark of the array before it.
    #[inline]
    #[must_use]
    pub const fn former_mark(self) -> u32 {
        self.mark.wrapping_sub(1) & Self::MARKS
    }

    /// The numbers of its semaphores.
    #[must_use]
    pub fn list(&self) -> &[u16] {
        &self.numbers[..(self.count as usize).min(Self::MOST)]
    }

    /// What a tentative word amounts to as things stand. `None` when it is of neither array that
    /// this word tells about.
    #[inline]
    #[must_use]
    pub const fn value_of(self, word: SemWord) -> Option<u32> {
        let done = if word.mark == self.mark {
            matches!(self.state, ArrayState::Done)
        } else if word.mark == self.former_mark() {
            self.former_done
        } else {
            return None;
        };
        Some(if done { word.value } else { word.before })
    }
}

/// What is to be added to a semaphore when a client ends.
///
/// A *prepared undo* is an adjustment for an operation that is about to be done on the semaphore's
/// word: it counts once the semaphore shows it, by its UNDO flag, this record, and the tag that
/// `mark` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Adjustment {
    /// What is to be added, from -32768 to 32767, without the prepared undo.
    pub total: i16,
    /// What the prepared undo adds to it.
    pub prepared: i16,
    /// [`Adjustment::mark_of`] the tag that the semaphore has after the operation that the
    /// prepared undo is for.
    pub mark: u32,
    /// There is a prepared undo.
    pub is_prepared: bool,
    /// The fast path is closed: take the set's lock.
    pub closed: bool,
}

impl Adjustment {
    const MARK_BITS: u32 = 30;
    const MARKS: u32 = (1 << Self::MARK_BITS) - 1;

    /// What a prepared undo names the operation by that leaves a semaphore with `tag`: its low
    /// bits. The argument why they are enough is in `vshmem_sync`'s `semaphore/mod.rs`.
    #[inline]
    #[must_use]
    pub const fn mark_of(tag: u64) -> u32 {
        tag as u32 & Self::MARKS
    }

    /// Takes a word apart.
    #[inline(always)]
    #[must_use]
    pub const fn unpack(word: u64) -> Self {
        Self {
            total: word as i16,
            prepared: (word >> 16) as i16,
            mark: (word >> 32) as u32 & Self::MARKS,
            is_prepared: word & (1 << 62) != 0,
            closed: word & (1 << 63) != 0,
        }
    }

    /// Puts the word together.
    #[inline(always)]
    #[must_use]
    pub const fn pack(self) -> u64 {
        self.total as u16 as u64
            | (self.prepared as u16 as u64) << 16
            | ((self.mark & Self::MARKS) as u64) << 32
            | (self.is_prepared as u64) << 62
            | (self.closed as u64) << 63
    }

    /// Without a prepared undo.
    #[inline]
    #[must_use]
    pub const fn of(total: i16, closed: bool) -> Self {
        Self { total, prepared: 0, mark: 0, is_prepared: false, closed }
    }

    /// With a prepared undo for the operation that leaves the semaphore with `tag`.
    #[inline(always)]
    #[must_use]
    pub const fn preparing(total: i16, prepared: i16, tag: u64) -> Self {
        Self { total, prepared, mark: Self::mark_of(tag), is_prepared: true, closed: false }
    }

    /// What is to be added if the prepared undo counts. What a peer wrote may leave the range.
    #[inline]
    #[must_use]
    pub const fn kept(self) -> i16 {
        self.total.saturating_add(self.prepared)
    }
}

/// One operation of a semop call (`struct sembuf`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operation {
    /// Number of the semaphore in the set.
    pub number: u16,
    /// What to add; 0: wait for zero.
    pub change: i16,
    /// IPC_NOWAIT.
    pub no_wait: bool,
    /// SEM_UNDO.
    pub undo: bool,
}

impl Operation {
    /// The word in which a waiter writes it down: `SemaphoreWait.operations`.
    #[must_use]
    pub fn pack(self) -> u64 {
        u64::from(self.number)
            | u64::from(self.change as u16) << 16
            | u64::from(self.no_wait) << 32
            | u64::from(self.undo) << 33
    }

    /// The reverse.
    #[must_use]
    pub fn unpack(word: u64) -> Self {
        Self {
            number: word as u16,
            change: (word >> 16) as u16 as i16,
            no_wait: word >> 32 & 1 != 0,
            undo: word >> 33 & 1 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tentative_word_is_worth_what_its_array_says() {
        let word = |mark| SemWord::tentatively(5, 3, 1, mark);
        let array = ArrayWord { mark: 0, former_done: true, ..ArrayWord::default() };
        for (state, value) in
            [(ArrayState::Open, 3), (ArrayState::Cancelled, 3), (ArrayState::Done, 5)]
        {
            let array = ArrayWord { state, ..array };
            assert_eq!(array.value_of(word(0)), Some(value));
            assert_eq!(array.value_of(word(3)), Some(5), "the array before it");
            assert_eq!((array.value_of(word(1)), array.value_of(word(2))), (None, None));
        }
    }

    #[test]
    fn words_come_back_as_they_went_in() {
        for word in [0, u64::MAX, 0x8000, 0x1_0000, 0x0123_4567_89ab_cdef] {
            assert_eq!(SemWord::unpack(word).pack(), word);
            assert_eq!(Adjustment::unpack(word).pack(), word);
        }
        let array = ArrayWord {
            state: ArrayState::Cancelled,
            former_done: true,
            mark: 2,
            count: 3,
            numbers: [7, 0, 4095, 0],
        };
        assert_eq!(ArrayWord::unpack(array.pack()), array);
        assert_eq!((array.list(), array.former_mark()), (&[7, 0, 4095][..], 1));
        let adjustment = Adjustment::preparing(-32768, 32767, u64::MAX - 9);
        assert_eq!(Adjustment::unpack(adjustment.pack()), adjustment);
        assert_eq!(adjustment.mark, Adjustment::mark_of(u64::MAX - 9));
    }
}
