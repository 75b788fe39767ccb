//! Asking the hypervisor: `/dev/xen/privcmd`, as Linux's xen/privcmd.h has it.
//!
//! What a call points to must not be moved or paged out while the hypervisor looks at it. Memory of
//! `/dev/xen/hypercall` is made for that.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use vshmem_mem::{Map, Ordering, Protection, map_file};

use crate::xen::ioctl::pass;

/// Bytes for what calls point to: a page for the call's structure, one for a list.
const BUFFER: usize = 8192;
/// Where the list is.
const LIST: u64 = 4096;
/// Words of the list.
pub const LIST_WORDS: usize = 512;
const GROUP: u8 = b'P';

/// Numbers of calls (Xen's public/xen.h).
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
pub enum Call {
    Memory = 12,
    Version = 17,
    GrantTable = 20,
    DomainControl = 36,
}

/// The open devices.
#[derive(Debug)]
pub struct Hypervisor {
    calls: OwnedFd,
    buffer: Map,
    address: u64,
}

/// Shared grant table frames of a domain (Xen's public/memory.h).
const GRANT_TABLE: u32 = 1;

impl Hypervisor {
    /// Opens the devices.
    ///
    /// # Errors
    /// EACCES to all but root; ENOENT without Xen.
    pub fn open() -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let open = |path: &str| rustix::fs::open(path, flags, Mode::empty());
        let calls = open("/dev/xen/privcmd").or_else(|_| open("/proc/xen/privcmd"))?;
        let memory = open("/dev/xen/hypercall")?;
        let mapping = map_file(memory.as_fd(), 0, BUFFER, Protection::READ_WRITE)?;
        let address = mapping.start().as_ptr().addr() as u64;
        Ok(Self { calls, buffer: Map::of(mapping), address })
    }

    /// Calls with numbers alone.
    ///
    /// # Errors
    /// What the hypervisor says.
    pub fn call(&self, call: Call, arguments: [u64; 5]) -> Result<i32, Errno> {
        let mut words = [0; 6];
        words[0] = call as u64;
        words[1..].copy_from_slice(&arguments);
        // SAFETY: the structure is a number and five arguments; those that are addresses are of the
        // buffer, and the structures there are as long as the hypervisor takes them to be.
        unsafe { pass(self.calls.as_fd(), GROUP, 0, 48, words.as_mut_ptr().cast()) }
    }

    /// Calls `operation` with a structure of these bytes, which come back as the hypervisor has
    /// left them.
    ///
    /// # Errors
    /// What the hypervisor says.
    pub fn with_structure(
        &self,
        call: Call,
        operation: Option<u64>,
        bytes: &mut [u8],
        more: u64,
    ) -> Result<i32, Errno> {
        let inside = |_| Errno::INVAL;
        if bytes.len() as u64 > LIST {
            return Err(Errno::INVAL);
        }
        self.buffer.write(0, bytes).map_err(inside)?;
        let arguments = match operation {
            Some(operation) => [operation, self.address, more, 0, 0],
            None => [self.address, more, 0, 0, 0],
        };
        let result = self.call(call, arguments);
        self.buffer.read(0, bytes).map_err(inside)?;
        result
    }

    /// The list's address, for structures that point to it.
    pub fn list_address(&self) -> u64 {
        self.address + LIST
    }

    /// Writes a word of the list.
    pub fn set_list(&self, index: usize, word: u64) -> Result<(), Errno> {
        self.buffer
            .store(LIST + index as u64 * 8, word, Ordering::Relaxed)
            .map_err(|_| Errno::INVAL)
    }

    /// Reads a word of the list.
    pub fn list(&self, index: usize) -> Result<u64, Errno> {
        self.buffer.load(LIST + index as u64 * 8, Ordering::Relaxed).map_err(|_| Errno::INVAL)
    }

    /// Maps the first frames of a domain's grant table.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn grant_table(&self, domid: u16, frames: u32) -> Result<Map, Errno> {
        /// `struct privcmd_mmap_resource`.
        #[repr(C)]
        struct Resource {
            domid: u16,
            kind: u32,
            id: u32,
            index: u32,
            count: u64,
            address: u64,
        }
        let bytes = frames as usize * 4096;
        let range = map_file(self.calls.as_fd(), 0, bytes, Protection::READ_WRITE)?;
        let mut resource = Resource {
            domid,
            kind: GRANT_TABLE,
            id: 0,
            index: 0,
            count: u64::from(frames),
            address: range.start().as_ptr().addr() as u64,
        };
        let argument = (&raw mut resource).cast();
        // SAFETY: the structure is the operation's, and names a range that is this function's own.
        unsafe { pass(self.calls.as_fd(), GROUP, 7, size_of::<Resource>(), argument) }?;
        Ok(Map::of(range))
    }
}
