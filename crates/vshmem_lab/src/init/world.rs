//! The guest's world: the host's files read-only, and tmpfs wherever a program must write.

use std::ffi::CString;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use rustix::mount::{MountFlags, mount, mount_bind, mount_move};
use rustix::system::sethostname;

use super::{BIN, ORDERS};
use crate::directory::{open_directory, set_mode};
use crate::error::{Doing, Result};
use crate::record::{self, Boot, address, domain};
use crate::tool;

/// Directories that are empty, writable and gone with the guest.
const SCRATCH: [(&str, u32); 4] =
    [("/tmp", 0o1777), ("/var/tmp", 0o1777), ("/root", 0o700), ("/run", 0o755)];

/// Where the stage waits, on devtmpfs, while `/run` and `/tmp` are covered.
const WAITING: &str = "/dev/.stage";

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
    network(boot)
}

fn tmpfs(kind: &str, path: &str, options: &str) -> Result<()> {
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
    let mmapper = Path::new("/dev/mmapper");
    if mmapper.exists() {
        set_mode(mmapper, boot.device_mode)?;
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
    let domain = domain(boot.guest);
    sethostname(domain.as_bytes()).doing(|| "set the host name".into())?;
    let write = |path: &str, text: &str| {
        fs::write(path, text).doing(|| format!("write {path}"))?;
        set_mode(Path::new(path), 0o644)
    };
    write("/run/vshmem/domain", &format!("{domain}\n"))?;
    if let Some(pool) = &boot.pool_name {
        write("/run/vshmem/pool", &format!("{pool}\n"))?;
    }
    record::write(Path::new(ORDERS), boot, 0o600)?;
    let mut hosts = "127.0.0.1 localhost\n".to_owned();
    for guest in 1..=boot.count {
        hosts.push_str(&format!("{} guest{guest}\n", address(guest)));
    }
    for (path, text) in [("/etc/hosts", hosts), ("/etc/hostname", format!("{domain}\n"))] {
        if File::open(path).is_err() {
            continue;
        }
        let own = format!("/run/vshmem{path}").replace("/etc/", "/");
        write(&own, &text)?;
        mount_bind(&own, path).doing(|| format!("bind {own} over {path}"))?;
    }
    Ok(())
}

fn network(boot: &Boot) -> Result<()> {
    let address = address(boot.guest);
    let lines = format!("link set lo up\naddress add {address}/24 dev vec0\nlink set vec0 up\n");
    let ip = tool::find("ip").unwrap_or_else(|| "ip".into());
    tool::feed(Command::new(ip).args(["-batch", "-"]), lines.as_bytes())
}
