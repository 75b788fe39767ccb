//! dom0's side of link `xen`: pool domains and their grants.
//!
//! A pool's pages belong to a domain that dom0 has made for them and that never runs. Its grant
//! table permits every member every page: one row of entries for each slot, so that a member's
//! references are contiguous. dom0 writes the table through the hypervisor's own mapping of it, and
//! is a member itself, in slot 0. The pool outlives its maker.

use std::io;

use rustix::io::Errno;

use super::admission::{Admission, PREFIX};
use super::control;
use super::error::{XenError, failed};
use super::hypercall::Hypervisor;
use super::room::GrantTableSize;
use super::table::Table;
use crate::link::Link;
use crate::xen::announcement::{Announcement, own_domain, path_of};
use crate::xen::gntdev::Grants;
use crate::xen::keys::{home, pool};
use crate::xen::link::Xen;
use crate::xen::store::Store;

/// The slot of dom0.
pub(super) const OWN_SLOT: u32 = 0;

/// A pool domain, in dom0's hands.
#[derive(Debug)]
pub struct PoolDomain {
    pub(super) hypervisor: Hypervisor,
    pub(super) store: Store,
    pub(super) name: String,
    pub(super) domid: u16,
    pub(super) own: u16,
    pub(super) room: GrantTableSize,
    pub(super) mode: u32,
    pub(super) group: u32,
    pub(super) admission: Admission,
    pub(super) table: Table,
}

/// What a pool is to be.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Name.
    pub name: String,
    /// Pages.
    pub pages: u32,
    /// Members at most, dom0 among them; `None`: some, as many as there is room for.
    pub slots: Option<u32>,
    /// Who may use it in each member, as the mode of a file.
    pub mode: u32,
    /// And its group.
    pub group: u32,
    /// Who becomes a member.
    pub admission: Admission,
    /// Its identity, for Xen's own tables.
    pub uuid: [u8; 16],
}

fn open_hypervisor() -> Result<Hypervisor, XenError> {
    let hypervisor = Hypervisor::open()
        .map_err(|errno| XenError::NotDom0 { device: "/dev/xen/privcmd", errno })?;
    let found = control::release(&hypervisor).map_err(failed("ask for Xen's release"))?;
    if !control::is_known(found) {
        return Err(XenError::Release { found });
    }
    Ok(hypervisor)
}

fn open_store() -> Result<Store, XenError> {
    Store::open().map_err(|error| XenError::NotDom0 {
        device: "/dev/xen/xenbus",
        errno: error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error),
    })
}

/// The domain that holds a pool.
fn find(store: &mut Store, name: &str) -> io::Result<Option<u16>> {
    for id in store.list("/local/domain")? {
        let Ok(domid) = id.parse::<u16>() else { continue };
        let named = store.read(&format!("{}/name", pool(domid)))?;
        // One that was retired and not destroyed is still called so.
        let called = store.read(&format!("{}/name", home(domid)))?;
        if named.as_deref() == Some(name) || called == Some(format!("{PREFIX}{name}")) {
            return Ok(Some(domid));
        }
    }
    Ok(None)
}

/// Ends a domain that did not become a pool.
struct Draft<'a>(&'a Hypervisor, u16);

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        let _ = control::destroy(self.0, self.1);
    }
}

impl PoolDomain {
    /// Whether this is a place where pool domains can be made.
    #[must_use]
    pub fn is_dom0() -> bool {
        Store::is_there() && std::path::Path::new("/dev/xen/privcmd").exists()
    }

    /// Makes the domain and grants dom0 its pages. No other domain sees it before
    /// [`PoolDomain::announce`].
    ///
    /// # Errors
    /// Says what failed; nothing is left behind.
    pub fn create(wanted: &Wanted) -> Result<Self, XenError> {
        let hypervisor = open_hypervisor()?;
        let mut store = open_store()?;
        let own = own_domain(&mut store)?.unwrap_or(0);
        if let Some(domid) = find(&mut store, &wanted.name)? {
            return Err(XenError::Exists { domid });
        }
        let most = control::most_grant_frames(&hypervisor)
            .map_err(failed("ask Xen for the size of grant tables"))?;
        let room = GrantTableSize::of(wanted.pages, wanted.slots, most);
        room.fits(most).map_err(XenError::GrantTableSize)?;
        let domid = control::create(&hypervisor, &wanted.uuid, room.frames())
            .map_err(failed("make a Xen domain"))?;
        let draft = Draft(&hypervisor, domid);
        control::allow_pages(&hypervisor, domid, room.pages)
            .map_err(failed("give the domain its size"))?;
        let mut frames = Vec::new();
        control::populate(&hypervisor, domid, room.pages, &mut frames)
            .map_err(|errno| XenError::Memory { wanted: room.pages, given: frames.len(), errno })?;
        let table = hypervisor
            .grant_table(domid, room.frames())
            .map(Table::of)
            .map_err(failed("map the domain's grant table"))?;
        let frames = frames.into_iter().map(|frame| u32::try_from(frame).map_err(|_| Errno::RANGE));
        // A version 1 entry has 32 bits for the frame: 16 TiB.
        table.grant(room.first(OWN_SLOT), frames, own).map_err(failed("grant dom0 the pages"))?;
        std::mem::forget(draft);
        let mut made = Self {
            hypervisor,
            store,
            name: wanted.name.clone(),
            domid,
            own,
            room,
            mode: wanted.mode,
            group: wanted.group,
            admission: wanted.admission.clone(),
            table,
        };
        match made.write_down() {
            Ok(()) => Ok(made),
            Err(error) => {
                let _ = made.destroy();
                Err(error)
            }
        }
    }

