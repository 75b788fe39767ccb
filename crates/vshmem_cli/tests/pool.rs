//! `vshmem pool`: what it does. What it says of mistakes is in `mistakes`.

mod rig;

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};

use rig::{Name, expect, json, refusal};

#[test]
fn a_pool_is_made_listed_shown_checked_and_removed() {
    let name = Name::with_pool("life");
    let all = json(&["pool", "ls", "--json"]);
    let row = all.as_array().unwrap().iter().find(|row| row["name"] == name.0.as_str()).unwrap();
    assert_eq!(
        (&row["link"], &row["mode"], &row["used"]),
        (&"local".into(), &"0600".into(), &0.into())
    );
    let shown = json(&["pool", "show", &name.0, "--json"]);
    assert_eq!(shown["uuid"], row["uuid"]);
    assert!(shown["size"].as_u64().unwrap() <= 8 << 20);
    let checked = json(&["pool", "check", &name.0, "--json"]);
    assert_eq!(checked["findings"].as_array().unwrap().len(), 0);
    expect(0, &["pool", "check", &name.0, "--repair"]);
    let contents = json(&["ls", "--pool", &name.0, "--json"]);
    assert_eq!(contents["segments"].as_array().unwrap().len(), 0);
    assert_eq!(contents["clients"].as_array().unwrap().len(), 0, "a visitor has not left");
    expect(0, &["pool", "rm", &name.0]);
    assert!(!name.path().exists());
    refusal(&["pool", "rm", &name.0], &["there is none of that name", "vshmem pool ls"]);
}

#[test]
fn mode_and_limits_are_kept() {
    let name = Name::new("limits");
    let words = [
        "--size",
        "8M",
        "--mode",
        "0660",
        "--limit",
        "shmmni=7",
        "--evict-after",
        "30",
        "--sparse",
    ];
    expect(0, &[&["pool", "create", name.0.as_str()], &words[..]].concat());
    assert_eq!(fs::metadata(name.path()).unwrap().permissions().mode() & 0o777, 0o660);
    let shown = json(&["pool", "show", &name.0, "--json"]);
    assert_eq!((&shown["limits"]["shmmni"], &shown["evict_after"]), (&7.into(), &30.into()));
}

#[test]
fn prepared_memory_is_shown_and_checked() {
    let name = Name::new("prepare");
    let created = expect(0, &["pool", "create", &name.0, "--size", "8M", "--prepare", "2M"]);
    assert!(String::from_utf8_lossy(&created.stdout).contains("2M of it prepared"));
    let shown = json(&["pool", "show", &name.0, "--json"]);
    assert_eq!((&shown["prepare"], &shown["clean"]), (&(2 << 20).into(), &shown["free"]));
    let text = String::from_utf8(expect(0, &["pool", "show", &name.0]).stdout).unwrap();
    assert!(text.contains("agents keep 2M ready"), "{text}");
    let all = json(&["pool", "ls", "--json"]);
    let row = all.as_array().unwrap().iter().find(|row| row["name"] == name.0.as_str()).unwrap();
    assert_eq!(row["clean"], shown["clean"]);
    expect(0, &["pool", "check", &name.0]);
    expect(0, &["pool", "rm", &name.0]);
    expect(0, &["pool", "create", &name.0, "--size", "8M", "--prepare"]);
    let shown = json(&["pool", "show", &name.0, "--json"]);
    assert_eq!(shown["prepare"], 1 << 20);
}

#[test]
fn more_than_there_is_cannot_be_prepared() {
    let name = Name::new("prepare-all");
    let create = ["pool", "create", &name.0, "--size", "8M"];
    let output = expect(2, &[&create[..], &["--prepare", "8M"]].concat());
    assert!(rig::complaint(&output).contains("8388608 bytes are to be prepared"));
    assert!(!name.path().exists());
    expect(2, &[&create[..], &["--prepare", "1M", "--sparse"]].concat());
    expect(2, &[&create[..], &["--prepare", "much"]].concat());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let name = Name::new("nonsense");
    let create = ["pool", "create", &name.0, "--size", "8M"];
    expect(2, &[&create[..], &["--mode", "0999"]].concat());
    expect(2, &[&create[..], &["--limit", "bad=1"]].concat());
    refusal(&["pool", "create", &name.0, "--size", "900T"], &["pool"]);
    assert!(!name.path().exists());
    expect(2, &["pool", "frobnicate"]);
    expect(2, &[]);
}

