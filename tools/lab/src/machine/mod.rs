//! What differs by kind of guest, one file per kind, and the containment that is the same for all:
//! a user of its own, a PID namespace of its own, one CPU, no privileges, and death together with
//! the keeper.

mod containment;
mod plan;
mod qemu;
mod uml;
mod xen;

pub(crate) use containment::contained;
pub(crate) use plan::Plan;
pub use qemu::kvm_boots_guests;

use crate::model::GuestKind;
use plan::Machine;

/// The machine of that kind.
pub(crate) fn machine(kind: GuestKind) -> &'static dyn Machine {
    match kind {
        GuestKind::Uml => &uml::Uml,
        GuestKind::Qemu => &qemu::Qemu,
        GuestKind::Xen => &xen::Xen,
    }
}
