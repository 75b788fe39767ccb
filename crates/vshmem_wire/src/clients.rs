//! Who takes part: domains, clients, and threads at work.

use crate::cell::states;
use crate::{Place, RawCell, StateCell};

/// Bytes of a domain's name.
pub const DOMAIN_NAME_BYTES: usize = 32;
/// Cells that hold a domain's name, four bytes each.
pub const DOMAIN_NAME_CELLS: usize = DOMAIN_NAME_BYTES / 4;
/// Bandwidths that a domain notes.
pub const RATES: usize = 4;
/// Entries of an intent record that lie in the thread slot itself.
pub const INTENT_ENTRIES: usize = 44;
/// Entries of an intent record that lie elsewhere at most: a change to a whole semaphore set.
pub const MORE_INTENT_ENTRIES: usize = 80_000;
/// Semaphore operations of a waiter that lie in the thread slot itself.
pub const INLINE_OPS: usize = 8;

states! {
    /// States of a domain slot.
    pub enum DomainState {
        /// Holds no domain.
        Free = 0,
        /// Takes part. Its lease says whether it is silent.
        Alive = 1,
        /// Declared dead: its clients are being cleaned away.
        Dead = 2,
        /// Evicted without proof of death: what it had attached is quarantined.
        Evicted = 3,
        /// Takes part, and is about to leave: what is new is refused.
        Leaving = 4,
        /// It has left in good order, and joins again when it is told to.
        Left = 5,
    }
}

impl DomainState {
    /// Whether its clients may act.
    #[must_use]
    pub const fn takes_part(self) -> bool {
        matches!(self, Self::Alive | Self::Leaving)
    }

    /// Whether the slot is that of a domain which may still be there.
    #[must_use]
    pub const fn may_be_there(self) -> bool {
        matches!(self, Self::Alive | Self::Leaving | Self::Evicted | Self::Left)
    }
}

/// In [`ClientSlot::leaving`]: the process is about to end.
pub const ENDING: u32 = 1;
/// In [`ClientSlot::leaving`]: the process parts from the pool by itself when its domain leaves.
pub const WANTS_NOTICE: u32 = 2;

/// Marks the pid in [`DomainSlot::agent`] as that of a client that is starting an agent.
pub const AGENT_STARTER: u32 = 1 << 31;

/// In [`DomainSlot::address`]: the doorbell that the domain had is out of order, and stays so until
/// the domain's next boot epoch.
pub const DOORBELL_LOST: u32 = u32::MAX;

/// Words of 32 bits that a domain's agent sleeps on, used where waiters can sleep on the pool
/// itself.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(16))]
pub struct AgentWords {
    /// The number of the agent's thread, until the kernel takes it out.
    pub thread: u32,
    /// What the agent sleeps on until a program asks it to send datagrams.
    pub wake: u32,
    /// To which domains: a bit for each, by its index modulo 32.
    pub asked: u32,
    /// Room for later.
    pub spare: u32,
}

/// One member domain.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct DomainSlot {
    /// Where it stands.
    pub state: StateCell<DomainState>,
    /// Boot epoch: raised each time the slot is taken.
    pub epoch: RawCell,
    /// Boot id of the kernel, 16 bytes.
    pub boot_id: [RawCell; 4],
    /// Inode of the PID namespace, low half.
    pub pid_namespace: RawCell,
    /// Changed about once a second by the agent, by what no copy of its machine comes to as well:
    /// the lease. Readers watch it change.
    pub lease: RawCell,
    /// Seconds since 1970 when the agent last renewed the lease.
    pub renewed: RawCell,
    /// Pid of the agent inside the domain, 0 for none; with [`AGENT_STARTER`], of a client that
    /// has found none and is starting one.
    pub agent: RawCell,
    /// Name, zero padded.
    pub name: [RawCell; DOMAIN_NAME_CELLS],
    /// Where the domain can be notified over its link, plus one; 0 when it cannot,
    /// [`DOORBELL_LOST`] when it no longer can.
    pub address: RawCell,
    /// How fast the domain reads the pool's memory and private memory, and how fast it makes
    /// locked stores to them, in MiB a second; 0 when not measured.
    pub rates: [RawCell; RATES],
    /// What its agent sleeps on.
    pub agent_words: AgentWords,
    /// When the init of the PID namespace was started, in clock ticks since boot, as in the
    /// initial time namespace; 0 when unknown. Inodes of namespaces are given again; this is
    /// not.
    pub born: RawCell,
    /// Whether the domain's agent listens for datagrams: 0 when it does not. Otherwise the low
    /// half is a digest of its address, by which others find that address in their own
    /// configuration; the high half is the slot of its client, plus one.
    pub notify: RawCell,
    /// The domains whose agents this domain's has heard by datagram lately, a bit for each: it
    /// relies on being notified by them.
    pub heard: [RawCell; 2],
    /// Counts reasons for the agent to look at the lock table.
    pub lock_bell: RawCell,
    /// Raised before and after the agent holds a lock to find out whether a program does: odd
    /// meanwhile.
    pub lock_probe: RawCell,
    /// 1: its agent is to carry out that it leaves.
    pub drained: RawCell,
    /// Room for later.
    pub spare: RawCell,
}

