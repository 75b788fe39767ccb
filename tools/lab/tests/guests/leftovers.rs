//! Whatever happens, nothing is left behind.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use vshmem_lab::{Error, GuestFault, GuestKind, Lab, UpOptions};

use crate::rig::{UP, assert_nothing_left, name, options, pool, processes, shared, shell, until};

pub fn two_labs_at_once() {
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(|| Lab::up(&options("one")));
        let two = scope.spawn(|| Lab::up(&options("two")));
        (one.join().unwrap().unwrap(), two.join().unwrap().unwrap())
    });
    assert!(matches!(Lab::up(&options("one")), Err(Error::AlreadyUp { .. })));
    shell(&one, 1, "echo one > /tmp/lab");
    shell(&two, 1, "echo two > /tmp/lab");
    assert_eq!(shell(&one, 1, "cat /tmp/lab").text(), "one");
    let listed = Lab::list_all().unwrap();
    assert!(
        [name("one"), name("two")]
            .iter()
            .all(|name| { listed.iter().any(|lab| lab.name == *name && lab.guests.len() == 2) })
    );
    one.down().unwrap();
    assert_nothing_left("one");
    assert_eq!(shell(&two, 2, "hostname").text(), "guest2");
    two.down().unwrap();
    assert_nothing_left("two");
    assert!(!Lab::down_named(&name("two")).unwrap());
}

pub fn down_after_the_keeper_was_killed() {
    let notices = tempfile::tempdir().unwrap();
    let notice = notices.path().join("{guest}").to_string_lossy().into_owned();
    let lab =
        Lab::up(&UpOptions { on_death: Some(vec!["touch".into(), notice]), ..options("orphan") })
            .unwrap();
    let keeper = lab.list().unwrap().keeper.unwrap();
    Command::new("kill").args(["-KILL", &keeper.to_string()]).status().unwrap();
    until("all guests have died with the keeper", || {
        processes(&format!("vshmem-lab/{}/", name("orphan"))).is_empty()
    });
    // Killed, but maybe not gone yet.
    until("the lab counts as down", || {
        matches!(Lab::open(&name("orphan")), Err(Error::NotUp { .. }))
    });
    assert!(Lab::down_named(&name("orphan")).unwrap());
    assert!(notices.path().join("guest1").exists() && notices.path().join("guest2").exists());
    assert_nothing_left("orphan");
}

pub fn down_after_up_was_killed() {
    let name = name("half");
    let directory = format!("/run/vshmem-lab/{name}");
    // At different stages: the directory is there; the guests' kernels are there; a guest is nearly
    // up.
    let stages: [&dyn Fn() -> bool; 3] = [
        &|| Path::new(&directory).exists(),
        &|| !processes(&format!("init={directory}/")).is_empty(),
        &|| processes(&format!("init={directory}/")).len() > 4,
    ];
    for reached in stages {
        let mut up = Command::new(std::env::current_exe().unwrap())
            .args([UP, &name])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("`up` is half-way", reached);
        up.kill().unwrap();
        up.wait().unwrap();
        Lab::down_named(&name).unwrap();
        until("nothing is left", || {
            processes(&directory).is_empty() && !Path::new(&directory).exists()
        });
    }
    let lab = Lab::up(&UpOptions { count: 1, ..options("half") }).unwrap();
    lab.down().unwrap();
    assert_nothing_left("half");
}

/// Leaves the record of a lab without a keeper whose guests have the users from `first` on; the
/// lab's name. One of another release lacks what this one needs.
fn leave_record(root: &Path, like: &serde_json::Value, first: u64, is_foreign: bool) -> String {
    let name = name(&format!("ghost{first}"));
    let mut record = like.clone();
    record["name"] = name.as_str().into();
    record["first_uid"] = first.into();
    record["keeper"] = serde_json::Value::Null;
    if is_foreign {
        record.as_object_mut().unwrap().remove("guest");
    }
    std::fs::create_dir(root.join(&name)).unwrap();
    std::fs::write(root.join(&name).join("lab.json"), record.to_string()).unwrap();
    name
}

