//! shmget(2).

use rustix::io::Errno;
use vshmem_mem::tuning::{RETRIES, RETRY_INTERVAL};
use vshmem_mem::{AtomicU32, futex_wait, seconds_now};
use vshmem_sync::Decision::{Abandon, Commit};
use vshmem_sync::{Fault, LockContext, Txn};
use vshmem_wire::{
    AttachCount, Layout, ObjectName, ObjectState, PAGE_BYTES, Place, Registry, ShmSlot, field,
};

use crate::context::Context;
use crate::error::Failure;
use crate::memory::backing::Backing;
use crate::memory::node_order::NodeOrder;
use crate::memory::{change, dirty, extents};
use crate::pool::id::{Kind, ObjectSlot};
use crate::pool::limits::limit_name;
use crate::registry::get::{self, Asked, Request};
use crate::registry::permission::Caller;
use crate::registry::table::{self, SlotState};
use crate::shm::clean;
use crate::shm::node_key::node_of_key;
use crate::shm::record::destroy;
use crate::shm::segment::{self, at, pages_of};

/// Pages of the largest page that segments are aligned to, and the size from which they are.
const LARGE_PAGES: u32 = 512;

/// Pages up to which old ones are worth more than clean ones elsewhere: clearing what a cache holds
/// costs less than touching for the first time what none does. Above, the clearing is what costs.
const CACHED_PAGES: u32 = 4096;

/// shmget(2). New memory is made ready by `backing`.
pub(crate) fn shmget(
    context: &Context,
    key: i32,
    size: u64,
    flags: i32,
    caller: &dyn Caller,
    backing: &dyn Backing,
) -> Result<i32, Failure> {
    get::get(context, Asked { key, flags, caller }, &SegmentRequest { size, backing })
}

/// What shmget(2) asks for beside.
struct SegmentRequest<'a> {
    size: u64,
    backing: &'a dyn Backing,
}

impl Request for SegmentRequest<'_> {
    const KIND: Kind = Kind::Segment;
    const LOST: &'static str = "a key that is in use and leads to no segment";

    /// Its slot and its bytes.
    type Found = (Place<ShmSlot>, u64);

    #[inline(always)]
    fn find(context: &Context, object_slot: ObjectSlot) -> Result<(Place<ShmSlot>, u64), Failure> {
        let (_, slot) = segment::find_any(context, object_slot.id())?;
        Ok((slot, segment::bytes(context, object_slot, slot)?))
    }

    #[inline(always)]
    fn check(
        &self,
        context: &Context,
        asked: Asked<'_>,
        object_slot: ObjectSlot,
        (slot, bytes): (Place<ShmSlot>, u64),
    ) -> Result<(), Failure> {
        if bytes < self.size {
            return Err(Errno::INVAL.into());
        }
        asked.check_mode(context, slot.header())?;
        context.reported_sizes.record_size(Kind::Segment, object_slot, pages_of(bytes)?)
    }

    fn make(&self, context: &Context, asked: Asked<'_>) -> Result<Option<ObjectSlot>, Failure> {
        let geometry = context.pool().geometry();
        if self.size < u64::from(geometry.shmmin) || self.size > geometry.shmmax {
            return Err(Errno::INVAL.into());
        }
        let pages = u32::try_from(self.size.div_ceil(PAGE_BYTES)).map_err(|_| Errno::NOSPC)?;
        let slot_guard = context.slot_guard()?;
        let lock_context = context.lock_context_of(&slot_guard);
        let node = node_of_key(asked.key);
        let (object_slot, extent) =
            begin_patiently(context, &lock_context, pages, node, self.backing)?;
        let published = ready_pages(context, extent, self.backing)
            .and_then(|()| publish_segment(context, &lock_context, object_slot, asked, self.size));
        if published != Ok(true) {
            abandon_segment(context, &lock_context, object_slot);
            return published.map(|_| None);
        }
        context.reported_sizes.record_size(Kind::Segment, object_slot, pages)?;
        Ok(Some(object_slot))
    }
}

