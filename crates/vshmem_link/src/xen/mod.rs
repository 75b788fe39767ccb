//! Link `xen` (`link`), and what dom0 does for it (`host`). What both need: XenStore (`store`), its
//! paths (`keys`), and requests to Xen's devices (`ioctl`).

mod announcement;
mod channel;
mod doorbell;
mod forwarder;
mod gntdev;
pub mod host;
mod ioctl;
mod keys;
mod link;
mod store;

pub(crate) use link::KIND;
pub use link::Xen;
pub use store::Store;