pub fn labs_without_a_keeper_give_way() {
    let living = shared();
    let root = Path::new("/run/vshmem-lab");
    let record = |name: &str| root.join(name).join("lab.json");
    let read = |name: &str| -> Option<serde_json::Value> {
        serde_json::from_slice(&std::fs::read(record(name)).ok()?).ok()
    };
    let first_uid = |record: &serde_json::Value| record["first_uid"].as_u64().unwrap();
    let ghost = read(living.name()).unwrap();
    let (base, labs) =
        if first_uid(&ghost) < 2_000_000_000 { (60_600, 8) } else { (2_000_000_000, 64) };
    let mut ghosts = Vec::new();
    let mut foreign: Option<(String, u64)> = None;
    // Another lab of this machine may end meanwhile. Then the new lab takes that one's users and
    // leaves the others alone, rightly; so once more, with those users taken as well.
    let lab = loop {
        // Nobody takes users while those that are free are looked for.
        let naming = File::open(root).unwrap();
        naming.lock().unwrap();
        let taken: Vec<u64> = std::fs::read_dir(root)
            .unwrap()
            .filter_map(|entry| Some(first_uid(&read(entry.ok()?.file_name().to_str()?)?)))
            .collect();
        // All other users, as if the keepers of their labs had been killed.
        let free = (0..labs).map(|slot| base + slot * 64).filter(|first| !taken.contains(first));
        for first in free {
            let is_foreign = foreign.is_none();
            let left = (leave_record(root, &ghost, first, is_foreign), first);
            if is_foreign {
                foreign = Some(left);
            } else {
                ghosts.push(left);
            }
        }
        drop(naming);
        let lab = Lab::up(&UpOptions { count: 1, ..options("late") }).unwrap();
        let given = first_uid(&read(lab.name()).unwrap());
        if ghosts.iter().any(|(_, first)| *first == given) {
            break lab;
        }
        let is_foreign = foreign.as_ref().is_some_and(|(_, first)| *first == given);
        assert!(!is_foreign, "user {given} is another release's lab's");
        lab.down().unwrap();
    };
    for (name, _) in &ghosts {
        assert!(!record(name).exists(), "{name} still has its users");
    }
    if let Some((name, _)) = foreign {
        assert!(matches!(Lab::open(&name), Err(Error::OtherRelease { .. })));
        assert!(record(&name).exists() && Lab::down_named(&name).unwrap());
        assert!(!root.join(&name).exists());
    }
    assert_eq!(shell(living, 1, "hostname").text(), "guest1");
    lab.down().unwrap();
    assert_nothing_left("late");
}

pub fn a_closed_pool_is_refused() {
    let closed = tempfile::tempdir().unwrap();
    std::fs::set_permissions(closed.path(), Permissions::from_mode(0o700)).unwrap();
    let file = closed.path().join(pool().file_name().unwrap());
    File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let refused = Lab::up(&UpOptions { pool: Some(file), ..options("closed") });
    assert!(matches!(refused, Err(Error::PoolClosed { guest: 1, .. })), "{refused:?}");
    assert_nothing_left("closed");
}

pub fn a_failed_boot_shows_the_console() {
    let failed = Lab::up(&UpOptions { memory_mib: 6, count: 1, ..options("small") });
    let Err(Error::Guest(GuestFault::BootFailed { guest: 1, console, .. })) = &failed else {
        panic!("{failed:?}")
    };
    assert!(!console.is_empty());
    assert_nothing_left("small");
}

pub fn a_guest_swaps_to_a_disk_that_goes_with_it() {
    let lab =
        Lab::up(&UpOptions { memory_mib: 64, swap_mib: 96, count: 1, ..options("swap") }).unwrap();
    // More than all its memory, in a tmpfs, can only be kept on the disk.
    let line = "mount -o remount,size=90m /tmp && head -c 72m /dev/zero | tr '\\0' x >/tmp/much && \
                tr -d x </tmp/much | wc -c && awk '/SwapTotal/ {t = $2} /SwapFree/ {print (t > 90000), (t - $2 > 10000)}' /proc/meminfo";
    assert_eq!(shell(&lab, 1, line).text(), "0\n1 1");
    let named = std::fs::read_dir("/var/tmp")
        .unwrap()
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().contains(&name("swap")));
    assert!(!named, "the disk's file has a name that would have to be removed");
    lab.down().unwrap();
    let qemu = UpOptions { guest: GuestKind::Qemu, swap_mib: 96, ..options("swap") };
    assert!(Lab::up(&qemu).unwrap_err().to_string().contains("User Mode Linux"));
}