states! {
    /// States of a client slot.
    pub enum ClientState {
        /// Holds no client.
        Free = 0,
        /// Kept by a parent for the child that it is about to fork.
        Reserved = 1,
        /// A process.
        Active = 2,
        /// Dead; any thread that sees this continues the clean-up.
        Dying = 3,
        /// Evicted with its domain; its attaches stay until the death is confirmed.
        Quarantined = 4,
    }
}

/// One client process.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ClientSlot {
    /// Where it stands.
    pub state: StateCell<ClientState>,
    /// Index of its domain.
    pub domain: RawCell,
    /// Boot epoch of its domain when it joined.
    pub epoch: RawCell,
    /// Pid inside the domain; while reserved, the parent's.
    pub pid: RawCell,
    /// Start time in clock ticks since boot, low half (proc(5), field 22).
    pub start_low: RawCell,
    /// High half.
    pub start_high: RawCell,
    /// User id when it joined, for display.
    pub uid: RawCell,
    /// First attach record, plus one.
    pub attaches: RawCell,
    /// Seconds since 1970 when it joined.
    pub joined: RawCell,
    /// How often the slot has been taken, 64 bits: with the slot the client's id
    /// ([`crate::ClientId`]).
    pub taken: RawCell,
    /// The thread slots that it has claimed, a [`crate::ClientListHead`].
    pub threads: RawCell,
    /// The undo records that it has claimed, a [`crate::ClientListHead`].
    pub undos: RawCell,
    /// While free: the slot that became free after it, plus one.
    pub next: RawCell,
    /// User whose file its wait words lie in, plus one; 0 when they lie in the pool.
    pub words_uid: RawCell,
    /// Which of that user's files.
    pub words_nonce: RawCell,
    /// [`ENDING`] once the process has announced that it is about to end: what it holds is given
    /// back by the process that sees its end, and until then its threads may store into what it
    /// has attached. [`WANTS_NOTICE`]: it is given time to part when its domain leaves the pool.
    pub leaving: RawCell,
}

states! {
    /// What a waiter waits for.
    pub enum WaitKind {
        /// Nothing.
        None = 0,
        /// An array of semaphore operations.
        Semaphore = 1,
        /// A message.
        Receive = 2,
        /// Room for a message.
        Send = 3,
        /// A change at an address.
        Address = 4,
        /// That a message comes to an empty POSIX queue (mq_notify).
        Notify = 5,
    }
}

/// Room for what a thread waits for: one of the structures below.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct AwaitedWords([u64; 3 + INLINE_OPS]);

/// What a thread in semop waits for.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct SemaphoreWait {
    /// How many operations.
    pub count: u64,
    /// The sequence of the set.
    pub set_sequence: u64,
    /// The waiter's undo record, plus one; 0 when it has none.
    pub undo: u64,
    /// The operations, one a word ([`Operation`](crate::Operation)).
    pub operations: [u64; INLINE_OPS],
}

/// What a receiver waits for.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ReceiveWait {
    /// How the type selects messages: 0 any; 1 that type; 2 all but it; 3 the lowest up to it.
    pub mode: u64,
    /// The type.
    pub mtype: u64,
    /// Bytes that it has room for; all ones where a longer message is cut off.
    pub room: u64,
    /// The sequence of the queue.
    pub queue_sequence: u64,
}

