//! Programs in several domains on one pool.

use vshmem_acceptance::suite::say;
use vshmem_lab::GuestState;

use crate::rig::{Beside, DOM0, LATE, POOL, Xen, until};
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
fn await_waiters(xen: &Xen, set: &str, count: u32) {
    until("a waiter sleeps", || {
        xen.call(DOM0, &format!("semctl {set} 0 getncnt")) == count.to_string()
    });
}

pub fn woken() {
    let xen = shared();
    let set = xen.call(DOM0, "semget 0 1 01600");
    let waiter = xen.start(1, &format!("echo 'semop {set} 0,-1' | {}", on_pool("actor")));
    await_waiters(&xen, &set, 1);
    // Both agents hold event channels: what the waiter waits for is a notification.
    until("its agent can be notified", || {
        xen.shell(1, "vshmem pool ls").ok().contains("xen (event channels)")
    });
    assert_eq!(xen.call(2, &format!("semop {set} 0,1")), "0");
    assert_eq!(waiter.end().ok().trim(), "0");
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

/// Hand-overs at one semaphore.
struct Game<'a> {
    xen: &'a Xen,
    set: String,
    segment: String,
}

impl Game<'_> {
    fn start(&self, domain: u32, hand_overs: u32) -> Beside {
        let Self { xen, set, segment } = self;
        let player = xen
            .start(domain, &on_pool(&format!("turns {set} {segment} {} {hand_overs}", domain + 1)));
        if hand_overs == 0 {
            until("it plays", || self.plays(domain));
        }
        player
    }

    /// Whether a process of that domain that is no agent is at work on the pool.
    fn plays(&self, domain: u32) -> bool {
        let listed = self.xen.shell(DOM0, &format!("vshmem ls --pool {POOL}")).ok();
        let name = if domain == DOM0 { "dom0:".to_owned() } else { format!("guest{domain}:") };
        // State, attaches.
        let at_it = |row: &str| {
            let cells: Vec<&str> = row.split_whitespace().collect();
            row.starts_with(&name) && cells[cells.len() - 3..][..2] == ["active", "1"]
        };
        listed.lines().any(at_it)
    }
}

/// What the grant table says, for those who read the test's output.
fn show_grants(xen: &Xen, when: &str) {
    let shown = xen.shell(DOM0, &format!("vshmem pool show {POOL}")).ok();
    say(&format!("{when}:"));
    for line in shown.lines().skip_while(|line| !line.contains("Grants")).take(6) {
        say(line);
    }
}

/// A guest is created, and is granted the pool.
fn create_while_they_play(xen: &Xen) {
    assert_eq!(xen.row_of("guest3"), None);
    xen.create(LATE);
    until("it is granted the pool", || {
        xen.shell(DOM0, "cat /tmp/serve.log")
            .out
            .lines()
            .any(|line| line.contains("guest guest3") && line.contains("granted, slot"))
    });
    until("it finds the pool", || xen.shell(LATE, "vshmem pool ls").out.contains(POOL));
}

/// What the last player printed: turns, those with a name, hand-overs. A domain that was destroyed
/// between two counts has left one turn without a name.
fn assert_turns_kept(printed: &str) {
    let last = printed.lines().last().unwrap_or_default();
    say(&format!("at the end: {last}"));
    let numbers: Vec<u64> = last.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [all, named, hand_overs] = numbers[..] else { panic!("{printed}") };
    assert!(all - named <= 1 && hand_overs > 4, "{printed}");
}

pub fn destroyed() {
    let xen = shared();
    let set = xen.call(DOM0, "semget 0 1 01600");
    assert_eq!(xen.call(DOM0, &format!("semctl {set} 0 setval 1")), "0");
    let segment = xen.call(DOM0, "shmget 0 4096 01600");
    let game = Game { xen: &xen, set, segment };
    let mut players: Vec<Beside> = [DOM0, 1, 2].map(|domain| game.start(domain, 0)).into();

    create_while_they_play(&xen);
    players.push(game.start(LATE, 0));
    let [slot, granted, mapped] = xen.row_of("guest2").expect("a row");
    assert!(granted > 0 && mapped > 0 && mapped <= granted, "{granted} granted, {mapped} mapped");
    assert!(xen.row_of("guest3").is_some_and(|[_, granted, mapped]| granted > 0 && mapped > 0));
    show_grants(&xen, "four domains play");

    // One is destroyed among them.
    assert_eq!(xen.shell(DOM0, "xl destroy guest2").code, 0);
    until("the server has taken its grants back", || {
        xen.server_has_said("domain guest2: dead") && xen.server_has_said("its grants are revoked")
    });
    assert_eq!(xen.row_of("guest2"), None);
    until("nothing of its row is granted or mapped", || {
        xen.rows().iter().any(|(_, row)| *row == [slot, 0, 0])
    });
    show_grants(&xen, "one of them was destroyed");
    for domain in [DOM0, 1, LATE] {
        assert!(game.plays(domain), "domain {domain} has stopped");
    }

    // It comes again, with a number of its own.
    until("the lab knows", || {
        let guests = xen.lab().list().unwrap().guests;
        guests.iter().any(|one| one.guest == 2 && one.state == GuestState::Dead)
    });
    xen.create(2);
    until("it finds the pool", || xen.shell(2, "vshmem pool ls").out.contains(POOL));
    players.push(game.start(2, 0));

    assert_turns_kept(&game.start(1, 1).end().ok());
    for (nth, player) in players.into_iter().enumerate() {
        let ran = player.end();
        // The third one was guest2's.
        assert_eq!(ran.code == 0, nth != 2, "player {nth}: {ran:?}");
    }
    let Game { set, segment, .. } = game;
    assert_eq!(xen.call(DOM0, &format!("semctl {set} 0 getval")), "1");
    xen.shell(DOM0, &format!("vshmem pool check {POOL}")).ok();
    assert_eq!(xen.call(DOM0, &format!("semctl {set} 0 rmid")), "0");
    assert_eq!(xen.call(DOM0, &format!("shmctl {segment} rmid")), "0");
    xen.lab().kill(LATE).unwrap();
    until("its grants are revoked", || xen.row_of("guest3").is_none());
}
