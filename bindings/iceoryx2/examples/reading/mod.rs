//! What the examples send: a number, and bytes that follow from it.

#![allow(dead_code)] // each example uses a part

use std::time::Duration;

use iceoryx2::node::NodeCreationFailure;
use iceoryx2::prelude::*;
use vshmem_iceoryx2::Service;

/// A page of data.
#[derive(Debug, Clone, Copy, ZeroCopySend)]
#[type_name("vshmem::Reading")]
#[repr(C)]
pub struct Reading {
    pub number: u64,
    bytes: [u8; 4088],
}

impl Reading {
    pub fn new(number: u64) -> Self {
        let mut state = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bytes = std::array::from_fn(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        });
        Self { number, bytes }
    }

    /// Whether each byte is that of the number.
    pub fn is_whole(&self) -> bool {
        self.bytes == Self::new(self.number).bytes
    }
}

/// The first argument, or 1000.
pub fn count() -> u64 {
    std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1000)
}

/// A node whose process ends by SIGINT and SIGTERM, as it does without one.
pub fn node() -> Result<Node<Service>, NodeCreationFailure> {
    set_log_level_from_env_or(LogLevel::Error);
    NodeBuilder::new().signal_handling_mode(SignalHandlingMode::Disabled).create()
}

/// To be called between two looks.
pub fn pause() {
    std::thread::sleep(Duration::from_millis(1));
}
