//! What is done when a process or a whole domain has died.
//!
//! Every step can be repeated and can be left halfway: whoever buries may die as well, and two may
//! do it at once. The order is: the client is marked, its sleepers leave their lines, its
//! adjustments are applied, its attaches and its memory are given back, its slot becomes free, and
//! last of all everybody who sleeps is told to look again.

use vshmem_mem::Ordering;
use vshmem_sync::{Desk, Fault, Seat, claim_cell, field, holder_of, load_value, with_lock};
use vshmem_wire::{
    ClientSlot, ClientState, DomainSlot, DomainState, ObjectState, Party, Registry, ShmSlot,
    ThreadSlot, UndoSlot, WaitKind, WaitState,
};

use crate::id::{Kind, Place};
use crate::member::client_at;
use crate::queue::Queue;
use crate::registry::{self, per_kind};
use crate::semaphore::Set;
use crate::wait::{leave_line, thread_at};
use crate::{Errno, Member, domain, heap, member, settle, undo};

/// An errno out of a step that has no caller to tell it to.
fn broken(at: u64) -> impl Fn(Errno) -> Fault {
    move |_| Fault::corrupt(at, "a step that cannot be finished")
}

impl Member {
    /// Buries a process of this domain that has ended: by pid and start time, as a pidfd or
    /// waitpid told. Nothing happens if there is no such client.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn bury_process(&self, pid: u32) -> Result<bool, Errno> {
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        settle(self.bury_pid(&desk, pid).map(Ok))
    }

    /// Without the heap: this is called after waitpid, which programs call in signal handlers.
    fn bury_pid(&self, desk: &Desk<'_>, pid: u32) -> Result<bool, Fault> {
        let layout = self.pool().layout();
        let map = self.pool().map();
        let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
        let mut found = false;
        for client in 0..high.min(layout.clients.count as u32) {
            let slot = client_at(layout, client)?;
            let state = load_value(map, field!(slot, ClientSlot, state))?;
            let same = state != ClientState::Free as u32
                && load_value(map, field!(slot, ClientSlot, domain))? == self.domain()
                && load_value(map, field!(slot, ClientSlot, pid))? == pid;
            if same {
                let client = self.named(client)?;
                self.bury_client(desk, client)?;
                found = true;
            }
        }
        Ok(found)
    }

    /// Buries one client, by its slot.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn bury(&self, client: u32) -> Result<(), Errno> {
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        settle(self.named(client).and_then(|client| self.bury_client(&desk, client)).map(Ok))
    }

    /// The client that is in a slot now.
    pub(crate) fn named(&self, index: u32) -> Result<u32, Fault> {
        let slot = client_at(self.pool().layout(), index)?;
        let incarnation = load_value(self.pool().map(), field!(slot, ClientSlot, incarnation))?;
        Ok(member::compose(index, incarnation))
    }

    /// Buries the client that a census has found dead, unless its slot has changed hands since.
    /// False when it has.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn bury_resident(&self, dead: &crate::Resident) -> Result<bool, Errno> {
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        let claim = || -> Result<Option<u32>, Fault> {
            let slot = client_at(self.pool().layout(), dead.index)?;
            with_lock(desk, self.pool().registry_lock(), "bury-claim", |txn| {
                let state_at = field!(slot, ClientSlot, state);
                let same = txn.get(state_at)? == dead.state as u32
                    && txn.get(field!(slot, ClientSlot, domain))? == dead.domain
                    && txn.get(field!(slot, ClientSlot, pid))? == dead.pid
                    && txn.get(field!(slot, ClientSlot, start_low))? == dead.start as u32;
                if !same {
                    return Ok(None);
                }
                txn.update(state_at, ClientState::Dying as u32)?;
                let incarnation = txn.get(field!(slot, ClientSlot, incarnation))?;
                Ok(Some(member::compose(dead.index, incarnation)))
            })
        };
        let Some(client) = settle(claim().map(Ok))? else { return Ok(false) };
        settle(self.bury_client(&desk, client).map(|()| Ok(true)))
    }

    /// Gives up what this process holds while it still runs, at exit: attaches and adjustments.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn farewell(&self) -> Result<(), Errno> {
        self.leave_adjustments()?;
        self.detach_all()
    }

    /// Applies this process's adjustments now.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn leave_adjustments(&self) -> Result<(), Errno> {
        let seat = self.seat()?;
        let party = self.party().pack();
        settle(self.leave_undos(&self.desk_of(&seat), self.me(), party).map(Ok))
    }

    /// Buries a client, named by slot and incarnation. If the slot has changed hands since, it has
    /// been done: every step acts on what names the same incarnation alone.
    pub(crate) fn bury_client(&self, desk: &Desk<'_>, client: u32) -> Result<(), Fault> {
        let pool = self.pool();
        let layout = pool.layout();
        let slot = client_at(layout, client)?;
        if client == self.me() {
            // Whoever buries itself goes on until that is done.
            self.seats.stand_always();
        }
        let state_at = field!(slot, ClientSlot, state);
        let party = with_lock(*desk, pool.registry_lock(), "bury-mark", |txn| {
            let state = txn.get(state_at)?;
            if state == ClientState::Free as u32 || !member::is_in(txn, slot, client)? {
                return Ok(None);
            }
            txn.update(state_at, ClientState::Dying as u32)?;
            let domain = txn.get(field!(slot, ClientSlot, domain))?;
            let pid = txn.get(field!(slot, ClientSlot, pid))?;
            Ok(Some(Party { domain, pid }.pack()))
        })?;
        let Some(party) = party else { return Ok(()) };
        self.leave_threads(desk, client)?;
        self.leave_undos(desk, client, party)?;
        self.leave_attaches(desk, client)?;
        self.leave_objects(desk, client)?;
        self.leave_cleaning(desk, client)?;
        heap::bury(pool, desk, client, self.me())?;
        with_lock(*desk, pool.registry_lock(), "bury-free", |txn| {
            let dying = txn.get(state_at)? == ClientState::Dying as u32;
            if dying && member::is_in(txn, slot, client)? {
                txn.set(state_at, ClientState::Free as u32)?;
            }
            let deaths_at = field!(layout.registry, Registry, deaths);
            let deaths = txn.get(deaths_at)?;
            txn.set(deaths_at, deaths.wrapping_add(1))
        })?;
        self.ring_everybody();
        Ok(())
    }

    /// Takes a client's threads out of the lines they sleep in, and frees their slots.
    pub(crate) fn leave_threads(&self, desk: &Desk<'_>, client: u32) -> Result<(), Fault> {
        let pool = self.pool();
        let (layout, map) = (pool.layout(), pool.map());
        for thread in 0..layout.threads.count as u32 {
            let at = thread_at(layout, thread)?;
            let owner_at = field!(at, ThreadSlot, owner);
            if load_value(map, owner_at)? != client + 1 {
                continue;
            }
            self.finish_record(desk, thread, at)?;
            let wait_at = field!(at, ThreadSlot, wait);
            if load_value(map, wait_at)? == WaitState::Waiting as u32 {
                self.leave_line_of(desk, thread, at)?;
            }
            if load_value(map, wait_at)? == WaitState::Done as u32 {
                self.return_unseen(desk, thread, at, client)?;
            }
            let wait = load_value(map, wait_at)?;
            if wait != WaitState::Idle as u32 && wait != WaitState::Waiting as u32 {
                claim_cell(map, wait_at, wait, WaitState::Idle as u32)?;
            }
            claim_cell(map, owner_at, client + 1, 0)?;
        }
        Ok(())
    }

    /// Frees the thread slots of processes of a domain that have died while they were joining, as
    /// `gone` says by their pids.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn free_strangers(&self, domain: u32, gone: &dyn Fn(u32) -> bool) -> Result<(), Errno> {
        let seat = self.seat()?;
        settle(self.leave_strangers(&self.desk_of(&seat), domain, gone).map(Ok))
    }

    fn leave_strangers(
        &self,
        desk: &Desk<'_>,
        domain: u32,
        gone: &dyn Fn(u32) -> bool,
    ) -> Result<(), Fault> {
        let map = self.pool().map();
        let mark = domain::mark_at(self.pool(), domain)?;
        for thread in 0..self.pool().layout().threads.count as u32 {
            let at = thread_at(self.pool().layout(), thread)?;
            let owner_at = field!(at, ThreadSlot, owner);
            let owner = load_value(map, owner_at)?;
            let Some(stranger) = owner.checked_sub(1) else { continue };
            let Some((of, pid)) = member::stranger_of(stranger) else { continue };
            if of == mark && gone(pid) {
                self.finish_record(desk, thread, at)?;
                heap::bury(self.pool(), desk, stranger, self.me())?;
                claim_cell(map, owner_at, owner, 0)?;
            }
        }
        Ok(())
    }

    /// Gives back what a sleeper was given and has not seen: it counts as never woken.
    fn return_unseen(
        &self,
        desk: &Desk<'_>,
        thread: u32,
        at: u64,
        client: u32,
    ) -> Result<(), Fault> {
        let map = self.pool().map();
        let kind = load_value(map, field!(at, ThreadSlot, kind))?;
        let index = load_value(map, field!(at, ThreadSlot, object))?;
        let (of, field) = match kind {
            k if k == WaitKind::Semaphore as u32 => {
                (Kind::Semaphore, field!(at, ThreadSlot, argument))
            }
            k if k == WaitKind::Receive as u32 => (Kind::Queue, field!(at, ThreadSlot, ops)),
            _ => return Ok(()),
        };
        let sequence = map.load(field, Ordering::Relaxed)? as u32;
        let place = Place { index, sequence };
        if of == Kind::Semaphore {
            let Some(set) = Set::find(self.pool(), place)? else { return Ok(()) };
            self.take_back(desk, thread, &set).map_err(broken(at))
        } else {
            let Some(queue) = Queue::find(self.pool(), place)? else { return Ok(()) };
            self.put_back(desk, thread, client, &queue).map_err(broken(at))
        }
    }

    /// Carries out what a thread slot has committed and not carried out, so that its intent record
    /// may be overwritten by the slot's next owner.
    fn finish_record(&self, desk: &Desk<'_>, thread: u32, at: u64) -> Result<(), Fault> {
        let map = self.pool().map();
        let lock = map.load(field!(at, ThreadSlot, log_lock), Ordering::Acquire)?;
        if !self.is_lock(lock) {
            return Ok(());
        }
        let head_at = field!(at, ThreadSlot, log_head);
        let head = map.load(head_at, Ordering::Acquire)?;
        if holder_of(map, lock)?.is_some_and(|holder| holder.slot == thread) {
            // Taking the lock finishes whatever its former holder had committed.
            with_lock(*desk, lock, "finish-record", |_| Ok(()))?;
        }
        // The room of a long record is given away next: whoever is still carrying the record out
        // must notice. Refused when the slot has its next owner already, and a newer record.
        map.replace(head_at, head, 0)?;
        Ok(())
    }

    /// Whether an offset is that of a lock word.
    pub(crate) fn is_lock(&self, offset: u64) -> bool {
        let layout = self.pool().layout();
        offset == self.pool().registry_lock()
            || Kind::ALL.iter().any(|kind| {
                let area = kind.area(layout);
                (area.offset..area.end()).contains(&offset)
                    && (offset - area.offset).is_multiple_of(area.stride)
            })
    }

    fn leave_line_of(&self, desk: &Desk<'_>, thread: u32, at: u64) -> Result<(), Fault> {
        let pool = self.pool();
        let (layout, map) = (pool.layout(), pool.map());
        let kind = load_value(map, field!(at, ThreadSlot, kind))?;
        let object = load_value(map, field!(at, ThreadSlot, object))?;
        let line = if kind == WaitKind::Semaphore as u32 {
            let Some(slot) = layout.sem.at(object) else { return Ok(()) };
            crate::semaphore::line_of(slot)
        } else {
            let Some(slot) = layout.msg.at(object) else { return Ok(()) };
            crate::queue::line_of(slot, kind == WaitKind::Send as u32)
        };
        with_lock(*desk, line.lock, "bury-sleeper", |txn| {
            let here = txn.get(field!(at, ThreadSlot, wait))? == WaitState::Waiting as u32
                && txn.get(field!(at, ThreadSlot, kind))? == kind
                && txn.get(field!(at, ThreadSlot, object))? == object;
            if here {
                leave_line(txn, layout, line, thread, WaitState::Idle, 0)?;
            }
            Ok(())
        })
    }

    /// Applies a client's adjustments.
    fn leave_undos(&self, desk: &Desk<'_>, client: u32, party: u32) -> Result<(), Fault> {
        let pool = self.pool();
        let (layout, map) = (pool.layout(), pool.map());
        for record in 0..layout.undos.count as u32 {
            let at = undo::undo_at(layout, record)?;
            if load_value(map, field!(at, UndoSlot, client))? != client + 1 {
                continue;
            }
            let Some(index) = load_value(map, field!(at, UndoSlot, set))?.checked_sub(1) else {
                // Claimed, and on no list yet.
                claim_cell(map, field!(at, UndoSlot, client), client + 1, 0)?;
                continue;
            };
            let slot = registry::slot_at(layout, Kind::Semaphore, index)?;
            let standing = registry::standing(map, slot)?;
            let place = Place { index, sequence: standing.sequence };
            let set = Set::read(pool, place, slot)?;
            self.apply_undo(desk, &set, record, client, party).map_err(broken(at))?;
        }
        Ok(())
    }

    /// Finishes what a client had begun with objects: segments in the making, sets and queues half
    /// taken apart.
    fn leave_objects(&self, desk: &Desk<'_>, client: u32) -> Result<(), Fault> {
        let pool = self.pool();
        let (layout, map) = (pool.layout(), pool.map());
        for kind in Kind::ALL {
            let high = load_value(map, per_kind!(layout, high_water, kind))?;
            for index in 0..high.min(kind.area(layout).count as u32) {
                let slot = registry::slot_at(layout, kind, index)?;
                let standing = registry::standing(map, slot)?;
                let place = Place { index, sequence: standing.sequence };
                match kind {
                    Kind::Segment
                        if standing.is(ObjectState::Creating)
                            && load_value(map, field!(slot, ShmSlot, maker))? == client + 1 =>
                    {
                        self.abandon_segment(desk, place);
                    }
                    Kind::Semaphore if standing.is(ObjectState::Dying) => {
                        let set = Set::read(pool, place, slot)?;
                        self.dismantle_set(desk, &set).map_err(broken(slot))?;
                    }
                    Kind::Queue if standing.is(ObjectState::Dying) => {
                        let queue = Queue { index, sequence: place.sequence, slot };
                        self.dismantle_queue(desk, &queue).map_err(broken(slot))?;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Declares a domain dead and buries all its clients.
    ///
    /// # Errors
    /// ENOENT when there is no such domain; EIO when the pool does not make sense.
    pub fn bury_domain(&self, domain: u32) -> Result<(), Errno> {
        let seat = self.seat()?;
        settle(self.bury_domain_from(&seat, domain, DomainState::Dead).map(Ok))
    }

    /// Declares a domain evicted: its adjustments are applied and its sleepers leave, and what it
    /// has attached stays as it is until its death is confirmed by [`Member::bury_domain`].
    ///
    /// # Errors
    /// As [`Member::bury_domain`].
    pub fn evict_domain(&self, domain: u32) -> Result<(), Errno> {
        let seat = self.seat()?;
        settle(self.bury_domain_from(&seat, domain, DomainState::Evicted).map(Ok))
    }

    pub(crate) fn bury_domain_from(
        &self,
        seat: &Seat<'_>,
        domain: u32,
        state: DomainState,
    ) -> Result<(), Fault> {
        let pool = self.pool();
        let layout = pool.layout();
        let desk = self.desk_of(seat);
        let slot = domain::slot_at(layout, domain)?;
        with_lock(desk, pool.registry_lock(), "bury-domain", |txn| {
            let state_at = field!(slot, DomainSlot, state);
            if txn.get(state_at)? != DomainState::Free as u32 {
                txn.update(state_at, state as u32)?;
                txn.update(field!(slot, DomainSlot, agent), 0)?;
                txn.update(field!(slot, DomainSlot, address), 0)?;
            }
            Ok(())
        })?;
        let clients = self.clients_of(domain)?;
        if state == DomainState::Dead {
            for client in &clients {
                self.bury_client(&desk, *client)?;
            }
        } else {
            for client in &clients {
                self.quarantine(&desk, *client)?;
            }
            // Marked, they make no more changes. What they have begun ends here.
            self.break_locks(&desk, domain)?;
            for client in &clients {
                let slot = client_at(layout, *client)?;
                let pid = load_value(pool.map(), field!(slot, ClientSlot, pid))?;
                self.leave_sleepers(&desk, *client)?;
                self.leave_undos(&desk, *client, Party { domain, pid }.pack())?;
            }
        }
        if state == DomainState::Dead {
            self.leave_strangers(&desk, domain, &|_| true)?;
        }
        self.ring_everybody();
        Ok(())
    }

    /// The clients of a domain, by name.
    fn clients_of(&self, domain: u32) -> Result<Vec<u32>, Fault> {
        let (layout, map) = (self.pool().layout(), self.pool().map());
        let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
        let mut clients = Vec::new();
        for client in 0..high.min(layout.clients.count as u32) {
            let slot = client_at(layout, client)?;
            let state = load_value(map, field!(slot, ClientSlot, state))?;
            let of = load_value(map, field!(slot, ClientSlot, domain))?;
            if state != ClientState::Free as u32 && of == domain {
                clients.push(self.named(client)?);
            }
        }
        Ok(clients)
    }

    fn quarantine(&self, desk: &Desk<'_>, client: u32) -> Result<(), Fault> {
        let pool = self.pool();
        let slot = client_at(pool.layout(), client)?;
        with_lock(*desk, pool.registry_lock(), "quarantine", |txn| {
            if member::is_in(txn, slot, client)? {
                txn.update(field!(slot, ClientSlot, state), ClientState::Quarantined as u32)?;
            }
            Ok(())
        })
    }

    /// Takes every lock over that a quarantined client holds, or one that was only just joining:
    /// what it has committed is carried out, what it has not will be refused.
    ///
    /// Not only the locks that thread slots name: those words are plain, and a thread that has been
    /// refused may be naming one now. Pairs with `Seats::stand`.
    fn break_locks(&self, desk: &Desk<'_>, domain: u32) -> Result<(), Fault> {
        let pool = self.pool();
        let (layout, map) = (pool.layout(), pool.map());
        let areas = Kind::ALL.map(|kind| kind.area(layout));
        let slots = areas.iter().flat_map(|area| (0..area.count as u32).filter_map(|n| area.at(n)));
        vshmem_mem::fence(Ordering::SeqCst);
        for lock in std::iter::once(pool.registry_lock()).chain(slots) {
            let Some(holder) = holder_of(map, lock)? else { continue };
            let Ok(thread) = thread_at(layout, holder.slot) else { continue };
            let owner = load_value(map, field!(thread, ThreadSlot, owner))?;
            if self.is_out(owner, domain)? {
                with_lock(*desk, lock, "evict-lock", |_| Ok(()))?;
            }
        }
        Ok(())
    }

    /// Whether the owner of a thread slot may make no more changes, now that `domain` is evicted.
    fn is_out(&self, owner: u32, domain: u32) -> Result<bool, Fault> {
        let (layout, map) = (self.pool().layout(), self.pool().map());
        let Some(client) = owner.checked_sub(1) else { return Ok(false) };
        if let Some((mark, _)) = member::stranger_of(client) {
            return Ok(mark == domain::mark_at(self.pool(), domain)?);
        }
        let Ok(slot) = client_at(layout, client) else { return Ok(false) };
        let state = load_value(map, field!(slot, ClientSlot, state))?;
        Ok(state == ClientState::Quarantined as u32)
    }

    /// Takes a client's sleepers out of their lines and lets it keep their slots.
    fn leave_sleepers(&self, desk: &Desk<'_>, client: u32) -> Result<(), Fault> {
        let pool = self.pool();
        for thread in 0..pool.layout().threads.count as u32 {
            let at = thread_at(pool.layout(), thread)?;
            let ours = load_value(pool.map(), field!(at, ThreadSlot, owner))? == client + 1;
            let waits = load_value(pool.map(), field!(at, ThreadSlot, wait))?;
            if ours && waits == WaitState::Waiting as u32 {
                self.leave_line_of(desk, thread, at)?;
            }
        }
        Ok(())
    }
}
