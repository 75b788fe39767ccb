//! Where upper and bottom half meet: finding a pool by name, opening it over its link, joining it,
//! making and removing one; and what of a program's IPC goes there.

mod create;
mod error;
mod find;
mod home_node;
mod host_record;
mod inspect;
mod memory;
mod open;
mod page_nodes;
mod pool_name;
mod quoted;
mod remove;
mod role_lock;
mod share;
mod token_bucket;

pub use create::{
    CreateError, CreateRequest, Placement, XenPool, create, create_in, create_xen, destroy_xen,
    retire_xen,
};
pub use error::{ATOMIC_OPTIONS, FindError, SessionError};
pub use find::{Listing, Whose, find, identify, list, list_devices};
pub use home_node::{HomeNodeError, HomeNodes, check_home_node, told_home_nodes};
pub use inspect::{open_pool, snapshot};
pub use memory::Memory;
pub use open::{Session, domain_of_child, is_gone, this_process};
pub use page_nodes::{BytesByNode, nodes_of};
pub use quoted::quoted;
pub use remove::{remove, remove_seen};
pub use role_lock::{Role, RoleLock};
pub use share::{
    Owner, POSIX_PRELOAD_LIBRARY, PRELOAD_LIBRARY, Posix, SYSV_PRELOAD_LIBRARY, Share, ShareError,
    is_preload_library,
};
pub use token_bucket::TokenBucket;
pub use vshmem_link::PRIVATE_PREFIX;
