//! Who and what is in a pool, for `vshmem ls` and the agent.

use vshmem_sync::{Fault, field, holder_of, load_value, load_word};
use vshmem_wire::{
    AGENT_STARTER, AttachSlot, BELL_LOST, ClientName, ClientSlot, ClientState, DomainSlot,
    DomainState, MsgSlot, ObjectHeader, ObjectState, PAGE_BYTES, Party, Registry, SemSlot, ShmSlot,
    ThreadSlot, WaitState,
};

use crate::access::Permission;
use crate::id::{Kind, Place};
use crate::member::client_at;
use crate::registry::{self, per_kind};
use crate::segment::attach_at;
use crate::semaphore::{self, Set};
use crate::wait::thread_at;
use crate::{Domains, Errno, Member, Pool, domain, settle};

/// A member domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainRow {
    /// Slot.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Alive, dead or evicted.
    pub state: DomainState,
    /// Boot epoch.
    pub epoch: u32,
    /// Seconds since 1970 when its agent last renewed the lease.
    pub renewed: u32,
    /// Raised with each renewal.
    pub lease: u32,
    /// Agent's pid in the domain, 0 for none.
    pub agent: u32,
    /// Clients.
    pub clients: u32,
    /// Boot id of its kernel, as four words.
    pub boot: [u32; 4],
    /// Inode of its PID namespace.
    pub pid_namespace: u32,
    /// Where it can be rung over its link; `None` when it cannot.
    pub address: Option<u32>,
    /// Whether its agent listens for datagrams.
    pub listens: bool,
    /// The domains that its agent has heard by datagram lately.
    pub heard: Domains,
    /// How fast it reads the pool and private memory, and makes locked stores to them, in MiB a
    /// second; 0 when not measured.
    pub rates: [u32; vshmem_wire::RATES],
}

/// What tells a domain that has not been declared dead from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DomainKey {
    /// Slot.
    pub index: u32,
    /// Boot epoch.
    pub epoch: u32,
    /// Boot id of its kernel, as four words.
    pub boot: [u32; 4],
    /// Inode of its PID namespace.
    pub pid_namespace: u32,
    /// When the init of that was started; 0 when unknown.
    pub born: u64,
}

/// A client process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientRow {
    /// Slot.
    pub index: u32,
    /// Its name, by which it can be buried.
    pub name: ClientName,
    /// Slot of its domain.
    pub domain: u32,
    /// Pid inside the domain; while reserved, the parent's.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// User.
    pub uid: u32,
    /// Standing.
    pub state: ClientState,
    /// Seconds since 1970 when it joined.
    pub joined: u32,
    /// Attaches.
    pub attaches: u32,
    /// Threads that sleep.
    pub sleeping: u32,
}

/// A client as its domain's agent needs to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// Slot.
    pub index: u32,
    /// Its name.
    pub name: ClientName,
    /// Slot of its domain.
    pub domain: u32,
    /// Pid inside the domain; while reserved, the parent's.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// Standing.
    pub state: ClientState,
}

/// An object with all that its tables say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Kind.
    pub kind: Kind,
    /// Slot.
    pub index: u32,
    /// System V id.
    pub id: i32,
    /// Owner, creator, mode.
    pub permission: Permission,
    /// Seconds since 1970 of creation or last IPC_SET.
    pub changed: u32,
    /// What only its kind has.
    pub particulars: Particulars,
}

/// What only one kind of object has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Particulars {
    /// A segment.
    Segment {
        /// Bytes.
        bytes: u64,
        /// Attaches of all clients.
        attached: u32,
        /// Removed, and still attached.
        doomed: bool,
        /// Who made it.
        creator: Party,
        /// Who attached or detached last.
        last: Party,
    },
    /// A semaphore set.
    Semaphore {
        /// Semaphores.
        count: u32,
        /// Seconds since 1970 of the last semop.
        operated: u32,
        /// Who operated last on its first semaphore.
        last: Party,
    },
    /// A message queue.
    Queue {
        /// Bytes queued.
        bytes: u32,
        /// Messages queued.
        count: u32,
        /// Bytes allowed.
        limit: u32,
        /// Last sender.
        sender: Party,
        /// Last receiver.
        receiver: Party,
    },
}

