//! PID 1 of a guest that boots from an initial file system: loads the modules, and makes the host's
//! files the root. Then the same binary starts again there, as it does at once where the kernel has
//! the host's files by itself.

use std::ffi::CString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_move};
use rustix::process::{chdir, chroot};
use rustix::system::init_module;

use crate::error::{Doing, Error, Result};
use crate::host::json;
use crate::model::boot::{Boot, INIT, MODULES, ROOT_TAG};
use crate::model::names::INIT_VERB;

/// How such files are mounted.
pub(super) const OPTIONS: &str = "trans=virtio,version=9p2000.L,cache=loose,msize=262144";

const LOWER: &str = "/lower";
const LAYER: &str = "/layer";
const UPPER: &str = "/upper";
const ROOT: &str = "/root";

/// Is this process still there?
pub(super) fn here() -> bool {
    Path::new(MODULES).is_dir() && Path::new(INIT).exists()
}

/// Goes to the real root and starts again there. Returns only with an error, or where this is all
/// there is: the orders are here too.
pub(super) fn leave(orders: &Path) -> Result<()> {
    mounted("devtmpfs", "/dev", "devtmpfs", MountFlags::empty(), "")?;
    load_modules()?;
    if orders.exists() {
        return fs::remove_dir_all(MODULES).doing(|| format!("remove {MODULES}"));
    }
    mounted(ROOT_TAG, LOWER, "9p", MountFlags::RDONLY, OPTIONS)?;
    let boot: Boot =
        json::read(&Path::new(LOWER).join(orders.strip_prefix("/").unwrap_or(orders)))?
            .ok_or_else(|| Error::Io {
                action: format!("read {orders:?} among the host's files"),
                source: std::io::ErrorKind::NotFound.into(),
            })?;
    let mut lower = LOWER.to_owned();
    if let Some(tag) = &boot.layer {
        mounted(tag, LAYER, "9p", MountFlags::RDONLY, OPTIONS)?;
        lower = format!("{LAYER}:{LOWER}");
    }
    mounted("tmpfs", UPPER, "tmpfs", MountFlags::empty(), "mode=755")?;
    for directory in ["files", "work"] {
        let path = Path::new(UPPER).join(directory);
        fs::create_dir(&path).doing(|| format!("create {path:?}"))?;
    }
    let layers = format!("lowerdir={lower},upperdir={UPPER}/files,workdir={UPPER}/work");
    mounted("overlay", ROOT, "overlay", MountFlags::empty(), &layers)?;
    // The memory of an initial file system is given back file by file. This binary lives until it
    // is replaced.
    let _ = fs::remove_dir_all(MODULES);
    let _ = fs::remove_file(INIT);
    mount_move("/dev", format!("{ROOT}/dev")).doing(|| "move /dev".into())?;
    let enter = || -> rustix::io::Result<()> {
        chdir(ROOT)?;
        mount_move(".", "/")?;
        chroot(".")?;
        chdir("/")
    };
    enter().doing(|| "go to the real root".into())?;
    let program = boot.stage.join(&boot.init);
    let failed = Command::new(&program).arg(INIT_VERB).exec();
    Err(failed).doing(|| format!("start {program:?}"))
}

pub(super) fn mounted(
    what: &str,
    at: &str,
    kind: &str,
    flags: MountFlags,
    options: &str,
) -> Result<()> {
    fs::create_dir_all(at).doing(|| format!("create {at}"))?;
    let data = CString::new(options).doing(|| format!("mount {kind} on {at}"))?;
    mount(what, at, kind, flags, Some(data.as_c_str()))
        .doing(|| format!("mount {kind} on {at} ({options})"))
}

fn load_modules() -> Result<()> {
    let reading = || format!("read {MODULES}");
    let mut files: Vec<_> =
        fs::read_dir(MODULES).doing(reading)?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        let image = fs::read(&file).doing(|| format!("read {file:?}"))?;
        match init_module(&image, c"") {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error).doing(|| format!("load the module {file:?}")),
        }
    }
    Ok(())
}
