//! Four guests and the host.

use vshmem_acceptance::suite::say;
use vshmem_acceptance::{Actor, Guests, guests, until};

use crate::exchange::RUN;
use crate::machine;
use crate::turns::{Place, Table, play};

const HAND_OVERS: i64 = 2000;

pub fn turns() {
    crate::close_shared();
    let guests = Guests::boot(machine(), "four", 4, machine().pool("64M"), &guests::programs());
    let mut table = Table::lay(&guests);
    let places = [Place::Here, Place::Guest(1), Place::Guest(2), Place::Guest(3), Place::Guest(4)];
    let ran = play(&guests, table.game, &places, HAND_OVERS, || ());
    let had: Vec<String> = ran.into_iter().map(|ran| ran.ok().trim().to_owned()).collect();
    say(&format!("{HAND_OVERS} hand-overs; the host and four guests had {}", had.join(", ")));
    table.assert_counted(0);
    table.clear();

    // Each sends to the next, round and round: a message by its own type, and the host both first
    // and last.
    let mut members: Vec<Actor> = vec![Actor::on(guests.pool())];
    members.extend((1..=4).map(|guest| Actor::in_guest(&guests, guest, RUN, &[])));
    let queue = members[0].number("msgget 0 01600");
    for lap in 0..3 {
        for at in 0..members.len() {
            let next = (at + 1) % members.len();
            members[next].tell(&format!("msgrcv {queue} {} 0", next + 1));
            until("the next one sleeps", || guests.pool().waiters(queue) == 1);
            let answer = members[at].ask(&format!("msgsnd {queue} {} lap-{lap}", next + 1));
            assert_eq!(answer, "0");
            assert_eq!(members[next].hear(), format!("{} lap-{lap}", next + 1));
        }
    }
    // Of a guest that this machine held up, the lease is renewed late.
    until("all five domains are alive", || {
        guests.pool().rows("domains").iter().filter(|row| row["state"] == "alive").count() == 5
    });
    assert_eq!(members[0].ask(&format!("msgctl {queue} rmid")), "0");
    drop(members);
    guests.pool().assert_clean();
}
