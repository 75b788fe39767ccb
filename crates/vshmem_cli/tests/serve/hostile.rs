//! Peers that are not what they should be.

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use vshmem_link::Served;
use vshmem_sync::Doorbell;
use vshmem_wire::DomainState;

use crate::qemu::Qemu;
use crate::rig::{expect, until};
use crate::server::{Server, descriptors, is_root, pool};
use crate::{address_of, state_of};

#[test]
fn a_peer_that_sends_something_is_disconnected_and_its_domain_lives_on() {
    if !is_root() {
        return;
    }
    let name = pool("garbage");
    let server = Server::start(&name, &[]);
    let host_monitor = Qemu::connect(&server.socket, 1);
    for garbage in [&b"x"[..], &[0xff; 8], &[0; 65536]] {
        let mut peer = Qemu::connect(&server.socket, 1);
        let process = peer.process("guest-a", 7);
        peer.announce(&process);
        // The server may hang up halfway.
        let _ = peer.socket.write_all(garbage);
        server.until_said(&format!("guest {}: disconnected, because it has sent", peer.id()));
        until("its doorbell is lost", || address_of(process.pool(), process.domain()).is_none());
        assert_eq!(state_of(process.pool(), process.domain()), DomainState::Alive);
        until("the others know", || host_monitor.peers() == [0]);
        process.leave().unwrap();
    }
    server.stop();
    expect(0, &["pool", "check", &name.0]);
}

#[test]
fn a_flood_of_descriptors_leaves_none_behind() {
    if !is_root() {
        return;
    }
    let name = pool("flood");
    let server = Server::start(&name, &[]);
    let before = descriptors(server.child.id());
    let null = std::fs::File::open("/dev/null").unwrap();
    for _ in 0..20 {
        let peer = Qemu::connect(&server.socket, 1);
        let many = [null.as_fd(); 100];
        for _ in 0..10 {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(100))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&many));
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = sendmsg(&peer.socket, &[IoSlice::new(b"fds")], &mut control, flags);
        }
        server.until_said(&format!("guest {}: disconnected", peer.id()));
    }
    // The processes of those that were thrown out are watched: one descriptor each.
    until("the sockets and doorbells are closed", || descriptors(server.child.id()) <= before + 20);
    server.stop();
}

#[test]
fn there_are_no_more_peers_than_domains() {
    if !is_root() {
        return;
    }
    let name = crate::rig::Name::new("full");
    expect(0, &["pool", "create", &name.0, "--size", "8M", "--limit", "domains=4"]);
    let server = Server::start(&name, &[]);
    let mut peers: Vec<Qemu> = (0..3).map(|_| Qemu::connect(&server.socket, 1)).collect();
    for _ in 0..200 {
        let mut refused = UnixStream::connect(&server.socket).unwrap();
        let mut nothing = Vec::new();
        // Closed, or reset: nothing was handed out.
        let _ = refused.read_to_end(&mut nothing);
        assert!(nothing.is_empty());
    }
    server.until_said("there are 4 peers already");
    let lines = server.said().iter().filter(|line| line.contains("refused")).count();
    assert!(lines <= 8, "a line for each refusal floods the log: {lines}");
    let id = peers.pop().unwrap().id();
    server.until_said(&format!("guest {id}: gone"));
    let next = Qemu::connect(&server.socket, 1);
    assert_ne!(next.id(), id, "an id that a peer may still know was given again");
    server.stop();
}

#[test]
fn nonsense_on_the_control_socket_is_passed_over() {
    if !is_root() {
        return;
    }
    let name = pool("control");
    let server = Server::start(&name, &[]);
    let guest = Qemu::connect(&server.socket, 1);
    let control = UnixDatagram::unbound().unwrap();
    let path = vshmem_link::control_socket(&name.0);
    for word in [&b""[..], b"ring", b"ring x", b"ring 99999999999", &[0xff; 4096], b"stop"] {
        for _ in 0..50 {
            control.send_to(word, &path).unwrap();
        }
    }
    Served::of(&name.0).notify(guest.id()).unwrap();
    until("a notification at the guest", || guest.was_notified());
    server.until_said("an invalid request on the control socket (256 in all)");
    let lines = server.said().iter().filter(|line| line.contains("invalid request")).count();
    assert!(lines <= 10, "a line for each floods the log: {lines}");
    server.stop();
}

/// What another user gets to see of a server.
fn connect_as(server: &Server, words: &[&str]) -> String {
    const SCRIPT: &str = "use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); \
        connect(S, pack_sockaddr_un($ARGV[0])) or die \"refused: $!\"; \
        my $n = sysread(S, my $b, 8); print \"got \" . ($n // 0)";
    let output = std::process::Command::new("setpriv")
        .args(words)
        .args(["perl", "-e", SCRIPT])
        .arg(&server.socket)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn strangers_are_kept_out_by_the_socket_and_by_their_credentials() {
    if !is_root() {
        return;
    }
    let name = pool("strangers");
    let server = Server::start(&name, &[]);
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let said = connect_as(&server, &nobody);
    assert!(said.contains("refused: Permission denied"), "{said}");
    // The socket's mode is opened by mistake: the pool's own mode still counts.
    std::fs::set_permissions(&server.socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    let said = connect_as(&server, &nobody);
    assert!(said.contains("got 0"), "{said}");
    server.until_said("of user 65534 may not use the pool");
    server.stop();

    // A group of the pool, as a further group of the caller.
    let shared = crate::rig::Name::new("grouped");
    let words = ["--size", "8M", "--mode", "0660", "--group", "4242"];
    expect(0, &[&["pool", "create", shared.0.as_str()], &words[..]].concat());
    let server = Server::start(&shared, &[]);
    let said = connect_as(&server, &["--reuid", "65534", "--regid", "65534", "--groups", "4242"]);
    assert!(said.contains("got 8"), "{said}");
    let said = connect_as(&server, &nobody);
    assert!(said.contains("refused: Permission denied"), "{said}");
    server.stop();
}
