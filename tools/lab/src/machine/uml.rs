//! User Mode Linux: a Linux kernel as a host process, on the host's own files (hostfs, read-only).

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::error::{Doing, Result};
use crate::host::directory::Directory;
use crate::host::record::Record;
use crate::host::tool;
use crate::machine::plan::{Machine, Plan};
use crate::model::boot::{BOOT_VARIABLE, TUNABLES_VARIABLE};
use crate::model::names::INIT_VERB;
use crate::model::{Missing, UpOptions};

pub(crate) struct Uml;

/// Where files to swap to are: on a disk, where most machines have a tmpfs at /tmp.
const SWAP_PLACE: &str = "/var/tmp";
/// The first disk of a guest.
const SWAP_DEVICE: &str = "/dev/ubda";

/// A library for the guest's kernel, which writes registers that it knows a part of
/// (`uml/registers.c`); empty where it could not be compiled.
const REGISTERS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/registers.so"));

/// Which of a processor's abilities the C library of programs in the guest leaves alone. A signal
/// costs a program there its AVX-512 registers (Linux 6.1 keeps those up to AVX), and `strlen` with
/// a handler in its middle would return the length that the handler's `strlen` has found.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW";

/// Names a kernel instead of the one that `scripts/guest-uml` unpacks where the distribution's own
/// cannot be given a pool.
const VARIABLE: &str = "VSHMEM_LAB_UML";
const UNPACKED: &str = "/var/lib/vshmem/uml/linux.uml";

fn unpacked() -> Option<PathBuf> {
    let path = std::env::var_os(VARIABLE).map_or_else(|| UNPACKED.into(), PathBuf::from);
    path.is_file().then_some(path)
}

fn installed() -> Option<PathBuf> {
    ["linux.uml", "linux"].into_iter().find_map(tool::find)
}

fn kernel() -> Option<PathBuf> {
    unpacked().or_else(|| installed().filter(|path| has_mmapper(path)))
}

/// Linux 7 has none. The file is of some 12 MB.
fn has_mmapper(kernel: &Path) -> bool {
    const NAME: &[u8] = b"mmapper";
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let bytes = std::fs::read(kernel).unwrap_or_default();
        bytes.windows(NAME.len()).any(|part| part == NAME)
    })
}

impl Machine for Uml {
    fn missing(&self) -> Vec<Missing> {
        if kernel().is_some() {
            return Vec::new();
        }
        if let Some(path) = installed() {
            return vec![Missing::new(
                "a User Mode Linux kernel that can be given a pool",
                format!("{} has no mmapper (Linux 7 has none)", path.display()),
                "`scripts/guest-uml` unpacks one of Debian 13; or `--guest qemu`",
            )];
        }
        vec![Missing::new(
            "a User Mode Linux kernel (linux.uml or linux)",
            "not in PATH",
            "`apt-get install user-mode-linux`",
        )]
    }

    fn made_of(&self, _record: &Record) -> String {
        "User Mode Linux, mmapper".into()
    }

    fn interface(&self) -> &'static str {
        "vec0"
    }

    fn boot_time(&self) -> Duration {
        // A second or two; on a busy machine more.
        Duration::from_secs(180)
    }

    fn prepare(
        &self,
        _record: &mut Record,
        directory: &Directory,
        _binary: &Path,
        _options: &UpOptions,
    ) -> Result<()> {
        let path = directory.registers();
        let doing = || format!("write {}", path.display());
        std::fs::write(&path, REGISTERS).doing(doing)?;
        // Guests are other users, whatever the umask is.
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).doing(doing)
    }

    fn swap(&self, record: &Record) -> Option<PathBuf> {
        (record.swap_mib > 0).then(|| SWAP_DEVICE.into())
    }

    /// The file behind the disk to swap to. It has no name: nothing of it is left when the guest
    /// has ended, however it did.
    fn line(&self, plan: &Plan<'_>) -> Result<Option<OwnedFd>> {
        let bytes = u64::from(plan.record.swap_mib) << 20;
        if bytes == 0 {
            return Ok(None);
        }
        let doing = || format!("make a file of {bytes} bytes in {SWAP_PLACE}");
        let path = Path::new(SWAP_PLACE)
            .join(format!("vshmem-lab-{}-{}.swap", plan.record.name, plan.guest));
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .doing(doing)?;
        std::fs::remove_file(&path).doing(doing)?;
        file.set_len(bytes).doing(doing)?;
        fchown(&file, Some(plan.uid()), Some(plan.uid())).doing(doing)?;
        Ok(Some(file.into()))
    }

    fn words(&self, plan: &Plan<'_>, line: Option<i32>) -> Vec<OsString> {
        let option = |name: &str, value: &Path| {
            let mut word = OsString::from(name);
            word.push("=");
            word.push(value);
            word
        };
        let private = plan.directory.private_of(plan.guest);
        let mut words = Vec::new();
        if !REGISTERS.is_empty() {
            words.push(tool::find("env").map_or_else(|| "env".into(), OsString::from));
            words.push(option("LD_PRELOAD", &plan.directory.registers()));
        }
        words.push(kernel().map_or_else(|| "linux.uml".into(), OsString::from));
        words.push(format!("mem={}M", plan.record.memory_mib).into());
        words.extend(
            ["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "quiet", "panic=-1"]
                .map(OsString::from),
        );
        words.push(option("init", &plan.directory.stage().join(&plan.record.init)));
        if let Some(pool) = &plan.record.pool {
            words.push(
                option("iomem=mmapper,", pool).to_string_lossy().replacen(",=", ",", 1).into(),
            );
        }
        words.extend(line.map(|swap| format!("ubd0=/proc/self/fd/{swap}").into()));
        words.extend(["con0=fd:0,fd:1", "con=null", "ssl=null"].map(OsString::from));
        words.push(option("uml_dir", &private));
        words.push(format!("umid=guest{}", plan.guest).into());
        words.push(
            format!(
                "vec0:transport=tap,ifname={},depth=64,gro=1,mac=02:76:73:68:6d:{:02x}",
                plan.tap(),
                plan.guest
            )
            .into(),
        );
        // Words that the kernel does not know become PID 1's environment (with `=`) and its
        // arguments.
        words.push(option(BOOT_VARIABLE, &plan.directory.boot(plan.guest)));
        words.push(format!("{TUNABLES_VARIABLE}={TUNABLES}").into());
        words.push(INIT_VERB.into());
        words
    }
}
