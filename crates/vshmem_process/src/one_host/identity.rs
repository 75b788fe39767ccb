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

/// Inode of /proc/PID/ns/ipc: none that a kernel gives, which counts from 0xF0000000 up, nor that
/// of its initial namespace.
pub fn ipc_namespace() -> u64 {
    0xE000_0000 | u64::from(host_id() as u32 & 0x0FFF_FFF0)
}
