//! Guests that die, and guests that only seem to.

use vshmem_lab::{Error, ExecRequest, GuestFault, GuestState, Lab, Streams, UpOptions};

use crate::rig::{Sink, assert_nothing_left, name, options, processes, shell, until};
use crate::run::Test;

/// Of guests of every kind.
pub const TESTS: &[Test] = &[
    ("a_guest_that_powers_off", a_guest_that_powers_off),
    ("a_paused_guest_is_not_dead", a_paused_guest_is_not_dead),
];

fn state(lab: &Lab, guest: u32) -> GuestState {
    lab.list().unwrap().guests.iter().find(|one| one.guest == guest).unwrap().state
}

fn open(name: &str) -> Lab {
    Lab::open(name).unwrap()
}

pub fn kill_and_restart() {
    let notices = tempfile::tempdir().unwrap();
    let notice = notices.path().join("{guest}").to_string_lossy().into_owned();
    let lab =
        Lab::up(&UpOptions { on_death: Some(vec!["touch".into(), notice]), ..options("kill") })
            .unwrap();
    let second = open(&name("kill"));
    let waiting = std::thread::spawn(move || {
        let streams = Streams {
            stdin: None,
            stdout: Box::new(Sink::default()),
            stderr: Box::new(Sink::default()),
        };
        second.exec_with(1, &ExecRequest::new(["tail", "-f", "/dev/null"]), streams)
    });
    until("the command runs", || shell(&lab, 1, "pidof tail").code == 0);
    assert!(matches!(lab.restart(1), Err(Error::Guest(GuestFault::Busy { .. }))));

    lab.kill(1).unwrap();
    assert_eq!(state(&lab, 1), GuestState::Dead);
    let own = format!("vshmem-lab/{}/guest1/", name("kill"));
    assert!(processes(&own).is_empty());
    assert!(
        notices.path().join("guest1").exists(),
        "the death notice is given before the guest counts as dead"
    );
    assert!(!notices.path().join("guest2").exists());
    assert!(matches!(
        waiting.join().unwrap(),
        Err(Error::Guest(GuestFault::Dead { guest: 1, .. }))
    ));
    let streams = || Streams {
        stdin: None,
        stdout: Box::new(Sink::default()),
        stderr: Box::new(Sink::default()),
    };
    let refused = lab.exec_with(1, &ExecRequest::new(["true"]), streams());
    assert!(matches!(refused, Err(Error::Guest(GuestFault::Dead { guest: 1, .. }))), "{refused:?}");
    assert_eq!(shell(&lab, 2, "hostname").text(), "guest2");

    let boot = shell(&lab, 2, "cat /proc/sys/kernel/random/boot_id").out;
    lab.restart(1).unwrap();
    assert_eq!(
        shell(&lab, 1, "hostname; getent hosts guest2 >/dev/null && echo knows").text(),
        "guest1\nknows"
    );
    assert_ne!(shell(&lab, 1, "cat /proc/sys/kernel/random/boot_id").out, boot);
    lab.down().unwrap();
    assert!(notices.path().join("guest2").exists(), "going down is a death too");
    assert_nothing_left("kill");
}

fn a_guest_that_powers_off() {
    let lab = Lab::up(&UpOptions { count: 1, ..options("off") }).unwrap();
    let streams = Streams {
        stdin: None,
        stdout: Box::new(Sink::default()),
        stderr: Box::new(Sink::default()),
    };
    let ran = lab.exec_with(
        1,
        &ExecRequest::shell("echo o > /proc/sysrq-trigger; tail -f /dev/null"),
        streams,
    );
    assert!(ran.is_err(), "{ran:?}");
    until("the guest is dead", || state(&lab, 1) == GuestState::Dead);
    lab.restart(1).unwrap();
    assert_eq!(shell(&lab, 1, "hostname").text(), "guest1");
    lab.down().unwrap();
    assert_nothing_left("off");
}

fn a_paused_guest_is_not_dead() {
    let lab = Lab::up(&UpOptions { count: 1, ..options("pause") }).unwrap();
    lab.pause(1).unwrap();
    assert_eq!(state(&lab, 1), GuestState::Running);
    let streams = Streams {
        stdin: None,
        stdout: Box::new(Sink::default()),
        stderr: Box::new(Sink::default()),
    };
    let ran = lab.exec_with(1, &ExecRequest::new(["true"]), streams);
    assert!(matches!(ran, Err(Error::Guest(GuestFault::Unreachable { guest: 1, .. }))), "{ran:?}");
    lab.resume(1).unwrap();
    assert_eq!(shell(&lab, 1, "hostname").text(), "guest1");
    lab.pause(1).unwrap();
    lab.down().unwrap();
    assert_nothing_left("pause");
}
