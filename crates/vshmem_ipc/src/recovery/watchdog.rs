//! What a domain's agent does for the sleepers of its domain, so that they need not wake up to do it themselves.
//!
//! A sleeper that everybody can ring sleeps on two words: its own, and one that the kernel changes when the agent ends.
//! Once a second the agent looks in its stead: whether it has been served and the ring was lost, whether somebody died
//! between changing the object and serving those who wait for it.

use std::collections::BTreeSet;

use rustix::io::Errno;
use vshmem_mem::{AtomicU32, Ordering, death_word};
use vshmem_sync::{Desk, Fault, field, load_value};
use vshmem_wire::{AGENT_THREAD_AT, DomainSlot, ObjectState, ThreadSlot, WaitKind, WaitState};

use crate::context::{Member, Reach};
use crate::error::settle;
use crate::pool::domains;
use crate::queue::Queue;
use crate::registry::id::{Kind, Place};
use crate::registry::table;
use crate::sem::set::Set;
use crate::wait::queue::thread_at;

impl Member {
    /// Where the agent's thread is named: beside the wait words, where sleepers of its own user see it. Others go on looking
    /// once a second.
    fn agent_word(&self) -> Result<&AtomicU32, Fault> {
        let layout = self.pool().layout();
        match self.reach {
            Reach::Domain => self.words.of(layout.threads.count as u32),
            Reach::Kernel => {
                let slot = domains::slot_at(layout, self.domain())?;
                Ok(self
                    .pool()
                    .map()
                    .futex(field!(slot, DomainSlot, agent_thread) + AGENT_THREAD_AT)?)
            }
        }
    }

    /// The agent's word and what it holds, while there is an agent.
    pub(crate) fn living_agent(&self) -> Option<(&AtomicU32, u32)> {
        let word = self.agent_word().ok()?;
        let value = word.load(Ordering::SeqCst);
        death_word::is_owned(value).then_some((word, value))
    }

    /// To be called by the thread that is the agent: from now on sleepers rely on it, until it ends or calls
    /// [`Member::stop_guarding`]. Where that cannot be, they go on looking once a second.
    pub fn guard_sleepers(&self) {
        if let Ok(word) = self.agent_word() {
            death_word::own(word);
        }
    }

    /// Sleepers no longer rely on the calling thread.
    pub fn stop_guarding(&self) {
        if let Ok(word) = self.agent_word() {
            death_word::disown(word);
        }
    }

    /// Looks after the objects at which threads of this domain sleep: makes up for those who died halfway. Lost rings are
    /// [`Member::deliver_rings`]' part.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn tend_sleepers(&self) -> Result<(), Errno> {
        settle(self.look_for_neighbours().map(Ok))?;
        let objects = settle(self.objects_slept_at().map(Ok))?;
        if objects.is_empty() {
            return Ok(());
        }
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        for (is_set, index) in objects {
            settle(self.tend_object(&desk, is_set, index))?;
        }
        Ok(())
    }

    /// Sets (true) and queues at which threads of this domain sleep.
    fn objects_slept_at(&self) -> Result<BTreeSet<(bool, u32)>, Fault> {
        let (layout, map) = (self.pool().layout(), self.pool().map());
        let mut objects = BTreeSet::new();
        for slot in 0..layout.threads.count as u32 {
            if !self.words.is_asleep(slot) && !self.is_neighbour_in_line(slot) {
                continue;
            }
            let at = thread_at(layout, slot)?;
            if load_value(map, field!(at, ThreadSlot, wait))? == WaitState::Waiting as u32 {
                let kind = load_value(map, field!(at, ThreadSlot, kind))?;
                let object = load_value(map, field!(at, ThreadSlot, object))?;
                objects.insert((kind == WaitKind::Semaphore as u32, object));
            }
        }
        Ok(objects)
    }

    pub(crate) fn tend_object(
        &self,
        desk: &Desk<'_>,
        is_set: bool,
        index: u32,
    ) -> Result<Result<(), Errno>, Fault> {
        let (layout, map) = (self.pool().layout(), self.pool().map());
        let kind = if is_set { Kind::Semaphore } else { Kind::Queue };
        let slot = table::slot_at(layout, kind, index)?;
        let standing = table::standing(map, slot)?;
        if !standing.is(ObjectState::Live) && !standing.is(ObjectState::Dying) {
            return Ok(Ok(()));
        }
        let place = Place { index, sequence: standing.sequence };
        Ok(if is_set {
            self.tend_set(desk, &Set::read(self.pool(), place, slot)?)
        } else {
            self.tend_queue(desk, &Queue::at(place, slot))
        })
    }
}
