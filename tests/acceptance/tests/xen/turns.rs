//! Programs in several domains on one pool.

use crate::rig::{DOM0, POOL, Xen, until};
use crate::shared;

/// A program on the pool, as a line for a shell.
fn on_pool(words: &str) -> String {
    format!("vshmem run --pool {POOL} {words}")
}

fn hand_over(xen: &Xen, from: u32, to: u32, how: &str) {
    let consumer = xen.start(to, &on_pool(&format!("consumer -m {how} -n 300")));
    xen.shell(from, &on_pool(&format!("producer -m {how} -n 300"))).ok();
    let taken = consumer.end().ok();
    assert!(taken.contains("300 items taken, 0 wrong"), "{taken}");
}

pub fn exchange() {
    let xen = shared();
    hand_over(&xen, 1, 2, "ring");
    hand_over(&xen, 2, 1, "queue");
    hand_over(&xen, DOM0, 1, "ring");
    hand_over(&xen, 2, DOM0, "queue");
}

/// Waits until so many sleep at a semaphore.
fn await_sleepers(xen: &Xen, set: &str, count: u32) {
    until("somebody sleeps", || {
        xen.call(DOM0, &format!("semctl {set} 0 getncnt")) == count.to_string()
    });
}

pub fn rung() {
    let xen = shared();
    let set = xen.call(DOM0, "semget 0 1 01600");
    let sleeper = xen.start(1, &format!("echo 'semop {set} 0,-1' | {}", on_pool("actor")));
    await_sleepers(&xen, &set, 1);
    // Both agents hold event channels: what the sleeper waits for is a ring.
    until("its agent can be rung", || {
        xen.shell(1, "vshmem pool ls").ok().contains("xen (event channels)")
    });
    assert_eq!(xen.call(2, &format!("semop {set} 0,1")), "0");
    assert_eq!(sleeper.end().ok().trim(), "0");
    assert_eq!(xen.call(DOM0, &format!("semctl {set} 0 rmid")), "0");
}

/// On PV the kernel gives a child none of its parent's grants: the library maps them again.
pub fn child() {
    let xen = shared();
    let select = "probe --list | grep -E 'fork|mutual|mremap_move' | head -12 >/tmp/cases";
    let probe = on_pool("probe");
    let run = xen.shell(
        1,
        &format!(
            "{select}; probe --timeout 60 $(cat /tmp/cases) >/tmp/kernel; \
             {probe} --timeout 60 $(cat /tmp/cases) >/tmp/pool; \
             wc -l </tmp/cases; diff /tmp/kernel /tmp/pool"
        ),
    );
    let said = run.ok();
    assert!(said.trim().parse::<u32>().is_ok_and(|cases| cases > 3), "{said}");
}

/// Plays at one semaphore; the line for a shell.
fn play(set: &str, segment: &str, name: u32, hand_overs: u32) -> String {
    on_pool(&format!("turns {set} {segment} {name} {hand_overs}"))
}

pub fn destroyed() {
    let xen = shared();
    let lab = xen.lab();
    let set = xen.call(DOM0, "semget 0 1 01600");
    assert_eq!(xen.call(DOM0, &format!("semctl {set} 0 setval 1")), "0");
    let segment = xen.call(DOM0, "shmget 0 4096 01600");
    let hand_overs = 2000;
    let players: Vec<_> = [DOM0, 1, 2]
        .map(|domain| xen.start(domain, &play(&set, &segment, domain + 1, hand_overs)))
        .into_iter()
        .collect();
    until("both guests play", || {
        let listed = xen.shell(DOM0, &format!("vshmem ls --pool {POOL}")).ok();
        let plays = |guest: &str| {
            listed.lines().any(|row| row.starts_with(guest) && row.contains("active"))
        };
        plays("guest1:") && plays("guest2:")
    });
    lab.kill(2).unwrap();
    until("the server has taken its grants back", || {
        xen.server_has_said("domain guest2: dead") && xen.server_has_said("its grants are revoked")
    });
    let mut players = players.into_iter();
    for _ in 0..2 {
        players.next().unwrap().end().ok();
    }
    assert_eq!(xen.call(DOM0, &format!("semctl {set} 0 getval")), "1");
    lab.restart(2).unwrap();
    until("the next life of the guest is granted the pool", || {
        xen.shell(DOM0, "cat /tmp/serve.log").out.matches("granted, slot").count() >= 1
    });
    until("it finds the pool", || xen.shell(2, "vshmem pool ls").out.contains(POOL));
    let more = hand_overs + 200;
    let players: Vec<_> =
        [1, 2].map(|domain| xen.start(domain, &play(&set, &segment, domain + 1, more))).into();
    for player in players {
        player.end().ok();
    }
    xen.shell(DOM0, &format!("vshmem pool check {POOL}")).ok();
    assert_eq!(xen.call(DOM0, &format!("semctl {set} 0 rmid")), "0");
    assert_eq!(xen.call(DOM0, &format!("shmctl {segment} rmid")), "0");
}
