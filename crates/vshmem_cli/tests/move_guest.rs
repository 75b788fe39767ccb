//! `vshmem move` and `vshmem pool plug` with QEMUs that do not run their guests: what can be seen
//! beforehand is refused beforehand. Guests that do run: tests/guests/moved_guest.

mod rig;

use std::process::{Child, Command, Stdio};

use rig::{Name, expect, refusal};

const PORT: &str = "-device pcie-root-port,id=rp0,chassis=1";

/// A QEMU with its monitor; it ends with the test.
struct Qemu {
    process: Child,
    socket: String,
}

impl Qemu {
    fn start(place: &tempfile::TempDir, name: &str, words: &str) -> Self {
        let socket = place.path().join(name);
        let mut process = Command::new("qemu-system-x86_64")
            .args(["-machine", "q35,nvdimm=on", "-accel", "tcg,thread=multi"])
            .args(["-smp", "1,maxcpus=2", "-m", "64,slots=4,maxmem=8G", "-nodefaults", "-S"])
            .args(["-display", "none", "-qmp"])
            .arg(format!("unix:{},server=on,wait=off", socket.display()))
            .args(words.split_whitespace())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        while !socket.exists() {
            assert_eq!(process.try_wait().unwrap(), None, "{words}");
            std::thread::yield_now();
        }
        Self { process, socket: socket.display().to_string() }
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A place for sockets, where there is QEMU.
fn place() -> Option<tempfile::TempDir> {
    if Command::new("qemu-system-x86_64").arg("--version").output().is_err() {
        println!("SKIPPED: qemu-system-x86_64 is not installed");
        return None;
    }
    Some(tempfile::tempdir().unwrap())
}

/// An nvdimm of a file.
fn nvdimm(file: &str, bytes: u64) -> String {
    format!(
        "-object memory-backend-file,id=p,share=on,mem-path={file},size={bytes},align=2M \
         -device nvdimm,memdev=p"
    )
}

#[test]
fn a_device_that_cannot_be_unplugged_or_plugged_in_is_refused_before_anything_is_done() {
    let Some(place) = place() else { return };
    let pool = Name::with_pool("move");
    let name = pool.0.as_str();
    let shown = expect(0, &["pool", "show", name, "--as", "qemu"]).stdout;
    let shown = String::from_utf8(shown).unwrap().trim().to_owned();
    let fixed = Qemu::start(&place, "fixed", &shown);
    let here = Qemu::start(&place, "here", &format!("{PORT} {shown},bus=rp0"));
    let portless = Qemu::start(&place, "portless", "-incoming defer");
    let there = Qemu::start(&place, "there", &format!("{PORT} -incoming defer"));
    let moves = |from: &Qemu, further: &[&str], parts: &[&str]| {
        let words = ["move", name, "guest", "--to", "unix:nowhere", "--qmp", &from.socket];
        refusal(&[&words, further].concat(), parts);
    };
    moves(&fixed, &[], &["bus pcie.0", "-device pcie-root-port"]);
    moves(&here, &[], &["\"prelaunch\"", "cont"]);
    moves(&here, &["--qmp-to", &portless.socket], &["no bus rp0"]);
    moves(&here, &["--qmp-to", &fixed.socket], &["waits for no guest", "-incoming"]);
    moves(&here, &["--qmp-to", &there.socket, "--same-host"], &["Without --same-host"]);
    moves(&there, &[], &["no device of the guest shows it", "--drained"]);
    refusal(&["pool", "plug", name, "--qmp", &here.socket], &["has it already"]);
    refusal(&["pool", "plug", name, "--qmp", &there.socket], &["waits for a guest"]);
    let running = Qemu::start(&place, "running", PORT);
    expect(0, &["pool", "plug", name, "--qmp", &running.socket]);
    refusal(&["pool", "plug", name, "--qmp", &running.socket], &["has it already"]);
}

#[test]
fn what_a_guest_saved_is_not_written_over_a_pool() {
    let Some(place) = place() else { return };
    let [pool, other] = ["movedax", "otherdax"].map(Name::new);
    for pool in [&pool, &other] {
        expect(0, &["pool", "create", &pool.0, "--size", "8M", "--dax"]);
    }
    let bytes = std::fs::metadata(pool.path()).unwrap().len();
    let file = |name: &Name| name.path().display().to_string();
    let spare = place.path().join("spare");
    std::fs::File::create(&spare).unwrap().set_len(bytes).unwrap();
    let here = Qemu::start(&place, "here", &nvdimm(&file(&pool), bytes));
    let waiting = |name: &str, file: &str| {
        Qemu::start(&place, name, &format!("{} -incoming defer", nvdimm(file, bytes)))
    };
    let same = waiting("same", &file(&pool));
    let another = waiting("another", &file(&other));
    let unshared = waiting("unshared", &spare.display().to_string());
    let to = format!("unix:{}", place.path().join("moves").display());
    let words = ["move", &pool.0, "--drained", "--to", &to, "--qmp", &here.socket];
    let kept = ["move", &pool.0, "--same-host", "--to", &to, "--qmp", &here.socket];
    refusal(&words, &["cannot unplug", "--qmp-to"]);
    for there in [&same, &another] {
        let words = [&words[..], &["--qmp-to", &there.socket]].concat();
        refusal(&words, &["would be written over", "truncate"]);
    }
    refusal(&[&kept[..], &["--qmp-to", &unshared.socket]].concat(), &["with the pool's file"]);
    let moved = expect(0, &[&kept[..], &["--qmp-to", &same.socket]].concat());
    assert!(String::from_utf8_lossy(&moved.stdout).contains("the guest has it there"));
    refusal(&["move", &pool.0, "g", "--virsh", "g", "--to", "qemu:///system"], &["nvdimm"]);
    expect(0, &["pool", "check", &pool.0]);
}

#[test]
fn the_commands_for_virsh_name_the_pools_of_both_sides() {
    let pool = Name::with_pool("movevirsh");
    let asked = ["move", &pool.0, "d2", "--virsh", "g2", "--to", "qemu+ssh://other/system"];
    let shown = expect(0, &[&asked[..], &["--pool-to", "job8"]].concat()).stdout;
    let shown = String::from_utf8(shown).unwrap();
    let place = |line: &str| shown.find(line).unwrap_or_else(|| panic!("{line} in {shown}"));
    let lines = [
        format!("vshmem pool drain {} d2", pool.0),
        format!("virsh detach-device g2 {}.xml --live", pool.0),
        "virsh migrate g2 qemu+ssh://other/system --live".into(),
        "virsh attach-device g2 job8.xml --live".into(),
    ];
    assert!(lines.is_sorted_by_key(|line| place(line)), "{shown}");
}