/// What a sender waits for.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct SendWait {
    // Keeps what follows where format 9 has it.
    unused: [u64; 2],
    /// Bytes of its message.
    pub size: u64,
}

/// What a thread waits for that sleeps by address.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct AddressWait {
    // Keeps what follows where format 9 has it.
    unused: u64,
    /// Where in the pool.
    pub offset: u64,
}

/// What mq_notify has registered.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct NotifyWait {
    // Keeps what follows where format 9 has it.
    unused: u64,
    /// A number of the process's own.
    pub number: u64,
}

macro_rules! awaited {
    ($($name:ident: $kind:ty, $doc:literal;)*) => {
        impl Place<ThreadSlot> {
            $(
                #[doc = $doc]
                #[inline]
                #[must_use]
                pub const fn $name(self) -> Place<$kind> {
                    Place::at(crate::field!(self, ThreadSlot, awaited).offset())
                }
            )*
        }
        $(const _: () = assert!(
            size_of::<$kind>() <= size_of::<AwaitedWords>(),
            "a thread slot has room for what its thread waits for"
        );)*
    };
}

awaited! {
    semaphore_wait: SemaphoreWait, "What the thread awaits with [`WaitKind::Semaphore`].";
    receive_wait: ReceiveWait, "What the thread awaits with [`WaitKind::Receive`].";
    send_wait: SendWait, "What the thread awaits with [`WaitKind::Send`].";
    address_wait: AddressWait, "What the thread awaits with [`WaitKind::Address`].";
    notify_wait: NotifyWait, "What the thread awaits with [`WaitKind::Notify`].";
}

states! {
    /// State of a wait.
    pub enum WaitState {
        /// Not waiting.
        Idle = 0,
        /// Queued at an object.
        Waiting = 1,
        /// What was waited for has been done on the waiter's behalf; `result` says how.
        Done = 2,
        /// Worth another try; no longer queued.
        Retry = 3,
    }
}

/// What a thread has begun with an object. Only that thread continues it while it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Which kind of object, in the order of the tables.
    pub kind: u32,
    /// Its slot.
    pub index: u32,
}

impl Task {
    const INDEX_BITS: u32 = 24;

    /// One value; 0 is nothing.
    #[must_use]
    pub const fn pack(self) -> u32 {
        (self.kind + 1) << Self::INDEX_BITS | self.index & ((1 << Self::INDEX_BITS) - 1)
    }

    /// The reverse; `None`: nothing.
    #[must_use]
    pub const fn unpack(value: u32) -> Option<Self> {
        match (value >> Self::INDEX_BITS).checked_sub(1) {
            Some(kind) => Some(Self { kind, index: value & ((1 << Self::INDEX_BITS) - 1) }),
            None => None,
        }
    }
}

/// One entry of an intent record: replace what the cell at `offset` held by the word `new`, and
/// raise its tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct IntentEntry {
    /// Byte offset of the cell.
    pub offset: u64,
    /// Its word before.
    pub old: u64,
    /// Its tag before.
    pub tag: u64,
    /// Its word after.
    pub new: u64,
}

/// Which change an intent record is of, and how long it is.
///
/// The tag is that of the lock word that says *committed*. It lacks its highest 17 bits: the lock
/// would have to be taken 2^45 times, which takes a month at a rate that no lock has, between two
/// looks of one who carries a record out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntentHead {
    /// Tag of the committed lock word.
    pub tag: u64,
    /// Entries.
    pub entries: u64,
}

impl IntentHead {
    const ENTRY_BITS: u32 = 17;

    /// One word; 0 is no record.
    #[inline]
    #[must_use]
    pub const fn pack(self) -> u64 {
        self.tag << Self::ENTRY_BITS | self.entries & ((1 << Self::ENTRY_BITS) - 1)
    }

    /// How many entries a record has.
    #[inline]
    #[must_use]
    pub const fn entries_of(word: u64) -> u64 {
        word & ((1 << Self::ENTRY_BITS) - 1)
    }

