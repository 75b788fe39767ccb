//! The members of a pool domain: who is let in, where that is written down in XenStore, and who has
//! ended.

use std::io;

use super::control::{self, Vital};
use super::error::{XenError, failed};
use super::pool_domain::{OWN_SLOT, PoolDomain};
use super::table::Count;
use crate::xen::keys::{boot, home, membership, pool, ports, ports_home};

/// A slot that is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Slot.
    pub slot: u32,
    /// Domain.
    pub domid: u16,
    /// Its name, as dom0 has it.
    pub name: String,
    /// Boot id of its kernel, once it has said so.
    pub boot: Option<String>,
    /// What identifies this life of the guest: its domain's id may be given again.
    vm: String,
}

/// A slot and its row of the grant table, as Xen has it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Slot.
    pub slot: u32,
    /// Whose it is: the domain, and its name as dom0 has it. `None`: free.
    pub member: Option<(u16, String)>,
    /// Pages that are granted.
    pub granted: u32,
    /// Pages that are mapped by a domain, granted or not.
    pub mapped: u32,
}

impl PoolDomain {
    /// Writes for dom0 and each domain that is to be a member. Returns the new members, and why
    /// others are none.
    ///
    /// # Errors
    /// When XenStore refuses a request.
    pub fn announce(&mut self) -> Result<(Vec<Member>, Vec<XenError>), XenError> {
        self.publish(self.own, OWN_SLOT)?;
        let admitted = self.admit()?;
        self.list_members()?;
        self.announcement().publish()?;
        Ok(admitted)
    }

    /// Grants the pool to guests that are to be members and are not yet.
    ///
    /// # Errors
    /// When XenStore refuses a request.
    pub fn admit(&mut self) -> Result<(Vec<Member>, Vec<XenError>), XenError> {
        let members = self.members()?;
        for member in &members {
            // What was begun when XenStore did not answer.
            let announced = format!("{}/pool-dom", membership(Some(member.domid), &self.name));
            if self.store.read(&announced)?.is_none() && self.is_same_life(member)? {
                self.publish(member.domid, member.slot)?;
            }
        }
        let (mut admitted, mut refused) = (Vec::new(), Vec::new());
        for id in self.store.list("/local/domain")? {
            let Ok(domid) = id.parse::<u16>() else { continue };
            if domid == self.own || members.iter().any(|member| member.domid == domid) {
                continue;
            }
            let name = self.store.read(&format!("{}/name", home(domid)))?.unwrap_or_default();
            if name.is_empty() || !self.admission.admits(&name) || !self.is_alive(domid)? {
                continue;
            }
            match self.take_slot(domid, &name)? {
                Some(member) => admitted.push(member),
                None => refused.push(XenError::Full { slots: self.room.slots, domid }),
            }
        }
        if !admitted.is_empty() {
            self.list_members()?;
        }
        Ok((admitted, refused))
    }

    fn is_alive(&self, domid: u16) -> Result<bool, XenError> {
        control::vital(&self.hypervisor, domid)
            .map(|vital| vital == Vital::Alive)
            .map_err(failed("ask Xen for a domain"))
    }

    fn slot_key(&self, slot: u32) -> String {
        format!("{}/slot/{slot}", pool(self.domid))
    }

    fn vm_of(&mut self, domid: u16) -> io::Result<String> {
        Ok(self.store.read(&format!("{}/vm", home(domid)))?.unwrap_or_default())
    }

    fn take_slot(&mut self, domid: u16, name: &str) -> Result<Option<Member>, XenError> {
        let taken = self.members()?;
        for slot in 1..self.room.slots {
            if taken.iter().any(|member| member.slot == slot) {
                continue;
            }
            let first = self.room.first(slot);
            if self.count(slot)?.mapped > 0 {
                // A former member has not let go of it yet.
                continue;
            }
            let own = self.room.first(OWN_SLOT);
            let frames = (own..own + self.room.pages).map(|reference| self.table.frame(reference));
            self.table.grant(first, frames, domid).map_err(failed("grant a member the pages"))?;
            let key = self.slot_key(slot);
            let vm = self.vm_of(domid)?;
            self.store.write(&format!("{key}/vm"), &vm)?;
            self.store.write(&format!("{key}/guest"), name)?;
            self.store.write(&format!("{key}/domain"), &domid.to_string())?;
            self.publish(domid, slot)?;
            let name = name.to_owned();
            return Ok(Some(Member { slot, domid, name, boot: None, vm }));
        }
        Ok(None)
    }

    fn publish(&mut self, domid: u16, slot: u32) -> Result<(), XenError> {
        let grants = self.grants(slot);
        let directory = membership(Some(domid), &self.name);
        let pairs = [
            ("pages", self.room.pages),
            ("ref", grants.first),
            ("slot", slot),
            ("mode", self.mode),
            ("group", self.group),
            // Last: it makes the rest count.
            ("pool-dom", u32::from(self.domid)),
        ];
        for (key, value) in pairs {
            let path = format!("{directory}/{key}");
            self.store.write(&path, &value.to_string())?;
            self.store.share(&path, self.own, &[domid])?;
        }
        for path in [&directory, &format!("{}/vshmem", home(domid))] {
            self.store.share(path, self.own, &[domid])?;
        }
        Ok(())
    }

