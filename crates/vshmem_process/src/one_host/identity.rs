//! What programs compare to find out whether they are on one host: the same in all members of a
//! pool, and in no others. All of it comes from the pool's UUID.

use crate::process;

/// Letters of a UUID, its hyphens among them.
pub const UUID_TEXT: usize = 36;

fn uuid() -> [u8; 16] {
    process::inherited().map_or([0; 16], |session| session.client().pool().superblock().uuid)
}

/// What /proc/sys/kernel/random/boot_id says, without the end of its line.
pub fn boot_id() -> [u8; UUID_TEXT] {
    let mut text = [b'-'; UUID_TEXT];
    let places = (0..UUID_TEXT).filter(|place| ![8, 13, 18, 23].contains(place));
    for (place, digit) in places.zip(digits()) {
        text[place] = digit;
    }
    text
}

/// What /etc/machine-id says, without the end of its line.
pub fn machine_id() -> [u8; 32] {
    let mut text = [0; 32];
    text.iter_mut().zip(digits()).for_each(|(place, digit)| *place = digit);
    text
}

fn digits() -> impl Iterator<Item = u8> {
    uuid().into_iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| match digit {
        0..=9 => b'0' + digit,
        _ => b'a' + digit - 10,
    })
}

/// What gethostid(3) says.
pub fn host_id() -> i32 {
    let [a, b, c, d, ..] = uuid();
    i32::from_be_bytes([a, b, c, d])
}

/// A namespace of which programs compare the inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespace {
    /// One for all members.
    Ipc,
    /// One for each domain: descriptors and memory of processes of another domain cannot be reached
    /// by their pids. The initial ones of all kernels have one number.
    Pid,
    /// Each network is another one, in whatever kernel: 127.0.0.1 leads to no other guest.
    Network,
}

impl Namespace {
    /// Inode of /proc/PID/ns/NAME, which is `real` to the kernel: none that a kernel gives, which
    /// counts from 0xF0000000 up, nor that of an initial namespace.
    pub fn inode(self, real: u64) -> u32 {
        let Some(session) = process::inherited() else { return real as u32 };
        let (pool, domain) = (host_id() as u32, session.client().domain());
        let number = match self {
            Self::Ipc => pool,
            Self::Pid => pool ^ (domain + 1) << 21,
            Self::Network => {
                let [a, b, c, d, ..] = session.boot_id();
                pool ^ u32::from_be_bytes([a, b, c, d]) ^ real as u32
            }
        };
        0xE000_0000 | number & 0x0FFF_FFFF
    }
}
