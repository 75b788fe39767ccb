//! Doorbells: event descriptors, one per vector.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Vectors per guest at most, as many as the reference server allows.
pub const MOST_VECTORS: u32 = 64;

/// The doorbells of one peer.
#[derive(Debug)]
pub(crate) struct Bells(Vec<OwnedFd>);

impl Bells {
    pub fn new(vectors: u32) -> Result<Self, Errno> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        (0..vectors).map(|_| eventfd(0, flags)).collect::<Result<_, _>>().map(Self)
    }

    pub fn of_vector(&self, vector: u32) -> Option<BorrowedFd<'_>> {
        self.0.get(vector as usize).map(OwnedFd::as_fd)
    }

    pub fn all(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(OwnedFd::as_fd)
    }

    /// Rings the first one. It stays rung until it is heard, so a full counter is as good.
    pub fn ring(&self) {
        if let Some(first) = self.0.first() {
            let _ = rustix::io::write(first, &1u64.to_ne_bytes());
        }
    }

    /// Whether any has been rung since.
    pub fn heard(&self) -> bool {
        let mut any = false;
        for bell in &self.0 {
            let mut count = [0; 8];
            any |= rustix::io::read(bell, &mut count[..]) == Ok(8);
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_heard_once() {
        let bells = Bells::new(2).unwrap();
        assert!(!bells.heard());
        bells.ring();
        bells.ring();
        assert!(bells.heard());
        assert!(!bells.heard());
        rustix::io::write(bells.of_vector(1).unwrap(), &u64::MAX.wrapping_sub(1).to_ne_bytes())
            .unwrap();
        assert!(bells.heard());
        assert!(bells.of_vector(2).is_none());
    }
}
