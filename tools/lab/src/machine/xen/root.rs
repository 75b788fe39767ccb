//! All that a domain has: no file system of the host's reaches it, so its initial one holds the
//! programs that were staged, those of the host that a shell script counts on, and the libraries of
//! both.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Doing, Result};
use crate::host::tool;
use crate::machine::qemu::ramdisk::{Archive, FILE, PROGRAM, libraries};
use crate::model::boot::INIT;

/// Where the programs of the stage are.
pub(super) const STAGE: &str = "/stage";

/// The host's programs that are there as well, if the host has them.
const PROGRAMS: &str = "sh bash [ awk base64 basename cat chgrp chmod chown cmp comm cp cut date dd df diff dirname dmesg du \
    echo env expr false file find getconf getent grep head hostname id ip ipcmk ipcrm ipcs kill ldd ln ls md5sum mkdir mkfifo mktemp \
    mount mountpoint mv nice nohup nproc nsenter od paste perl pidof ping printenv printf prlimit ps pwd readlink realpath rm rmdir \
    sed seq setpriv setsid sha256sum sleep sort split stat strace stty su sync tail taskset tee test time timeout touch tr true \
    tty umount uname uniq unshare wc which who xargs yes";

/// The host's files that programs look into.
const FILES: [&str; 6] = [
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/protocols",
];

/// Makes it. `init`, in the stage, is PID 1.
pub(super) fn make(stage: &Path, init: &str, modules: &[(String, Vec<u8>)]) -> Result<Vec<u8>> {
    let mut archive = Archive::bootable(modules);
    for directory in ["/proc", "/sys", "/run", "/tmp", "/var/tmp", "/root"] {
        archive.directory(Path::new(directory));
    }
    // As distributions have it: programs name their interpreters and libraries by either path.
    for directory in ["bin", "sbin", "lib", "lib64"] {
        archive.directory(&Path::new("/usr").join(directory));
        archive.link(&Path::new("/").join(directory), &format!("usr/{directory}"));
    }
    let mut programs = Vec::new();
    let reading = || format!("read the stage {stage:?}");
    for entry in fs::read_dir(stage).doing(reading)? {
        let entry = entry.doing(reading)?;
        let contents = fs::read(entry.path()).doing(|| format!("read {:?}", entry.path()))?;
        archive.file(&Path::new(STAGE).join(entry.file_name()), PROGRAM, &contents);
        programs.push(entry.path());
    }
    archive.link(Path::new(INIT), &format!("{STAGE}/{init}"));
    for program in PROGRAMS.split_whitespace().filter_map(tool::find) {
        let contents = fs::read(&program).doing(|| format!("read {program:?}"))?;
        archive.file(&in_usr(&program), PROGRAM, &contents);
        programs.push(program);
    }
    for library in libraries(&programs)? {
        let contents = fs::read(&library).doing(|| format!("read {library:?}"))?;
        archive.file(&in_usr(&library), PROGRAM, &contents);
    }
    for file in FILES {
        // What the host does not have, a program there does not look for.
        if let Ok(contents) = fs::read(file) {
            archive.file(Path::new(file), FILE, &contents);
        }
    }
    Ok(archive.end())
}

/// `/lib64/ld.so` is `/usr/lib64/ld.so`.
fn in_usr(path: &Path) -> PathBuf {
    let inner = path.strip_prefix("/").unwrap_or(path);
    let merged =
        ["bin", "sbin", "lib", "lib64"].iter().any(|directory| inner.starts_with(directory));
    if merged { Path::new("/usr").join(inner) } else { path.to_owned() }
}
