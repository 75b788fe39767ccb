//! A machine that is played: a directory for its settings, and a plan for it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::rig::{self, Name, complaint, vshmem};

/// Settings as most machines have them.
pub const SETTINGS: [(&str, &str); 8] = [
    ("proc/sys/kernel/numa_balancing", "1"),
    ("sys/kernel/mm/ksm/run", "1"),
    ("sys/devices/system/cpu/online", "0-1"),
    ("sys/devices/system/node/online", "0"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave"),
    ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance"),
    ("sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "7"),
    ("sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "3"),
];

/// A directory for /proc, /sys and /run, and a plan beside it.
pub struct Host {
    pub directory: tempfile::TempDir,
}

impl Host {
    pub fn new() -> Self {
        let host = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir_all(host.root().join("run")).unwrap();
        for (file, text) in SETTINGS {
            host.write(file, &format!("{text}\n"));
        }
        host
    }

    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    pub fn write(&self, file: &str, text: &str) {
        let path = self.root().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// What there is, file by file. What was written has no line's end.
    pub fn files(&self) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        let mut open = vec![self.root()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).unwrap().flatten() {
                if entry.path().is_dir() {
                    open.push(entry.path());
                } else {
                    let text = fs::read_to_string(entry.path()).unwrap_or_default();
                    files.insert(entry.path(), text.trim().to_owned());
                }
            }
        }
        files
    }

    /// Two guests of a CPU and 64 MiB each, whose names and pool are of this test alone.
    pub fn plan(&self, name: &Name, options: &[&str]) -> String {
        let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vshmem_plan/tests/machines");
        let machine = format!("xml:{}", machines.join("two-cpus.xml").display());
        let words = ["plan", "--topology", &machine, "--guests", "2", "--host-cpus", "0"];
        let mut plan = rig::json(&[&words[..], options, &["--as", "json"]].concat());
        for (number, guest) in plan["guests"].as_array_mut().unwrap().iter_mut().enumerate() {
            guest["name"] = format!("{}-{number}", name.0).into();
            guest["cells"][0]["bytes"] = (64 << 20).into();
        }
        for pool in plan["pools"].as_array_mut().unwrap() {
            pool["name"] = Value::from(&*name.0);
        }
        let file = self.directory.path().join("plan.json");
        fs::write(&file, plan.to_string()).unwrap();
        file.display().to_string()
    }

    /// `vshmem plan WORDS`, killed at that moment.
    pub fn run(&self, words: &[&str], kill_at: u32) -> Output {
        let root = self.root();
        let mut command = vshmem();
        command.arg("plan").args(&words[..1]).arg("--root").arg(root).args(&words[1..]);
        command.env("VSHMEM_PLAN_KILL_AT", kill_at.to_string()).output().unwrap()
    }

    /// The same, to its end, which must be good.
    pub fn succeed(&self, words: &[&str]) -> Output {
        let output = self.run(words, 0);
        assert!(output.status.success(), "{words:?}: {}", complaint(&output));
        output
    }

    pub fn apply(&self, plan: &str, to: &str, kill_at: u32) -> Output {
        self.run(&["apply", "--plan", plan, "--to", to, "--emulated"], kill_at)
    }

    /// Undoes it, and is killed at each moment of that, too. How often.
    pub fn undo(&self) -> u32 {
        for kill_at in 1.. {
            let output = self.run(&["undo"], kill_at);
            if output.status.signal().is_none() {
                assert!(output.status.success(), "{}", complaint(&output));
                return kill_at - 1;
            }
        }
        unreachable!("undo has fewer moments")
    }
}