#[test]
fn kinds_of_damage_are_distinguished() {
    let name = Name::with_pool("damage");
    let show = ["pool", "show", &name.0];
    let file = fs::OpenOptions::new().read(true).write(true).open(name.path()).unwrap();
    let patch = |at: u64, bytes: &[u8], parts: &[&str]| {
        let mut before = vec![0; bytes.len()];
        file.read_exact_at(&mut before, at).unwrap();
        file.write_all_at(bytes, at).unwrap();
        refusal(&show, parts);
        refusal(&["ls", "--pool", &name.0], parts);
        refusal(&["pool", "check", &name.0], parts);
        file.write_all_at(&before, at).unwrap();
    };
    patch(0, b"ELFELFEL", &["magic number"]);
    patch(8, &99u32.to_ne_bytes(), &["format version 99", "reads version 10"]);
    patch(16, &[0xff; 16], &["damaged", "checksum"]);
    expect(0, &show);
    let size = file.metadata().unwrap().len();
    file.set_len(size / 2).unwrap();
    refusal(&show, &["truncated"]);
    file.set_len(10).unwrap();
    refusal(&show, &["truncated"]);
    file.set_len(0).unwrap();
    refusal(&show, &["truncated"]);
    let all = json(&["pool", "ls", "--json"]);
    let path = name.path();
    let row =
        all.as_array().unwrap().iter().find(|row| row["place"] == path.to_str().unwrap()).unwrap();
    assert!(row["error"].as_str().unwrap().contains("truncated"));
    expect(0, &["pool", "rm", &name.0]);
}

#[test]
fn a_pool_that_is_closed_to_its_user_is_listed_in_one_line() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: needs root to become another user");
        return;
    }
    let name = Name::with_pool("other-user");
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = directory.path().join("vshmem");
    rig::copy_command(&binary);
    let as_stranger = |words: &[&str]| {
        std::process::Command::new("setpriv")
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .arg(&binary)
            .args(words)
            .output()
            .unwrap()
    };
    // Listed by what can be seen from outside: its name, in a line of its own, and no essay.
    let listed = as_stranger(&["pool", "ls", "--all"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    let row = listed.lines().find(|line| line.starts_with(&format!("{} ", name.0)));
    assert!(row.is_some_and(|row| row.contains("0600") && row.contains("root")), "{listed}");
    assert_eq!(listed.matches(&name.0).count(), 2, "name and place: {listed}");
    assert!(listed.contains("Closed to you: "), "{listed}");
}

#[test]
fn eviction_wants_a_domain_that_is_not_this_one() {
    let name = Name::with_pool("evict");
    refusal(&["pool", "evict", &name.0, "guest9"], &["no domain \"guest9\"", "vshmem ls"]);
    expect(0, &["pool", "evict", &name.0, "guest9", "--if-there"]);
    // Removing something makes this domain a member, and the visitor leaves again.
    expect(0, &["rm", "-a", "--pool", &name.0]);
    let contents = json(&["ls", "--pool", &name.0, "--json"]);
    assert_eq!(contents["clients"].as_array().unwrap().len(), 0);
    let domain = &contents["domains"][0];
    assert_eq!(domain["here"], true);
    refusal(
        &["pool", "evict", &name.0, domain["name"].as_str().unwrap()],
        &["cannot evict itself"],
    );
    refusal(&["pool", "evict", &name.0, "0", "--dead"], &["cannot evict itself"]);
}

#[test]
fn a_pool_with_a_label_is_a_pool_like_any_other() {
    let name = Name::new("label");
    expect(2, &["pool", "create", &name.0, "--size", "8M", "--dax", "--sparse"]);
    expect(0, &["pool", "create", &name.0, "--size", "8M", "--dax"]);
    let file = fs::File::open(name.path()).unwrap();
    // The label and the pool, each on a large page.
    assert_eq!(file.metadata().unwrap().len(), 10 << 20);
    let mut magic = [0; 6];
    file.read_exact_at(&mut magic, 2 << 20).unwrap();
    assert_eq!(&magic, b"VSHMEM");
    let mut label = [0; 15];
    file.read_exact_at(&mut label, 4096).unwrap();
    assert_eq!(&label, b"NVDIMM_DAX_INFO");
    expect(0, &["rm", "-a", "--pool", &name.0]);
    expect(0, &["pool", "check", &name.0]);
    let all = json(&["pool", "ls", "--json"]);
    let row = all.as_array().unwrap().iter().find(|row| row["name"] == name.0.as_str()).unwrap();
    assert!(row["error"].is_null(), "{row}");
    assert_eq!(json(&["pool", "show", &name.0, "--json"])["size"], row["size"]);
    expect(0, &["pool", "rm", &name.0]);
}

#[test]
fn a_file_is_as_long_as_was_asked() {
    let name = Name::with_pool("length");
    assert_eq!(fs::metadata(name.path()).unwrap().len(), 8 << 20);
}

#[test]
fn a_copy_of_a_pool_cannot_be_joined() {
    let (pool, copy) = (Name::with_pool("original"), Name::new("copy"));
    fs::copy(pool.path(), copy.path()).unwrap();
    let path = copy.path().display().to_string();
    let parts = ["is a copy of the pool", &path, "vshmem pool create"];
    // Where any user may listen.
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket").display().to_string();
    refusal(&["pool", "serve", &copy.0, "--socket", &socket], &parts);
    // It can still be looked at, and the pool itself is none the worse.
    expect(0, &["ls", "--pool", &copy.0]);
    if !rig::library_is_beside() {
        println!(
            "SKIPPED: programs on a pool with two names: there is no preload library beside the command"
        );
        return;
    }
    expect(0, &["run", "--pool", &pool.0, "--", "ipcmk", "-S", "1"]);
    // The same file by another name is no copy.
    fs::remove_file(copy.path()).unwrap();
    fs::hard_link(pool.path(), copy.path()).unwrap();
    expect(0, &["run", "--pool", &copy.0, "--", "ipcmk", "-S", "1"]);
}

#[test]
fn a_file_that_a_monitor_owns_becomes_a_pool() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = directory.path().join("pve-shm-file7");
    let path = file.to_str().unwrap();
    let made = std::fs::File::create(&file).unwrap();
    made.set_len(8 << 20).unwrap();
    made.set_permissions(std::fs::Permissions::from_mode(0o640)).unwrap();
    let inode = made.metadata().unwrap().ino();
    rig::expect(0, &["pool", "create", "file7", "--file", path]);
    let facts = file.metadata().unwrap();
    assert_eq!((facts.ino(), facts.len(), facts.mode() & 0o777), (inode, 8 << 20, 0o640));
    assert_eq!(json(&["pool", "show", path, "--json"])["name"], "file7");
    let proxmox = rig::expect(0, &["pool", "show", path, "--as", "proxmox"]);
    assert_eq!(String::from_utf8_lossy(&proxmox.stdout), "ivshmem: size=8,name=file7\n");
    assert!(rig::complaint(&proxmox).contains("removes this file"));
    // It is in use now, and the wrong length.
    refusal(&["pool", "create", "other", "--file", path], &["something is in it", "truncate -s 0"]);
    refusal(
        &["pool", "create", "other", "--file", path, "--size", "16M"],
        &["another length", "16777216 bytes"],
    );
    rig::expect(0, &["pool", "rm", path]);
    assert!(!file.exists());
    // One that is not there is made, and what is no pool is not removed.
    refusal(&["pool", "create", "file7", "--file", path], &["--size"]);
    rig::expect(0, &["pool", "create", "file7", "--file", path, "--size", "8M"]);
    rig::expect(0, &["pool", "rm", path]);
    std::fs::write(&file, vec![7; 8192]).unwrap();
    rig::expect(1, &["pool", "rm", path, "--force"]);
    assert!(file.exists());
}