    /// Tells every member who the others are.
    fn list_members(&mut self) -> Result<(), XenError> {
        let mut ids = vec![self.own];
        ids.extend(self.members()?.iter().map(|member| member.domid));
        ids.sort_unstable();
        let text: Vec<String> = ids.iter().map(u16::to_string).collect();
        for domid in ids {
            let key = format!("{}/members", membership(Some(domid), &self.name));
            self.store.write(&key, &text.join(" "))?;
            self.store.share(&key, self.own, &[domid])?;
        }
        Ok(())
    }

    /// Guests that are members, dead ones included until [`PoolDomain::release`].
    ///
    /// # Errors
    /// When XenStore does not answer.
    pub fn members(&mut self) -> Result<Vec<Member>, XenError> {
        let directory = format!("{}/slot", pool(self.domid));
        let mut found = Vec::new();
        for slot in self.store.list(&directory)? {
            let Ok(slot) = slot.parse::<u32>() else { continue };
            let key = self.slot_key(slot);
            let domid = self.store.number(&format!("{key}/domain"))?;
            let Some(domid) = domid.and_then(|id| u16::try_from(id).ok()) else { continue };
            if slot == OWN_SLOT || slot >= self.room.slots {
                continue;
            }
            found.push(Member {
                slot,
                domid,
                name: self.store.read(&format!("{key}/guest"))?.unwrap_or_default(),
                boot: self.store.read(&format!("{key}/boot"))?,
                vm: self.store.read(&format!("{key}/vm"))?.unwrap_or_default(),
            });
        }
        Ok(found)
    }

    /// Notes the boot ids that members have published since, so that it is known what dies with
    /// them; those that they tell later are changes ([`PoolDomain::changes`]).
    ///
    /// # Errors
    /// When XenStore does not answer.
    pub fn note_boots(&mut self) -> Result<(), XenError> {
        for member in self.members()? {
            self.store.watch(&boot(Some(member.domid)))?;
            let published = self.store.read(&boot(Some(member.domid)))?;
            if published.is_some() && published != member.boot && self.is_same_life(&member)? {
                let key = format!("{}/boot", self.slot_key(member.slot));
                self.store.write(&key, &published.unwrap_or_default())?;
            }
        }
        Ok(())
    }

    pub(super) fn is_same_life(&mut self, member: &Member) -> Result<bool, XenError> {
        Ok(self.vm_of(member.domid)? == member.vm)
    }

    /// Takes back what XenStore says about a member, and what it has said itself; with its last
    /// pool the directories go, too.
    pub(super) fn forget(&mut self, domid: u16) -> Result<(), XenError> {
        self.store.remove(&membership(Some(domid), &self.name))?;
        self.store.remove(&ports(Some(domid), &self.name))?;
        let (pools, ports) = (format!("{}/vshmem", home(domid)), ports_home(domid));
        if self.store.list(&pools)?.is_empty() {
            self.store.remove(&pools)?;
            self.store.remove(&ports)?;
            self.store.remove(&boot(Some(domid)))?;
        }
        Ok(())
    }

    /// Members whose guest has ended.
    ///
    /// # Errors
    /// When XenStore or the hypervisor does not answer.
    pub fn dead(&mut self) -> Result<Vec<Member>, XenError> {
        let mut dead = Vec::new();
        for member in self.members()? {
            // Its id may be another's by now.
            if !self.is_alive(member.domid)? || !self.is_same_life(&member)? {
                dead.push(member);
            }
        }
        Ok(dead)
    }

    /// Takes a member's grants back. What it has mapped it keeps until it unmaps or ends; returns
    /// how many pages those are.
    ///
    /// # Errors
    /// When XenStore refuses a request.
    pub fn release(&mut self, member: &Member) -> Result<u32, XenError> {
        let first = self.room.first(member.slot);
        let mapped = self.table.revoke(first, self.room.pages).map_err(failed("revoke grants"))?;
        if self.is_same_life(member)? {
            self.forget(member.domid)?;
        }
        self.store.remove(&self.slot_key(member.slot))?;
        self.list_members()?;
        Ok(mapped)
    }

    /// All slots, dom0's first.
    ///
    /// # Errors
    /// When XenStore does not answer or the table cannot be read.
    pub fn slots(&mut self) -> Result<Vec<Slot>, XenError> {
        let members = self.members()?;
        let own_name = self.store.read(&format!("{}/name", home(self.own)))?.unwrap_or_default();
        let mut slots = Vec::new();
        for slot in 0..self.room.slots {
            let member = members.iter().find(|member| member.slot == slot);
            let Count { granted, mapped } = self.count(slot)?;
            slots.push(Slot {
                slot,
                member: match member {
                    Some(member) => Some((member.domid, member.name.clone())),
                    None => (slot == OWN_SLOT).then(|| (self.own, own_name.clone())),
                },
                granted,
                mapped,
            });
        }
        Ok(slots)
    }

    /// The state of a slot's grants.
    fn count(&self, slot: u32) -> Result<Count, XenError> {
        self.table
            .count(self.room.first(slot), self.room.pages)
            .map_err(failed("read the grant table"))
    }
}
