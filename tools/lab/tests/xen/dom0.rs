//! The control domain, and what it knows of the others.

use vshmem_lab::{Error, ExecRequest, GuestFault, GuestState, Lab, Streams, UpOptions};

use crate::rig::{
    Sink, assert_nothing_left, exec_words, name, options, processes, run, shared, shell, until,
};

const DOM0: u32 = 0;

fn state(lab: &Lab, guest: u32) -> GuestState {
    lab.list().unwrap().guests.iter().find(|one| one.guest == guest).unwrap().state
}

/// The domains that Xen has, without dom0, in order.
fn domains(lab: &Lab) -> Vec<String> {
    let listed = shell(lab, DOM0, "xl list");
    assert_eq!(listed.code, 0, "{listed:?}");
    let names = listed.text().lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let mut names: Vec<String> = names.filter(|name| *name != "Domain-0").map(Into::into).collect();
    names.sort();
    names
}

fn silent() -> Streams {
    Streams { stdin: None, stdout: Box::new(Sink::default()), stderr: Box::new(Sink::default()) }
}

pub fn commands() {
    let lab = shared();
    assert_eq!(lab.guest_named("dom0").unwrap(), DOM0);
    assert_eq!(shell(lab, DOM0, "hostname; cat /run/vshmem/domain; exit 7").code, 7);
    let here = std::fs::read("/etc/passwd").unwrap();
    assert!(run(lab, DOM0, &ExecRequest::new(["cat", "/etc/passwd"])).out == here);
    assert_eq!(shell(lab, DOM0, "touch /etc/probe && echo written").text(), "written");
    assert!(!std::path::Path::new("/etc/probe").exists());
    assert_eq!(domains(lab), ["guest1", "guest2"]);
    // XenStore answers, and the network reaches all.
    assert_eq!(shell(lab, DOM0, "xenstore-read /local/domain/0/name").text(), "Domain-0");
    let ran = run(lab, DOM0, &ExecRequest::new(exec_words(2, &["hostname"])));
    assert_eq!(ran.text(), "guest2");
}

pub fn devices() {
    let lab = shared();
    for guest in [DOM0, 1, 2] {
        let line = "stat -c '%n %a' /dev/xen/gntdev /dev/xen/evtchn /dev/xen/xenbus";
        assert_eq!(
            shell(lab, guest, line).text(),
            "/dev/xen/gntdev 666\n/dev/xen/evtchn 666\n/dev/xen/xenbus 600"
        );
    }
    assert_eq!(shell(lab, DOM0, "test -c /dev/xen/privcmd").code, 0);
    assert_ne!(shell(lab, 1, "test -c /dev/xen/privcmd").code, 0);
}

pub fn clocks() {
    let lab = shared();
    let now = |guest| shell(lab, guest, "date +%s").text().parse::<i64>().unwrap();
    for guest in [1, 2] {
        let (before, there, after) = (now(DOM0), now(guest), now(DOM0));
        assert!((before - 2..=after + 2).contains(&there), "{before} {there} {after}");
    }
}

pub fn orders() {
    let lab = shared();
    let ran = run(lab, 1, &ExecRequest::new(exec_words(DOM0, &["true"])));
    assert_ne!(ran.code, 0, "{ran:?}");
    let tokens = shell(lab, 1, "cat /run/vshmem/lab.json").text().to_owned();
    let orders = format!("/run/vshmem-lab/{}/dom0/boot.json", name("shared"));
    let orders: serde_json::Value =
        serde_json::from_slice(&std::fs::read(orders).unwrap()).unwrap();
    assert!(!tokens.contains(orders["token"].as_str().unwrap()), "a domain knows dom0's token");
}

pub fn kill_and_restart() {
    let notices = tempfile::tempdir().unwrap();
    let notice = notices.path().join("{guest}").to_string_lossy().into_owned();
    let given = |guest: &str| notices.path().join(guest).exists();
    let lab =
        Lab::up(&UpOptions { on_death: Some(vec!["touch".into(), notice]), ..options("kill") })
            .unwrap();
    let second = Lab::open(&name("kill")).unwrap();
    let waiting = std::thread::spawn(move || {
        second.exec_with(1, &ExecRequest::new(["tail", "-f", "/dev/null"]), silent())
    });
    until("the command runs", || shell(&lab, 1, "pidof tail").code == 0);
    assert!(matches!(lab.restart(1), Err(Error::Guest(GuestFault::Busy { .. }))));

    lab.kill(1).unwrap();
    assert_eq!(state(&lab, 1), GuestState::Dead);
    assert_eq!(domains(&lab), ["guest2"]);
    assert!(given("guest1"), "the death notice is given before the guest counts as dead");
    assert!(!given("guest2") && !given("dom0"));
    let told = waiting.join().unwrap();
    assert!(matches!(told, Err(Error::Guest(GuestFault::Dead { guest: 1, .. }))), "{told:?}");
    let refused = lab.exec_with(1, &ExecRequest::new(["true"]), silent());
    assert!(matches!(refused, Err(Error::Guest(GuestFault::Dead { guest: 1, .. }))), "{refused:?}");
    // Nothing of it is left in XenStore either.
    let left = shell(&lab, DOM0, "xenstore-ls /local/domain; xenstore-ls /vm").text().to_owned();
    assert!(!left.contains("guest1"), "{left}");

    let boot = shell(&lab, 2, "cat /proc/sys/kernel/random/boot_id").out;
    lab.restart(1).unwrap();
    assert_eq!(domains(&lab), ["guest1", "guest2"]);
    assert_ne!(shell(&lab, 1, "cat /proc/sys/kernel/random/boot_id").out, boot);

    // One that is destroyed from dom0 is as dead.
    assert_eq!(shell(&lab, DOM0, "xl destroy guest2").code, 0);
    until("guest2 is dead", || state(&lab, 2) == GuestState::Dead);
    assert!(given("guest2"));

    // With dom0 all domains end; it boots again, and they on it.
    lab.kill(DOM0).unwrap();
    until("all are dead", || (0..=2).all(|guest| state(&lab, guest) == GuestState::Dead));
    assert!(given("dom0"));
    let guests = lab.list().unwrap().guests;
    let how = &guests.iter().find(|one| one.guest == 1).unwrap().how;
    assert!(how.contains("dom0 has ended (killed)"), "{how}");
    assert!(processes(&format!("vshmem-lab/{}/dom0/", name("kill"))).is_empty());
    let refused = lab.restart(1);
    assert!(matches!(refused, Err(Error::Guest(GuestFault::Dead { guest: 0, .. }))), "{refused:?}");
    lab.restart(DOM0).unwrap();
    assert_eq!(domains(&lab), [""; 0]);
    lab.restart(1).unwrap();
    assert_eq!(shell(&lab, 1, "hostname").text(), "guest1");
    lab.down().unwrap();
    assert_nothing_left("kill");
}

pub fn two_processors() {
    let lab = Lab::up(&UpOptions { cpus: 2, ..options("two") }).unwrap();
    assert!(shell(&lab, DOM0, "xl info").text().lines().any(|line| {
        line.split_once(':')
            .is_some_and(|(key, value)| (key.trim(), value.trim()) == ("nr_cpus", "2"))
    }));
    for guest in [1, 2] {
        assert_eq!(shell(&lab, guest, "hostname").text(), format!("guest{guest}"));
    }
    lab.down().unwrap();
    assert_nothing_left("two");
}
