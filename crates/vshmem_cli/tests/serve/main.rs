//! `vshmem pool serve`, against guests that are played.

#[path = "../rig/mod.rs"]
mod rig;

mod hostile;
mod qemu;
mod restart;
mod server;

use std::path::Path;

use qemu::Qemu;
use rig::{expect, refusal, until};
use server::{Server, is_root, pool};
use vshmem_ipc::{Client, Operation, Pool, Superuser};
use vshmem_link::Served;
use vshmem_session::Session;
use vshmem_sync::Doorbell;
use vshmem_wire::DomainState;

/// This process as a member, on the host.
pub fn host(name: &rig::Name) -> Session {
    Session::join(vshmem_session::find(&name.0).unwrap()).unwrap()
}

/// One operation on the first semaphore.
pub fn operation(change: i16, undo: bool) -> [Operation; 1] {
    [Operation { number: 0, change, no_wait: false, undo }]
}

/// A set of one semaphore.
pub fn new_set(this_client: &Client) -> i32 {
    this_client.semget(0, 1, 0o600, &Superuser).unwrap()
}

/// How many sleep until that semaphore rises.
pub fn waiters(this_client: &Client, set: i32) -> u32 {
    this_client.semaphore_waiters(set, 0, false, &Superuser).unwrap()
}

/// Where a domain can be notified.
pub fn address_of(pool: &Pool, domain: u32) -> Option<u32> {
    pool.domains().unwrap().iter().find(|row| row.index == domain).unwrap().address
}

/// How a domain stands.
pub fn state_of(pool: &Pool, domain: u32) -> DomainState {
    pool.domains().unwrap().iter().find(|row| row.index == domain).unwrap().state
}

#[test]
fn a_guest_gets_version_id_memory_and_doorbells_in_this_order() {
    if !is_root() {
        return;
    }
    let name = pool("opening");
    let server = Server::start(&name, &["--vectors", "2"]);
    let first = Qemu::connect(&server.socket, 2);
    let one = i64::from(first.id());
    let expected =
        [(0, false), (one, false), (-1, true), (0, true), (0, true), (one, true), (one, true)];
    assert_eq!(first.learnt.lock().unwrap().messages, expected);
    assert!(first.id() > 0, "an id of 0 cannot be distinguished from a device without interrupts");
    let second = Qemu::connect(&server.socket, 2);
    assert_eq!(second.peers(), [0, one]);
    until("the first hears of the second", || first.peers() == [0, i64::from(second.id())]);
    assert_eq!(first.learnt.lock().unwrap().peers[&i64::from(second.id())].len(), 2);
    drop(second);
    until("and of its end", || first.peers() == [0]);
    let said = server.stop();
    assert!(said.iter().any(|line| line.contains("guest 1: connected (process")), "{said:?}");
    assert!(said.iter().any(|line| line.contains("guest 2: gone")), "{said:?}");
}

#[test]
fn nothing_is_left_after_a_server_that_was_asked_to_stop() {
    if !is_root() {
        return;
    }
    let name = pool("tidy");
    let server = Server::start(&name, &[]);
    let paths = vshmem_serve::ServerPaths::usual(&name.0);
    for path in [&paths.socket, &paths.control, &paths.record] {
        assert!(path.exists(), "{}", path.display());
    }
    let mode = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode(&paths.socket), mode(&paths.control)), (0o600, 0o600));
    server.stop();
    for path in [&paths.socket, &paths.control, &paths.record] {
        assert!(!path.exists(), "{}", path.display());
    }
    let rows = vshmem_session::open_pool(vshmem_session::find(&name.0).unwrap().as_ref()).unwrap();
    assert!(rows.domains().unwrap().iter().all(|row| row.address.is_none()));
}

#[test]
fn the_host_notifies_guests_and_guests_notify_the_host() {
    if !is_root() {
        return;
    }
    let name = pool("rings");
    let server = Server::start(&name, &[]);
    let host = host(&name);
    let guest = Qemu::connect(&server.socket, 1);
    let process = guest.process("guest-a", 7);
    guest.announce(&process);
    let pool = process.pool();
    until("the host has a doorbell", || address_of(pool, host.client().domain()) == Some(0));
    let set = new_set(host.client());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| process.semop(set, &operation(-1, false), None, &Superuser));
        until("a waiter in the guest", || waiters(host.client(), set) == 1);
        host.client().semop(set, &operation(1, false), None, &Superuser).unwrap();
        until("a notification at the guest", || guest.was_notified());
        process.deliver_wakeups();
        waiter.join().unwrap().unwrap();
    });
    std::thread::scope(|scope| {
        let waiter =
            scope.spawn(|| host.client().semop(set, &operation(-1, false), None, &Superuser));
        until("a waiter on the host", || waiters(&process, set) == 1);
        process.semop(set, &operation(1, false), None, &Superuser).unwrap();
        waiter.join().unwrap().unwrap();
    });
    server.until_said("guest 1: is domain guest-a");
    // Directly, as any process of the host may.
    let doorbell = Served::of(&name.0);
    doorbell.notify(guest.id()).unwrap();
    until("a notification at the guest", || guest.was_notified());
    // No server is there: harmless.
    doorbell.notify(4711).unwrap();
    doorbell.notify(u32::MAX).unwrap();
    doorbell.notify(guest.id()).unwrap();
    until("a notification at the guest", || guest.was_notified());
    process.leave().unwrap();
    host.leave().unwrap();
    server.stop();
}

