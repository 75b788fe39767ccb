//! `vshmem plan apply`, `check` and `undo`: whatever moment `apply` or `undo` is killed at, what is
//! undone then is as it was. The kernel's files are those of a directory; the guests are real ones
//! of QEMU, where it is installed.

#[path = "../rig/mod.rs"]
mod rig;

mod host;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use host::{Host, SETTINGS};
use rig::{Name, complaint, copy_command, expect, refusal, until, vshmem};
use serde_json::Value;

#[test]
fn settings_are_as_they_were_whatever_moment_apply_and_undo_are_killed_at() {
    let host = Host::new();
    let plan = host.plan(&Name::new("settings"), &["--hugepages", "2M"]);
    let before = host.files();
    for kill_at in 1.. {
        let output = host.apply(&plan, "host", kill_at);
        let was_killed = output.status.signal() == Some(9);
        assert!(was_killed || output.status.success(), "{}", complaint(&output));
        let undone = host.undo();
        assert_eq!(host.files(), before, "killed at {kill_at}");
        if !was_killed {
            // Four settings: a moment before and one after each, and the beginning.
            assert!(kill_at == 10 && undone >= 3, "{kill_at} {undone}");
            return;
        }
    }
}

#[test]
fn a_setting_stays_while_another_plan_needs_it() {
    let host = Host::new();
    let plan = host.plan(&Name::new("two-plans"), &["--hugepages", "2M"]);
    let before = host.files();
    for name in ["one", "two"] {
        let words = ["apply", "--plan", &plan, "--to", "host", "--emulated", "--name", name];
        host.succeed(&words);
    }
    let setting =
        |files: BTreeMap<PathBuf, String>| files[&host.root().join(SETTINGS[0].0)].clone();
    let applied = setting(host.files());
    assert_ne!(applied, setting(before.clone()));
    host.succeed(&["undo", "one"]);
    assert_eq!(setting(host.files()), applied);
    host.succeed(&["undo", "two"]);
    assert_eq!(host.files(), before);
}

/// Huge pages add up from plan to plan, and a plan without them needs none.
#[test]
fn settings_are_as_they_were_in_whatever_order_plans_are_undone() {
    let host = Host::new();
    host.write(SETTINGS[7].0, "0\n");
    let plan = |options: &[&str]| {
        let file = host.plan(&Name::new("orders"), options);
        fs::read_to_string(file).unwrap()
    };
    let file = host.directory.path().join("plan.json").display().to_string();
    let plans = [plan(&[]), plan(&["--hugepages", "2M"])];
    let before = host.files();
    let pages = || fs::read_to_string(host.root().join(SETTINGS[6].0)).unwrap().trim().to_owned();
    // The first by name has no huge pages.
    let names = ["a", "b", "c", "d"];
    let orders =
        [[0, 1, 2, 3], [3, 2, 1, 0], [2, 1, 3, 0], [1, 3, 0, 2], [2, 3, 1, 0], [3, 1, 2, 0]];
    for order in orders {
        for (number, name) in names.iter().enumerate() {
            fs::write(&file, &plans[number.min(1)]).unwrap();
            let words = ["apply", "--plan", &file, "--to", "host", "--emulated", "--name", name];
            host.succeed(&words);
        }
        let all: u32 = pages().parse().unwrap();
        let mut left = 4;
        for number in order {
            host.succeed(&["undo", names[number]]);
            left -= 1;
            let need = order[4 - left..].iter().filter(|number| **number > 0).count() as u32;
            // Seven were there, and each of the three plans takes 64.
            let now: u32 = pages().parse().unwrap();
            assert!(now >= 7 + 64 * need && now <= all, "{order:?} {number}: {now}");
            if need == 0 {
                assert_eq!(now, 7, "{order:?}: no plan needs huge pages");
            }
        }
        assert_eq!(host.files(), before, "{order:?}");
    }
}

#[test]
fn each_setting_is_written_and_the_check_finds_it() {
    let host = Host::new();
    let plan = host.plan(&Name::new("written"), &["--hugepages", "2M"]);
    assert!(host.apply(&plan, "host", 0).status.success());
    let files = host.files();
    let is = |file: &str| files[&host.root().join(file)].clone();
    assert_eq!(is(SETTINGS[0].0) + &is(SETTINGS[1].0), "00");
    assert_eq!(is(SETTINGS[4].0), "performance");
    // Four are in use, and two guests have 64 MiB each.
    assert_eq!(is(SETTINGS[6].0), "68");
    let again = host.apply(&plan, "host", 0);
    assert_eq!(again.status.code(), Some(1));
    assert!(complaint(&again).contains("`vshmem plan undo plan`"), "{}", complaint(&again));
    host.write(SETTINGS[1].0, "1\n");
    let check = host.run(&["check"], 0);
    assert_eq!(check.status.code(), Some(1));
    let text = String::from_utf8(check.stdout).unwrap();
    assert!(text.contains("ok    NUMA balancing: off"), "{text}");
    assert!(text.contains("remedy: `echo 0 >/sys/kernel/mm/ksm/run`"), "{text}");
    host.undo();
    let gone = host.run(&["undo"], 0);
    assert!(complaint(&gone).contains("not applied"), "{}", complaint(&gone));
}

