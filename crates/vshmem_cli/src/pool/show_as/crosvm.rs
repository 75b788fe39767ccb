//! Arguments of `crosvm run` (crosvm.dev/book/devices/pmem). Not tried with one.

use super::lent::Lent;

/// The arguments.
pub fn arguments(lent: &Lent) -> String {
    format!("--pmem {}\n", lent.place.display())
}
