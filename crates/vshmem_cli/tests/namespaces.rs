//! Clients and agents in time namespaces and PID namespaces: no living client is reaped, and what a
//! killed container held is given back.

mod rig;

use std::process::{Command, Stdio};

use rig::client::{Client, KEY};
use rig::{Name, expect, json, until};
use vshmem_ipc::{DomainRow, Superuser};
use vshmem_session::{Session, find, open_pool};
use vshmem_wire::DomainState;

/// Not a test: the client process of the tests below, which start it under this name.
#[test]
#[ignore = "a client process that the other tests start"]
fn client() {
    rig::client::be();
}

/// Whether this user may make such namespaces on this kernel; says so when not.
fn may_unshare(words: &[&str]) -> bool {
    let allowed = Command::new("unshare")
        .args(words)
        .arg("true")
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !allowed {
        println!("SKIPPED: `unshare {}` is not allowed here", words.join(" "));
    }
    allowed
}

fn start_agent(name: &Name, words: &[&str]) {
    let vshmem = env!("CARGO_BIN_EXE_vshmem");
    let mut command = match words {
        [] => Command::new(vshmem),
        words => {
            let mut command = Command::new("unshare");
            command.args(words).arg(vshmem);
            command
        }
    };
    let status = command.args(["agent", "--pool"]).arg(name.path()).status().unwrap();
    assert!(status.success());
}

fn domains(name: &Name) -> Vec<DomainRow> {
    let link = find(&name.0).unwrap();
    open_pool(link.as_ref()).unwrap().domains().unwrap()
}

/// Waits until every agent has looked at its clients so many times more.
fn wait_for_rounds(name: &Name, rounds: u32) {
    let leases = || {
        let rows = domains(name);
        rows.iter().filter(|row| row.agent != 0).map(|row| row.lease).collect::<Vec<_>>()
    };
    let before = leases();
    assert!(!before.is_empty(), "there is no agent");
    until("the agents have looked", || {
        leases().iter().zip(&before).all(|(now, before)| now.wrapping_sub(*before) >= rounds)
    });
}

fn attaches(name: &Name) -> u64 {
    json(&["ls", "--pool", &name.0, "--json"])["segments"][0]["nattch"].as_u64().unwrap()
}

fn value(name: &Name) -> u32 {
    let session = Session::join(find(&name.0).unwrap()).unwrap();
    let me = session.client();
    let set = me.semget(KEY, 1, 0, &Superuser).unwrap();
    let value = me.semaphore_value(set, 0, &Superuser).unwrap();
    session.leave().unwrap();
    value
}

/// A client holds an attach and an adjustment, and keeps them for as long as it lives.
fn lives_and_dies(test: &str, client: &[&str], agent: &[&str]) {
    let words = [client, agent].concat();
    if !may_unshare(&words) {
        return;
    }
    let name = Name::with_pool(test);
    let client = Client::start_in(&name, client, false);
    assert!(client.is_ready());
    start_agent(&name, agent);
    wait_for_rounds(&name, 3);
    assert_eq!((attaches(&name), value(&name)), (1, 1), "a living client was reaped");
    client.kill();
    until("what it held is given back", || (attaches(&name), value(&name)) == (0, 0));
    expect(0, &["pool", "check", &name.0]);
}

#[test]
fn a_client_in_another_time_namespace_is_not_taken_for_dead() {
    lives_and_dies("time-client", &["--time", "--boottime", "100000"], &[]);
}

#[test]
fn an_agent_in_another_time_namespace_takes_no_client_for_dead() {
    lives_and_dies("time-agent", &[], &["--time", "--boottime", "100000"]);
}

#[test]
fn a_client_in_a_pid_namespace_without_a_proc_of_its_own_is_not_taken_for_dead() {
    const OWN: [&str; 3] = ["--pid", "--fork", "--kill-child"];
    if !may_unshare(&OWN) {
        return;
    }
    let name = Name::with_pool("no-own-proc");
    let client = Client::start_in(&name, &OWN, true);
    assert!(client.is_ready());
    wait_for_rounds(&name, 3);
    assert_eq!((attaches(&name), value(&name)), (1, 1), "a living client was reaped");
    client.kill();
}

