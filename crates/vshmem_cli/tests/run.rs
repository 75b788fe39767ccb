//! `vshmem run`: that it gets out of the program's way. What it refuses is in `mistakes` as well.

mod rig;

use std::fs;
use std::os::unix::process::ExitStatusExt;

use rig::{Installed, Name, complaint, json, library_is_beside, sysv_library_is_beside, until};

#[test]
fn setgid_programs_and_those_for_another_processor_are_refused() {
    let installed = Installed::new();
    let refused = |name: &str, bytes: &[u8], mode: u32, part: &str| {
        let program = installed.program(name, bytes, mode);
        let output = installed.command().arg("run").arg(program).output().unwrap();
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(126), "{name}: {said}");
        assert!(said.contains(part), "no {part:?} in {said:?}");
    };
    refused("grouped", &fs::read("/bin/true").unwrap(), 0o2755, "is setgid");
    // An ELF file of 64 bits for MIPS.
    let mut foreign = vec![0; 64];
    foreign[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    foreign[16] = 2;
    foreign[18] = 8;
    refused("foreign", &foreign, 0o755, "another kind of CPU");
}

#[test]
fn the_program_ends_as_it_likes() {
    let installed = Installed::new();
    let name = Name::with_pool("codes");
    let run = |words: &[&str]| {
        installed.command().args(["run", "--pool", &name.0, "--"]).args(words).output().unwrap()
    };
    for code in [0, 1, 2, 77, 255] {
        let output = run(&["sh", "-c", &format!("exit {code}")]);
        assert_eq!(output.status.code(), Some(code), "{}", complaint(&output));
    }
    assert_eq!(run(&["sh", "-c", "kill -9 $$"]).status.signal(), Some(9));
    assert_eq!(run(&["echo", "-n", "--pool", "x"]).stdout, b"--pool x");
}

#[test]
fn the_program_gets_its_environment() {
    let installed = Installed::new();
    let name = Name::with_pool("env");
    let words = ["--share", "shm,key=1-9", "--ftok", "inode", "env"];
    let output = installed.command().args(["run", "--pool", &name.0]).args(words).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let library = installed.path().join("libvshmem_preload.so");
    for line in [
        format!("LD_PRELOAD={}", library.display()),
        format!("VSHMEM_POOL={}", name.path().display()),
        format!("VSHMEM_POOL_NAME={}", name.0),
        "VSHMEM_SHARE=shm,key=1-9".to_owned(),
        "VSHMEM_FTOK=inode".to_owned(),
        format!("VSHMEM_COMMAND={}", installed.path().join("vshmem").display()),
    ] {
        assert!(printed.lines().any(|printed| printed == line), "no {line} in {printed}");
    }
}

/// Where the library of System V's calls is there and enough, it is taken; and in a run inside a
/// run the inner one alone decides.
#[test]
fn the_smaller_library_is_preloaded_where_it_is_enough() {
    let installed = Installed::new();
    let name = Name::with_pool("sysv");
    let library = |name| installed.path().join(name).display().to_string();
    let (whole, sysv) = (library("libvshmem_preload.so"), library("libvshmem_preload_sysv.so"));
    let preloaded = |before: &str, words: &[&str]| {
        let mut run = installed.command();
        run.env("LD_PRELOAD", before).args(["run", "--pool", &name.0]).args(words).arg("env");
        let printed = String::from_utf8(run.output().unwrap().stdout).unwrap();
        let line = printed.lines().find_map(|line| line.strip_prefix("LD_PRELOAD="));
        line.unwrap_or_else(|| panic!("{printed}")).to_owned()
    };
    assert_eq!(preloaded("", &["--share", "all"]), whole, "it is not there");
    fs::copy(&whole, &sysv).unwrap();
    assert_eq!(preloaded("", &["--share", "all"]), sysv);
    assert_eq!(preloaded("", &["--share", "sem,key=1-9"]), sysv);
    assert_eq!(preloaded("", &["--share", "all,pthread"]), whole, "it is not there");
    let posix = library("libvshmem_preload_posix.so");
    fs::copy(&whole, &posix).unwrap();
    assert_eq!(preloaded("", &["--share", "all,pthread"]), posix);
    assert_eq!(preloaded("", &["--one-host"]), whole);
    assert_eq!(
        preloaded(&format!("{sysv}:/lib/x.so"), &["--share", "mq"]),
        posix.clone() + ":/lib/x.so"
    );
    assert_eq!(
        preloaded(&format!("{posix} /lib/x.so"), &["--share", "all"]),
        sysv.clone() + ":/lib/x.so"
    );
}

