//! The guest's world: the host's files read-only, and tmpfs wherever a program must write.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount, mount_bind, mount_move};
use rustix::system::sethostname;

use crate::error::{Doing, Result};
use crate::host::directory::{open_directory, set_mode};
use crate::host::{json, tool};
use crate::model::boot::{BIN, BRIDGE, Boot, ORDERS};
use crate::model::names::{DOM0, NOTIFY_PORT, address, domain};

/// Directories that are empty, writable and gone with the guest.
const SCRATCH: [(&str, u32); 4] =
    [("/tmp", 0o1777), ("/var/tmp", 0o1777), ("/root", 0o700), ("/run", 0o755)];

/// Whether a file of the host's cannot be seen here: the guest has a directory of its own there.
pub(super) fn is_own(path: &Path) -> bool {
    SCRATCH.iter().any(|(own, _)| path.starts_with(own))
}

/// Where the stage waits, on devtmpfs, while `/run` and `/tmp` are covered.
const WAITING: &str = "/dev/.stage";

/// Where `vshmem` finds whom the agents of pools notify.
const NOTIFY: &str = "/run/vshmem/notify.d";

/// How long drivers may take to find a device.
const PROBING: Duration = Duration::from_secs(20);

pub(super) fn set_up(boot: &Boot) -> Result<()> {
    devices(boot)?;
    kernel_file_systems()?;
    fs::create_dir_all(WAITING).doing(|| format!("create {WAITING}"))?;
    mount_bind(&boot.stage, WAITING).doing(|| format!("bind {:?} to {WAITING}", boot.stage))?;
    for (path, mode) in SCRATCH {
        scratch(path, mode)?;
    }
    open_directory(Path::new(BIN))?;
    mount_move(WAITING, BIN).doing(|| format!("move {WAITING} to {BIN}"))?;
    let _ = fs::remove_dir(WAITING);
    for (path, mode) in [("/run/lock", 0o1777), ("/run/user", 0o755), ("/run/user/0", 0o700)] {
        open_directory(Path::new(path))?;
        set_mode(Path::new(path), mode)?;
    }
    name(boot)?;
    if let Some(device) = &boot.swap {
        swap(device)?;
    }
    network(boot)
}

/// Mounts a file system of the kernel's own.
pub(super) fn tmpfs(kind: &str, path: &str, options: &str) -> Result<()> {
    let data = CString::new(options).doing(|| format!("mount {kind} on {path}"))?;
    let data = (!options.is_empty()).then_some(data.as_c_str());
    mount(kind, path, kind, MountFlags::empty(), data)
        .doing(|| format!("mount {kind} on {path} ({options})"))
}

fn scratch(path: &str, mode: u32) -> Result<()> {
    tmpfs("tmpfs", path, &format!("mode={mode:o}"))
}

