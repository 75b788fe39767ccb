//! The agent: it buries the dead, survives its own death, and goes when nobody is left.

mod rig;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rig::{Name, expect, json, until, vshmem};
use rustix::process::{Pid, Signal, kill_process};
use vshmem_ipc::Caller;
use vshmem_session::{Session, find};

const POOL: &str = "CLITEST_POOL";
const IPC_CREAT: i32 = 0o1000;

struct Anybody;

impl Caller for Anybody {
    fn uid(&self) -> u32 {
        0
    }
    fn gid(&self) -> u32 {
        0
    }
    fn in_group(&self, _: u32) -> bool {
        false
    }
    fn owns_all(&self) -> bool {
        true
    }
    fn administers(&self) -> bool {
        true
    }
    fn unlimited(&self) -> bool {
        true
    }
}

/// Not a test: the client process of the tests below, which start it under this name.
#[test]
#[ignore = "a client process that the other tests start"]
fn client() {
    let Ok(pool) = std::env::var(POOL) else { return };
    let session = Session::join(find(&pool).unwrap()).unwrap();
    let id = session.member().shmget(77, 4096, IPC_CREAT | 0o600, &Anybody, &session).unwrap();
    session.member().shmat(id, true, false, &Anybody).unwrap();
    println!("\nclient is ready");
    loop {
        std::thread::park();
    }
}

fn start_client(name: &Name) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "client", "--ignored", "--nocapture"])
        .env(POOL, &name.0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("client is ready")));
    child
}

fn start_agent(name: &Name) {
    let place = name.place();
    let output = vshmem().args(["agent", "--pool", place.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", rig::complaint(&output));
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
}

fn contents(name: &Name) -> serde_json::Value {
    json(&["ls", "--pool", &name.0, "--json"])
}

fn agent_of(name: &Name) -> Option<u64> {
    contents(name)["domains"][0]["agent"].as_u64()
}

fn attaches(name: &Name) -> u64 {
    contents(name)["segments"][0]["nattch"].as_u64().unwrap()
}

fn is_over(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_client_keeps_nothing() {
    let name = Name::with_pool("killed");
    let (mut one, mut other) = (start_client(&name), start_client(&name));
    start_agent(&name);
    assert_eq!(attaches(&name), 2);
    kill(&mut one);
    until("its attach is gone", || attaches(&name) == 1);
    kill(&mut other);
    until("no attach is left", || attaches(&name) == 0);
    until("only the agent is left", || contents(&name)["clients"].as_array().unwrap().len() <= 1);
    until("the agent has gone too", || contents(&name)["clients"].as_array().unwrap().is_empty());
    assert_eq!(agent_of(&name), None);
    expect(0, &["pool", "check", &name.0]);
}

#[test]
fn memory_that_has_become_dirty_is_cleaned_where_the_pool_asks_for_it() {
    let name = Name::new("cleans");
    expect(0, &["pool", "create", &name.0, "--size", "16M", "--prepare", "4M"]);
    let session = Session::join(find(&name.0).unwrap()).unwrap();
    let me = session.member();
    let id = me.shmget(78, 3 << 20, IPC_CREAT | 0o600, &Anybody, &session).unwrap();
    me.segment_remove(id, &Anybody).unwrap();
    let shown = || json(&["pool", "show", &name.0, "--json"]);
    let before = shown();
    assert_eq!(before["free"].as_u64().unwrap() - before["clean"].as_u64().unwrap(), 3 << 20);
    start_agent(&name);
    until("everything is clean again", || shown()["clean"] == before["free"]);
    session.leave().unwrap();
    expect(0, &["pool", "check", &name.0]);
}

#[test]
fn there_is_one_agent_and_another_after_it() {
    let name = Name::with_pool("successor");
    let mut child = start_client(&name);
    let starters: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn({
                let place = name.place();
                move || vshmem().args(["agent", "--pool"]).arg(place).status().unwrap().success()
            })
        })
        .collect();
    for starter in starters {
        assert!(starter.join().unwrap());
    }
    let first = agent_of(&name).unwrap();
    let agents = contents(&name)["clients"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["state"] == "agent")
        .count();
    assert_eq!(agents, 1);
    kill_process(Pid::from_raw(first as i32).unwrap(), Signal::KILL).unwrap();
    // Until then it still has its post.
    until("the first agent is dead", || is_over(first));
    kill(&mut child);
    start_agent(&name);
    let second = agent_of(&name).unwrap();
    assert_ne!(second, first);
    until("the dead are buried, the first agent among them", || {
        let clients = contents(&name);
        attaches(&name) == 0
            && !clients["clients"].as_array().unwrap().iter().any(|row| row["pid"] == first)
    });
    expect(0, &["pool", "rm", &name.0]);
    until("the agent of a removed pool ends", || is_over(second));
}

#[test]
fn the_agent_is_nobodys_child_and_holds_nothing() {
    let name = Name::with_pool("detached");
    let mut child = start_client(&name);
    start_agent(&name);
    let agent = agent_of(&name).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{agent}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let me = std::process::id().to_string();
    assert_ne!(fields[1], me, "the agent is our child");
    assert_eq!(fields[4], "0", "it has a terminal");
    let own = std::fs::read_to_string("/proc/self/stat").unwrap();
    assert_ne!(fields[3], own.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap());
    for entry in std::fs::read_dir(format!("/proc/{agent}/fd")).unwrap() {
        let target = std::fs::read_link(entry.unwrap().path()).unwrap();
        let known = target == std::path::Path::new("/dev/null")
            || target == name.place()
            || target.to_string_lossy().contains("pidfd");
        assert!(known, "{target:?}");
    }
    assert_eq!(
        std::fs::read_link(format!("/proc/{agent}/cwd")).unwrap(),
        std::path::Path::new("/")
    );
    kill(&mut child);
}

#[test]
fn objects_are_listed_and_removed() {
    let name = Name::with_pool("objects");
    let mut child = start_client(&name);
    let segment = contents(&name)["segments"][0].clone();
    assert_eq!(
        (&segment["key"], &segment["bytes"], &segment["perms"]),
        (&"0x0000004d".into(), &4096.into(), &"600".into())
    );
    assert!(segment["creator"].as_str().unwrap().ends_with(&format!(":{}", child.id())));
    let narrow = json(&["ls", "-q", "--pool", &name.0, "--json"]);
    assert!(narrow.get("segments").is_none() && narrow["queues"].is_array());
    expect(2, &["rm", "--pool", &name.0]);
    expect(2, &["rm", "-M", "0", "--pool", &name.0]);
    rig::refusal(&["rm", "-M", "0x99", "--pool", &name.0], &["no segment with key 0x00000099"]);
    rig::refusal(&["rm", "-q", "5", "--pool", &name.0], &["no queue with id 5"]);
    expect(0, &["rm", "-M", "0x4d", "--pool", &name.0]);
    // Still attached: it stays until then.
    assert_eq!(contents(&name)["segments"][0]["status"][0], "dest");
    kill(&mut child);
    start_agent(&name);
    until("the segment goes with its last attach", || {
        contents(&name)["segments"].as_array().unwrap().is_empty()
    });
}
