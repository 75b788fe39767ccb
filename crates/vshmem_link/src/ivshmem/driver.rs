//! The driver's interface, as `kernel/ivshmem/uapi/vshmem.h` has it.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::ioctl::{Getter, NoArg, Opcode, Setter, Updater, ioctl, opcode};
use vshmem_sync::Doorbell;

use crate::device::{Device, entries, is_character_device};

/// Where the driver puts its devices.
const DEVICES: &str = "/dev/vshmem";
/// The driver's letter.
const MAGIC: u8 = 0xB7;
/// The version of the interface that is spoken here.
const INTERFACE: u32 = 1;
/// The device has interrupts.
const CAN_RING: u32 = 1;
/// Pids that are asked for at once.
const ROOM: usize = 64;

/// `struct vshmem_info`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Info {
    interface: u32,
    features: u32,
    bytes: u64,
    peer: i32,
    vectors: u32,
    name: [u8; 64],
    place: [u8; 32],
}

/// `struct vshmem_ring`.
#[repr(C)]
struct Ring {
    peer: u32,
    vector: u32,
}

/// `struct vshmem_deaths`.
#[repr(C)]
struct Deaths {
    pids: u64,
    room: u32,
    count: u32,
    missed: u32,
    reserved: u32,
}

const INFO: Opcode = opcode::read::<Info>(MAGIC, 16);
const RING: Opcode = opcode::write::<Ring>(MAGIC, 17);
const REGISTER: Opcode = opcode::none(MAGIC, 19);
const DEATHS: Opcode = opcode::read_write::<Deaths>(MAGIC, 20);

const _: () = assert!(size_of::<Info>() == 120, "as the kernel sees it");
const _: () = assert!(size_of::<Deaths>() == 24, "as the kernel sees it");

impl Info {
    /// Asks the driver about a device.
    ///
    /// # Errors
    /// What the driver says; ENOTTY when it is of another kind.
    pub fn of(file: BorrowedFd<'_>) -> Result<Self, Errno> {
        // SAFETY: the opcode tells the driver to fill in a structure of this layout.
        let info: Self = unsafe { ioctl(file, Getter::<INFO, Self>::new()) }?;
        if info.interface == INTERFACE { Ok(info) } else { Err(Errno::NOTTY) }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// This machine's number among its peers, where it has interrupts.
    pub fn peer(&self) -> Option<u32> {
        if self.features & CAN_RING == 0 {
            return None;
        }
        u32::try_from(self.peer).ok()
    }
}

/// Whether a path is a device of the driver's.
pub fn is_device(path: &Path) -> bool {
    path.parent() == Some(Path::new(DEVICES)) && is_character_device(path)
}

/// The driver's devices.
pub fn devices() -> Vec<PathBuf> {
    entries(Path::new(DEVICES))
}

/// Has the driver report the end of this process.
pub fn register_process(file: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the operation has no argument.
    unsafe { ioctl(file, NoArg::<REGISTER>::new()) }
}

/// Pids of registered processes that have ended.
pub fn ended_processes(file: BorrowedFd<'_>) -> Vec<u32> {
    let mut ended = Vec::new();
    let mut pids = [0i32; ROOM];
    loop {
        let mut deaths = Deaths {
            pids: pids.as_mut_ptr().addr() as u64,
            room: ROOM as u32,
            count: 0,
            missed: 0,
            reserved: 0,
        };
        // SAFETY: the driver writes at most `room` numbers to `pids`, which is as large.
        let read = unsafe { ioctl(file, Updater::<DEATHS, Deaths>::new(&mut deaths)) };
        let count = (deaths.count as usize).min(ROOM);
        if read.is_err() || count == 0 {
            return ended;
        }
        ended.extend(pids[..count].iter().filter_map(|&pid| u32::try_from(pid).ok()));
    }
}

/// Notifies peers through the device.
#[derive(Debug)]
pub struct DriverDoorbell {
    device: Arc<Device>,
    peer: u32,
}

impl DriverDoorbell {
    /// The doorbells of a device, in the domain with the number `peer`.
    pub fn new(device: Arc<Device>, peer: u32) -> Self {
        Self { device, peer }
    }
}

impl Doorbell for DriverDoorbell {
    fn own_address(&self) -> Option<u32> {
        Some(self.peer)
    }

    fn notify(&self, address: u32) -> Result<(), Errno> {
        let ring = Ring { peer: address, vector: 0 };
        self.device.with(|file| {
            // SAFETY: the opcode tells the driver to read a structure of this layout.
            unsafe { ioctl(file, Setter::<RING, Ring>::new(ring)) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_are_those_of_the_header() {
        // What C makes of the header's macros on x86-64 and aarch64.
        assert_eq!(INFO, 0x8078_b710);
        assert_eq!(RING, 0x4008_b711);
        assert_eq!(REGISTER, 0xb713);
        assert_eq!(DEATHS, 0xc018_b714);
    }

    #[test]
    fn a_device_without_interrupts_has_no_address() {
        let info = Info {
            interface: INTERFACE,
            features: 0,
            bytes: 1 << 21,
            peer: -1,
            vectors: 0,
            name: [0; 64],
            place: [0; 32],
        };
        assert_eq!(info.peer(), None);
        assert_eq!(Info { features: CAN_RING, peer: 3, ..info }.peer(), Some(3));
    }

    #[test]
    fn other_files_are_no_devices() {
        assert!(!is_device(Path::new("/dev/null")));
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(ended_processes(std::os::fd::AsFd::as_fd(&file)).is_empty());
    }
}