/// As `begin_segment`, near the node that is asked for, or else the caller's; pages that are
/// missing because they are being cleaned are waited for.
pub(super) fn begin_patiently(
    context: &Context,
    lock_context: &LockContext<'_>,
    pages: u32,
    node: Option<u32>,
    backing: &dyn Backing,
) -> Result<(ObjectSlot, extents::Extent), Failure> {
    let ranges = context.pool().superblock().node_ranges();
    let node = if ranges.is_empty() { None } else { node.or_else(|| backing.node()) };
    let order = NodeOrder::of(ranges, node);
    let at_hand = backing.at_hand(u64::from(pages) * PAGE_BYTES);
    let data = context.pool().layout().data.offset();
    let at_hand = at_hand.and_then(|at| u32::try_from(at.checked_sub(data)? / PAGE_BYTES).ok());
    let mut retries = 0;
    loop {
        // Asked first: what is given back in between is found.
        let missing = clean::somebody_cleans(context)?;
        match begin_segment(context, lock_context, pages, &order, at_hand) {
            Err(Failure::Errno(Errno::NOSPC)) if missing && retries < RETRIES => {
                // No thread wakes it: a word of its own, which stays as it is.
                let _ = futex_wait(&AtomicU32::new(0), 0, RETRY_INTERVAL);
            }
            other => return other,
        }
        retries += 1;
    }
}

/// Makes new pages read as zeros and sees to it that there is memory behind them.
pub(super) fn ready_pages(
    context: &Context,
    extent: extents::Extent,
    backing: &dyn Backing,
) -> Result<(), Failure> {
    let pool = context.pool();
    let (layout, map) = (pool.layout(), pool.map());
    let end = extent.first + extent.pages;
    let mut page = extent.first;
    while page < end {
        let run = dirty::run(map, layout, page, end - page);
        let (pages, dirty) = run?;
        if dirty || pool.superblock().backed == 0 {
            let base = layout.data.offset() + u64::from(page) * PAGE_BYTES;
            backing.prepare(base, u64::from(pages) * PAGE_BYTES, dirty)?;
        }
        page += pages;
    }
    // From now on others may write to them.
    dirty::mark(map, layout, extent.first, extent.pages, true).map_err(Failure::from)
}

/// Takes pages of the first node of the order that has so many in a row. Pools without ranges go
/// past it.
#[inline]
fn take_near<C: FnMut(u32, u32) -> Result<u32, Fault>>(
    txn: &mut Txn<'_>,
    layout: &Layout,
    pages: u32,
    order: &NodeOrder<'_>,
    choose: impl Fn(u32) -> C,
) -> Result<Option<extents::Extent>, Fault> {
    for within in order.pages() {
        for align in [LARGE_PAGES, 1] {
            if align > 1 && pages < LARGE_PAGES {
                continue;
            }
            let taken = extents::allocate(txn, layout, pages, &within, align, choose(align))?;
            if taken.is_some() {
                return Ok(taken);
            }
        }
    }
    Ok(None)
}

