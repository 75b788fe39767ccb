//! The domain table: the kernels (and PID namespaces) that use the pool.

use vshmem_sync::{Fault, Txn, load_state, load_value};
use vshmem_wire::{DOMAIN_NAME_CELLS, DomainSlot, DomainState, Place, RATES, domain_digest, field};

use crate::pool::open::Pool;
use crate::pool::superblock::Text;

/// What tells one domain from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainIdentity {
    /// Boot id of the kernel (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: [u8; 16],
    /// Inode of the PID namespace.
    pub pid_namespace: u32,
    /// When the init of the PID namespace was started, in clock ticks since boot; 0 when unknown.
    pub born: u64,
    /// Name for people. At most 32 bytes.
    pub name: String,
    /// Whether the name was given by the operator of the domain, so that two of one name are
    /// two boots of the same machine.
    pub named: bool,
}

/// The domains that take part, `own` left out: their numbers and slots.
pub(crate) fn other_alive_domains(
    pool: &Pool,
    own: u32,
) -> impl Iterator<Item = Result<(u32, Place<DomainSlot>), Fault>> {
    // `None` behind the last: slots are taken from the first on, so those behind one that has never
    // been taken are free.
    let look = |index| -> Result<Option<Option<DomainState>>, Fault> {
        let slot = pool.layout().domains.row(index)?;
        let state = load_state(pool.map(), field!(slot, DomainSlot, state))?;
        let never = state == Some(DomainState::Free)
            && load_value(pool.map(), field!(slot, DomainSlot, epoch))? == 0;
        Ok((!never).then_some(state))
    };
    let states = (0..pool.layout().domains.count as u32).map(look).map_while(Result::transpose);
    (0..).zip(states).filter_map(move |(index, state)| match state {
        Ok(Some(state)) if state.takes_part() && index != own => {
            pool.layout().domains.at(index).map(|slot| Ok((index, slot)))
        }
        Ok(_) => None,
        Err(fault) => Some(Err(fault)),
    })
}

/// Digest of the domain in a slot: what its joining processes are called by.
pub(crate) fn digest_at(pool: &Pool, index: u32) -> Result<u64, Fault> {
    let slot = pool.layout().domains.row(index)?;
    let namespace = load_value(pool.map(), field!(slot, DomainSlot, pid_namespace))?;
    Ok(domain_digest(boot_of(pool, index)?, namespace))
}

impl DomainIdentity {
    pub(crate) fn digest(&self) -> u64 {
        domain_digest(words(&self.boot_id), self.pid_namespace)
    }
}

fn words(bytes: &[u8; 16]) -> [u32; 4] {
    std::array::from_fn(|i| {
        u32::from_ne_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]])
    })
}

fn name_words(name: &str) -> [u32; DOMAIN_NAME_CELLS] {
    let bytes = name.as_bytes();
    std::array::from_fn(|i| {
        u32::from_ne_bytes(std::array::from_fn(|j| bytes.get(4 * i + j).copied().unwrap_or(0)))
    })
}

/// Boot id in a slot.
pub(crate) fn boot_of(pool: &Pool, index: u32) -> Result<[u32; 4], Fault> {
    let slot = pool.layout().domains.row(index)?;
    let mut boot = [0; 4];
    for (i, word) in boot.iter_mut().enumerate() {
        *word = load_value(pool.map(), field!(slot, DomainSlot, boot_id).element(i as u64))?;
    }
    Ok(boot)
}

/// Name in a slot.
pub(crate) fn name_of(pool: &Pool, index: u32) -> Result<String, Fault> {
    let slot = pool.layout().domains.row(index)?;
    let mut bytes = Vec::new();
    for i in 0..DOMAIN_NAME_CELLS as u64 {
        let word = load_value(pool.map(), field!(slot, DomainSlot, name).element(i))?;
        bytes.extend(word.to_ne_bytes());
    }
    Ok(Text(&bytes).to_string())
}

/// Bandwidths in a slot.
pub(crate) fn rates_of(pool: &Pool, index: u32) -> Result<[u32; RATES], Fault> {
    let slot = pool.layout().domains.row(index)?;
    let mut rates = [0; RATES];
    for (i, rate) in rates.iter_mut().enumerate() {
        *rate = load_value(pool.map(), field!(slot, DomainSlot, rates).element(i as u64))?;
    }
    Ok(rates)
}

/// What looking for one's own slot found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seek {
    /// Ours already.
    Mine(u32),
    /// Taken now.
    Taken(u32),
    /// The same machine in an earlier boot; it has to be reaped first.
    Former(u32),
    /// Ours, and evicted: it has to be confirmed dead before it may come back.
    Evicted,
    /// Ours, and it leaves or has left.
    Left(u32),
    /// The table is full.
    Full,
}

