//! Who is rung after a change, and how soon a sleeper looks again by itself.
//!
//! Threads of this domain are rung at their wait words. Another domain is rung once as a whole, over
//! the link's doorbell; there its agent rings the words of those that have been served
//! ([`Member::deliver_rings`]). Domains that share a kernel and keep their words in the pool need no
//! doorbell. Where the link has no doorbell, the domain's agent may notify the other's by datagram ([`crate::notify`]).
//!
//! Memory ordering: a sleeper announces itself in its wait word, then looks at its wait cell; a waker
//! changes the cell, then rings the domain; the agent is rung, then looks at the words. So an agent
//! that finds nobody announced has a sleeper that will see the change by itself.

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use vshmem_mem::{Beside, Ordering};
use vshmem_sync::{Doorbell, Fault, claim_cell, field, load_value};
use vshmem_wire::{
    BELL_LOST, CELL_BYTES, ClientSlot, ClientState, DomainSlot, DomainState, Party, RATES,
    Registry, ThreadSlot, WaitState,
};

use crate::context::{Member, Reach, client_at};
use crate::pool::domains;
use crate::wait::notify::Asked;
use crate::wait::queue::{Rings, thread_at};

/// A set of domains, by index; there are 127 at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Domains(pub(crate) u128);

impl Domains {
    /// Adds one.
    pub fn add(&mut self, index: u32) {
        self.0 |= 1 << (index & 127);
    }

    /// Whether one is in it.
    #[must_use]
    pub fn has(self, index: u32) -> bool {
        self.0 & 1 << (index & 127) != 0
    }
}

/// Whether an address cell says where a domain can be rung.
fn is_address(cell: u32) -> bool {
    cell != 0 && cell != BELL_LOST
}

impl Member {
    /// Rings other domains over `doorbell` from now on, and has this one rung by it. Only the first
    /// one counts.
    pub fn use_doorbell(&self, doorbell: Arc<dyn Doorbell>) {
        let _ = self.doorbell.set(doorbell);
        // Until it is known this domain counts as one that cannot be rung.
        let _ = self.publish_address();
    }

