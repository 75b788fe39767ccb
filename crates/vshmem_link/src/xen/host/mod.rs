//! dom0's side of link `xen`.

mod admission;
mod control;
mod error;
mod hypercall;
mod members;
mod pool_domain;
mod room;
mod table;

pub use admission::Admission;
pub use error::XenError;
pub use members::{Member, Slot};
pub use pool_domain::{PoolDomain, Wanted};
pub use room::GrantTableSize;