#[test]
fn a_dry_run_prints_the_steps_and_changes_nothing() {
    let host = Host::new();
    let plan = host.plan(&Name::new("dry"), &["--pool", "8M"]);
    let before = host.files();
    let words = ["apply", "--plan", &plan, "--to", "qemu", "--dry-run", "--"];
    let output =
        host.run(&[&words[..], &["-kernel", "x{guest}", "-append", "quiet x=$1"]].concat(), 0);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "echo 0 >/proc/sys/kernel/numa_balancing",
        "vshmem pool create clitest-",
        "--numa 0",
        "taskset -c 0 qemu-system-x86_64 -name",
        "-dry-1",
        "-append 'quiet x=$1'",
        "cont",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert!(complaint(&host.run(&["check"], 0)).contains("no plan is"));
    assert_eq!(host.files(), before);
    assert!(!host.root().join("run/vshmem").exists());
}

#[test]
fn a_pool_on_two_nodes_has_its_pages_on_each_in_turn_as_planned() {
    let host = Host::new();
    host.write("sys/devices/system/node/online", "0-1\n");
    let file = host.plan(&Name::new("turn"), &["--pool", "8M"]);
    let text = fs::read_to_string(&file).unwrap();
    let mut plan: Value = serde_json::from_str(&text).unwrap();
    plan["pools"][0]["nodes"] = "0-1".into();
    fs::write(&file, plan.to_string()).unwrap();
    let output = host.run(&["apply", "--plan", &file, "--to", "host", "--dry-run"], 0);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("--size 8M --numa interleave:0-1"), "{text}");
}

#[test]
fn an_output_that_cannot_be_written_to_undoes_nothing_and_stops_no_undo() {
    let host = Host::new();
    let plan = host.plan(&Name::new("full"), &[]);
    let before = host.files();
    let full = |words: &[&str]| {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let root = host.root();
        let mut command = vshmem();
        command.args(["plan", words[0], "--root"]).arg(root).args(&words[1..]).stdout(full);
        command.output().unwrap();
    };
    full(&["apply", "--plan", &plan, "--to", "host"]);
    assert_eq!(host.files()[&host.root().join(SETTINGS[0].0)], "0");
    full(&["undo"]);
    assert_eq!(host.files(), before);
}

/// Does what virsh does with files `UUID.xml` in its directory, and writes down how it was called.
const VIRSH: &str = r#"#!/bin/sh
cd "$(dirname "$0")/domains" || exit 1
shift 3
echo "$*" >>../calls
case "$*" in
'list --all --uuid') ls | sed 's/.xml$//' ;;
'list --all --name') cat ./*.xml 2>/dev/null | sed -n 's/.*<name>\(.*\)<.name>.*/\1/p' ;;
'list --uuid') ;;
define*) cp "$2" "$(sed -n 's/.*<uuid>\(.*\)<.uuid>.*/\1/p' "$2").xml" ;;
'undefine --keep-nvram '*) rm "$3.xml" ;;
start*) ;;
*) exit 1 ;;
esac
"#;

