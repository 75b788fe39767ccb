//! Bottom halves: how a pool is found, mapped and unmapped under each hypervisor.
//!
//! A link is one file or folder here behind the [`Link`] trait (`link`). Nothing above this crate
//! knows which one it is, and nothing here knows what lies in a pool beyond its first page, which
//! the caller reads.
//!
//! # To add a link
//! 1. Write `NAME.rs` or `NAME/` beside `uml` and `dax`: a type with an open `device`, [`Link`] for
//!    it with that device and what it can ([`Capabilities`]), and `KIND`, which says how its
//!    devices are recognised, found and opened. What all links share is in `device`: opening, the
//!    check of what was opened, size, mapping, a descriptor that a program cannot take away.
//! 2. Add `NAME::KIND` to the list in `discovery`, and the type to the list below.
//! 3. Have the guests of a lab run `tests/conformance` and `tests/guests` on it, and write down in
//!    docs/internals/links.md what it can and the longest time that a waiter may lie unnoticed.

#![allow(unsafe_code)] // mapping at a given address replaces what lies there

mod atomics;
mod dax;
mod device;
mod discovery;
mod domain;
mod file_limit;
mod files_beside;
mod gathered;
mod granularity;
mod guide;
mod ivshmem;
mod left;
mod link;
mod local;
mod mapped_file;
mod namespace;
mod peer;
mod process;
mod rates;
mod region;
mod said_once;
mod served;
mod uml;
mod user_namespace;
mod uuid;
mod wait_words;
mod xen;

pub use atomics::{Atomics, loses_changes};
pub use dax::Dax;
pub use discovery::{devices, open};
pub use domain::{Anonymous, DomainFacts, domain_facts, go_apart, kernel_boot_id};
pub use file_limit::{FILE_LIMIT, allows as file_limit_allows};
pub use gathered::{gather_mappings, next_place};
pub use guide::guide;
pub use ivshmem::Ivshmem;
pub use left::{LeftProgram, left_programs, remove_left_lists};
pub use link::{Candidate, Capabilities, Changes, Link, Memory, Sleeping};
pub use local::{DAX_FRONT, dax_label};
pub use local::{Local, PRIVATE_PREFIX};
pub use mapped_file::MappedFile;
pub use namespace::{Sighting, sight};
pub use peer::peer_groups;
pub use process::{
    Life, ProcessFacts, command_name, is_same_start, proc_is_own, process_exists, process_facts,
    process_numbers, process_start, status_words,
};
pub use rates::{Rates, measure_rates};
pub use region::{Region, RegionError};
pub use said_once::{is_notice_mark, notice_mark, remove_notice_marks};
pub use served::{Served, control_socket};
pub use uml::{SIZE_AT, Uml};
pub use user_namespace::{IdMap, OVERFLOW_ID, UserNamespace};
pub use uuid::uuid_digits;
pub use wait_words::{OwnWords, open_wait_words, remove_wait_files};
pub use xen::host::{
    Admission as XenAdmission, GrantTableSize as XenRoom, Member as XenMember, PoolDomain,
    Slot as XenSlot, Wanted as XenWanted, XenError,
};
pub use xen::{Store as XenStore, Xen};
