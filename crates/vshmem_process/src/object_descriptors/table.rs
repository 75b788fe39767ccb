//! Which descriptor of this process is which object: a table without a lock, because close(2) and
//! its like may be called from signal handlers, and a descriptor of no object must cost next to
//! nothing.
//!
//! An entry is claimed by its state word, which also counts how often it has changed hands: a
//! reader sees by that whether all words of the entry are of one descriptor. Entries lie in pages
//! that are made when the first descriptor of their range comes, and stay.

use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

use vshmem_mem::Mapping;

/// What a descriptor is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// A POSIX shared memory object, by its id in the pool.
    SharedMemory(i32),
    /// A POSIX message queue, by its id in the pool.
    Queue(i32),
}

/// What a descriptor was opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// O_RDONLY or O_RDWR.
    pub read: bool,
    /// O_WRONLY or O_RDWR.
    pub write: bool,
}

impl Access {
    /// What the flags of open(2) ask for; `None` for a mode that allows nothing.
    pub fn of_flags(flags: i32) -> Option<Self> {
        match flags & libc::O_ACCMODE {
            libc::O_RDONLY => Some(Self { read: true, write: false }),
            libc::O_WRONLY => Some(Self { read: false, write: true }),
            libc::O_RDWR => Some(Self { read: true, write: true }),
            _ => None,
        }
    }

    /// O_RDONLY and its like, of one that allows something.
    pub fn flags(self) -> i32 {
        match (self.read, self.write) {
            (true, true) => libc::O_RDWR,
            (false, true) => libc::O_WRONLY,
            _ => libc::O_RDONLY,
        }
    }
}

/// The file behind a descriptor. A number may come to stand for another file unseen: by calls
/// inside libc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// A descriptor of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// What it is of.
    pub object: Object,
    /// What it may be used for.
    pub access: Access,
    /// The file that stands for the object.
    pub identity: Identity,
}

/// What a call on a queue has to know of its descriptor, in one word: parts that are stored one by
/// one and loaded together, as a structure's are on its way, make the processor wait for the
/// stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenQueue(u64);

impl OpenQueue {
    /// The queue's id in the pool.
    #[inline]
    pub fn id(self) -> i32 {
        self.0 as u32 as i32
    }

    /// O_RDONLY or O_RDWR.
    #[inline]
    pub fn may_receive(self) -> bool {
        self.0 & READ != 0
    }

    /// O_WRONLY or O_RDWR.
    #[inline]
    pub fn may_send(self) -> bool {
        self.0 & WRITE != 0
    }

    /// O_NONBLOCK, as far as is known.
    #[inline]
    pub fn is_nonblocking(self) -> bool {
        self.0 & WAITS_NOT != 0
    }
}

/// There is no place in the table: the number is too large, there is no memory, or another thread
/// is at the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoEntry;

const FREE: u64 = 0;
const CLAIMED: u64 = 1;
const USED: u64 = 2;
/// The low bits of a state word; above the mark, the others count.
const KIND: u64 = 3;
/// Of a queue: O_NONBLOCK, as far as is known.
const NONBLOCKING: u64 = 4;
const TURN: u64 = 8;

const QUEUE: u64 = 1 << 32;
const READ: u64 = 1 << 33;
const WRITE: u64 = 1 << 34;
/// Only in [`OpenQueue`]; in the table it is a mark of the state.
const WAITS_NOT: u64 = 1 << 35;

/// Object and access in one word.
fn pack(descriptor: Descriptor) -> u64 {
    let (kind, id) = match descriptor.object {
        Object::SharedMemory(id) => (0, id),
        Object::Queue(id) => (QUEUE, id),
    };
    let bit = |set: bool, bit: u64| if set { bit } else { 0 };
    let Access { read, write } = descriptor.access;
    kind | bit(read, READ) | bit(write, WRITE) | u64::from(id as u32)
}

fn unpack(word: u64, identity: Identity) -> Descriptor {
    let id = word as u32 as i32;
    let object = if word & QUEUE == 0 { Object::SharedMemory(id) } else { Object::Queue(id) };
    let access = Access { read: word & READ != 0, write: word & WRITE != 0 };
    Descriptor { object, access, identity }
}

/// The state word of an entry that has become free.
const fn free_after(state: u64) -> u64 {
    (state & !(KIND | NONBLOCKING)).wrapping_add(TURN)
}

/// One number. All zero bytes are a free one.
#[derive(Debug)]
struct Entry {
    state: AtomicU64,
    word: AtomicU64,
    device: AtomicU64,
    inode: AtomicU64,
}

