//! Doorbells: event descriptors, one per vector.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Vectors per guest at most, as many as the reference server allows.
pub const MOST_VECTORS: u32 = 64;

/// The doorbells of one peer.
#[derive(Debug)]
pub(crate) struct Doorbells(Vec<OwnedFd>);

impl Doorbells {
    /// So many doorbells of a peer, one for each vector.
    ///
    /// # Errors
    /// Those of eventfd(2).
    pub fn new(vectors: u32) -> Result<Self, Errno> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        (0..vectors).map(|_| eventfd(0, flags)).collect::<Result<_, _>>().map(Self)
    }

    /// The doorbell of a vector, if there is one.
    pub fn of_vector(&self, vector: u32) -> Option<BorrowedFd<'_>> {
        self.0.get(vector as usize).map(OwnedFd::as_fd)
    }

    /// All of them, in the order of their vectors.
    pub fn all(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(OwnedFd::as_fd)
    }

    /// Notifies the first one. It stays set until it is read, so a full counter serves as well.
    pub fn notify(&self) {
        if let Some(first) = self.0.first() {
            let _ = rustix::io::write(first, &1u64.to_ne_bytes());
        }
    }

    /// Whether any has been notified since.
    pub fn heard(&self) -> bool {
        let mut any = false;
        for doorbell in &self.0 {
            let mut count = [0; 8];
            any |= rustix::io::read(doorbell, &mut count[..]) == Ok(8);
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_are_heard_once() {
        let doorbells = Doorbells::new(2).unwrap();
        assert!(!doorbells.heard());
        doorbells.notify();
        doorbells.notify();
        assert!(doorbells.heard());
        assert!(!doorbells.heard());
        rustix::io::write(doorbells.of_vector(1).unwrap(), &u64::MAX.wrapping_sub(1).to_ne_bytes())
            .unwrap();
        assert!(doorbells.heard());
        assert!(doorbells.of_vector(2).is_none());
    }
}
