//! Names, numbers and addresses that all parts of a lab agree on.

use std::net::Ipv4Addr;

/// The verb of the binary that must call [`keeper`](crate::keeper::keeper) with the words that
/// follow it.
pub const KEEPER_VERB: &str = "lab-keeper";

/// The verb of the binary that must call [`guest_init`](crate::init::guest_init); words after it
/// must be ignored.
pub const INIT_VERB: &str = "lab-init";

/// The port of the guests' agents.
pub(crate) const AGENT_PORT: u16 = 10077;

/// The port at which the agents of pools hear each other.
pub(crate) const NOTIFY_PORT: u16 = 7117;

/// The command that `on_death` makes for one guest.
pub(crate) fn death_command(words: &[String], guest: u32) -> Vec<String> {
    words.iter().map(|word| word.replace("{guest}", &domain(guest))).collect()
}

/// The control domain of Xen guests, as a guest.
pub(crate) const DOM0: u32 = 0;

/// The domain name of a guest.
pub(crate) fn domain(guest: u32) -> String {
    match guest {
        DOM0 => "dom0".into(),
        guest => format!("guest{guest}"),
    }
}

/// The address of the keeper's end of the bridge.
pub(crate) const KEEPER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 254);

/// The address of a guest.
pub(crate) fn address(guest: u32) -> Ipv4Addr {
    match guest {
        DOM0 => Ipv4Addr::new(10, 77, 0, 253),
        guest => Ipv4Addr::new(10, 77, 0, guest as u8),
    }
}

/// The name of a guest's tap in the lab's network namespace.
pub(crate) fn tap(guest: u32) -> String {
    format!("tap{guest}")
}