#[test]
fn a_pool_lies_on_the_nodes_that_were_asked_for_or_is_not_made() {
    let name = Name::new("numa");
    for nodes in ["0", "interleave"] {
        expect(0, &["pool", "create", &name.0, "--size", "8M", "--numa", nodes]);
        expect(0, &["pool", "rm", &name.0]);
    }
    refusal(
        &["pool", "create", &name.0, "--size", "8M", "--numa", "999"],
        &["cannot lie on node 999", "has_memory"],
    );
    assert!(!name.path().exists());
    let wrong = ["pool", "create", &name.0, "--size", "8M", "--numa", "far"];
    assert!(rig::complaint(&expect(2, &wrong)).contains("names no node"));
}

#[test]
fn a_pool_that_says_it_is_another_takes_nothing_of_that_one_with_it() {
    let name = Name::with_pool("pool-same-uuid");
    let uuid =
        json(&["pool", "show", &name.0, "--json"])["uuid"].as_str().unwrap().replace('-', "");
    let forged = Name::new("pool-same-uuid-forged");
    rig::forge(&name, &forged);
    let wait_file = std::path::PathBuf::from(format!("/dev/shm/vshmem-wait.{uuid}.test"));
    fs::write(&wait_file, "").unwrap();
    expect(0, &["pool", "rm", &forged.0]);
    assert!(wait_file.exists());
    expect(0, &["pool", "rm", &name.0]);
    assert!(!wait_file.exists());
}