/// What is used of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of segments.
    pub bytes: u64,
    /// Live objects: segments, semaphore sets, queues.
    pub objects: [u32; 3],
}

/// A lock that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRow {
    /// The object whose lock it is; `None`: the registry's.
    pub object: Option<ObjectRow>,
    /// Client slot of the holder; `None` when its thread slot has been given up.
    pub client: Option<u32>,
    /// Whether the change has happened and is being carried out.
    pub committed: bool,
}

/// Which object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectRow {
    /// Kind.
    pub kind: Kind,
    /// Slot, as the *_STAT calls take it.
    pub index: u32,
}

/// A sleeping thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaiterRow {
    /// Its client's slot.
    pub client: u32,
    /// Kind of the object it waits at.
    pub kind: Kind,
    /// Slot of that object.
    pub object: u32,
}

impl Pool {
    /// All member domains, past ones included.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn domains(&self) -> Result<Vec<DomainRow>, Errno> {
        let map = self.map();
        let look = || -> Result<Vec<DomainRow>, Fault> {
            let clients = self.client_rows()?;
            let mut rows = Vec::new();
            for index in 0..self.layout().domains.count as u32 {
                let slot = domain::slot_at(self.layout(), index)?;
                let state = match load_value(map, field!(slot, DomainSlot, state))? {
                    1 => DomainState::Alive,
                    2 => DomainState::Dead,
                    3 => DomainState::Evicted,
                    _ => continue,
                };
                rows.push(DomainRow {
                    index,
                    name: domain::name_of(self, index)?,
                    state,
                    epoch: load_value(map, field!(slot, DomainSlot, epoch))?,
                    renewed: load_value(map, field!(slot, DomainSlot, renewed))?,
                    lease: load_value(map, field!(slot, DomainSlot, lease))?,
                    agent: match load_value(map, field!(slot, DomainSlot, agent))? {
                        starter if starter & AGENT_STARTER != 0 => 0,
                        agent => agent,
                    },
                    clients: clients.iter().filter(|row| row.domain == index).count() as u32,
                    boot: domain::boot_of(self, index)?,
                    pid_namespace: load_value(map, field!(slot, DomainSlot, pid_namespace))?,
                    address: match load_value(map, field!(slot, DomainSlot, address))? {
                        BELL_LOST => None,
                        address => address.checked_sub(1),
                    },
                    listens: load_word(map, field!(slot, DomainSlot, notify))? != 0,
                    heard: crate::notify::heard_by(self, index)?,
                    rates: domain::rates_of(self, index)?,
                });
            }
            Ok(rows)
        };
        settle(look().map(Ok))
    }

    /// The domains that have not been declared dead; without looking at any client.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn domain_keys(&self) -> Result<Vec<DomainKey>, Errno> {
        let map = self.map();
        let look = || -> Result<Vec<DomainKey>, Fault> {
            let mut keys = Vec::new();
            for index in 0..self.layout().domains.count as u32 {
                let slot = domain::slot_at(self.layout(), index)?;
                // The epoch first: should the slot change hands now, the key fits nobody any more.
                let epoch = self.epoch_of(index)?;
                let state = load_value(map, field!(slot, DomainSlot, state))?;
                if state == DomainState::Alive as u32 || state == DomainState::Evicted as u32 {
                    keys.push(DomainKey {
                        index,
                        epoch,
                        boot: domain::boot_of(self, index)?,
                        pid_namespace: load_value(map, field!(slot, DomainSlot, pid_namespace))?,
                        born: load_word(map, field!(slot, DomainSlot, born))?,
                    });
                }
            }
            Ok(keys)
        };
        settle(look().map(Ok))
    }

    /// Boot epoch of the domain in a slot; `None` when none takes part there: it is free, dead or evicted.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn domain_epoch(&self, index: u32) -> Result<Option<u32>, Errno> {
        let look = || -> Result<Option<u32>, Fault> {
            let slot = domain::slot_at(self.layout(), index)?;
            let state = load_value(self.map(), field!(slot, DomainSlot, state))?;
            let epoch = load_value(self.map(), field!(slot, DomainSlot, epoch))?;
            Ok((state == DomainState::Alive as u32).then_some(epoch))
        };
        settle(look().map(Ok))
    }

    /// All clients.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn clients(&self) -> Result<Vec<ClientRow>, Errno> {
        settle(self.client_rows().map(Ok))
    }

    /// The client that is in a slot now.
    pub(crate) fn named(&self, index: u32) -> Result<ClientName, Fault> {
        let slot = client_at(self.layout(), index)?;
        Ok(ClientName::new(index, load_word(self.map(), field!(slot, ClientSlot, taken))?))
    }

    /// Boot epoch of the domain that is in a slot now.
    pub(crate) fn epoch_of(&self, index: u32) -> Result<u32, Fault> {
        let slot = domain::slot_at(self.layout(), index)?;
        load_value(self.map(), field!(slot, DomainSlot, epoch))
    }

    /// Start time of the process in a client's slot.
    pub(crate) fn start_of(&self, slot: u64) -> Result<u64, Fault> {
        let low = load_value(self.map(), field!(slot, ClientSlot, start_low))?;
        let high = load_value(self.map(), field!(slot, ClientSlot, start_high))?;
        Ok(u64::from(high) << 32 | u64::from(low))
    }

    fn client_rows(&self) -> Result<Vec<ClientRow>, Fault> {
        let (map, layout) = (self.map(), self.layout());
        let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
        let mut rows = Vec::new();
        for index in 0..high.min(layout.clients.count as u32) {
            let slot = client_at(layout, index)?;
            // The name first: should the slot change hands now, the name fits nobody any more.
            let name = self.named(index)?;
            let Some(state) = client_state(load_value(map, field!(slot, ClientSlot, state))?)
            else {
                continue;
            };
            rows.push(ClientRow {
                index,
                name,
                domain: load_value(map, field!(slot, ClientSlot, domain))?,
                pid: load_value(map, field!(slot, ClientSlot, pid))?,
                start: self.start_of(slot)?,
                uid: load_value(map, field!(slot, ClientSlot, uid))?,
                state,
                joined: load_value(map, field!(slot, ClientSlot, joined))?,
                attaches: self.attaches_of(slot)?,
                sleeping: 0,
            });
        }
        for waiter in self.waiter_rows()? {
            if let Some(row) = rows.iter_mut().find(|row| row.index == waiter.client) {
                row.sleeping += 1;
            }
        }
        Ok(rows)
    }

    fn attaches_of(&self, client: u64) -> Result<u32, Fault> {
        let (map, layout) = (self.map(), self.layout());
        let mut next = load_value(map, field!(client, ClientSlot, attaches))?;
        let mut total = 0u32;
        // A client has one record of a segment at most.
        for _ in 0..layout.attaches.count.min(layout.shm.count) {
            let Some(record) = next.checked_sub(1) else {
                break;
            };
            let at = attach_at(layout, record)?;
            total = total.saturating_add(load_value(map, field!(at, AttachSlot, count))?);
            next = load_value(map, field!(at, AttachSlot, next))?;
        }
        Ok(total)
    }

    /// Numbers of the files that clients of a user have their wait words in, as the pool has them.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn wait_files_of(&self, uid: u32) -> Result<Vec<u32>, Errno> {
        let (map, layout) = (self.map(), self.layout());
        let look = || -> Result<Vec<u32>, Fault> {
            let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
            let mut numbers = Vec::new();
            for index in 0..high.min(layout.clients.count as u32) {
                let slot = client_at(layout, index)?;
                let number = load_value(map, field!(slot, ClientSlot, words_nonce))?;
                let owner = load_value(map, field!(slot, ClientSlot, words_uid))?;
                if number != 0 && owner == uid.wrapping_add(1) && !numbers.contains(&number) {
                    numbers.push(number);
                }
            }
            Ok(numbers)
        };
        settle(look().map(Ok))
    }

    /// All sleepers.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn waiters(&self) -> Result<Vec<WaiterRow>, Errno> {
        settle(self.waiter_rows().map(Ok))
    }

    fn waiter_rows(&self) -> Result<Vec<WaiterRow>, Fault> {
        let (map, layout) = (self.map(), self.layout());
        let mut rows = Vec::new();
        for thread in 0..layout.threads.count as u32 {
            let at = thread_at(layout, thread)?;
            let owner = load_word(map, field!(at, ThreadSlot, owner))?;
            let wait = load_value(map, field!(at, ThreadSlot, wait))?;
            let Some(client) = ClientName::of(owner).and_then(ClientName::slot) else {
                continue;
            };
            if wait != WaitState::Waiting as u32 {
                continue;
            }
            let kind = match load_value(map, field!(at, ThreadSlot, kind))? {
                1 => Kind::Semaphore,
                _ => Kind::Queue,
            };
            let object = load_value(map, field!(at, ThreadSlot, object))?;
            rows.push(WaiterRow { client, kind, object });
        }
        Ok(rows)
    }

    /// Clients that have a segment attached, with how often.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn attached_to(&self, segment: u32) -> Result<Vec<(u32, u32)>, Errno> {
        let (map, layout) = (self.map(), self.layout());
        let look = || -> Result<Vec<(u32, u32)>, Fault> {
            let mut rows = Vec::new();
            for record in 0..layout.attaches.count as u32 {
                let at = attach_at(layout, record)?;
                if load_value(map, field!(at, AttachSlot, segment))? == segment + 1 {
                    let client = load_word(map, field!(at, AttachSlot, client))?;
                    let client = ClientName::of(client).and_then(ClientName::slot);
                    let count = load_value(map, field!(at, AttachSlot, count))?;
                    rows.push((client.unwrap_or(u32::MAX), count));
                }
            }
            Ok(rows)
        };
        settle(look().map(Ok))
    }

    /// The clients of one domain, without what is costly to find out.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn residents(&self, domain: u32) -> Result<Vec<Resident>, Errno> {
        let (map, layout) = (self.map(), self.layout());
        let look = || -> Result<Vec<Resident>, Fault> {
            let clients_high = load_value(map, field!(layout.registry, Registry, clients_high))?;
            let mut found = Vec::new();
            for index in 0..clients_high.min(layout.clients.count as u32) {
                let slot = client_at(layout, index)?;
                // The name first: should the slot change hands now, the name fits nobody any more.
                let name = self.named(index)?;
                let Some(state) = client_state(load_value(map, field!(slot, ClientSlot, state))?)
                else {
                    continue;
                };
                if load_value(map, field!(slot, ClientSlot, domain))? != domain {
                    continue;
                }
                found.push(Resident {
                    index,
                    name,
                    domain,
                    pid: load_value(map, field!(slot, ClientSlot, pid))?,
                    start: self.start_of(slot)?,
                    state,
                });
            }
            Ok(found)
        };
        settle(look().map(Ok))
    }

    /// All objects of a kind, with what their tables say. Looked at without a lock: an object that
    /// changes at this moment may show a mixture.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn entries(&self, kind: Kind) -> Result<Vec<Entry>, Errno> {
        let rows = self.objects(kind)?;
        let look = || rows.iter().map(|row| self.entry(*row)).collect();
        settle(Result::<_, Fault>::map(look(), Ok))
    }

    fn entry(&self, row: ObjectRow) -> Result<Entry, Fault> {
        let (map, layout) = (self.map(), self.layout());
        let slot = registry::slot_at(layout, row.kind, row.index)?;
        let standing = registry::standing(map, slot)?;
        let place = Place { index: row.index, sequence: standing.sequence };
        let get = |at: u64| load_value(map, at);
        let party = |at: u64| get(at).map(Party::unpack);
        let particulars = match row.kind {
            Kind::Segment => {
                let low = get(field!(slot, ShmSlot, size_low))?;
                let high = get(field!(slot, ShmSlot, size_high))?;
                Particulars::Segment {
                    bytes: u64::from(high) << 32 | u64::from(low),
                    attached: get(field!(slot, ShmSlot, attached))?,
                    doomed: standing.is(ObjectState::Doomed),
                    creator: party(field!(slot, ShmSlot, creator))?,
                    last: party(field!(slot, ShmSlot, last))?,
                }
            }
            Kind::Semaphore => Particulars::Semaphore {
                count: get(field!(slot, SemSlot, count))?,
                operated: get(field!(slot, ObjectHeader, used))?,
                last: semaphore::last_operator(self, &Set::read(self, place, slot)?)?,
            },
            Kind::Queue => {
                let (count, bytes) = crate::queue::totals(map, self.layout(), slot)?;
                Particulars::Queue {
                    bytes,
                    count,
                    limit: get(field!(slot, MsgSlot, limit))?,
                    sender: party(field!(slot, MsgSlot, sender))?,
                    receiver: party(field!(slot, MsgSlot, receiver))?,
                }
            }
        };
        Ok(Entry {
            kind: row.kind,
            index: row.index,
            id: place.id(),
            permission: Permission::read(map, slot)?,
            changed: get(field!(slot, ObjectHeader, changed))?,
            particulars,
        })
    }

    /// How much of the pool is used.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn usage(&self) -> Result<Usage, Errno> {
        let (map, layout) = (self.map(), self.layout());
        let look = || -> Result<Usage, Fault> {
            let pages = load_value(map, field!(layout.registry, Registry, pages_used))?;
            let mut objects = [0; 3];
            for kind in Kind::ALL {
                objects[kind as usize] = load_value(map, per_kind!(layout, in_use, kind))?;
            }
            Ok(Usage { bytes: u64::from(pages) * PAGE_BYTES, objects })
        };
        settle(look().map(Ok))
    }

    /// The locks that are held at this moment.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn locks(&self) -> Result<Vec<LockRow>, Errno> {
        let mut rows = Vec::new();
        rows.extend(settle(self.lock_row(None).map(Ok))?);
        for kind in Kind::ALL {
            for object in self.objects(kind)? {
                rows.extend(settle(self.lock_row(Some(object)).map(Ok))?);
            }
        }
        Ok(rows)
    }

    fn lock_row(&self, object: Option<ObjectRow>) -> Result<Option<LockRow>, Fault> {
        let layout = self.layout();
        let offset = match object {
            None => self.registry_lock(),
            Some(row) => {
                let slot = registry::slot_at(layout, row.kind, row.index)?;
                field!(slot, ObjectHeader, lock)
            }
        };
        let Some(holder) = holder_of(self.map(), offset)? else {
            return Ok(None);
        };
        let owner = match layout.threads.at(holder.slot) {
            Some(at) => load_word(self.map(), field!(at, ThreadSlot, owner))?,
            None => 0,
        };
        Ok(Some(LockRow {
            object,
            client: ClientName::of(owner).and_then(ClientName::slot),
            committed: holder.committed,
        }))
    }

    /// All objects of a kind.
    ///
    /// # Errors
    /// EIO when the pool does not make sense.
    pub fn objects(&self, kind: Kind) -> Result<Vec<ObjectRow>, Errno> {
        let (map, layout) = (self.map(), self.layout());
        let look = || -> Result<Vec<ObjectRow>, Fault> {
            let high = load_value(map, per_kind!(layout, high_water, kind))?;
            let mut rows = Vec::new();
            for index in 0..high.min(kind.area(layout).count as u32) {
                let slot = registry::slot_at(layout, kind, index)?;
                let standing = registry::standing(map, slot)?;
                if standing.is(ObjectState::Live) || standing.is(ObjectState::Doomed) {
                    rows.push(ObjectRow { kind, index });
                }
            }
            Ok(rows)
        };
        settle(look().map(Ok))
    }
}

/// `None` for a free slot.
fn client_state(value: u32) -> Option<ClientState> {
    Some(match value {
        1 => ClientState::Reserved,
        2 => ClientState::Active,
        3 => ClientState::Dying,
        4 => ClientState::Quarantined,
        _ => return None,
    })
}

impl Member {
    /// The id of an object row.
    ///
    /// # Errors
    /// EINVAL when it has gone.
    pub fn id_of(&self, row: ObjectRow) -> Result<i32, Errno> {
        self.id_at(row.kind, row.index)
    }
}