    /// Opens a pool of this name; `None` where there is none.
    ///
    /// # Errors
    /// Says what failed.
    pub fn open(name: &str) -> Result<Option<Self>, XenError> {
        let mut store = open_store()?;
        let Some(domid) = find(&mut store, name)? else { return Ok(None) };
        let directory = pool(domid);
        let mut number = |key: &str| store.number(&format!("{directory}/{key}"));
        let (pages, slots) = (number("pages")?, number("slots")?);
        let (mode, group) = (number("mode")?.unwrap_or(0o600), number("group")?.unwrap_or(0));
        let admission = store.read(&format!("{directory}/admit"))?.unwrap_or_default();
        let (Some(pages), Some(slots)) = (pages, slots) else {
            return Err(XenError::Failed {
                tried: "read what XenStore says about the pool domain",
                errno: Errno::INVAL,
            });
        };
        let own = own_domain(&mut store)?.unwrap_or(0);
        let hypervisor = open_hypervisor()?;
        let room = GrantTableSize { pages, slots };
        let table = hypervisor
            .grant_table(domid, room.frames())
            .map(Table::of)
            .map_err(failed("map the pool domain's grant table"))?;
        let admission = Admission::parse(&admission);
        let name = name.to_owned();
        Ok(Some(Self { hypervisor, store, name, domid, own, room, mode, group, admission, table }))
    }

    /// Its domain.
    #[must_use]
    pub fn domid(&self) -> u16 {
        self.domid
    }

    /// Its pages and slots.
    #[must_use]
    pub fn room(&self) -> GrantTableSize {
        self.room
    }

    /// Who becomes a member.
    #[must_use]
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    fn write_down(&mut self) -> Result<(), XenError> {
        let (home, directory) = (home(self.domid), pool(self.domid));
        let pairs = [
            (format!("{home}/name"), format!("{PREFIX}{}", self.name)),
            (format!("{home}/domid"), self.domid.to_string()),
            (format!("{directory}/pages"), self.room.pages.to_string()),
            (format!("{directory}/slots"), self.room.slots.to_string()),
            (format!("{directory}/mode"), self.mode.to_string()),
            (format!("{directory}/group"), self.group.to_string()),
            (format!("{directory}/admit"), self.admission.text()),
            (format!("{directory}/slot/{OWN_SLOT}/domain"), self.own.to_string()),
            // The name last: a reader that finds it finds the rest.
            (format!("{directory}/name"), self.name.clone()),
        ];
        for (key, value) in pairs {
            self.store.write(&key, &value)?;
        }
        Ok(())
    }

    pub(super) fn grants(&self, slot: u32) -> Grants {
        Grants { domid: self.domid, first: self.room.first(slot), pages: self.room.pages }
    }

    pub(super) fn announcement(&self) -> Announcement {
        Announcement {
            name: self.name.clone(),
            grants: self.grants(OWN_SLOT),
            own: self.own,
            mode: self.mode,
            group: self.group,
        }
    }

    /// dom0's own way to the pool's memory.
    ///
    /// # Errors
    /// Says what failed.
    pub fn link(&self) -> Result<Box<dyn Link>, XenError> {
        Ok(Box::new(Xen::of(self.announcement())?))
    }

    /// Whether it is still there.
    ///
    /// # Errors
    /// When XenStore does not answer.
    pub fn exists(&mut self) -> Result<bool, XenError> {
        let named = self.store.read(&format!("{}/name", pool(self.domid)))?;
        Ok(named.as_deref() == Some(self.name.as_str()))
    }

    /// Watches arrivals and departures of domains, and the end of the pool:
    /// [`PoolDomain::changes`] is readable then.
    ///
    /// # Errors
    /// When XenStore refuses a request.
    pub fn watch(&mut self) -> Result<(), XenError> {
        for event in ["@introduceDomain", "@releaseDomain"] {
            self.store.watch(event)?;
        }
        self.store.watch(&format!("{}/name", pool(self.domid)))?;
        Ok(())
    }

    /// Readable when domains have come or gone.
    #[must_use]
    pub fn changes(&self) -> std::os::fd::BorrowedFd<'_> {
        self.store.descriptor()
    }

    /// Takes note of what was reported.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn take_changes(&mut self) -> Result<bool, XenError> {
        Ok(self.store.take_changes()?)
    }

    /// First step of its end: it no longer exists for its server, which leaves it alone from then
    /// on.
    ///
    /// # Errors
    /// When XenStore refuses a request.
    pub fn retire(&mut self) -> Result<(), XenError> {
        Ok(self.store.remove(&format!("{}/name", pool(self.domid)))?)
    }

    /// Revokes all grants, ends the domain, and takes back what XenStore says about it. Returns how
    /// many pages are still mapped somewhere: those stay with the domain, which is gone when they
    /// are unmapped.
    ///
    /// # Errors
    /// What could not be done.
    pub fn destroy(mut self) -> Result<u32, XenError> {
        let mut mapped = 0;
        for member in self.members()? {
            if self.is_same_life(&member)? {
                self.forget(member.domid)?;
            }
        }
        self.forget(self.own)?;
        let _ = std::fs::remove_file(path_of(&self.name));
        for slot in 0..self.room.slots {
            let first = self.room.first(slot);
            mapped += self.table.revoke(first, self.room.pages).map_err(failed("revoke grants"))?;
        }
        let Self { hypervisor, mut store, domid, table, .. } = self;
        // The table is the domain's own memory: mapped here, it would keep the domain.
        drop(table);
        store.remove(&home(domid))?;
        control::destroy(&hypervisor, domid).map_err(failed("end the pool domain"))?;
        Ok(mapped)
    }
}
