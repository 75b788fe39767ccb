//! What is done when a process or a whole domain has died.
//!
//! Every step can be repeated and can be left halfway: whoever buries may die as well, and two may
//! do it at once. The order is: the client is marked, its sleepers leave their lines, its
//! adjustments are applied, its attaches are given back, and its slot becomes free. All of that is listed by client, so a
//! burial costs what the client held. What nobody waits for, its chunks of the heap, is taken back later
//! ([`crate::reclaim`]).

use rustix::io::Errno;
use vshmem_mem::Ordering;
use vshmem_sync::{Desk, Fault, HeldBy, Seat, field, holder_of, load_value, load_word, with_lock};
use vshmem_wire::{
    ClientName, ClientSlot, ClientState, DomainSlot, DomainState, Holding, Party, Registry,
    ThreadSlot, UndoSlot,
};

use crate::context::{self, Member, client_at, slot_of};
use crate::error::settle;
use crate::pool::domains;
use crate::registry::id::{Kind, Place};
use crate::registry::table;
use crate::sem::set::Set;
use crate::sem::undo;
use crate::wait::queue::thread_at;

/// An errno out of a step that has no caller to tell it to.
pub(crate) fn broken(at: u64) -> impl Fn(Errno) -> Fault {
    move |_| Fault::corrupt(at, "a step that cannot be finished")
}

