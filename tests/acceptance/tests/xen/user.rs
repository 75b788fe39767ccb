//! Without root in a guest, and beside root there.

use vshmem_acceptance::build;

use crate::rig::{DOM0, Xen, until};
use crate::shared;

const POOL: &str = "people";
/// A third user.
const THIRD: &str = "setpriv --reuid 6001 --regid 6001 --clear-groups";

/// A command on the pool by a user that has no rights, in a guest.
fn stranger(words: &str) -> String {
    format!("setpriv {} {words}", build::NOBODY.join(" "))
}

fn make(xen: &Xen, mode: &str) {
    xen.shell(DOM0, &format!("vshmem pool create {POOL} --xen --size 4M --mode {mode}")).ok();
    for guest in [1, 2] {
        // Root's command makes it known to others.
        assert!(xen.shell(guest, "vshmem pool ls").ok().contains(POOL));
    }
}

fn remove(xen: &Xen) {
    xen.shell(DOM0, &format!("vshmem pool rm --force {POOL}")).ok();
}

pub fn all() {
    let xen = shared();
    let run = format!("vshmem run --pool {POOL}");
    make(&xen, "0660");
    let tried = xen.shell(1, &stranger(&format!("{run} producer -m queue -n 1")));
    tried.refused(1, &["permission denied", "--mode"]);
    remove(&xen);

    make(&xen, "0666");
    let consumer = xen.start(1, &format!("{run} consumer -m queue -n 20"));
    xen.shell(1, &format!("{run} producer -m queue -n 20")).ok();
    assert!(consumer.end().ok().contains("20 items taken, 0 wrong"));
    let consumer = xen.start(2, &stranger(&format!("{run} consumer -m queue -n 100")));
    xen.shell(1, &stranger(&format!("{run} producer -m queue -n 100"))).ok();
    assert!(consumer.end().ok().contains("100 items taken, 0 wrong"));
    // In guest 1 root has come first, in guest 2 the stranger.
    let (stranger_runs, third) = (stranger(&run), format!("{THIRD} {run}"));
    let orders = [
        (1, [run.as_str(), &stranger_runs, &third]),
        // Root comes last.
        (2, [&stranger_runs, &third, &run]),
    ];
    for (guest, order) in orders {
        // Objects of these programs are their user's alone, so each user has some of its own.
        for user in order {
            let consumer = xen.start(guest, &format!("{user} consumer -m queue -n 20"));
            xen.shell(guest, &format!("{user} producer -m queue -n 20")).ok();
            assert!(consumer.end().ok().contains("20 items taken, 0 wrong"), "{guest}: {user}");
        }
        everybody_wakes_everybody(&xen, guest, &order);
    }
    // The device has a mode of its own.
    xen.shell(1, "chmod 600 /dev/xen/gntdev").ok();
    let tried = xen.shell(1, &stranger(&format!("{run} producer -m queue -n 1")));
    tried.refused(1, &["/dev/xen/gntdev", "KERNEL==\"xen/gntdev\""]);
    xen.shell(1, "chmod 666 /dev/xen/gntdev").ok();
    xen.shell(DOM0, &format!("vshmem pool check {POOL}")).ok();
    remove(&xen);
}

/// Each user of a guest sleeps, all at the same time, until another one wakes it.
fn everybody_wakes_everybody(xen: &Xen, guest: u32, users: &[&str]) {
    let call =
        |user: &str, order: &str| xen.start(guest, &format!("echo '{order}' | {user} actor"));
    let number = |user: &str, order: &str| call(user, order).end().ok().trim().to_owned();
    let set = number(users[0], &format!("semget 0 {} 01666", users.len()));
    for step in 1..users.len() {
        let sleep = |(nth, user): (usize, &&str)| call(user, &format!("semop {set} {nth},-1"));
        let sleepers: Vec<_> = users.iter().enumerate().map(sleep).collect();
        for nth in 0..users.len() {
            let waits = format!("semctl {set} {nth} getncnt");
            until("it sleeps", || number(users[0], &waits) == "1");
        }
        for nth in 0..users.len() {
            let waker = users[(nth + step) % users.len()];
            assert_eq!(number(waker, &format!("semop {set} {nth},1")), "0", "{guest}: {waker}");
        }
        for (user, sleeper) in users.iter().zip(sleepers) {
            assert_eq!(sleeper.end().ok().trim(), "0", "{guest}: {user}");
        }
    }
    assert_eq!(number(users[0], &format!("semctl {set} 0 rmid")), "0");
}