#[test]
fn a_domain_of_somebody_else_is_neither_touched_nor_its_uuid_taken() {
    const OTHERS: &str = "6695eb01-f6a4-8304-79aa-97f2502e193f";
    let host = Host::new();
    let name = Name::new("virsh");
    let plan = host.plan(&name, &[]);
    let bin = host.directory.path().join("bin");
    let (domains, calls) = (bin.join("domains"), bin.join("calls"));
    fs::create_dir_all(&domains).unwrap();
    fs::write(bin.join("virsh"), VIRSH).unwrap();
    fs::set_permissions(bin.join("virsh"), fs::Permissions::from_mode(0o755)).unwrap();
    let other = domains.join(format!("{OTHERS}.xml"));
    fs::write(&other, "<name>other</name>").unwrap();
    let files = host.directory.path().join("files").display().to_string();
    let run = |words: &[&str]| {
        let mut command = vshmem();
        command.args(["plan", words[0], "--root"]).arg(host.root()).args(&words[1..]);
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).output().unwrap()
    };
    let apply = || run(&["apply", "--plan", &plan, "--to", "libvirt", "--domains", &files]);
    let write = |number: u32, uuid: &str| {
        fs::create_dir_all(&files).unwrap();
        let text = format!("<domain>\n<name>{}-{number}</name>\n{uuid}\n</domain>\n", name.0);
        fs::write(format!("{files}/{}-{number}.xml", name.0), text).unwrap();
    };
    write(0, "");
    // As another program may write it.
    write(1, &format!("<uuid>{}</uuid>", OTHERS.to_uppercase()));
    let before = host.files();
    let said = complaint(&apply());
    assert!(said.contains("its UUID is that of a domain that exists"), "{said}");
    assert_eq!(host.files(), before);
    assert!(!fs::read_to_string(&calls).unwrap().contains("define"));
    write(1, "");
    let output = apply();
    assert!(output.status.success(), "{}", complaint(&output));
    assert_eq!(fs::read_dir(&domains).unwrap().count(), 3);
    let output = run(&["undo"]);
    assert!(output.status.success(), "{}", complaint(&output));
    assert_eq!(fs::read_dir(&domains).unwrap().count(), 1);
    assert!(other.exists());
    assert_eq!(host.files(), before);
}

#[test]
fn a_pool_that_another_process_made_meanwhile_is_not_removed() {
    let host = Host::new();
    let name = Name::new("meanwhile");
    let plan = host.plan(&name, &["--pool", "8M"]);
    let before = host.files();
    // Killed when the pool is noted and not yet made: the beginning, three settings, the pool.
    let killed = host.apply(&plan, "host", 1 + 2 * 3 + 1);
    assert_eq!(killed.status.signal(), Some(9));
    assert!(!name.path().exists());
    expect(0, &["pool", "create", &name.0, "--size", "8M"]);
    let output = host.run(&["undo"], 0);
    assert!(output.status.success(), "{}", complaint(&output));
    assert!(name.path().exists());
    assert_eq!(host.files(), before);
}

#[test]
fn a_step_that_fails_undoes_those_before_it() {
    let host = Host::new();
    let plan = host.plan(&Name::new("fails"), &["--pool", "8M"]);
    let before = host.files();
    let words = ["apply", "--plan", &plan, "--to", "host", "--pool-group", "no-such-group"];
    let output = host.run(&words, 0);
    assert_eq!(output.status.code(), Some(1));
    let said = complaint(&output);
    assert!(said.contains("no-such-group") && said.contains("has been undone"), "{said}");
    assert_eq!(host.files(), before);
}

#[test]
fn what_cannot_be_applied_is_a_sentence() {
    let host = Host::new();
    let name = Name::with_pool("taken");
    let plan = host.plan(&name, &["--pool", "8M"]);
    let said = complaint(&host.apply(&plan, "host", 0));
    assert!(said.contains("there is one of that name already"), "{said}");
    assert!(Path::new(&name.path()).exists());
    host.write("sys/devices/system/cpu/online", "0\n");
    let said = complaint(&host.apply(&plan, "host", 0));
    assert!(said.contains("another machine: it uses CPUs 1, and this one has 0"), "{said}");
    let odd = host.directory.path().join("odd.json");
    fs::write(&odd, fs::read_to_string(&plan).unwrap().replace(&name.0, "../../etc")).unwrap();
    let output = host.apply(&odd.display().to_string(), "host", 0);
    assert_eq!(output.status.code(), Some(2), "{}", complaint(&output));
    refusal(&["plan", "check", "--plan", "/nowhere.json"], &["/nowhere.json", "--as json"]);
    expect(2, &["plan", "apply", "--to", "libvirt", "--dry-run", "--", "-kernel", "x"]);
}

#[test]
fn what_others_may_write_is_not_undone() {
    let host = Host::new();
    let plan = host.plan(&Name::new("others"), &[]);
    assert!(host.apply(&plan, "host", 0).status.success());
    let state = host.root().join("run/vshmem/plan/plan.json");
    let directory = state.parent().unwrap();
    for (path, open, closed) in [(state.as_path(), 0o622, 0o600), (directory, 0o730, 0o700)] {
        fs::set_permissions(path, fs::Permissions::from_mode(open)).unwrap();
        let said = complaint(&host.run(&["undo"], 0));
        assert!(said.contains("others may change it"), "{said}");
        fs::set_permissions(path, fs::Permissions::from_mode(closed)).unwrap();
    }
    let elsewhere = host.directory.path().join("elsewhere.json");
    fs::rename(&state, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &state).unwrap();
    assert!(complaint(&host.run(&["undo"], 0)).contains("cannot read what was applied"));
    fs::remove_file(&state).unwrap();
    fs::rename(&elsewhere, &state).unwrap();
    host.undo();
}