impl Member {
    /// Buries those clients of this domain with a pid that are no more, as `gone` says by pid and
    /// start time. False if there are none.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn bury_process(&self, pid: u32, gone: fn(u32, u64) -> bool) -> Result<bool, Errno> {
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        settle(self.bury_pid(&desk, pid, gone).map(Ok))
    }

    /// Without the heap: this is called after waitpid, which programs call in signal handlers.
    fn bury_pid(
        &self,
        desk: &Desk<'_>,
        pid: u32,
        gone: fn(u32, u64) -> bool,
    ) -> Result<bool, Fault> {
        let layout = self.pool().layout();
        let map = self.pool().map();
        let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
        let mut found = false;
        for client in 0..high.min(layout.clients.count as u32) {
            let slot = client_at(layout, client)?;
            // The name first: should the slot change hands now, the burial finds somebody else in
            // it. Whether the process lives is asked last: its pid may be another's by then.
            let name = self.pool().named(client)?;
            let state = load_value(map, field!(slot, ClientSlot, state))?;
            let same = state != ClientState::Free as u32
                && load_value(map, field!(slot, ClientSlot, domain))? == self.domain()
                && load_value(map, field!(slot, ClientSlot, pid))? == pid;
            if same && gone(pid, self.pool().start_of(slot)?) {
                self.bury_client(desk, name)?;
                found = true;
            }
        }
        Ok(found)
    }

    /// Buries one client. By name: its slot may have changed hands since it was found dead.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn bury(&self, client: ClientName) -> Result<(), Errno> {
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        settle(self.bury_client(&desk, client).map(Ok))
    }

    /// Buries the client that a census has found dead, unless its slot has changed hands since.
    /// False when it has.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn bury_resident(&self, dead: &crate::Resident) -> Result<bool, Errno> {
        let seat = self.seat()?;
        let desk = self.desk_of(&seat);
        let claim = || -> Result<bool, Fault> {
            let slot = client_at(self.pool().layout(), dead.index)?;
            with_lock(desk, self.pool().registry_lock(), "bury-claim", |txn| {
                let state_at = field!(slot, ClientSlot, state);
                // A child may have taken the slot over that was kept for it, or got its name.
                let same = txn.get(state_at)? == dead.state as u32
                    && txn.get(field!(slot, ClientSlot, pid))? == dead.pid
                    && context::is_in(txn, slot, dead.name)?;
                if same {
                    txn.update(state_at, ClientState::Dying as u32)?;
                }
                Ok(same)
            })
        };
        if !settle(claim().map(Ok))? {
            return Ok(false);
        }
        settle(self.bury_client(&desk, dead.name).map(|()| Ok(true)))
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
    pub(crate) fn bury_client(&self, desk: &Desk<'_>, client: ClientName) -> Result<(), Fault> {
        let pool = self.pool();
        let layout = pool.layout();
        let slot = slot_of(layout, client)?;
        if client == self.me() {
            // Whoever buries itself goes on until that is done.
            self.seats.stand_always();
        }
        let state_at = field!(slot, ClientSlot, state);
        let party = with_lock(*desk, pool.registry_lock(), "bury-mark", |txn| {
            let state = txn.get(state_at)?;
            if state == ClientState::Free as u32 || !context::is_in(txn, slot, client)? {
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
        self.free_undos(client)?;
        self.leave_attaches(desk, client)?;
        self.leave_cleaning(desk, client.word())?;
        with_lock(*desk, pool.registry_lock(), "bury-free", |txn| {
            let dying = txn.get(state_at)? == ClientState::Dying as u32;
            if dying && context::is_in(txn, slot, client)? {
                context::free_client(txn, layout, client.slot().unwrap_or(u32::MAX))?;
            }
            let deaths_at = field!(layout.registry, Registry, deaths);
            let deaths = txn.get(deaths_at)?;
            txn.set(deaths_at, deaths.wrapping_add(1))
        })
    }

    /// Frees the thread slots of processes of a domain that have died while they were joining, as
    /// `gone` says by their pids.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn free_strangers(&self, domain: u32, gone: &dyn Fn(u32) -> bool) -> Result<(), Errno> {
        let seat = self.seat()?;
        let free = || -> Result<(), Fault> {
            let digest = domains::digest_at(self.pool(), domain)?;
            self.leave_joiners(&self.desk_of(&seat), digest, gone)
        };
        settle(free().map(Ok))
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

    /// Applies a client's adjustments. Its records stay with it, but serve no set any more.
    fn leave_undos(&self, desk: &Desk<'_>, client: ClientName, party: u32) -> Result<(), Fault> {
        let (layout, map) = (self.pool().layout(), self.pool().map());
        let list = field!(slot_of(layout, client)?, ClientSlot, undos);
        let mut holding = Holding::unpack(load_word(map, list)?);
        for _ in 0..=layout.undos.count {
            let Some(record) = holding.first.checked_sub(1).filter(|_| holding.is_of(client))
            else {
                return Ok(());
            };
            let at = undo::undo_at(layout, record)?;
            holding = Holding::unpack(load_word(map, field!(at, UndoSlot, sibling))?);
            let set = load_value(map, field!(at, UndoSlot, set))?;
            if load_word(map, field!(at, UndoSlot, client))? != client.word() {
                // Somebody else has freed it, and all behind it.
                return Ok(());
            }
            if let Some(index) = set.checked_sub(1).filter(|_| set != UndoSlot::TAKEN) {
                let slot = table::slot_at(layout, Kind::Semaphore, index)?;
                let standing = table::standing(map, slot)?;
                let place = Place { index, sequence: standing.sequence };
                let set = Set::read(self.pool(), place, slot)?;
                self.apply_undo(desk, &set, record, client, party).map_err(broken(at))?;
            }
        }
        Err(Fault::corrupt(list, "a list of undo records without an end"))
    }

    /// Frees the undo records of a client that has ended, whose adjustments are applied.
    fn free_undos(&self, client: ClientName) -> Result<(), Fault> {
        let (layout, map) = (self.pool().layout(), self.pool().map());
        let list = field!(slot_of(layout, client)?, ClientSlot, undos);
        let all = HeldBy { map, list, client };
        for _ in 0..=layout.undos.count {
            let Some((head, record)) = all.last()? else { return Ok(()) };
            undo::forget_set(map, layout, record, client)?;
            all.give_up(head, undo::held_record(layout, record)?)?;
        }
        Err(Fault::corrupt(list, "a list of undo records without an end"))
    }

    /// Declares whatever domain is in a slot now dead, and buries all its clients.
    ///
    /// # Errors
    /// ENOENT when there is no such domain; EIO when the pool does not make sense.
    pub fn bury_domain(&self, domain: u32) -> Result<(), Errno> {
        self.bury_epoch(domain, settle(self.pool().epoch_of(domain).map(Ok))?)
    }

    /// As [`Member::bury_domain`], unless the slot has been taken anew since it had this boot epoch.
    ///
    /// # Errors
    /// As [`Member::bury_domain`].
    pub fn bury_epoch(&self, domain: u32, epoch: u32) -> Result<(), Errno> {
        let seat = self.seat()?;
        settle(self.bury_domain_from(&seat, domain, epoch, DomainState::Dead).map(Ok))
    }

    /// Declares a domain evicted: its adjustments are applied and its sleepers leave, and what it
    /// has attached stays as it is until its death is confirmed by [`Member::bury_domain`].
    ///
    /// # Errors
    /// As [`Member::bury_domain`].
    pub fn evict_domain(&self, domain: u32) -> Result<(), Errno> {
        self.evict_epoch(domain, settle(self.pool().epoch_of(domain).map(Ok))?)
    }

    /// As [`Member::evict_domain`], unless the slot has been taken anew since it had this boot epoch.
    ///
    /// # Errors
    /// As [`Member::bury_domain`].
    pub fn evict_epoch(&self, domain: u32, epoch: u32) -> Result<(), Errno> {
        let seat = self.seat()?;
        settle(self.bury_domain_from(&seat, domain, epoch, DomainState::Evicted).map(Ok))
    }

    pub(crate) fn bury_domain_from(
        &self,
        seat: &Seat<'_>,
        domain: u32,
        epoch: u32,
        state: DomainState,
    ) -> Result<(), Fault> {
        let pool = self.pool();
        let layout = pool.layout();
        let desk = self.desk_of(seat);
        let slot = domains::slot_at(layout, domain)?;
        let there = with_lock(desk, pool.registry_lock(), "bury-domain", |txn| {
            let state_at = field!(slot, DomainSlot, state);
            if txn.get(state_at)? == DomainState::Free as u32
                || txn.get(field!(slot, DomainSlot, epoch))? != epoch
            {
                return Ok(false);
            }
            txn.update(state_at, state as u32)?;
            txn.update(field!(slot, DomainSlot, agent), 0)?;
            txn.update(field!(slot, DomainSlot, address), 0)?;
            Ok(true)
        })?;
        if !there {
            return Ok(());
        }
        let clients = self.clients_of(domain, epoch)?;
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
                let slot = slot_of(layout, *client)?;
                let pid = load_value(pool.map(), field!(slot, ClientSlot, pid))?;
                self.leave_sleepers(&desk, *client)?;
                self.leave_undos(&desk, *client, Party { domain, pid }.pack())?;
            }
        }
        if state == DomainState::Dead {
            self.leave_joiners(&desk, domains::digest_at(pool, domain)?, &|_| true)?;
            self.ring_served();
        } else {
            // Who waits for a lock of theirs, or for somebody of theirs who could not ring.
            self.ring_everybody();
        }
        Ok(())
    }

    /// The clients of a domain in one of its boot epochs, by name.
    fn clients_of(&self, domain: u32, epoch: u32) -> Result<Vec<ClientName>, Fault> {
        let (layout, map) = (self.pool().layout(), self.pool().map());
        let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
        let mut clients = Vec::new();
        for client in 0..high.min(layout.clients.count as u32) {
            let slot = client_at(layout, client)?;
            // The name first: should the slot change hands now, the name fits nobody any more.
            let name = self.pool().named(client)?;
            let same = load_value(map, field!(slot, ClientSlot, state))?
                != ClientState::Free as u32
                && load_value(map, field!(slot, ClientSlot, domain))? == domain
                && load_value(map, field!(slot, ClientSlot, epoch))? == epoch;
            if same {
                clients.push(name);
            }
        }
        Ok(clients)
    }

    fn quarantine(&self, desk: &Desk<'_>, client: ClientName) -> Result<(), Fault> {
        let pool = self.pool();
        let slot = slot_of(pool.layout(), client)?;
        with_lock(*desk, pool.registry_lock(), "quarantine", |txn| {
            if context::is_in(txn, slot, client)? {
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
            let owner = load_word(map, field!(thread, ThreadSlot, owner))?;
            if self.is_out(owner, domain)? {
                with_lock(*desk, lock, "evict-lock", |_| Ok(()))?;
            }
        }
        Ok(())
    }

    /// Whether the owner of a thread slot may make no more changes, now that `domain` is evicted.
    fn is_out(&self, owner: u64, domain: u32) -> Result<bool, Fault> {
        let (layout, map) = (self.pool().layout(), self.pool().map());
        let Some(client) = ClientName::of(owner) else { return Ok(false) };
        if let Some((digest, _)) = client.joiner() {
            return Ok(digest == domains::digest_at(self.pool(), domain)?);
        }
        let Ok(slot) = slot_of(layout, client) else { return Ok(false) };
        let state = load_value(map, field!(slot, ClientSlot, state))?;
        Ok(state == ClientState::Quarantined as u32)
    }
}
