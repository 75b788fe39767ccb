//! The umask, which no call asks for without changing it.

use rustix::fs::{Mode, OFlags};
use vshmem_mem::unless_confined;

/// What a new object's mode is without, where it is not known: everything but its owner's.
const STRICT: u32 = 0o077;

/// The bits that a new object is not to have.
pub fn current() -> u32 {
    unless_confined(ask).flatten().unwrap_or(STRICT)
}

fn ask() -> Option<u32> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(c"/proc/self/status", flags, Mode::empty()).ok()?;
    // It is the second line.
    let mut text = [0; 256];
    let bytes = rustix::io::read(&file, &mut text).ok()?;
    parse(&text[..bytes])
}

fn parse(status: &[u8]) -> Option<u32> {
    let mut lines = status.split(|&byte| byte == b'\n');
    let line = lines.find_map(|line| line.strip_prefix(b"Umask:"))?;
    u32::from_str_radix(std::str::from_utf8(line).ok()?.trim(), 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_umask_is_what_proc_says() {
        assert_eq!(parse(b"Name:\tUmask:\nUmask:\t0027\nState:\tR (running)\n"), Some(0o027));
        assert_eq!(parse(b"Name:\tx\n"), None);
        assert!(ask().is_some_and(|mask| mask <= 0o777));
    }
}
