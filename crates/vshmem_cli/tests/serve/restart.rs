//! A server that is killed, and the one after it.

use vshmem_ipc::{Client, Superuser};
use vshmem_wire::DomainState;

use crate::qemu::Qemu;
use crate::rig::{Name, expect, until};
use crate::server::{Server, is_root, pool};
use crate::{address_of, host, new_set, operation, state_of, waiters};

/// Two members hand a semaphore to and fro.
fn hand_over(one: &Client, other: &Client, set: i32, rounds: u32) {
    std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            for _ in 0..rounds {
                other.semop(set, &operation(-1, false), None, &Superuser).unwrap();
            }
        });
        for _ in 0..rounds {
            one.semop(set, &operation(1, false), None, &Superuser).unwrap();
            until("it was taken", || one.semaphore_value(set, 0, &Superuser) == Ok(0));
        }
        there.join().unwrap();
    });
}

fn served(test: &str) -> (Name, Server) {
    let name = pool(test);
    let server = Server::start(&name, &[]);
    (name, server)
}

#[test]
fn without_the_server_no_waiter_relies_on_being_notified() {
    if !is_root() {
        return;
    }
    let (name, mut server) = served("killed");
    let host = host(&name);
    let guest = Qemu::connect(&server.socket, 1);
    let process = guest.process("guest-a", 7);
    guest.announce(&process);
    server.until_said("is domain guest-a");
    server.kill();
    // The host's agent sees it.
    until("the doorbells are taken back", || {
        let rows = process.pool().domains().unwrap();
        rows.iter().all(|row| row.address.is_none())
    });
    let set = new_set(host.client());
    hand_over(host.client(), &process, set, 20);
    hand_over(&process, host.client(), set, 20);
    assert_eq!(state_of(process.pool(), process.domain()), DomainState::Alive);
    process.leave().unwrap();
    host.leave().unwrap();
}

#[test]
fn a_restarted_server_serves_newcomers_and_does_not_harm_who_is_there() {
    if !is_root() {
        return;
    }
    let (name, mut server) = served("restart");
    let host = host(&name);
    let old = Qemu::connect(&server.socket, 1);
    let before = old.process("guest-a", 7);
    old.announce(&before);
    server.until_said("is domain guest-a");
    server.kill();
    let successor = Server::start(&name, &[]);
    successor.until_said("guest 1: still runs from an earlier server");
    let new = Qemu::connect(&successor.socket, 1);
    assert!(new.id() != old.id() && new.id() != 0, "an id was given twice");
    let after = new.process("guest-b", 7);
    new.announce(&after);
    until("the newcomer can be notified, and the one from before cannot", || {
        address_of(after.pool(), before.domain()).is_none()
            && address_of(after.pool(), after.domain()) == Some(new.id())
    });
    // A guest's agent may start again and announce what it reads from its device.
    old.announce(&before);
    until("its doorbell is lost", || address_of(after.pool(), before.domain()).is_none());
    let set = new_set(host.client());
    hand_over(&before, &after, set, 20);
    hand_over(host.client(), &before, set, 20);
    hand_over(&after, host.client(), set, 20);
    assert_eq!(waiters(host.client(), set), 0);
    // The end of its process is the end of the guest: its socket is closed already.
    drop(old);
    assert_eq!(state_of(after.pool(), before.domain()), DomainState::Alive);
    before.leave().unwrap();
    after.leave().unwrap();
    host.leave().unwrap();
    successor.stop();
    expect(0, &["pool", "check", &name.0]);
}

/// A guest in a process of its own, which can be killed; it holds what `set` has.
fn guest_process(server: &Server, set: i32) -> std::process::Child {
    let guest = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "restart::a_guest_that_waits_for_its_end"])
        .env("VSHMEM_TEST_SOCKET", &server.socket)
        .env("VSHMEM_TEST_SET", set.to_string())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    server.until_said("is domain guest-z");
    guest
}

#[test]
fn the_death_of_a_guest_is_noticed_across_restarts() {
    if !is_root() {
        return;
    }
    let (name, mut server) = served("orphan");
    let host = host(&name);
    let set = new_set(host.client());
    let mut guest = guest_process(&server, set);
    server.kill();
    let mut second = Server::start(&name, &[]);
    second.until_said("guest 1: still runs from an earlier server");
    // And once more: the second server passes on what it knows.
    second.kill();
    let third = Server::start(&name, &[]);
    third.until_said("guest 1: still runs from an earlier server");
    guest.kill().unwrap();
    guest.wait().unwrap();
    third.until_said("domain guest-z: dead (its virtual machine has ended)");
    // Its adjustment has been applied.
    until("what it had taken is back", || {
        host.client().semaphore_value(set, 0, &Superuser) == Ok(1)
    });
    host.leave().unwrap();
    third.stop();
    assert!(!vshmem_serve::ServerPaths::usual(&name.0).record.exists());
}

#[test]
fn a_guest_that_ended_while_there_was_no_server_is_found_dead() {
    if !is_root() {
        return;
    }
    let (name, mut server) = served("unseen");
    let host = host(&name);
    let set = new_set(host.client());
    let mut guest = guest_process(&server, set);
    server.kill();
    guest.kill().unwrap();
    guest.wait().unwrap();
    let successor = Server::start(&name, &[]);
    successor.until_said("domain guest-z: dead (its virtual machine has ended)");
    until("what it had taken is back", || {
        host.client().semaphore_value(set, 0, &Superuser) == Ok(1)
    });
    host.leave().unwrap();
    successor.stop();
}

/// Does nothing by itself: the part of the guest in the tests above.
#[test]
fn a_guest_that_waits_for_its_end() {
    let Some(socket) = std::env::var_os("VSHMEM_TEST_SOCKET") else { return };
    let set = std::env::var("VSHMEM_TEST_SET").unwrap().parse().unwrap();
    let guest = Qemu::connect(std::path::Path::new(&socket), 1);
    let process = guest.process("guest-z", 7);
    process.semop(set, &operation(1, false), None, &Superuser).unwrap();
    process.semop(set, &operation(-1, true), None, &Superuser).unwrap();
    guest.announce(&process);
    loop {
        std::thread::park();
    }
}
