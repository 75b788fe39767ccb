//! A pool as a whole: making one, opening one.

use std::sync::Arc;

use vshmem_mem::{AtomicU32, Map, Ordering};
use vshmem_sync::{Fault, load_state};
use vshmem_wire::{
    DomainSlot, DomainState, FORMAT_VERSION, Geometry, GeometryError, Layout, MAGIC, NODE_RANGES,
    NodeRange, PAGE_BYTES, POOL_NAME_BYTES, Place, RawCell, Superblock, are_node_ranges, field,
    fnv1a_64,
};

use crate::pool::superblock::{Reader, Text, Writer};

/// What a new pool is to be.
#[derive(Debug, Clone)]
pub struct NewPool {
    /// Name, at most 63 bytes.
    pub name: String,
    /// Identity.
    pub uuid: [u8; 16],
    /// Counts and limits.
    pub geometry: Geometry,
    /// Owner.
    pub owner_uid: u32,
    /// Mode.
    pub mode: u32,
    /// Seconds since 1970.
    pub created: u64,
    /// Seconds of silence until automatic eviction; 0: never.
    pub evict_after: u64,
    /// Bytes of free pages that agents keep zeroed ahead of demand.
    pub prepare: u64,
    /// Whether every page is backed with memory already.
    pub backed: bool,
    /// The ranges of data pages that lie on one node each, as [`are_node_ranges`] wants them.
    pub node_ranges: [NodeRange; NODE_RANGES],
    /// A random number that nobody else knows, for [`Superblock::signing_key`].
    pub signing_key: u128,
}

/// Why a region is not opened as a pool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Not even a superblock fits.
    #[error(
        "it has {found} bytes, fewer than the {needed} that its superblock asks for; it was truncated, or is still being made"
    )]
    Truncated {
        /// Bytes there are.
        found: u64,
        /// Bytes there should be.
        needed: u64,
    },
    /// Something else lies there.
    #[error("it does not begin with a pool's magic number; it is not a pool, or was overwritten")]
    Magic,
    /// Made by another release.
    #[error(
        "it has format version {found}, and this vshmem reads version {FORMAT_VERSION}. Use the release that made it, or make it again"
    )]
    Version {
        /// What the superblock says.
        found: u32,
    },
    /// Damaged.
    #[error("its superblock is damaged ({0})")]
    Damaged(&'static str),
    /// The processor cannot change a cell.
    #[error(
        "this processor has no CMPXCHG16B (cx16 in /proc/cpuinfo), which every change of a pool takes. If a hypervisor hides it, pass it through, as with `-cpu host`"
    )]
    Processor,
    /// Its counts cannot be.
    #[error("its superblock holds an impossible count: {0}")]
    Geometry(String),
}

/// An open pool: where its bytes are, and how they are laid out.
#[derive(Debug)]
pub struct Pool {
    map: Arc<Map>,
    layout: Layout,
    superblock: Superblock,
    /// VSHMEM_LOG asks for a line about what is damaged.
    pub(crate) logs: bool,
    /// The domain as which this process has joined it.
    own_domain: AtomicU32,
}

impl Pool {
    /// Bytes from the start of a region that tell what pool it is.
    pub const HEADER_BYTES: usize = size_of::<Superblock>();