impl Entry {
    /// What `read` makes of the words, which are of one descriptor, and the state that says so.
    #[inline]
    fn read<T>(&self, read: impl Fn(&Self) -> T) -> Option<(u64, T)> {
        loop {
            let state = self.state.load(Ordering::Acquire);
            if state & KIND != USED {
                return None;
            }
            let value = read(self);
            fence(Ordering::Acquire);
            if self.state.load(Ordering::Relaxed) == state {
                return Some((state, value));
            }
        }
    }

    /// The descriptor, with the state that says that there is one.
    fn snapshot(&self) -> Option<(u64, Descriptor)> {
        self.read(|entry| {
            let identity = Identity {
                device: entry.device.load(Ordering::Relaxed),
                inode: entry.inode.load(Ordering::Relaxed),
            };
            unpack(entry.word.load(Ordering::Relaxed), identity)
        })
    }

    /// The descriptor, if it is of a queue.
    #[inline]
    fn queue_snapshot(&self) -> Option<OpenQueue> {
        let (state, word) = self.read(|entry| entry.word.load(Ordering::Relaxed))?;
        let waits_not = if state & NONBLOCKING != 0 { WAITS_NOT } else { 0 };
        (word & QUEUE != 0).then_some(OpenQueue(word | waits_not))
    }

    /// Marks it, if it is of this file. The mark is in the state: it never gets to a descriptor
    /// that has come to the number since the look.
    fn mark(&self, identity: Identity, nonblocking: bool) {
        while let Some((state, descriptor)) = self.snapshot()
            && descriptor.identity == identity
        {
            let marked = if nonblocking { state | NONBLOCKING } else { state & !NONBLOCKING };
            let order = (Ordering::SeqCst, Ordering::Relaxed);
            if self.state.compare_exchange(state, marked, order.0, order.1).is_ok() {
                return;
            }
        }
    }

