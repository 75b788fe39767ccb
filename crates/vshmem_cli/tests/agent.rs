//! The agent: it reaps dead clients, survives its own death, and goes when no client is left.

mod rig;

use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use rig::client::Client;
use rig::{Name, expect, json, until, vshmem};
use rustix::process::{Pid, Signal, kill_process};
use vshmem_ipc::{DomainRow, Superuser};
use vshmem_session::{Session, find, open_pool};
use vshmem_wire::DomainState;

const IPC_CREAT: i32 = 0o1000;

/// Not a test: the client process of the tests below, which start it under this name.
#[test]
#[ignore = "a client process that the other tests start"]
fn client() {
    rig::client::be();
}

fn start_agent(name: &Name) {
    let path = name.path();
    let output = vshmem().args(["agent", "--pool", path.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", rig::complaint(&output));
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
}

fn contents(name: &Name) -> serde_json::Value {
    json(&["ls", "--pool", &name.0, "--json"])
}

fn domains(name: &Name) -> Vec<DomainRow> {
    let link = find(&name.0).unwrap();
    open_pool(link.as_ref()).unwrap().domains().unwrap()
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

#[test]
fn a_killed_client_keeps_nothing() {
    let name = Name::with_pool("killed");
    let (one, other) = (Client::start(&name), Client::start(&name));
    start_agent(&name);
    assert_eq!(attaches(&name), 2);
    one.kill();
    until("its attach is gone", || attaches(&name) == 1);
    other.kill();
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
    let me = session.client();
    let id = me.shmget(78, 3 << 20, IPC_CREAT | 0o600, &Superuser, &session).unwrap();
    me.segment_remove(id, &Superuser).unwrap();
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
    let client = Client::start(&name);
    let starters: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn({
                let path = name.path();
                move || vshmem().args(["agent", "--pool"]).arg(path).status().unwrap().success()
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
    client.kill();
    start_agent(&name);
    let second = agent_of(&name).unwrap();
    assert_ne!(second, first);
    until("dead clients are reaped, the first agent among them", || {
        let clients = contents(&name);
        attaches(&name) == 0
            && !clients["clients"].as_array().unwrap().iter().any(|row| row["pid"] == first)
    });
    expect(0, &["pool", "rm", &name.0]);
    until("the agent of a removed pool ends", || is_over(second));
}

/// Programs keep the command open by which they start an agent. An upgrade of vshmem removes it
/// from its directory.
#[test]
fn an_agent_is_started_by_a_command_that_was_removed_or_replaced() {
    let name = Name::with_pool("upgraded");
    let client = Client::start(&name);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vshmem");
    rig::copy_command(&path);
    let kept = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let start = || {
        let mut command = Command::new(format!("/proc/self/fd/{}", kept.as_raw_fd()));
        command.args(["agent", "--pool"]).arg(name.path()).output().unwrap()
    };
    let output = start();
    assert!(output.status.success(), "{}", rig::complaint(&output));
    let first = agent_of(&name).unwrap();
    kill_process(Pid::from_raw(first as i32).unwrap(), Signal::KILL).unwrap();
    until("the first agent is dead", || is_over(first));
    // What lies there now is not what was kept.
    std::fs::copy("/bin/false", &path).unwrap();
    let output = start();
    assert!(output.status.success(), "{}", rig::complaint(&output));
    assert_ne!(agent_of(&name).unwrap(), first);
    client.kill();
}

#[test]
fn the_agent_is_nobodys_child_and_holds_nothing() {
    let name = Name::with_pool("detached");
    let client = Client::start(&name);
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
            || target == name.path()
            || target.to_string_lossy().contains("pidfd");
        assert!(known, "{target:?}");
    }
    assert_eq!(
        std::fs::read_link(format!("/proc/{agent}/cwd")).unwrap(),
        std::path::Path::new("/")
    );
    client.kill();
}

/// It watches over containers, whose clients are in domains of their own, for as long as there is a
/// pool.
#[test]
fn an_agent_that_is_kept_joins_again_after_its_domain_was_evicted() {
    let name = Name::with_pool("kept");
    let path = name.path();
    expect(0, &["agent", "--keep", "--pool", path.to_str().unwrap()]);
    let first = domains(&name)[0].clone();
    // A domain does not evict itself; another PID namespace is another domain.
    let container = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    let evict = |words: &[&str]| {
        let mut evicting = Command::new("unshare");
        evicting.args(container).arg(env!("CARGO_BIN_EXE_vshmem"));
        evicting.args(["pool", "evict", &name.0, &first.index.to_string()]);
        evicting.args(words).output().unwrap()
    };
    let output = evict(&[]);
    if rig::complaint(&output).starts_with("unshare: ") {
        println!("SKIPPED: unshare is not allowed here: {}", rig::complaint(&output));
        return;
    }
    assert!(output.status.success(), "{}", rig::complaint(&output));
    until("the agent has noticed it", || {
        domains(&name).iter().all(|row| row.index != first.index || row.agent != first.agent)
    });
    // Until then it may not join, and it waits.
    let output = evict(&["--dead"]);
    assert!(output.status.success(), "{}", rig::complaint(&output));
    until("an agent is there for the domain as it is now", || {
        domains(&name).iter().any(|row| {
            row.state == DomainState::Alive && row.epoch != first.epoch && row.agent == first.agent
        })
    });
    expect(0, &["pool", "rm", &name.0, "--force"]);
    until("the agent of a removed pool ends", || is_over(first.agent.into()));
}

/// In /dev/shm anybody may make a file of the name that a pool had.
#[test]
fn no_agent_is_started_for_a_file_of_another_user() {
    let name = Name::with_pool("foreign");
    let path = name.path();
    let words = |owner: u32| {
        let owner = format!("--owner={owner}");
        ["agent", "--keep", "--pool", path.to_str().unwrap(), &owner].map(str::to_owned)
    };
    let own = std::fs::metadata(&path).unwrap().uid();
    let output = vshmem().args(words(own + 1)).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = rig::complaint(&output);
    assert!(said.contains(&format!("belongs to user {own}, and")), "{said}");
    assert!(said.contains(&format!("a pool of user {}", own + 1)), "{said}");
    assert_eq!(agent_of(&name), None);
    assert!(vshmem().args(words(own)).status().unwrap().success());
    // A keeper that is there already is one of that file: it is no reason to accept it.
    assert!(!vshmem().args(words(own + 1)).status().unwrap().success());
}

#[test]
fn objects_are_listed_and_removed() {
    let name = Name::with_pool("objects");
    let client = Client::start(&name);
    let segment = contents(&name)["segments"][0].clone();
    assert_eq!(
        (&segment["key"], &segment["bytes"], &segment["perms"]),
        (&"0x0000004d".into(), &4096.into(), &"600".into())
    );
    assert!(segment["creator"].as_str().unwrap().ends_with(&format!(":{}", client.id())));
    let narrow = json(&["ls", "-q", "--pool", &name.0, "--json"]);
    assert!(narrow.get("segments").is_none() && narrow["queues"].is_array());
    rig::refusal(&["rm", "-q", "5", "--pool", &name.0], &["no queue with id 5"]);
    expect(0, &["rm", "-M", "0x4d", "--pool", &name.0]);
    // Still attached: it stays until then.
    assert_eq!(contents(&name)["segments"][0]["status"][0], "dest");
    client.kill();
    start_agent(&name);
    until("the segment goes with its last attach", || {
        contents(&name)["segments"].as_array().unwrap().is_empty()
    });
}
