//! Guests whose agents notify each other by datagrams: waiters rest, are woken, and come to no harm
//! by what is forged or lost.

use std::time::Duration;

use serde_json::Value;
use vshmem_acceptance::suite::{Test, say, skip};
use vshmem_acceptance::{Actor, Guests, Pool, build, until};

use crate::exchange::RUN;
use crate::idle::{Spot, asleep};

pub const TESTS: &[Test] =
    &[("guests_that_notify_each_other_by_datagrams_rest_and_wake", guests_that_notify)];

/// As many as an agent reads in a second. Whether the guest's network carries them so fast is up to
/// the machine.
const FLOOD: &str = "5000";

/// Three guests: programs run in the first two; from the third, as a peer without an agent, comes
/// what is forged.
struct Setup {
    guests: Guests,
    waiter: Actor,
    pid: i64,
    waker: Actor,
    set: i64,
}

impl Setup {
    fn new() -> Self {
        let programs = build::programs("tests/acceptance/programs");
        let stage = ["datagrams", "wake"].map(|name| programs.join(name));
        let pool = Pool::new("32M", &[]);
        let guests = Guests::boot_notifying(crate::machine(), "datagrams", 3, pool, &stage);
        let mut waiter = Actor::in_guest(&guests, 2, RUN, &[]);
        let waker = Actor::in_guest(&guests, 1, RUN, &[]);
        let (pid, set) = asleep(&mut waiter, guests.pool());
        Self { guests, waiter, pid, waker, set }
    }

    /// Whom the agent of a guest says that it hears, as the pool shows it.
    fn hears(&self, guest: &str) -> Vec<String> {
        let line = self.guests.pool().show();
        let domains = line["datagrams"]["domains"].as_array().cloned().unwrap_or_default();
        let row = domains.into_iter().find(|row| row["domain"] == guest).unwrap_or_default();
        let names = row["hears"].as_array().cloned().unwrap_or_default();
        names.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn until_they_hear_each_other(&self) {
        until("the agents hear each other", || {
            self.hears("guest1") == ["guest2"] && self.hears("guest2") == ["guest1"]
        });
    }

    /// One of the numbers that the agent of a guest tells.
    fn count(&self, guest: u32, what: &str) -> u64 {
        let out = self.guests.shell(guest, "cat /dev/shm/vshmem-notify.*").ok();
        let part = out.split([';', ',']).find(|part| part.contains(what));
        part.and_then(|part| part.split_whitespace().next()?.parse().ok())
            .unwrap_or_else(|| panic!("{what}: {out}"))
    }

    fn spot(&self) -> Spot<'_> {
        Spot::Guest(&self.guests, 2, self.pid)
    }

    fn agent(&self, guest: &str) -> i64 {
        self.guests.pool().domain(guest).unwrap_or_default()["agent"].as_i64().unwrap_or(0)
    }

    /// Wakes the waiter, and has it sleep again.
    fn wake(&mut self) {
        let set = self.set;
        assert_eq!(self.waker.ask(&format!("semop {set} 0,1")), "0");
        assert_eq!(self.waiter.hear(), "0");
        self.waiter.tell(&format!("semop {set} 0,-1"));
        until("it sleeps", || self.guests.pool().waiters(set) == 1);
    }

    /// As the limit is on what comes, this guest has to send what it has at once.
    fn flood(&self, own_port: &str) {
        let words = ["datagrams", "10.77.0.2", "7117", own_port, FLOOD];
        assert_eq!(self.guests.run(3, &words).ok().trim(), FLOOD);
    }

    fn rests_and_is_notified(&mut self) {
        self.until_they_hear_each_other();
        self.spot().report_rest("link uml, datagrams, the other guest being a member");
        let agent = Spot::Guest(&self.guests, 2, self.agent("guest2"));
        agent.report("link uml, datagrams, the guest's agent");
        let before = self.count(2, "received");
        for _ in 0..10 {
            self.wake();
        }
        until("ten datagrams have come", || self.count(2, "received") >= before + 10);
    }

    /// What comes from an unknown address, and what comes from a peer's, and more of both than the
    /// limit lets in.
    fn is_flooded(&mut self) {
        let foreign = self.count(2, "dropped");
        self.flood("0");
        until("others are counted", || self.count(2, "dropped") > foreign);
        self.wake();
        let received = self.count(2, "received");
        self.flood("7117");
        until("a peer is counted", || self.count(2, "received") > received);
        self.wake();
        say(&format!("{} floods read late", self.count(2, "floods")));
        self.until_they_hear_each_other();
    }

    /// A program of the host, which has no configuration, can wake waiters and notifies no domain.
    fn meets_somebody_without_configuration(&mut self) {
        let mut here = Actor::on(self.guests.pool());
        here.pid();
        until("it looks for itself", || {
            let before = self.spot().switches();
            std::thread::sleep(Duration::from_millis(300));
            self.spot().switches() > before + 10
        });
        let set = self.set;
        assert_eq!(here.ask(&format!("semop {set} 0,1")), "0");
        assert_eq!(self.waiter.hear(), "0");
        self.waiter.tell(&format!("semop {set} 0,-1"));
        until("it sleeps", || self.guests.pool().waiters(set) == 1);
        here.end();
        self.spot().report_rest("link uml, datagrams, the host's program having ended");
    }

    /// Nothing that guest 1 sends reaches guest 2.
    fn loses_datagrams(&mut self) {
        self.guests.shell(1, "ip route add blackhole 10.77.0.2/32").ok();
        // As long as it still counts as heard, only the look once a second wakes this one.
        let relied = self.hears("guest2") == ["guest1"];
        self.wake();
        if !relied {
            say("the machine was slow: guest 2 no longer relied on what was lost");
        }
        until("guest 2 no longer relies on it", || self.hears("guest2").is_empty());
        self.wake();
        self.guests.shell(1, "ip route del blackhole 10.77.0.2/32").ok();
        self.until_they_hear_each_other();
        self.wake();
    }

    fn has_its_agent_killed(&mut self, guest: u32) {
        let name = format!("guest{guest}");
        let agent = self.agent(&name);
        self.guests.shell(guest, &format!("kill -9 {agent}")).ok();
        self.wake();
        // A process that sleeps there, or makes a call, starts the next one.
        until("there is another agent", || {
            self.waker.ask(&format!("semctl {} 0 getval", self.set));
            let now = self.agent(&name);
            now != agent && now != 0
        });
        self.until_they_hear_each_other();
        self.wake();
        self.spot().report_rest("link uml, datagrams, an agent having been replaced");
    }
}

fn guests_that_notify() {
    if !std::path::Path::new("/dev/vhost-vsock").exists() {
        skip(
            "datagrams over vsock",
            "there is no /dev/vhost-vsock, and Linux has none over virtio",
        );
    }
    let mut setup = Setup::new();
    setup.rests_and_is_notified();
    setup.is_flooded();
    setup.meets_somebody_without_configuration();
    setup.loses_datagrams();
    setup.has_its_agent_killed(2);
    setup.has_its_agent_killed(1);
    let Setup { guests, mut waker, mut waiter, set, .. } = setup;
    assert_eq!(waker.ask(&format!("semctl {set} 0 rmid")), "0");
    assert_eq!(waiter.hear(), "-1 EIDRM");
    waiter.end();
    waker.end();
    let shown = guests.run(1, &["vshmem", "doctor"]).out;
    let line = shown.lines().find(|line| line.contains("datagrams")).unwrap_or_default();
    say(line);
    assert!(line.starts_with("ok") && line.contains("10.77.0.1:7117"), "{shown}");
    guests.pool().assert_clean();
}