    /// Tells the others where this domain can be rung, as its doorbell says now.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn publish_address(&self) -> Result<(), Errno> {
        let address = match self.doorbell.get().and_then(|doorbell| doorbell.own_address()) {
            Some(address) => address.wrapping_add(1),
            // This domain's programs may have had a doorbell before.
            None if self.reach == Reach::Domain => 0,
            // Somebody else may speak for a domain that keeps its words in the pool: its server.
            None => return Ok(()),
        };
        let publish = || -> Result<(), Fault> {
            let layout = self.pool().layout();
            let at = field!(domains::slot_at(layout, self.domain())?, DomainSlot, address);
            let before = load_value(self.pool().map(), at)?;
            // The device still shows the address of a doorbell whose server is gone.
            if before != address && before != BELL_LOST {
                claim_cell(self.pool().map(), at, before, address)?;
            }
            Ok(())
        };
        publish().map_err(|_| Errno::IO)
    }

    /// Rings sleepers: those of this domain one by one, other domains once each. Who can be reached
    /// by neither looks again by itself.
    pub(crate) fn ring_all(&self, rings: &Rings) {
        if rings.everybody {
            self.ring_everybody();
            return;
        }
        let mut far = Domains::default();
        for &slot in &rings.slots {
            let Some(domain) = self.domain_of_sleeper(slot) else { continue };
            if domain == self.domain() || self.reach == Reach::Kernel {
                self.ring_near(slot);
            }
            if domain != self.domain() {
                far.add(domain);
            }
        }
        self.ring_domains(far);
    }

    /// Rings every thread slot that is waiting, and every domain.
    pub fn ring_everybody(&self) {
        let layout = self.pool().layout();
        for slot in 0..layout.threads.count as u32 {
            let Ok(at) = thread_at(layout, slot) else {
                continue;
            };
            let wait = load_value(self.pool().map(), field!(at, ThreadSlot, wait));
            if wait.is_ok_and(|wait| wait != WaitState::Idle as u32) {
                self.ring_near(slot);
            }
        }
        self.ring_domains(Domains(!0));
    }

    /// Rings every thread that sleeps although it has been served, and every domain: who was to do it may have died.
    pub(crate) fn ring_served(&self) {
        self.deliver_rings();
        self.ring_domains(Domains(!0));
    }

    /// Wakes those threads of this domain, or of this kernel, that sleep although they have been
    /// served: what is to be done when the doorbell has rung. Returns how many of this user's there were.
    pub fn deliver_rings(&self) -> usize {
        let (layout, map) = (self.pool().layout(), self.pool().map());
        let mut woken = 0;
        for slot in 0..layout.threads.count as u32 {
            if !self.words.is_asleep(slot) && !self.is_neighbour_in_line(slot) {
                continue;
            }
            let Ok(at) = thread_at(layout, slot) else { continue };
            let served = map
                .load(field!(at, ThreadSlot, wait), Ordering::SeqCst)
                .is_ok_and(|word| word as u32 != WaitState::Waiting as u32);
            if served && self.ring_near(slot) {
                woken += 1;
            }
        }
        woken
    }

    fn domain_of_sleeper(&self, slot: u32) -> Option<u32> {
        let at = thread_at(self.pool().layout(), slot).ok()?;
        let party = load_value(self.pool().map(), field!(at, ThreadSlot, party)).ok()?;
        Some(Party::unpack(party).domain)
    }

    /// Rings those domains of a set that are alive, are not reached otherwise, and can be rung over the link; and has the agent
    /// notify those that rely on its datagrams.
    fn ring_domains(&self, set: Domains) {
        if set.0 == 0 {
            return;
        }
        let notifies = self.is_notifying();
        if !notifies && self.doorbell.get().is_none() {
            return;
        }
        let (layout, map) = (self.pool().layout(), self.pool().map());
        let mut rung = 0;
        let mut to_notify = Asked::default();
        for index in 0..layout.domains.count as u32 {
            if !set.has(index) || index == self.domain() || self.is_near(index).unwrap_or(false) {
                continue;
            }
            let Ok(slot) = domains::slot_at(layout, index) else { continue };
            if load_value(map, field!(slot, DomainSlot, state)) != Ok(DomainState::Alive as u32) {
                continue;
            }
            let address = load_value(map, field!(slot, DomainSlot, address)).unwrap_or(0);
            if let Some(doorbell) = self.doorbell.get().filter(|_| is_address(address)) {
                // Domains that share a device are rung with one ring, mostly.
                if address != rung {
                    // What cannot be rung looks again by itself.
                    let _ = doorbell.ring(address - 1);
                    rung = address;
                }
            } else if notifies && self.relies_on_us(index) {
                to_notify.add(index);
            }
        }
        if !to_notify.is_empty() {
            self.ask_agent(to_notify);
        }
    }

    /// Whether another domain's wait words are within reach.
    fn is_near(&self, index: u32) -> Result<bool, Fault> {
        Ok(self.reach == Reach::Kernel
            && domains::boot_of(self.pool(), index)?
                == domains::boot_of(self.pool(), self.domain())?)
    }

    /// How soon a sleeper has to look again by itself, and what else ends its sleep: hardly ever when everybody who could
    /// wake it can also ring it, and its agent looks for it ([`Member::tend_sleepers`]); soon when not.
    pub(crate) fn recheck(&self, looked: u32) -> (Duration, Option<Beside<'_>>) {
        /// When every member can ring: this covers a waker that died between the change and the ring, and rings that
        /// are lost, while there is no agent that does.
        const RINGABLE: Duration = Duration::from_millis(1000);
        /// With an agent whose end wakes the sleeper. This covers whoever is woken for that and dies at once.
        const GUARDED: Duration = Duration::from_secs(60);
        /// First look where nobody can ring.
        const SOON: Duration = Duration::from_micros(50);
        /// The bound on links without interrupts.
        const BOUND: Duration = Duration::from_millis(4);
        if !self.is_rung_by_all().unwrap_or(false) {
            return ((SOON * 2u32.saturating_pow(looked / 4)).min(BOUND), None);
        }
        // Short sleeps are made with the simpler call.
        match self.living_agent().filter(|_| looked > 0) {
            None => (RINGABLE, None),
            Some((word, expected)) => (GUARDED, Some(Beside { word, expected, alone: RINGABLE })),
        }
    }

    /// Whether everybody who could wake a sleeper of this domain can also ring it.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn is_rung_by_all(&self) -> Result<bool, Errno> {
        self.all_ringable().map_err(|_| Errno::IO)
    }

    fn all_ringable(&self) -> Result<bool, Fault> {
        let (layout, map) = (self.pool().layout(), self.pool().map());
        let mine =
            load_value(map, field!(domains::slot_at(layout, self.domain())?, DomainSlot, address))?;
        let heard = self.heard_now()?;
        let mut mute = Domains::default();
        for other in domains::alive_beside(self.pool(), self.domain()) {
            let (index, slot) = other?;
            let address = load_value(map, field!(slot, DomainSlot, address))?;
            let rings = is_address(mine) && is_address(address);
            if rings || heard.is_some_and(|heard| heard.has(index)) || self.is_near(index)? {
                continue;
            }
            if !is_address(mine) && heard.is_none() {
                return Ok(false);
            }
            mute.add(index);
        }
        // A domain without a doorbell wakes nobody while it has no clients.
        Ok(mute.0 == 0 || !self.has_clients(mute)?)
    }

    fn has_clients(&self, of: Domains) -> Result<bool, Fault> {
        let (layout, map) = (self.pool().layout(), self.pool().map());
        let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
        for client in 0..high.min(layout.clients.count as u32) {
            let slot = client_at(layout, client)?;
            let state = load_value(map, field!(slot, ClientSlot, state))?;
            if state != ClientState::Free as u32
                && of.has(load_value(map, field!(slot, ClientSlot, domain))?)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Boot id of this domain's kernel, as the domain table holds it.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn boot(&self) -> Result<[u32; 4], Errno> {
        domains::boot_of(self.pool(), self.domain()).map_err(|_| Errno::IO)
    }

    /// Says where a domain of this kernel can be rung; `None`: nowhere. For whoever takes its rings.
    /// Returns whether that is new.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn publish_for(&self, domain: u32, address: Option<u32>) -> Result<bool, Errno> {
        let value = address.map_or(0, |address| address.wrapping_add(1));
        self.set_address(domain, |_| value).map_err(|_| Errno::IO)
    }

    /// Takes a domain's address back for good: the doorbell that it means is out of order. Returns
    /// whether that is new.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn lose_bell(&self, domain: u32) -> Result<bool, Errno> {
        let lost = |before| if before == 0 { 0 } else { BELL_LOST };
        self.set_address(domain, lost).map_err(|_| Errno::IO)
    }

    /// Takes every address back: nobody passes rings on any more. Sleepers that can be reached are
    /// woken, so that they no longer rely on being rung.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn lose_bells(&self) -> Result<(), Errno> {
        let mut changed = false;
        for index in 0..self.pool().layout().domains.count as u32 {
            changed |= if self.is_near(index).map_err(|_| Errno::IO)? {
                // Its next server speaks for it again.
                self.publish_for(index, None)?
            } else {
                self.lose_bell(index)?
            };
        }
        if changed {
            self.ring_everybody();
        }
        Ok(())
    }

    fn set_address(&self, domain: u32, to: impl Fn(u32) -> u32) -> Result<bool, Fault> {
        let map = self.pool().map();
        let at = field!(domains::slot_at(self.pool().layout(), domain)?, DomainSlot, address);
        let before = load_value(map, at)?;
        let after = to(before);
        Ok(before != after && claim_cell(map, at, before, after)?)
    }

    /// Notes how fast this domain reaches the pool's memory, beside private memory: for whoever
    /// lists domains.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn note_rates(&self, rates: [u32; RATES]) -> Result<(), Errno> {
        let note = || -> Result<(), Fault> {
            let map = self.pool().map();
            let slot = domains::slot_at(self.pool().layout(), self.domain())?;
            for (i, rate) in rates.into_iter().enumerate() {
                let at = field!(slot, DomainSlot, rates) + i as u64 * CELL_BYTES;
                let before = load_value(map, at)?;
                claim_cell(map, at, before, rate)?;
            }
            Ok(())
        };
        note().map_err(|_| Errno::IO)
    }
}