/// Takes a slot and pages; the segment is `Creating` and names this client as its maker.
///
/// The pages come from the first node of the order that has so many in a row, or else from
/// anywhere. Pages that are `at_hand` are taken where they are in the extent that is taken from;
/// otherwise, in a pool that keeps some ready, a large segment gets clean ones.
fn begin_segment(
    context: &Context,
    lock_context: &LockContext<'_>,
    pages: u32,
    order: &NodeOrder<'_>,
    at_hand: Option<u32>,
) -> Result<(ObjectSlot, extents::Extent), Failure> {
    let pool = context.pool();
    let (layout, map) = (pool.layout(), pool.map());
    let shmall = pool.geometry().shmall;
    let choose = |align: u32| {
        move |first: u32, end: u32| match at_hand {
            Some(page) => Ok(if page < end { page } else { first }),
            None if pool.superblock().prepare == 0 || pages <= CACHED_PAGES => Ok(first),
            None => {
                let clean = dirty::clean_place(map, layout, first, end, pages, align)?;
                Ok(clean.unwrap_or(first))
            }
        }
    };
    change::decide(context, lock_context, pool.registry_lock(), "shmget-begin", |txn| {
        let used = txn.get(field!(layout.registry, Registry, pages_used))?;
        if u64::from(used) + u64::from(pages) > shmall {
            return Ok(Abandon(pool.full(limit_name!(shmall), Errno::NOSPC)));
        }
        let mut extent = take_near(txn, layout, pages, order, choose)?;
        let everywhere = 0..extents::pages_in(layout);
        let align = if pages >= LARGE_PAGES { LARGE_PAGES } else { 1 };
        if extent.is_none() {
            extent = extents::allocate(txn, layout, pages, &everywhere, align, choose(align))?;
        }
        if extent.is_none() && align > 1 {
            extent = extents::allocate(txn, layout, pages, &everywhere, 1, choose(1))?;
        }
        let Some(extent) = extent else {
            return Ok(Abandon(pool.full(limit_name!(pages), Errno::NOSPC)));
        };
        let Some(object_slot) = table::take_slot(txn, layout, Kind::Segment)? else {
            return Ok(Abandon(pool.full(limit_name!(shmmni), Errno::NOSPC)));
        };
        let slot = layout.shm.row(object_slot.index)?;
        let creating =
            SlotState { state: ObjectState::Creating as u32, sequence: object_slot.sequence };
        txn.set(field!(slot, ShmSlot, header.state), creating.pack())?;
        txn.update(at!(slot, first_page), extent.first)?;
        txn.update(at!(slot, pages), extent.pages)?;
        txn.update(at!(slot, extent), extent.slot)?;
        txn.update_word(at!(slot, attached), AttachCount::default().pack())?;
        txn.update_word(at!(slot, maker), context.client_id().word())?;
        table::begin_task(txn, Kind::Segment, object_slot.index)?;
        Ok(Commit((object_slot, extent)))
    })
}

/// Gives a ready segment its key. False when another thread has made one of that key meanwhile.
fn publish_segment(
    context: &Context,
    lock_context: &LockContext<'_>,
    object_slot: ObjectSlot,
    asked: Asked<'_>,
    size: u64,
) -> Result<bool, Failure> {
    let pool = context.pool();
    let layout = pool.layout();
    let permission = asked.permission();
    change::run(context, lock_context, pool.registry_lock(), "shmget", |txn| {
        if table::is_taken(txn, layout, Kind::Segment, asked.key)? {
            return Ok(false);
        }
        let slot = layout.shm.row(object_slot.index)?;
        table::describe(txn, slot.header(), &permission, seconds_now())?;
        txn.update(at!(slot, size_low), size as u32)?;
        txn.update(at!(slot, size_high), (size >> 32) as u32)?;
        txn.update(at!(slot, attach_time), 0)?;
        txn.update(at!(slot, detach_time), 0)?;
        txn.update(at!(slot, creator), context.process_ref().pack())?;
        txn.update(at!(slot, last), 0)?;
        txn.update_word(at!(slot, maker), 0)?;
        txn.update_word(at!(slot, name), ObjectName::SystemV.pack())?;
        table::end_task(txn, Kind::Segment, object_slot.index)?;
        if asked.key != 0 {
            table::enter_key(txn, layout, Kind::Segment, object_slot.index)?;
        }
        let live = SlotState { state: ObjectState::Live as u32, sequence: object_slot.sequence };
        txn.set(field!(slot, ShmSlot, header.state), live.pack())?;
        Ok(true)
    })
}

/// Gives a segment that is still `Creating` back.
pub(crate) fn abandon_segment(
    context: &Context,
    lock_context: &LockContext<'_>,
    object_slot: ObjectSlot,
) {
    let pool = context.pool();
    let layout = pool.layout();
    let creating =
        SlotState { state: ObjectState::Creating as u32, sequence: object_slot.sequence };
    // If this fails, the segment is given back when this client ends.
    let _ = change::run(context, lock_context, pool.registry_lock(), "shmget-abandon", |txn| {
        let slot = layout.shm.row(object_slot.index)?;
        if txn.get(field!(slot, ShmSlot, header.state))? == creating.pack() {
            txn.set(at!(slot, maker), 0)?;
            table::end_task(txn, Kind::Segment, object_slot.index)?;
            destroy(txn, layout, object_slot.index)?;
        }
        Ok(())
    });
}