/// The library that is in force sees to it that the programs of its program have one; it must not
/// put itself before the other one.
#[test]
fn of_a_run_inside_a_run_the_inner_library_alone_is_loaded() {
    if !library_is_beside() || !sysv_library_is_beside() {
        println!("SKIPPED: the libraries are not built: `make build`");
        return;
    }
    let name = Name::with_pool("nested");
    let run = |share: &'static str| {
        vec![env!("CARGO_BIN_EXE_vshmem"), "run", "--pool", &name.0, "--share", share, "--"]
    };
    let (posix, sysv) = ("libvshmem_preload_posix.so", "libvshmem_preload_sysv.so");
    for (outer, inner, library) in [("all", "all,posix", posix), ("all,posix", "all", sysv)] {
        for between in [&[][..], &["sh", "-c", "exec \"$@\"", "sh"]] {
            let words =
                [&run(outer)[..], between, &run(inner), &["cat", "/proc/self/maps"]].concat();
            let output = rig::vshmem().args(&words[1..]).output().unwrap();
            let maps = String::from_utf8(output.stdout.clone()).unwrap();
            let loaded: std::collections::BTreeSet<&str> = maps
                .lines()
                .filter_map(|line| line.rsplit_once('/').map(|(_, file)| file))
                .filter(|file| file.starts_with("libvshmem_preload"))
                .collect();
            let said = complaint(&output);
            assert_eq!(loaded.into_iter().collect::<Vec<_>>(), [library], "{words:?}: {said}");
        }
    }
}

#[test]
fn a_program_is_a_client_until_its_agent_has_reaped_it() {
    let installed = Installed::new();
    let name = Name::with_pool("client");
    let mut program =
        installed.command().args(["run", "--pool", &name.0, "sleep", "1000"]).spawn().unwrap();
    let pid = program.id();
    let there = || {
        let contents = json(&["ls", "--pool", &name.0, "--json"]);
        contents["clients"].as_array().unwrap().iter().any(|row| row["pid"] == pid)
    };
    until("the program is a client", there);
    until("it is the program by now", || {
        fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() == "sleep\n"
    });
    let said = rig::refusal(&["pool", "rm", &name.0], &["1 client uses it", "--force"]);
    assert!(said.contains(&format!(":{pid}")), "{said}");
    // The agent is no child that the program could wait for.
    let children =
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    assert_eq!(children, "");
    program.kill().unwrap();
    program.wait().unwrap();
    until("it is reaped", || !there());
    rig::expect(0, &["pool", "rm", &name.0]);
}

#[test]
fn a_table_full_of_the_dead_is_waited_for() {
    let installed = Installed::new();
    let name = Name::new("full");
    rig::expect(0, &["pool", "create", &name.0, "--size", "8M", "--limit", "clients=4"]);
    for _ in 0..8 {
        let output = installed.command().args(["run", "--pool", &name.0, "true"]).output().unwrap();
        assert!(output.status.success(), "{}", complaint(&output));
    }
}

#[test]
fn a_spin_that_is_neither_allowed_nor_forbidden_is_refused() {
    let installed = Installed::new();
    let pool = Name::with_pool("spin");
    let run = |word: &str| {
        let mut command = installed.command();
        command.env("VSHMEM_SPIN", word).args(["run", "--pool", &pool.0, "--", "/bin/true"]);
        command.output().unwrap()
    };
    for word in ["no", "", "2000"] {
        let output = run(word);
        assert_eq!(output.status.code(), Some(2), "{word:?}");
        assert!(complaint(&output).contains("VSHMEM_SPIN"), "{}", complaint(&output));
    }
    for word in ["0", "1"] {
        let output = run(word);
        assert!(output.status.success(), "{}", complaint(&output));
    }
}
