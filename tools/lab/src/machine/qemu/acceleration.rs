//! KVM or emulation. A /dev/kvm that opens proves nothing: under some nested hypervisors it makes
//! machines, runs their firmware, and hangs in the kernel. So a guest is booted to its first word,
//! once per boot of this machine.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Doing, Error, Result};
use crate::host::directory::open_directory;
use crate::host::json;
use crate::model::Acceleration;
use crate::model::boot::{BOOT_VARIABLE, BOOTED, ONLY_BOOT};
use crate::model::names::INIT_VERB;

/// Where the answer is kept, with the boot that it holds for.
const VERDICT: &str = "/run/vshmem/kvm.json";

/// With KVM a kernel reaches its PID 1 in about a second.
const DEADLINE: Duration = Duration::from_secs(15);

/// A machine with nothing but a console. A guest that reboots ends.
pub(crate) const BARE: [&str; 9] = [
    "-nodefaults",
    "-no-user-config",
    "-display",
    "none",
    "-no-reboot",
    "-chardev",
    "stdio,id=console,signal=off",
    "-device",
    "isa-serial,chardev=console",
];

/// The kernel's words that every guest gets. It must not try whether timer interrupts come within
/// some turns of a loop: on a busy machine an emulated one comes late, and the kernel gives up.
pub(super) const APPEND: &str =
    "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off random.trust_cpu=on";

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Verdict {
    boot_id: String,
    usable: bool,
}

/// The options of QEMU. With one processor, and no room for a second, TCG emits code that is not
/// atomic towards other processes; so does a single thread for all processors.
pub(super) fn words(accelerated: bool, cpus: u32) -> [String; 6] {
    let [how, model] =
        if accelerated { ["kvm", "host"] } else { ["tcg,thread=multi", "max,la57=off"] };
    let processors = format!("{cpus},maxcpus={}", cpus.max(2));
    ["-accel", how, "-cpu", model, "-smp", &processors].map(str::to_owned)
}

/// Settles what is wanted: KVM or emulation, never the choice between them.
pub(super) fn choose(
    wanted: Acceleration,
    qemu: &Path,
    kernel: &Path,
    ramdisk: &Path,
) -> Result<Acceleration> {
    match wanted {
        Acceleration::Tcg => Ok(Acceleration::Tcg),
        Acceleration::Auto if !usable(qemu, kernel, ramdisk)? => Ok(Acceleration::Tcg),
        Acceleration::Kvm if !usable(qemu, kernel, ramdisk)? => Err(Error::Argument {
            what: "the acceleration",
            value: "kvm".into(),
            rule: "no guest boots under KVM here; leave it to the lab, or emulate (tcg)",
        }),
        Acceleration::Auto | Acceleration::Kvm => Ok(Acceleration::Kvm),
    }
}

/// What is known of KVM since this machine booted: whether a guest boots under it. `None`: never
/// tried.
#[must_use]
pub fn kvm_boots_guests() -> Option<bool> {
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let kept: Option<Verdict> = json::read(Path::new(VERDICT)).unwrap_or_default();
    kept.filter(|kept| kept.boot_id == boot_id).map(|kept| kept.usable)
}

/// Does a guest boot under KVM?
fn usable(qemu: &Path, kernel: &Path, ramdisk: &Path) -> Result<bool> {
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .doing(|| "read this machine's boot id".into())?;
    if let Some(known) = kvm_boots_guests() {
        return Ok(known);
    }
    let opens = fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
    let usable = opens && boots(qemu, kernel, ramdisk)?;
    open_directory(Path::new("/run/vshmem"))?;
    json::write(Path::new(VERDICT), &Verdict { boot_id, usable }, 0o644)?;
    Ok(usable)
}

fn boots(qemu: &Path, kernel: &Path, ramdisk: &Path) -> Result<bool> {
    let mut guest = Command::new(qemu)
        .args(BARE)
        .args(words(true, 1))
        .args(["-machine", "pc", "-m", "256M", "-kernel"])
        .arg(kernel)
        .arg("-initrd")
        .arg(ramdisk)
        .args(["-append", &format!("{APPEND} {BOOT_VARIABLE}={ONLY_BOOT} {INIT_VERB}")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .doing(|| format!("try {qemu:?} with KVM"))?;
    let console = guest.stdout.take();
    let (tell, hear) = channel();
    std::thread::spawn(move || {
        let lines = console.map(BufReader::new).into_iter().flat_map(BufRead::lines);
        if lines.map_while(std::io::Result::ok).any(|line| line.trim_end() == BOOTED) {
            let _ = tell.send(());
        }
    });
    let booted = hear.recv_timeout(DEADLINE).is_ok();
    let _ = guest.kill();
    let _ = guest.wait();
    Ok(booted)
}