    /// Writes a descriptor into an entry that was free in `state`; false when another thread has
    /// it.
    fn fill(&self, state: u64, descriptor: Descriptor) -> bool {
        let claim = self.state.compare_exchange(
            state,
            state | CLAIMED,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if claim.is_err() {
            return false;
        }
        // A thread that sees one of the words below sees that the entry is claimed.
        fence(Ordering::Release);
        self.word.store(pack(descriptor), Ordering::Relaxed);
        self.device.store(descriptor.identity.device, Ordering::Relaxed);
        self.inode.store(descriptor.identity.inode, Ordering::Relaxed);
        self.state.store(state | USED, Ordering::Release);
        true
    }

    /// Empties an entry that was in `state`; false when another thread was faster.
    fn empty(&self, state: u64) -> bool {
        self.state
            .compare_exchange(state, free_after(state), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

/// Numbers of one page.
const ENTRIES: usize = 512;

type Page = [Entry; ENTRIES];

/// Descriptors of the numbers below `PAGES` times 512.
#[derive(Debug)]
pub struct Table<const PAGES: usize> {
    pages: [AtomicPtr<Page>; PAGES],
    /// Descriptors there are, or one more while one comes or goes.
    count: AtomicUsize,
    /// Pages from here on have never been made.
    high: AtomicUsize,
}

impl<const PAGES: usize> Default for Table<PAGES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const PAGES: usize> Table<PAGES> {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            pages: [const { AtomicPtr::new(std::ptr::null_mut()) }; PAGES],
            count: AtomicUsize::new(0),
            high: AtomicUsize::new(0),
        }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    fn page(&self, index: usize) -> Option<&Page> {
        let page = self.pages.get(index)?.load(Ordering::Acquire);
        // SAFETY: a page that was published is never unmapped; all zero bytes are free entries.
        unsafe { page.as_ref() }
    }

    fn entry(&self, number: i32) -> Option<&Entry> {
        let number = usize::try_from(number).ok()?;
        self.page(number / ENTRIES).map(|page| &page[number % ENTRIES])
    }

    /// Makes room for the usual numbers, while there are addresses for it.
    pub fn make_usual(&self) {
        let _ = self.made_entry(0);
    }

    /// As [`Table::entry`], with a page made if there is none.
    fn made_entry(&self, number: i32) -> Option<&Entry> {
        let index = usize::try_from(number).ok()? / ENTRIES;
        let place = self.pages.get(index)?;
        if place.load(Ordering::Acquire).is_null() {
            let page = Mapping::anonymous(size_of::<Page>()).ok()?;
            let start: *mut Page = page.start().as_ptr().cast();
            let null = std::ptr::null_mut();
            // Where another thread was faster, this one's page is unmapped again.
            if place.compare_exchange(null, start, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                page.leak();
                self.high.fetch_max(index + 1, Ordering::AcqRel);
            }
        }
        self.entry(number)
    }

    /// What a number stands for.
    #[inline]
    pub fn get(&self, number: i32) -> Option<Descriptor> {
        if self.is_empty() {
            return None;
        }
        self.entry(number)?.snapshot().map(|(_, descriptor)| descriptor)
    }

    /// The queue that a number stands for.
    #[inline]
    pub fn queue(&self, number: i32) -> Option<OpenQueue> {
        if self.is_empty() { None } else { self.entry(number)?.queue_snapshot() }
    }

    /// Marks the descriptors of a file as nonblocking, or as not.
    pub fn mark(&self, identity: Identity, nonblocking: bool) {
        self.each_in(0, u32::MAX, |number, descriptor| {
            if descriptor.identity == identity
                && let Some(entry) = self.entry(number)
            {
                entry.mark(identity, nonblocking);
            }
        });
    }

    /// A number that stands for nothing stands for an object from now on.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn set(&self, number: i32, descriptor: Descriptor) -> Result<(), NoEntry> {
        let entry = self.made_entry(number).ok_or(NoEntry)?;
        // Before the entry: a thread that knows of the descriptor must not find the table empty.
        self.count.fetch_add(1, Ordering::AcqRel);
        let state = entry.state.load(Ordering::Relaxed);
        if state & KIND == FREE && entry.fill(state, descriptor) {
            return Ok(());
        }
        self.count.fetch_sub(1, Ordering::AcqRel);
        Err(NoEntry)
    }

    /// A number stands for nothing any more. What it stood for is the caller's to give back.
    pub fn take(&self, number: i32) -> Option<Descriptor> {
        self.take_if(number, |_| true)
    }

    /// As [`Table::take`], if what it stands for is as `wanted`.
    pub fn take_if(&self, number: i32, wanted: impl Fn(Descriptor) -> bool) -> Option<Descriptor> {
        let entry = self.entry(number)?;
        while let Some((state, descriptor)) = entry.snapshot() {
            if !wanted(descriptor) {
                return None;
            }
            if entry.empty(state) {
                self.count.fetch_sub(1, Ordering::AcqRel);
                return Some(descriptor);
            }
        }
        None
    }

    /// The first number of which `wanted` says yes.
    pub fn find(&self, wanted: impl Fn(Descriptor) -> bool) -> Option<(i32, Descriptor)> {
        let high = self.high.load(Ordering::Acquire).min(PAGES);
        if self.is_empty() {
            return None;
        }
        (0..high).filter_map(|index| Some((index, self.page(index)?))).find_map(|(index, page)| {
            page.iter().enumerate().find_map(|(place, entry)| {
                let (_, descriptor) = entry.snapshot()?;
                wanted(descriptor).then_some(((index * ENTRIES + place) as i32, descriptor))
            })
        })
    }

    /// Calls `each` with every number that stands for an object, from `first` to `last`.
    pub fn each_in(&self, first: u32, last: u32, mut each: impl FnMut(i32, Descriptor)) {
        if self.is_empty() {
            return;
        }
        let high = self.high.load(Ordering::Acquire).min(PAGES);
        let (first, last) = (first as usize, last as usize);
        for index in first / ENTRIES..high.min(last / ENTRIES + 1) {
            let Some(page) = self.page(index) else { continue };
            for (place, entry) in page.iter().enumerate() {
                let number = index * ENTRIES + place;
                if (first..=last).contains(&number)
                    && let Some((_, descriptor)) = entry.snapshot()
                {
                    each(number as i32, descriptor);
                }
            }
        }
    }

    /// In a new child: entries that another thread of the parent was writing are nobody's.
    pub fn begin_child(&self) {
        let mut used = 0;
        for page in (0..self.high.load(Ordering::Acquire).min(PAGES)).filter_map(|i| self.page(i)) {
            for entry in page {
                let state = entry.state.load(Ordering::Relaxed);
                match state & KIND {
                    USED => used += 1,
                    CLAIMED => entry.state.store(free_after(state), Ordering::Relaxed),
                    _ => {}
                }
            }
        }
        self.count.store(used, Ordering::Release);
    }
}