    /// How many entries the record `word` has, if it is the one that the lock word with `tag` has
    /// committed.
    #[inline]
    #[must_use]
    pub const fn entries_for(word: u64, tag: u64) -> Option<u64> {
        if word >> Self::ENTRY_BITS == tag & (u64::MAX >> Self::ENTRY_BITS) {
            Some(Self::entries_of(word))
        } else {
            None
        }
    }
}

const _: () = assert!(INTENT_ENTRIES + MORE_INTENT_ENTRIES < 1 << IntentHead::ENTRY_BITS);

/// One thread at work in the pool: its intent record and its wait record.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ThreadSlot {
    /// Id of the client; 0 is free.
    pub owner: RawCell,
    /// The thread slot that the client has claimed before this one, a [`crate::ClientListHead`].
    pub sibling: RawCell,
    /// What the thread has begun with an object and not finished, a [`Task`].
    pub task: RawCell,
    /// How its wait stands.
    pub wait: StateCell<WaitState>,
    /// What it waits for: which of the structures `awaited` is.
    pub kind: StateCell<WaitKind>,
    /// Object slot that is waited at, or bucket.
    pub object: RawCell,
    /// Next waiter at the object, thread slot plus one.
    pub next: RawCell,
    /// Previous waiter at the object, thread slot plus one.
    pub previous: RawCell,
    /// For semaphores: the number that blocks, and in bit 31 whether zero is awaited.
    pub blocked: RawCell,
    /// errno of a wait that was ended by another thread.
    pub result: RawCell,
    /// For receivers: the unit of the message that was handed over, plus one.
    pub message: RawCell,
    /// Pid of the waiter in its domain, with the domain as in [`ProcessRef`].
    pub process_ref: RawCell,
    /// What the thread waits for, by `kind`: [`Place::semaphore_wait`] and so on.
    pub awaited: AwaitedWords,
    /// Offset of the lock that the intent record belongs to.
    pub intent_lock: u64,
    /// What that lock is committed with ([`IntentHead`]).
    pub intent_head: u64,
    /// Offset of further entries, or 0.
    pub more_intents: u64,
    /// Futex word of the waiter on links where the kernel can sleep on pool memory.
    pub doorbell: u64,
    /// How often threads have waited in this slot, a [`WaitCounts`]. Only the slot's thread writes
    /// it; it goes on when the slot changes hands.
    pub waits: u64,
    /// The intent record.
    pub intents: [IntentEntry; INTENT_ENTRIES],
}

/// How often threads have waited in a thread slot. Both numbers wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitCounts {
    /// Times that a thread has joined a wait queue.
    pub waits: u32,
    /// Times that another thread has ended such a wait.
    pub wakeups: u32,
}

impl WaitCounts {
    /// One word.
    #[must_use]
    pub const fn pack(self) -> u64 {
        (self.wakeups as u64) << 32 | self.waits as u64
    }

    /// The reverse.
    #[must_use]
    pub const fn unpack(word: u64) -> Self {
        Self { waits: word as u32, wakeups: (word >> 32) as u32 }
    }
}

/// A process as other domains see it: domain and pid in one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessRef {
    /// Index of the domain.
    pub domain: u32,
    /// Pid inside it; below 2^22 (PID_MAX_LIMIT).
    pub pid: u32,
}

impl ProcessRef {
    /// Bits of a pid.
    pub const PID_BITS: u32 = 22;

    /// One value of 29 bits; 0 is none.
    #[inline]
    #[must_use]
    pub const fn pack(self) -> u32 {
        (self.domain << Self::PID_BITS) | (self.pid & ((1 << Self::PID_BITS) - 1))
    }

    /// The reverse.
    #[inline]
    #[must_use]
    pub const fn unpack(value: u32) -> Self {
        Self { domain: (value >> Self::PID_BITS) & 0x7f, pid: value & ((1 << Self::PID_BITS) - 1) }
    }
}

const _: () = assert!(size_of::<DomainSlot>() == 512, "a domain slot is eight cache lines");
const _: () = assert!(size_of::<ClientSlot>() == 256, "a client slot is four cache lines");
const _: () = assert!(size_of::<IntentEntry>() == 32, "an intent entry is four words");
const _: () = assert!(
    size_of::<ThreadSlot>() == 12 * 16 + size_of::<AwaitedWords>() + 5 * 8 + INTENT_ENTRIES * 32,
    "a thread slot has no padding"
);
