//! Where things lie in XenStore.
//!
//! dom0 writes what a member has to know under the member's own directory, where the member may
//! read but not write: `/local/domain/D/vshmem/NAME/{pool-dom,pages,ref,slot,mode,group,members}`.
//! A member writes under its `data` only: `vshmem-boot`, the boot id of its kernel, and
//! `vshmem/NAME/port-E`, the event channel that it holds open for domain E.
//!
//! What dom0 itself has to know lies under the pool domain's directory and goes with it:
//! `/local/domain/P/vshmem-pool/{name,pages,slots,mode,group,admit,slot/K/{domain,vm,boot}}`.

/// A domain's directory.
pub fn home(domid: u16) -> String {
    format!("/local/domain/{domid}")
}

/// The directory of the pools that a domain is a member of, seen from itself.
pub const POOLS: &str = "vshmem";

/// The directory of one of them; `domain`: seen from anywhere.
pub fn membership(domid: Option<u16>, pool: &str) -> String {
    match domid {
        Some(domid) => format!("{}/{POOLS}/{pool}", home(domid)),
        None => format!("{POOLS}/{pool}"),
    }
}

/// The boot id of a domain's kernel.
pub fn boot(domid: Option<u16>) -> String {
    match domid {
        Some(domid) => format!("{}/data/vshmem-boot", home(domid)),
        None => "data/vshmem-boot".to_owned(),
    }
}

/// The directory of the event channels that a domain holds open for a pool.
pub fn ports(domid: Option<u16>, pool: &str) -> String {
    match domid {
        Some(domid) => format!("{}/data/vshmem/{pool}", home(domid)),
        None => format!("data/vshmem/{pool}"),
    }
}

/// The directory above those of all its pools.
pub fn ports_home(domid: u16) -> String {
    format!("{}/data/vshmem", home(domid))
}

/// The event channel that a domain holds open for another.
pub fn port(domid: Option<u16>, pool: &str, other: u16) -> String {
    format!("{}/port-{other}", ports(domid, pool))
}

/// What dom0 knows about the pool in a pool domain.
pub fn pool(domid: u16) -> String {
    format!("{}/vshmem-pool", home(domid))
}