    /// Reads a superblock and checks it, without touching anything else.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn identify(header: &[u8], region_bytes: u64) -> Result<(Superblock, Layout), OpenError> {
        let needed = size_of::<Superblock>() as u64;
        if (header.len() as u64) < needed || region_bytes < needed {
            return Err(OpenError::Truncated { found: region_bytes, needed });
        }
        let reader = Reader { bytes: header };
        let superblock = reader.superblock();
        if superblock.magic != MAGIC {
            return Err(OpenError::Magic);
        }
        if superblock.version != FORMAT_VERSION {
            return Err(OpenError::Version { found: superblock.version });
        }
        if u64::from(superblock.bytes) != needed {
            return Err(OpenError::Damaged("its length"));
        }
        let sum_at = std::mem::offset_of!(Superblock, checksum);
        if superblock.checksum != fnv1a_64(&header[..sum_at]) {
            return Err(OpenError::Damaged("its checksum"));
        }
        let layout =
            superblock.geometry.layout().map_err(|e| OpenError::Geometry(e.to_string()))?;
        if layout.total_bytes > superblock.total_bytes {
            return Err(OpenError::Damaged("its size"));
        }
        if !are_node_ranges(&superblock.node_ranges, superblock.geometry.pages) {
            return Err(OpenError::Damaged("its ranges of nodes"));
        }
        if superblock.total_bytes > region_bytes {
            return Err(OpenError::Truncated {
                found: region_bytes,
                needed: superblock.total_bytes,
            });
        }
        Ok((superblock, layout))
    }

    /// Opens the pool in `map`, which must reach at least to the data pages.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn open(map: Arc<Map>, region_bytes: u64) -> Result<Self, OpenError> {
        let mut header = [0; size_of::<Superblock>()];
        let short = OpenError::Truncated { found: map.bytes(), needed: PAGE_BYTES };
        map.read(0, &mut header).map_err(|_| short)?;
        let (superblock, layout) = Self::identify(&header, region_bytes)?;
        if !vshmem_mem::has_wide_swap() {
            return Err(OpenError::Processor);
        }
        if map.bytes() < layout.data.offset() {
            return Err(OpenError::Truncated { found: map.bytes(), needed: layout.data.offset() });
        }
        let logs = std::env::var_os("VSHMEM_LOG").is_some();
        Ok(Self { map, layout, superblock, logs, own_domain: AtomicU32::new(u32::MAX) })
    }

    /// The first page of a new pool.
    ///
    /// # Errors
    /// When a count is out of range.
    pub fn header(new: &NewPool) -> Result<Vec<u8>, GeometryError> {
        let layout = new.geometry.layout()?;
        let mut name = [0; POOL_NAME_BYTES];
        let used = new.name.len().min(POOL_NAME_BYTES - 1);
        name[..used].copy_from_slice(&new.name.as_bytes()[..used]);
        let superblock = Superblock {
            magic: MAGIC,
            version: FORMAT_VERSION,
            bytes: size_of::<Superblock>() as u32,
            uuid: new.uuid,
            name,
            total_bytes: layout.total_bytes,
            created: new.created,
            evict_after: new.evict_after,
            owner_uid: new.owner_uid,
            mode: new.mode,
            prepare: new.prepare,
            backed: new.backed.into(),
            geometry: new.geometry,
            node_ranges: new.node_ranges,
            signing_key: [new.signing_key as u64, (new.signing_key >> 64) as u64],
            checksum: 0,
        };
        let mut bytes = Writer::superblock(&superblock);
        let sum_at = std::mem::offset_of!(Superblock, checksum);
        let sum = fnv1a_64(&bytes[..sum_at]);
        bytes[sum_at..sum_at + 8].copy_from_slice(&sum.to_ne_bytes());
        Ok(bytes)
    }

    /// The shared bytes.
    #[must_use]
    pub fn map(&self) -> &Arc<Map> {
        &self.map
    }

    /// Where everything lies.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What was fixed at creation.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Counts and limits.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.superblock.geometry
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> String {
        Text(&self.superblock.name).to_string()
    }
}

/// Why a pool cannot be laid out.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// A count is out of range.
    #[error("{0}")]
    Geometry(GeometryError),
    /// The map is too short.
    #[error("the region is too short for its layout ({0:?})")]
    Region(Fault),
}

impl From<GeometryError> for FormatError {
    fn from(error: GeometryError) -> Self {
        Self::Geometry(error)
    }
}

impl From<Fault> for FormatError {
    fn from(fault: Fault) -> Self {
        Self::Region(fault)
    }
}

impl Pool {
    /// The registry lock.
    pub(crate) fn registry_lock(&self) -> Place<RawCell> {
        field!(self.layout.registry, vshmem_wire::Registry, lock)
    }

    /// This process has joined as one of that domain.
    pub(crate) fn set_own_domain(&self, domain: u32) {
        self.own_domain.store(domain, Ordering::Relaxed);
    }

    /// Where the domain stands as which this process has joined. One load of the pool.
    #[inline]
    pub(crate) fn own_domain_state(&self) -> Option<DomainState> {
        let slot = self.layout.domains.at(self.own_domain.load(Ordering::Relaxed))?;
        load_state(&self.map, field!(slot, DomainSlot, state)).ok()?
    }

    /// Whether that domain leaves the pool, or has left it.
    #[inline]
    pub(crate) fn own_domain_leaves(&self) -> bool {
        matches!(self.own_domain_state(), Some(DomainState::Leaving | DomainState::Left))
    }
}