/// Finds or takes the slot of `identity`. `reusable` says whether nothing of a dead domain is left.
pub(crate) fn seek(
    txn: &mut Txn<'_>,
    pool: &Pool,
    identity: &DomainIdentity,
    now: u32,
    mut reusable: impl FnMut(u32) -> Result<bool, Fault>,
) -> Result<Seek, Fault> {
    let layout = pool.layout();
    let boot = words(&identity.boot_id);
    let name = name_words(&identity.name);
    let (mut free, mut empty) = (None, None);
    for index in 0..layout.domains.count as u32 {
        let slot = layout.domains.row(index)?;
        let state = txn.state(field!(slot, DomainSlot, state))?;
        if state.is_some_and(DomainState::may_be_there) {
            let same_boot = (0..4).try_fold(true, |same, i| {
                let word = txn.get(field!(slot, DomainSlot, boot_id).element(i as u64))?;
                Ok::<_, Fault>(same && word == boot[i])
            })?;
            let namespace = txn.get(field!(slot, DomainSlot, pid_namespace))?;
            if same_boot && namespace == identity.pid_namespace {
                let born_at = field!(slot, DomainSlot, born);
                let born = txn.get_word(born_at)?;
                // The inode of a namespace that has ended is given again.
                if born != 0 && identity.born != 0 && born.abs_diff(identity.born) > 1 {
                    return Ok(Seek::Former(index));
                }
                if born == 0 {
                    txn.update_word(born_at, identity.born)?;
                }
                return Ok(match state {
                    Some(DomainState::Evicted) => Seek::Evicted,
                    Some(DomainState::Leaving | DomainState::Left) => Seek::Left(index),
                    _ => Seek::Mine(index),
                });
            }
            let same_name = (0..DOMAIN_NAME_CELLS).try_fold(true, |same, i| {
                let word = txn.get(field!(slot, DomainSlot, name).element(i as u64))?;
                Ok::<_, Fault>(same && word == name[i])
            })?;
            if identity.named && same_name && !same_boot {
                return Ok(Seek::Former(index));
            }
            // One without clients, as containers that have come and gone leave them behind.
            if state != Some(DomainState::Evicted) && empty.is_none() && reusable(index)? {
                empty = Some(index);
            }
        } else if free.is_none()
            && (state == Some(DomainState::Free)
                || (state == Some(DomainState::Dead) && reusable(index)?))
        {
            free = Some(index);
        }
    }
    let Some(index) = free.or(empty) else {
        return Ok(Seek::Full);
    };
    write_domain(txn, layout.domains.row(index)?, identity, now)?;
    Ok(Seek::Taken(index))
}

/// Gives a domain a name.
pub(crate) fn rename(txn: &mut Txn<'_>, slot: Place<DomainSlot>, name: &str) -> Result<(), Fault> {
    for (i, word) in name_words(name).iter().enumerate() {
        txn.update(field!(slot, DomainSlot, name).element(i as u64), *word)?;
    }
    Ok(())
}

/// Gives a slot to a domain, with a new boot epoch.
fn write_domain(
    txn: &mut Txn<'_>,
    slot: Place<DomainSlot>,
    identity: &DomainIdentity,
    now: u32,
) -> Result<(), Fault> {
    let boot = words(&identity.boot_id);
    let epoch = txn.get(field!(slot, DomainSlot, epoch))?;
    txn.set(field!(slot, DomainSlot, epoch), epoch.wrapping_add(1))?;
    for (i, word) in boot.iter().enumerate() {
        txn.update(field!(slot, DomainSlot, boot_id).element(i as u64), *word)?;
    }
    rename(txn, slot, &identity.name)?;
    txn.update(field!(slot, DomainSlot, pid_namespace), identity.pid_namespace)?;
    txn.update_word(field!(slot, DomainSlot, born), identity.born)?;
    txn.update(field!(slot, DomainSlot, renewed), now)?;
    txn.update(field!(slot, DomainSlot, agent), 0)?;
    txn.update(field!(slot, DomainSlot, address), 0)?;
    txn.update_word(field!(slot, DomainSlot, notify), 0)?;
    for half in 0..2 {
        txn.update_word(field!(slot, DomainSlot, heard).element(half), 0)?;
    }
    for i in 0..RATES as u64 {
        txn.update(field!(slot, DomainSlot, rates).element(i), 0)?;
    }
    txn.set_state(field!(slot, DomainSlot, state), DomainState::Alive)
}

/// A set of domains, by index; there are 127 at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DomainSet(pub(crate) u128);

impl DomainSet {
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

impl Pool {
    /// Boot epoch of the domain that is in a slot now.
    pub(crate) fn epoch_of(&self, index: u32) -> Result<u32, Fault> {
        let slot = self.layout().domains.row(index)?;
        load_value(self.map(), field!(slot, DomainSlot, epoch))
    }
}
