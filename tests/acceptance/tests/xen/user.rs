//! Without root in a guest, and beside root there.

use vshmem_acceptance::build;

use crate::rig::{DOM0, Xen};
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
    let (third, root) = (format!("{THIRD} {run}"), run.as_str());
    let stranger_runs = stranger(&run);
    // Objects of these programs are their user's alone, so each user has some of its own.
    for (guest, order) in [(1, [root, &stranger_runs, &third]), (2, [&stranger_runs, root, &third])]
    {
        for user in order {
            let consumer = xen.start(guest, &format!("{user} consumer -m queue -n 20"));
            xen.shell(guest, &format!("{user} producer -m queue -n 20")).ok();
            assert!(consumer.end().ok().contains("20 items taken, 0 wrong"), "{guest}: {user}");
        }
    }
    // The device has a mode of its own.
    xen.shell(1, "chmod 600 /dev/xen/gntdev").ok();
    let tried = xen.shell(1, &stranger(&format!("{run} producer -m queue -n 1")));
    tried.refused(1, &["/dev/xen/gntdev", "KERNEL==\"xen/gntdev\""]);
    xen.shell(1, "chmod 666 /dev/xen/gntdev").ok();
    xen.shell(DOM0, &format!("vshmem pool check {POOL}")).ok();
    remove(&xen);
}