fn devices(boot: &Boot) -> Result<()> {
    // The kernel has most often mounted it already.
    if !Path::new("/dev/null").exists() || !Path::new("/dev/ptmx").exists() {
        tmpfs("devtmpfs", "/dev", "")?;
    }
    for (link, target) in
        [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")]
    {
        // There already: as well.
        let _ = std::os::unix::fs::symlink(target, Path::new("/dev").join(link));
    }
    if let Some(awaited) = &boot.awaited_device {
        await_device(awaited, "has the pool a label for it?")?;
    }
    for device in pool_devices() {
        set_mode(&device, boot.device_mode)?;
    }
    Ok(())
}

/// The driver's devices and dax devices have the names of their pools, or numbers.
fn pool_devices() -> Vec<PathBuf> {
    let entries = |directory: &str| fs::read_dir(directory).into_iter().flatten().flatten();
    let dax = entries("/dev").filter(|entry| entry.file_name().as_bytes().starts_with(b"dax"));
    let own = entries("/dev/vshmem").chain(dax).map(|entry| entry.path());
    // Xen's: to map what a domain has been granted, and to ring other domains.
    let single = ["/dev/mmapper", "/dev/xen/gntdev", "/dev/xen/evtchn"].map(PathBuf::from);
    own.chain(single.into_iter().filter(|device| device.exists())).collect()
}

fn await_device(device: &Path, hint: &str) -> Result<()> {
    let end = Instant::now() + PROBING;
    while !device.exists() {
        if Instant::now() > end {
            return Err(std::io::Error::from(std::io::ErrorKind::NotFound))
                .doing(|| format!("find the device {device:?}; {hint}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn kernel_file_systems() -> Result<()> {
    tmpfs("proc", "/proc", "")?;
    tmpfs("sysfs", "/sys", "")?;
    for path in ["/dev/pts", "/dev/shm", "/dev/mqueue"] {
        open_directory(Path::new(path))?;
    }
    tmpfs("devpts", "/dev/pts", "gid=5,mode=620,ptmxmode=666")?;
    scratch("/dev/shm", 0o1777)?;
    // A kernel without POSIX queues serves as well.
    let _ = tmpfs("mqueue", "/dev/mqueue", "");
    Ok(())
}

fn name(boot: &Boot) -> Result<()> {
    let own = domain(boot.guest);
    sethostname(own.as_bytes()).doing(|| "set the host name".into())?;
    let write = |path: &str, text: &str| {
        fs::write(path, text).doing(|| format!("write {path}"))?;
        set_mode(Path::new(path), 0o644)
    };
    write("/run/vshmem/domain", &format!("{own}\n"))?;
    if let Some(pool) = &boot.pool_name {
        write("/run/vshmem/pool", &format!("{pool}\n"))?;
    }
    if let Some(pool) = boot.pool_name.as_ref().filter(|_| boot.notify) {
        open_directory(Path::new(NOTIFY))?;
        write(&format!("{NOTIFY}/{pool}"), &datagrams(boot, pool))?;
    }
    json::write(Path::new(ORDERS), boot, 0o600)?;
    let mut hosts = "127.0.0.1 localhost\n".to_owned();
    for guest in boot.dom0.then_some(DOM0).into_iter().chain(1..=boot.count) {
        hosts.push_str(&format!("{} {}\n", address(guest), domain(guest)));
    }
    for (path, text) in [("/etc/hosts", hosts), ("/etc/hostname", format!("{own}\n"))] {
        if File::open(path).is_err() {
            continue;
        }
        let own = format!("/run/vshmem{path}").replace("/etc/", "/");
        write(&own, &text)?;
        mount_bind(&own, path).doing(|| format!("bind {own} over {path}"))?;
    }
    Ok(())
}

/// What `vshmem` reads to have the agents of all guests notify each other: this guest's own address
/// stands among the peers'.
fn datagrams(boot: &Boot, pool: &str) -> String {
    let devices = ["mmapper".to_owned(), "dax0.0".to_owned(), format!("vshmem/{pool}")];
    let mut text: String = devices.iter().map(|device| format!("device /dev/{device}\n")).collect();
    text.push_str(&format!("listen {}:{NOTIFY_PORT}\n", address(boot.guest)));
    for guest in 1..=boot.count {
        text.push_str(&format!("peer {}:{NOTIFY_PORT}\n", address(guest)));
    }
    text
}

fn swap(device: &Path) -> Result<()> {
    await_device(device, "is the kernel one that has disks?")?;
    for name in ["mkswap", "swapon"] {
        let program = tool::find(name).unwrap_or_else(|| name.into());
        tool::run(Command::new(program).arg(device))?;
    }
    Ok(())
}

fn network(boot: &Boot) -> Result<()> {
    let address = address(boot.guest);
    let interface = &boot.interface;
    let lines = if boot.guest == DOM0 {
        // The other domains' interfaces are connected to it when they are made.
        format!(
            "link set lo up\n\
             link add {BRIDGE} type bridge forward_delay 0 stp_state 0 mcast_snooping 0\n\
             link set {interface} master {BRIDGE}\n\
             link set {interface} up\n\
             address add {address}/24 dev {BRIDGE}\n\
             link set {BRIDGE} up\n"
        )
    } else {
        format!(
            "link set lo up\naddress add {address}/24 dev {interface}\nlink set {interface} up\n"
        )
    };
    let ip = tool::find("ip").unwrap_or_else(|| "ip".into());
    tool::feed(Command::new(ip).args(["-batch", "-"]), lines.as_bytes())
}