/// A user who is not root, where root has made /run/vshmem, as it is on every machine with pools.
#[test]
fn a_user_who_is_not_root_is_told_that_plans_are_roots() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let host = Host::new();
    let plan = host.plan(&Name::new("users"), &[]);
    let open = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    open(host.directory.path(), 0o755);
    fs::create_dir(host.root().join("run/vshmem")).unwrap();
    let before = host.files();
    let root = host.root();
    // The build may lie where others cannot look.
    let public = tempfile::tempdir_in("/tmp").unwrap();
    open(public.path(), 0o755);
    let copy = public.path().join("vshmem");
    copy_command(&copy);
    for words in [&["apply", "--plan", &plan, "--to", "host"][..], &["undo"]] {
        let mut command = Command::new(&copy);
        command.arg("plan").arg(words[0]).arg("--root").arg(&root).args(&words[1..]);
        let said = complaint(&command.uid(4321).gid(4321).output().unwrap());
        assert!(said.contains("it is root's") && said.contains("`sudo vshmem plan"), "{said}");
    }
    assert_eq!(host.files(), before);
}

/// The processes whose command line has this in it.
fn processes(part: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(part)
    };
    pids.filter(has).collect()
}

/// The CPUs of each thread of a process, by the thread's name.
fn affinities(pid: u32) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let of = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let field =
            |name: &str| Some(status.lines().find_map(|l| l.strip_prefix(name))?.trim().to_owned());
        Some((field("Name:")?, field("Cpus_allowed_list:")?))
    };
    tasks.filter_map(of).collect()
}

#[test]
fn guests_and_pool_are_gone_whatever_moment_apply_is_killed_at() {
    if vshmem_is_without_qemu() {
        eprintln!(
            "    SKIPPED: guests of a plan: there is no qemu-system-x86_64 (scripts/setup guests qemu)"
        );
        return;
    }
    let host = Host::new();
    let name = Name::new("guests");
    let plan = host.plan(&name, &["--pool", "8M"]);
    let before = host.files();
    let part = format!("unix:{}", host.root().display());
    for kill_at in 1.. {
        let output = host.apply(&plan, "qemu", kill_at);
        let was_killed = output.status.signal() == Some(9);
        assert!(was_killed || output.status.success(), "{}", complaint(&output));
        if !was_killed {
            let running = processes(&part);
            assert_eq!(running.len(), 2);
            for (cpu, pid) in ["0", "1"].iter().zip(running) {
                let all = affinities(pid);
                assert!(all.iter().any(|(name, _)| name.starts_with("CPU 0/")), "{all:?}");
                assert!(all.iter().all(|(_, cpus)| cpus == cpu), "{all:?}");
            }
        }
        let output = host.run(&["undo"], 0);
        assert!(output.status.success(), "killed at {kill_at}: {}", complaint(&output));
        // What was killed before it let QEMU begin leaves a shell that finds its input closed.
        until("no process of the plan is left", || processes(&part).is_empty());
        assert_eq!(host.files(), before, "killed at {kill_at}");
        assert!(!name.path().exists(), "killed at {kill_at}");
        if !was_killed {
            // The beginning, three settings, the pool, and five moments of each guest.
            assert_eq!(kill_at, 1 + 2 * 3 + 2 + 2 * 5 + 1);
            return;
        }
    }
}

#[test]
fn a_guest_that_does_not_start_is_a_sentence_and_the_rest_is_undone() {
    if vshmem_is_without_qemu() {
        return;
    }
    let host = Host::new();
    let name = Name::new("odd");
    let plan = host.plan(&name, &["--pool", "8M"]);
    let before = host.files();
    let words = ["apply", "--plan", &plan, "--to", "qemu", "--emulated", "--"];
    // The second is found out when QEMU listens already.
    for wrong in [&["-no-such-option"][..], &["-bios", "/nonexistent"]] {
        let output = host.run(&[&words, wrong].concat(), 0);
        assert_eq!(output.status.code(), Some(1));
        let said = complaint(&output);
        assert!(said.contains("QEMU ended and said") && said.contains("been undone"), "{said}");
        assert_eq!(host.files(), before);
        assert!(!name.path().exists());
    }
}

fn vshmem_is_without_qemu() -> bool {
    let search = std::env::var_os("PATH").unwrap_or_default();
    !std::env::split_paths(&search).any(|directory| directory.join("qemu-system-x86_64").is_file())
}
