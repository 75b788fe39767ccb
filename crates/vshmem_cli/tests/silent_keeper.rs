//! A lab whose keeper is stopped: each command about it ends, and says what to do.

mod rig;

use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output};

use rig::{complaint, vshmem};

const NAME: &str = "silent";

/// A lab as its record says, whose keeper listens and is stopped.
struct Stopped {
    root: tempfile::TempDir,
    keeper: Child,
    _listener: UnixListener,
}

impl Stopped {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let lab = root.path().join(NAME);
        std::fs::create_dir(&lab).unwrap();
        let listener = UnixListener::bind(lab.join("keeper.sock")).unwrap();
        let keeper = Command::new("sh").args(["-c", "kill -STOP $$"]).spawn().unwrap();
        let start = wait_until_stopped(keeper.id());
        // A user for guests that no lab of this machine has.
        let record = format!(
            r#"{{"name": "{NAME}", "guest": "uml", "count": 1, "memory_mib": 64, "pool": null,
                "pool_name": null, "on_death": null, "device_mode": 438, "device": "plain",
                "server": null, "peer_exec": false, "accelerated": false, "init": "none",
                "first_uid": 2147000000, "keeper": [{}, {start}]}}"#,
            keeper.id()
        );
        std::fs::write(lab.join("lab.json"), record).unwrap();
        Self { root, keeper, _listener: listener }
    }

    fn run(&self, words: &[&str]) -> Output {
        vshmem().args(words).env("VSHMEM_LAB_DIR", self.root.path()).output().unwrap()
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// When the process started, once it is stopped.
fn wait_until_stopped(pid: u32) -> String {
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let behind_name: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        if behind_name[0] == "T" {
            return behind_name[19].to_owned();
        }
        std::thread::yield_now();
    }
}

fn exists(path: &Path) -> bool {
    path.try_exists().unwrap()
}

#[test]
fn every_command_about_a_lab_whose_keeper_is_stopped_ends_with_a_sentence() {
    let mut lab = Stopped::new();
    let go_on = format!("`kill -CONT {}`", lab.keeper.id());
    let listed = lab.run(&["lab", "ls"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert_eq!(listed.status.code(), Some(0), "{}", complaint(&listed));
    for word in ["does not answer", &go_on, "`vshmem lab --name silent down`"] {
        assert!(text.contains(word), "{text}");
    }
    let verbs = [&["pause", "1"][..], &["kill", "1"], &["restart", "1"], &["exec", "1", "true"]];
    // At the same time: each takes some seconds.
    std::thread::scope(|scope| {
        for verb in verbs {
            let (lab, go_on) = (&lab, &go_on);
            scope.spawn(move || {
                let refused = lab.run(&[&["lab", "--name", NAME], verb].concat());
                let text = complaint(&refused);
                assert_eq!(refused.status.code(), Some(1), "{verb:?}: {text}");
                assert!(
                    text.contains("does not answer") && text.contains(go_on),
                    "{verb:?}: {text}"
                );
            });
        }
    });
    let down = lab.run(&["lab", "--name", NAME, "down"]);
    assert_eq!(down.status.code(), Some(0), "{}", complaint(&down));
    assert_eq!(lab.keeper.wait().unwrap().signal(), Some(9));
    assert!(!exists(&lab.root.path().join(NAME)));
}
