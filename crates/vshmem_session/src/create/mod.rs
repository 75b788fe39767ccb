//! Making pools: the host's privilege. `request` is what is asked for, `file` makes a pool in a
//! file, whose pages lie where `nodes` puts them, `xen` in a domain of Xen's.

mod contents;
mod draft;
mod file;
mod huge_pages;
mod nodes;
mod plan;
mod remedy;
mod request;
mod xen;

pub use file::{create, create_in};
pub use nodes::Placement;
pub use request::{CreateError, CreateRequest};
pub use xen::{XenPool, create_xen, destroy_xen, retire_xen};
