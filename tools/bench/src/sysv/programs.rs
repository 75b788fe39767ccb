//! The programs that are compared, with their words.

use super::comparison::{Case, Contender, Length, Pins, Place};
use super::plan::CALLS_KERNEL;
use crate::pingpong::SYSV_KERNEL;

/// Calls of one process.
pub(super) fn calls(words: &[&str]) -> Case {
    Case {
        program: CALLS_KERNEL,
        words: words.iter().map(|&word| word.to_owned()).collect(),
        length: Length::Rounds,
        pins: Pins::First,
        no_spin: false,
        posix: false,
    }
}

/// Round trips between two.
pub(super) fn trip(transport: &str, size: u64, pins: Pins) -> Case {
    Case {
        program: SYSV_KERNEL,
        words: vec!["--transport".into(), transport.into(), "--size".into(), size.to_string()],
        length: Length::Rounds,
        pins,
        no_spin: false,
        posix: false,
    }
}

pub(super) fn contender(label: &str, place: Place, case: Case) -> Contender {
    Contender { label: label.to_owned(), place, case }
}
