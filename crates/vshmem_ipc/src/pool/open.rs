//! A pool as a whole: making one, opening one.

use std::sync::Arc;

use vshmem_mem::{Map, Ordering};
use vshmem_sync::{Fault, field};
use vshmem_wire::{
    FORMAT_VERSION, Geometry, GeometryError, Layout, MAGIC, PAGE_BYTES, POOL_NAME_BYTES, Superblock,
};

use crate::memory::extents;
use crate::pool::tag_floor;

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
}

/// Why a region is not opened as a pool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Not even a superblock fits.
    #[error(
        "it has {found} bytes, fewer than the {needed} that its superblock asks for; it was truncated, or is still being made. Create it again with `vshmem pool create`"
    )]
    Truncated {
        /// Bytes there are.
        found: u64,
        /// Bytes there should be.
        needed: u64,
    },
    /// Something else lies there.
    #[error(
        "it does not begin with a pool's magic number; it is not a pool, or was overwritten. Name another one, or create it with `vshmem pool create`"
    )]
    Magic,
    /// Made by another release.
    #[error(
        "it has format version {found}, and this vshmem reads version {FORMAT_VERSION}. Use the release that made it, or remove it with `vshmem pool rm` and create it again (a private pool is made again by itself)"
    )]
    Version {
        /// What the superblock says.
        found: u32,
    },
    /// Damaged.
    #[error("its superblock is damaged ({0}). Remove it with `vshmem pool rm` and create it again")]
    Damaged(&'static str),
    /// The processor cannot change a cell.
    #[error(
        "this processor has no CMPXCHG16B (cx16 in /proc/cpuinfo), which every change of a pool takes. Where a hypervisor hides it, let it through, as with `-cpu host`"
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
        if superblock.checksum != fnv(&header[..sum_at]) {
            return Err(OpenError::Damaged("its checksum"));
        }
        let layout =
            superblock.geometry.layout().map_err(|e| OpenError::Geometry(e.to_string()))?;
        if layout.total_bytes > superblock.total_bytes {
            return Err(OpenError::Damaged("its size"));
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
        if map.bytes() < layout.data.offset {
            return Err(OpenError::Truncated { found: map.bytes(), needed: layout.data.offset });
        }
        Ok(Self { map, layout, superblock })
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
            checksum: 0,
        };
        let mut bytes = Writer::superblock(&superblock);
        let sum_at = std::mem::offset_of!(Superblock, checksum);
        let sum = fnv(&bytes[..sum_at]);
        bytes[sum_at..sum_at + 8].copy_from_slice(&sum.to_ne_bytes());
        Ok(bytes)
    }

    /// Lays a pool out in zeroed memory. The magic number is written last, so that nobody opens a
    /// pool that is half made.
    ///
    /// # Errors
    /// When a count is out of range, or the map is too short.
    pub fn format(map: &Map, new: &NewPool) -> Result<(), FormatError> {
        let bytes = Self::header(new)?;
        let layout = new.geometry.layout()?;
        extents::format(map, &layout)?;
        tag_floor::format(map, &layout, new.uuid)?;
        map.write(8, &bytes[8..]).map_err(Fault::from)?;
        let magic = u64::from_ne_bytes(MAGIC);
        map.store(0, magic, Ordering::Release).map_err(Fault::from)?;
        Ok(())
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
        text(&self.superblock.name)
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

/// Zero padded bytes as text. They may be a peer's: nothing in them commands a terminal.
pub(crate) fn text(bytes: &[u8]) -> String {
    let used = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..used]);
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// FNV-1a: finds damage, not malice.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Reads the fields of a superblock from bytes, without a cast.
struct Reader<'a> {
    bytes: &'a [u8],
}

macro_rules! fields {
    ($run:ident) => {
        $run!(u32: shmmni, semmni, msgmni, domains, clients, threads, attaches, undos, slabs,
              semmsl, semmns, semopm, semvmx, msgmax, msgmnb, shmmin);
        $run!(u64: shmmax, shmall, pages);
    };
}

impl Reader<'_> {
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.bytes[at..at + N]);
        out
    }

    fn superblock(&self) -> Superblock {
        macro_rules! at {
            ($type:ty, $field:ident) => {
                <$type>::from_ne_bytes(self.array(std::mem::offset_of!(Superblock, $field)))
            };
        }
        let base = std::mem::offset_of!(Superblock, geometry);
        let mut geometry = Geometry {
            shmmni: 0,
            semmni: 0,
            msgmni: 0,
            domains: 0,
            clients: 0,
            threads: 0,
            attaches: 0,
            undos: 0,
            slabs: 0,
            semmsl: 0,
            semmns: 0,
            semopm: 0,
            semvmx: 0,
            msgmax: 0,
            msgmnb: 0,
            shmmin: 0,
            shmmax: 0,
            shmall: 0,
            pages: 0,
        };
        macro_rules! read {
            ($type:ty: $($name:ident),*) => {
                $(geometry.$name = <$type>::from_ne_bytes(
                    self.array(base + std::mem::offset_of!(Geometry, $name)));)*
            };
        }
        fields!(read);
        Superblock {
            magic: self.array(std::mem::offset_of!(Superblock, magic)),
            version: at!(u32, version),
            bytes: at!(u32, bytes),
            uuid: self.array(std::mem::offset_of!(Superblock, uuid)),
            name: self.array(std::mem::offset_of!(Superblock, name)),
            total_bytes: at!(u64, total_bytes),
            created: at!(u64, created),
            evict_after: at!(u64, evict_after),
            owner_uid: at!(u32, owner_uid),
            mode: at!(u32, mode),
            prepare: at!(u64, prepare),
            backed: at!(u64, backed),
            geometry,
            checksum: at!(u64, checksum),
        }
    }
}

/// Writes them.
struct Writer;

impl Writer {
    fn superblock(superblock: &Superblock) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<Superblock>()];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        macro_rules! at {
            ($($field:ident),*) => {
                $(put(std::mem::offset_of!(Superblock, $field), &superblock.$field.to_ne_bytes());)*
            };
        }
        put(std::mem::offset_of!(Superblock, magic), &superblock.magic);
        put(std::mem::offset_of!(Superblock, uuid), &superblock.uuid);
        put(std::mem::offset_of!(Superblock, name), &superblock.name);
        at!(
            version,
            bytes,
            total_bytes,
            created,
            evict_after,
            owner_uid,
            mode,
            prepare,
            backed,
            checksum
        );
        let base = std::mem::offset_of!(Superblock, geometry);
        let geometry = &superblock.geometry;
        macro_rules! write {
            ($type:ty: $($name:ident),*) => {
                $(put(base + std::mem::offset_of!(Geometry, $name), &geometry.$name.to_ne_bytes());)*
            };
        }
        fields!(write);
        bytes
    }
}

impl Pool {
    /// Offset of the registry lock.
    pub(crate) fn registry_lock(&self) -> u64 {
        field!(self.layout.registry, vshmem_wire::Registry, lock)
    }
}
