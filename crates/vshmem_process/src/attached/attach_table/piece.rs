//! A mapped piece of a segment, and what the kernel tells pieces apart by.

/// What the kernel keeps of a mapping beside its rights. Where two parts differ in one of these
/// they are two mappings, and count twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks(u32);

impl Marks {
    /// mlock(2).
    pub const LOCKED: Self = Self(1);
    /// mlock2(2) with MLOCK_ONFAULT.
    pub const LOCKED_ON_FAULT: Self = Self(2);
    /// MADV_RANDOM.
    pub const RANDOM: Self = Self(4);
    /// MADV_SEQUENTIAL.
    pub const SEQUENTIAL: Self = Self(8);
    /// MADV_DONTDUMP.
    pub const NOT_DUMPED: Self = Self(16);
    /// MADV_HUGEPAGE.
    pub const HUGE: Self = Self(32);
    /// MADV_NOHUGEPAGE.
    pub const NOT_HUGE: Self = Self(64);
    /// MADV_DONTFORK: a forked child has it not.
    pub const NOT_INHERITED: Self = Self(128);
    const KEY_SHIFT: u32 = 8;
    const KEYS: Self = Self(0xff << Self::KEY_SHIFT);
    /// mseal(2): neither moved nor unmapped any more.
    pub const SEALED: Self = Self(1 << 16);
    /// mmap(2) has made it, of a descriptor: shmdt(2) does not know it.
    pub const OF_DESCRIPTOR: Self = Self(1 << 17);
    const ALL: u32 = 0x3_ffff;

    /// None of them.
    pub const fn none() -> Self {
        Self(0)
    }

    /// Both sets together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without those of another.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// What is in both sets.
    #[must_use]
    pub const fn only(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether all of another set are in this one.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With a protection key instead of the one that it has.
    #[must_use]
    pub const fn with_key(self, key: u8) -> Self {
        self.without(Self::KEYS).and(Self((key as u32) << Self::KEY_SHIFT))
    }
}

/// What a piece may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    /// PROT_ bits now.
    pub now: u32,
    /// Whether it may ever be written: not when attached with SHM_RDONLY.
    pub writable: bool,
    /// What else the kernel tells its mapping from others by.
    pub marks: Marks,
}

impl Rights {
    const MARKS_SHIFT: u32 = 8;
    const NOW: u32 = 0xff;
    const WRITABLE: u32 = 1 << 31;

    /// In one word.
    pub fn pack(self) -> u32 {
        (self.now & Self::NOW)
            | self.marks.0 << Self::MARKS_SHIFT
            | if self.writable { Self::WRITABLE } else { 0 }
    }

    /// Out of one word.
    pub fn unpack(bits: u32) -> Self {
        Self {
            now: bits & Self::NOW,
            writable: bits & Self::WRITABLE != 0,
            marks: Marks(bits >> Self::MARKS_SHIFT & Marks::ALL),
        }
    }

    /// Whether a forked child has it too.
    pub fn is_inherited(self) -> bool {
        !self.marks.has(Marks::NOT_INHERITED)
    }

    /// Whether reading, or writing, is allowed now.
    pub fn allow(self, write: bool) -> bool {
        let wanted = if write { libc::PROT_WRITE } else { libc::PROT_READ };
        self.now & wanted as u32 != 0
    }
}

/// A mapped piece of a segment. A whole attach is one piece until the program cuts it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The segment.
    pub id: i32,
    /// Which shmat it comes from: shmdt takes the pieces of one alone.
    pub attach: u32,
    /// Its first address.
    pub start: usize,
    /// Its length, what lies behind the segment's end included.
    pub bytes: usize,
    /// Where the segment's first byte would be: what shmdt is given.
    pub base: usize,
    /// Where in the pool the segment begins.
    pub offset: u64,
    /// Bytes of the whole segment, in pages.
    pub whole: usize,
    /// What it may be used for.
    pub rights: Rights,
}

impl Piece {
    /// The address behind it.
    pub fn end(self) -> usize {
        self.start + self.bytes
    }

    /// Whether it has an address in a range.
    pub fn touches(self, start: usize, end: usize) -> bool {
        self.start < end && self.end() > start
    }

    /// Whether all of a range, or the address of an empty one, is in it.
    pub fn holds(self, start: usize, bytes: usize) -> bool {
        self.start <= start && start.saturating_add(bytes.max(1)) <= self.end()
    }

    /// Bytes of the segment from an address of the piece on, mapped or not. Behind them lies what
    /// is not the segment's.
    pub fn rest(self, at: usize) -> usize {
        self.whole.saturating_sub(at.wrapping_sub(self.base))
    }

    /// Where in the pool an address of the piece lies.
    pub fn offset_of(self, at: usize) -> u64 {
        self.offset + at.wrapping_sub(self.base) as u64
    }

    /// The same piece elsewhere.
    #[must_use]
    pub fn moved(self, from: usize, to: usize) -> Self {
        let by = to.wrapping_sub(from);
        let (start, base) = (self.start.wrapping_add(by), self.base.wrapping_add(by));
        Self { start, base, ..self }
    }

    /// Whether shmdt of another piece's base takes this one too: if it is of the same attach, in
    /// its place in it, and does not reach over the segment's end.
    pub fn goes_with(self, other: Self) -> bool {
        self.base == other.base
            && (self.id, self.attach) == (other.id, other.attach)
            && (self.start == other.start || self.bytes <= self.rest(self.start))
    }

    /// Whether it is mapped as a plain attach for loads and stores maps it.
    pub fn is_plain(self) -> bool {
        let plain = libc::PROT_READ as u32 | libc::PROT_WRITE as u32;
        self.rights == Rights { now: plain, writable: true, marks: Marks::none() }
            && self.bytes <= self.rest(self.start)
    }
}