#[test]
fn the_end_of_a_guest_is_the_death_of_its_domains() {
    if !is_root() {
        return;
    }
    let name = pool("death");
    let server = Server::start(&name, &[]);
    let host = host(&name);
    let (dying, staying) = (Qemu::connect(&server.socket, 1), Qemu::connect(&server.socket, 1));
    let holder = dying.process("guest-a", 7);
    dying.announce(&holder);
    let other = staying.process("guest-b", 7);
    staying.announce(&other);
    let set = new_set(host.client());
    host.client().semop(set, &operation(1, false), None, &Superuser).unwrap();
    holder.semop(set, &operation(-1, true), None, &Superuser).unwrap();
    std::thread::scope(|scope| {
        let waiter =
            scope.spawn(|| host.client().semop(set, &operation(-1, false), None, &Superuser));
        until("a waiter on the host", || waiters(&other, set) == 1);
        drop(dying);
        // The adjustment of the dead holder is applied, and the waiter has its turn.
        waiter.join().unwrap().unwrap();
    });
    let pool = other.pool();
    until("the domain is dead", || state_of(pool, holder.domain()) == DomainState::Dead);
    assert_eq!(state_of(pool, other.domain()), DomainState::Alive);
    assert_eq!(state_of(pool, host.client().domain()), DomainState::Alive);
    server.until_said("domain guest-a: dead (its virtual machine has ended)");
    other.leave().unwrap();
    host.leave().unwrap();
    server.stop();
    expect(0, &["pool", "check", &name.0]);
}

#[test]
fn a_guest_that_is_reset_is_a_new_domain_and_its_former_self_is_dead() {
    if !is_root() {
        return;
    }
    let name = pool("reset");
    let server = Server::start(&name, &[]);
    let guest = Qemu::connect(&server.socket, 1);
    let before = guest.process("first-boot", 7);
    guest.announce(&before);
    server.until_said("guest 1: is domain first-boot");
    let after = guest.process("second-boot", 7);
    guest.announce(&after);
    server.until_said("domain first-boot: dead (its virtual machine was reset)");
    assert_eq!(state_of(after.pool(), after.domain()), DomainState::Alive);
    after.leave().unwrap();
    server.stop();
}

#[test]
fn a_stopped_guest_is_not_dead_and_gets_everything_later() {
    if !is_root() {
        return;
    }
    let name = pool("still");
    let server = Server::start(&name, &["--vectors", "64"]);
    let still = Qemu::connect(&server.socket, 64);
    let process = still.process("guest-a", 7);
    still.announce(&process);
    // More messages than its socket holds.
    let mut last = 0;
    for _ in 0..8 {
        let others: Vec<Qemu> = (0..8).map(|_| Qemu::connect(&server.socket, 64)).collect();
        last = others.iter().map(Qemu::id).max().unwrap();
    }
    server.until_said(&format!("guest {last}: gone"));
    assert_eq!(state_of(process.pool(), process.domain()), DomainState::Alive);
    let newcomer = Qemu::connect(&server.socket, 64);
    until("all is sent", || still.peers() == [0, i64::from(newcomer.id())]);
    assert_eq!(still.learnt.lock().unwrap().peers[&i64::from(newcomer.id())].len(), 64);
    process.leave().unwrap();
    server.stop();
}

#[test]
fn what_cannot_be_served_is_refused() {
    let name = pool("refused");
    refusal(&["pool", "serve", "clitest-nowhere"], &["there is none of that name"]);
    for vectors in ["0", "65"] {
        let output = expect(2, &["pool", "serve", &name.0, "--vectors", vectors]);
        assert!(rig::complaint(&output).contains("from 1 to 64"));
    }
    expect(2, &["pool", "serve", &name.0, "--vectors", "many"]);
    let odd = rig::Name::new("odd");
    expect(0, &["pool", "create", &odd.0, "--size", "9M"]);
    refusal(&["pool", "serve", &odd.0], &["power of two", "16M"]);
    let labelled = rig::Name::new("labelled");
    expect(0, &["pool", "create", &labelled.0, "--size", "8M", "--dax"]);
    refusal(&["pool", "serve", &labelled.0], &["--dax", "nvdimm"]);
    let long = format!("/tmp/{}", "x".repeat(200));
    refusal(&["pool", "serve", &name.0, "--socket", &long], &["too long"]);
}

#[test]
fn a_second_server_is_refused() {
    if !is_root() {
        return;
    }
    let name = pool("second");
    let server = Server::start(&name, &[]);
    refusal(&["pool", "serve", &name.0], &["has a server already", "--as qemu"]);
    refusal(&["pool", "serve", &name.0, "--socket", "/tmp/hv-second"], &["has a server already"]);
    // The first one is none the worse.
    Qemu::connect(&server.socket, 1);
    server.stop();
}

#[test]
fn a_server_ends_with_its_pool() {
    if !is_root() {
        return;
    }
    let name = pool("removed");
    let mut server = Server::start(&name, &[]);
    expect(0, &["pool", "rm", &name.0, "--force"]);
    assert_eq!(server.child.wait().unwrap().code(), Some(1));
    assert!(!server.socket.exists());
}
