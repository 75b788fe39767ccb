//! Where upper and bottom half meet: finding a pool by name, opening it over its link, joining it,
//! making and removing one; and what of a program's IPC goes there.

mod create;
mod create_xen;
mod find;
mod notify;
mod open;
mod post;
mod share;

pub use create::{CreateError, CreateRequest, create, create_in, remove};
pub use create_xen::{XenPool, create_xen, destroy_xen, retire_xen};
pub use find::{FindError, Listing, Whose, find, identify, list, list_devices, snapshot};
pub use notify::{
    Counts, NOTIFY_DIRECTORIES, NotifyConfig, NotifyError, NotifyStatus, Peers, Received, Sent,
    TokenBucket,
};
pub use open::{Session, SessionError, domain_of_child, is_gone, open_pool, this_process};
pub use post::{Duty, Post};
pub use share::{Owner, Share, ShareError};
pub use vshmem_link::PRIVATE_PREFIX;
