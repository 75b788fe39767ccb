//! What the keeper builds in its namespaces: a bridge with a tap per guest, and a tmpfs with each
//! guest's memory and with a tun device that the guests' users may open. All of it ends with the
//! last process of the lab.

use std::path::Path;
use std::process::Command;

use rustix::fs::{CWD, FileType, Gid, Mode, Uid, chown, mknodat};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};

use crate::error::{Doing, Result};
use crate::host::directory::{Directory, set_mode};
use crate::host::record::Record;
use crate::host::tool;
use crate::model::names::{KEEPER_ADDRESS, tap};

const BRIDGE: &str = "lab0";
const TUN: &str = "/dev/net/tun";

/// Builds it.
pub(super) fn enter(record: &Record, directory: &Directory) -> Result<()> {
    private(record, directory)?;
    network(record)
}

/// Lets go of the mounts, so that the directory can be removed by this very process.
pub(super) fn leave(directory: &Directory) {
    let _ = unmount(TUN, UnmountFlags::DETACH);
    let _ = unmount(directory.private(), UnmountFlags::DETACH);
}

fn private(record: &Record, directory: &Directory) -> Result<()> {
    let private = directory.private();
    mount("vshmem-lab", &private, "tmpfs", MountFlags::NOSUID, c"mode=755,size=100%")
        .doing(|| format!("mount a tmpfs on {private:?}"))?;
    for guest in record.guests() {
        let path = directory.private_of(guest);
        std::fs::create_dir(&path).doing(|| format!("create {path:?}"))?;
        set_mode(&path, 0o700)?;
        let uid = record.uid(guest);
        chown(&path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(uid)))
            .doing(|| format!("give {path:?} to user {uid}"))?;
    }
    let tun = private.join("tun");
    let device = rustix::fs::stat(TUN).doing(|| format!("stat {TUN}"))?.st_rdev;
    mknodat(CWD, &tun, FileType::CharacterDevice, Mode::from_raw_mode(0o666), device)
        .doing(|| format!("make the device {tun:?}"))?;
    set_mode(&tun, 0o666)?;
    mount_bind(&tun, Path::new(TUN)).doing(|| format!("bind {tun:?} over {TUN}"))
}

fn network(record: &Record) -> Result<()> {
    let mut lines = format!(
        "link set lo up\n\
         link add {BRIDGE} type bridge forward_delay 0 stp_state 0 mcast_snooping 0\n\
         address add {}/24 dev {BRIDGE}\n\
         link set {BRIDGE} up\n",
        KEEPER_ADDRESS
    );
    for guest in record.machines() {
        let tap = tap(guest);
        let uid = record.uid(guest);
        lines.push_str(&format!(
            "tuntap add {tap} mode tap user {uid} group {uid} vnet_hdr\n\
             link set {tap} master {BRIDGE}\n\
             link set {tap} up\n"
        ));
    }
    let ip = tool::find("ip").unwrap_or_else(|| "ip".into());
    tool::feed(Command::new(ip).args(["-batch", "-"]), lines.as_bytes())
}
