//! The bytes of a pool: every structure that two domains share, as `repr(C)` layouts.
//!
//! This crate holds no logic beyond the arithmetic of the layout itself. What the structures mean
//! is described in `docs/internals/wire-format.md`.
//!
//! Nothing here is a pointer: structures refer to each other by index (stored plus one, so that
//! zero means "none") or by byte offset from the start of the pool.

#![forbid(unsafe_code)]

mod cell;
mod client_id;
mod clients;
mod extent;
mod futex;
mod geometry;
mod hash;
mod heap;
mod layout;
mod lock_row;
mod message;
mod name;
mod node_range;
mod object;
mod place;
mod registry;
mod semaphore;
mod superblock;

pub use cell::{CELL_BYTES, Cell, RawCell, State, StateCell, WORD_BYTES};
pub use client_id::{ClientId, ClientListHead, domain_digest};
pub use clients::{
    AGENT_STARTER, AddressWait, AgentWords, ClientSlot, ClientState, DOMAIN_NAME_BYTES,
    DOMAIN_NAME_CELLS, DOORBELL_LOST, DomainSlot, DomainState, ENDING, INLINE_OPS, INTENT_ENTRIES,
    IntentEntry, IntentHead, MORE_INTENT_ENTRIES, NotifyWait, ProcessRef, RATES, ReceiveWait,
    SemaphoreWait, SendWait, Task, ThreadSlot, WANTS_NOTICE, WaitCounts, WaitKind, WaitState,
};
pub use extent::{ExtentSlot, ExtentState, PAGES_PER_MARK, extent_slots};
pub use futex::{FutexBucket, futex_bucket};
pub use geometry::{Geometry, GeometryError, Limit};
pub use hash::{fnv1a_32, fnv1a_64, siphash_2_4};
pub use heap::{
    CHUNK_CLASSES, MAX_SLABS, RING_CLASS, SLAB_BYTES, SLABS_PER_RING_SLAB, SlabMeta, UNIT_BYTES,
    UnitMeta,
};
pub use layout::{Area, Layout, NoRow, Page, Slab};
pub use lock_row::{LockAnswer, LockClass, LockMode, LockRow, LockRowHead, LockRowKind};
pub use message::{
    LONG_RING_BYTES, LONG_RING_SLOTS, MSG_HEADER_BYTES, MovedMessage, MsgHeader, NEW_RARITY_LOG2,
    OUTGROWN_RARITY_LOG2, QueueCount, RING_INLINE_BYTES, RING_INLINE_TYPE_BITS, RING_LEAST_LIMIT,
    RING_PAYLOAD_BYTES, RING_SHORT_BYTES, RING_SLOTS, RingPosition, RingReserve,
};
pub use name::{AttachCount, NAME_BYTES, ObjectKey, ObjectName};
pub use node_range::{MAX_NODES, NODE_RANGES, NODES_WITH_DISTANCE, NodeRange, are_node_ranges};
pub use object::{
    ATTACHED_QUEUE, AttachSlot, MOST_QUEUE_MESSAGE_BYTES, MOST_QUEUE_MESSAGES, MsgSlot,
    ObjectHeader, ObjectState, PERM_BITS, PLACES, PlaceHint, QUEUE_PRIORITIES, QueueMode, SemSlot,
    ShmSlot, UndoSlot,
};
pub use place::{At, Place};
pub use registry::{PAGE_BINS, Registry};
pub use semaphore::{Adjustment, ArrayState, ArrayWord, Operation, SemWord};
pub use superblock::{
    FORMAT_VERSION, HOST_RECORD_OFFSET, HostRecord, MAGIC, POOL_NAME_BYTES, Superblock,
};

/// Bytes in a page of the pool: the granule of segments. Fixed by the format, whatever the CPU.
pub const PAGE_BYTES: u64 = 4096;
/// Lowest index that an object of a pool has inside its System V id.
///
/// The kernel reaches this index only with more than about 10,900 live objects of one kind, so ids
/// of the pool and of the kernel can be distinguished.
pub const INDEX_BASE: u32 = 16384;
/// Most objects of one kind in a pool: the indexes from [`INDEX_BASE`] to 32767.
pub const MAX_OBJECTS: u32 = 16384;

/// Buckets of the key index per object slot: with as many as objects, one key in two shares its
/// bucket, and a lookup in a full pool takes a quarter longer than in an empty one.
pub const KEY_BUCKETS: u64 = 4;
/// Ids are `sequence * ID_STRIDE + index`, as in Linux (`ipc/util.h`, IPCMNI).
pub const ID_STRIDE: u32 = 32768;