#[test]
fn a_domain_without_an_identity_is_refused() {
    let covered = ["--mount", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh"];
    if !may_unshare(&covered) {
        return;
    }
    let name = Name::with_pool("no-proc");
    let client = Client::start_in(&name, &covered, false);
    assert!(!client.is_ready(), "it was let in");
    assert!(client.said.contains("mount -t proc proc /proc"), "{}", client.said);
    expect(0, &["pool", "check", &name.0]);
}

const CONTAINER: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];

fn is_dead(name: &Name, namespace: u32) -> bool {
    domains(name).iter().any(|row| row.pid_namespace == namespace && row.state == DomainState::Dead)
}

/// The PID namespace of the only domain with a client in it that is not this process's.
fn namespace_of_container(name: &Name) -> u32 {
    let own = vshmem_link::domain_facts().unwrap().pid_namespace;
    let rows = domains(name);
    rows.iter().find(|row| row.pid_namespace != own).unwrap().pid_namespace
}

#[test]
fn what_a_killed_container_held_is_given_back() {
    if !may_unshare(&CONTAINER) {
        return;
    }
    let name = Name::with_pool("container");
    let container = Client::start_in(&name, &CONTAINER, true);
    assert!(container.is_ready());
    let namespace = namespace_of_container(&name);
    start_agent(&name, &[]);
    // Longer than an agent stays that has no clients.
    wait_for_rounds(&name, 8);
    assert_eq!((attaches(&name), value(&name)), (1, 1), "a living container was reaped");
    container.kill();
    until("what it held is given back", || (attaches(&name), value(&name)) == (0, 0));
    assert!(is_dead(&name, namespace));
    expect(0, &["pool", "check", &name.0]);
}

#[test]
fn what_a_container_held_that_was_killed_while_no_agent_ran_is_given_back() {
    if !may_unshare(&CONTAINER) {
        return;
    }
    /// Of the initial PID namespace (include/linux/proc_ns.h).
    const INITIAL: u64 = 0xEFFF_FFFC;
    let own = std::fs::metadata("/proc/self/ns/pid").unwrap();
    if std::os::unix::fs::MetadataExt::ino(&own) != INITIAL {
        println!("SKIPPED: from inside a container it is not known of another whether it has gone");
        return;
    }
    let name = Name::with_pool("container-alone");
    let container = Client::start_in(&name, &CONTAINER, true);
    assert!(container.is_ready());
    let namespace = namespace_of_container(&name);
    container.kill();
    start_agent(&name, &[]);
    until("what it held is given back", || (attaches(&name), value(&name)) == (0, 0));
    assert!(is_dead(&name, namespace));
    expect(0, &["pool", "check", &name.0]);
}

#[test]
fn an_agent_that_is_kept_stays_while_nobody_is_there_and_ends_with_the_pool() {
    let name = Name::with_pool("kept");
    let path = name.path();
    let keep = ["agent", "--keep", "--pool", path.to_str().unwrap()];
    // A program's agent, which leaves: the kept one takes over.
    start_agent(&name, &[]);
    expect(0, &keep);
    let agent = || domains(&name).first().map_or(0, |row| row.agent);
    let first = agent();
    assert_ne!(first, 0);
    until("the kept one has taken over", || ![0, first].contains(&agent()));
    expect(0, &keep);
    // Longer than another agent stays.
    let kept = agent();
    wait_for_rounds(&name, 8);
    assert_eq!(agent(), kept);
    expect(0, &["pool", "rm", &name.0]);
    until("it ends", || !std::path::Path::new(&format!("/proc/{kept}/exe")).exists());
}

#[test]
fn a_pool_that_was_given_to_a_container_is_not_removed() {
    const MOUNTS: [&str; 1] = ["--mount"];
    if !may_unshare(&MOUNTS) {
        return;
    }
    let name = Name::with_pool("given");
    let path = name.path();
    let target = tempfile::NamedTempFile::new().unwrap();
    let mut container = Command::new("unshare")
        .args(MOUNTS)
        .args(["sh", "-c", "mount --bind \"$0\" \"$1\" && exec sleep 1000"])
        .args([&path, target.path()])
        .spawn()
        .unwrap();
    let comm = format!("/proc/{}/comm", container.id());
    until("it is mounted", || std::fs::read_to_string(&comm).unwrap() == "sleep\n");
    let container_is = format!("that of process {} (sleep)", container.id());
    rig::refusal(&["pool", "rm", &name.0], &["1 containers were given it", &container_is]);
    container.kill().unwrap();
    container.wait().unwrap();
    expect(0, &["pool", "rm", &name.0]);
}
