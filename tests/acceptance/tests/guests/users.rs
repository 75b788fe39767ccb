//! Several users of one guest on one pool, in any order.

use vshmem_acceptance::guests::Machine;
use vshmem_acceptance::suite::say;
use vshmem_acceptance::{Actor, Guests, until};
use vshmem_lab::Device;

use crate::exchange::RUN;
use crate::machine;

const ROOT: &[&str] = &[];
const ONE: &[&str] = &["setpriv", "--reuid", "6001", "--regid", "6001", "--clear-groups"];
const TWO: &[&str] = &["setpriv", "--reuid", "6002", "--regid", "6002", "--clear-groups"];

/// Guests in which root comes first, in between, and last.
const ORDERS: [&[&[&str]]; 3] = [&[ROOT, ONE], &[ONE, ROOT, TWO], &[TWO, ONE, ROOT]];

pub fn all() {
    let mut machines = vec![machine()];
    let bare = Machine::Qemu { device: Device::Plain, driver: false };
    if matches!(machine(), Machine::Qemu { .. }) && machine() != bare {
        machines.push(bare);
    }
    for machine in machines {
        let guests = Guests::boot(machine, "users", ORDERS.len() as u32, machine.pool("64M"), &[]);
        for (guest, order) in (1..).zip(ORDERS) {
            open_to_all(&guests, guest);
            // One after the other, in this order.
            let join = |user: &&[&str]| {
                let mut user = Actor::in_guest(&guests, guest, &[user, RUN].concat(), &[]);
                assert!(user.pid() > 0);
                user
            };
            let mut users: Vec<Actor> = order.iter().map(join).collect();
            everybody_wakes_everybody(&guests, &mut users);
        }
        a_user_who_shortens_its_file_harms_nobody_else(&guests);
        guests.pool().assert_clean();
        say(&format!("{machine}: {} guests of two and three users", ORDERS.len()));
    }
}

/// Lets all users of a guest use its pool.
fn open_to_all(guests: &Guests, guest: u32) {
    let open = "for place in /dev/mmapper /dev/vshmem/* /sys/bus/pci/devices/*/resource2; do \
                [ ! -e $place ] || chmod 0666 $place; done";
    guests.shell(guest, open).ok();
}

pub fn everybody_wakes_everybody(guests: &Guests, users: &mut [Actor]) {
    let set = users[0].number("semget 0 1 0666");
    let queue = users[0].number("msgget 0 0666");
    for waker in 0..users.len() {
        for waiter in (0..users.len()).filter(|&waiter| waiter != waker) {
            users[waiter].tell(&format!("semop {set} 0,-1"));
            until("it sleeps", || guests.pool().waiters(set) == 1);
            assert_eq!(users[waker].ask(&format!("semop {set} 0,1")), "0");
            assert_eq!(users[waiter].hear(), "0", "{waker} wakes {waiter}");
            users[waiter].tell(&format!("msgrcv {queue} 0 0"));
            until("it waits", || guests.pool().waiters(queue) == 1);
            assert_eq!(users[waker].ask(&format!("msgsnd {queue} 3 text")), "0");
            assert_eq!(users[waiter].hear(), "3 text");
        }
    }
    assert_eq!(users[0].ask(&format!("semctl {set} 0 rmid")), "0");
    assert_eq!(users[0].ask(&format!("msgctl {queue} rmid")), "0");
}

/// Its own programs may end by it; root's, the other users' and the agent go on.
fn a_user_who_shortens_its_file_harms_nobody_else(guests: &Guests) {
    let guest = ORDERS.len() as u32;
    let mut root = Actor::in_guest(guests, guest, RUN, &[]);
    let mut one = Actor::in_guest(guests, guest, &[ONE, RUN].concat(), &[]);
    let mut two = Actor::in_guest(guests, guest, &[TWO, RUN].concat(), &[]);
    let set = root.number("semget 0 2 0666");
    one.tell(&format!("semop {set} 0,-1"));
    root.tell(&format!("semop {set} 1,-1"));
    until("they sleep", || guests.pool().waiters(set) == 2);
    let shorten = "for file in /dev/shm/vshmem-wait.*; do true >$file; done 2>/dev/null; true";
    guests.run(guest, &[ONE, &["sh", "-c", shorten]].concat()).ok();
    assert_eq!(two.ask(&format!("semop {set} 0,1")), "0", "it wakes whom it cannot reach");
    assert_eq!(two.ask(&format!("semop {set} 1,1")), "0");
    assert_eq!(root.hear(), "0");
    for turn in 0..20 {
        assert_eq!(root.ask(&format!("semop {set} 0,1")), "0", "turn {turn}");
    }
    assert_eq!(root.ask(&format!("semctl {set} 0 rmid")), "0");
}

/// As no pool is named: the guest's only device is taken, not a private pool that its
/// programs would share with no other domain.
pub fn only_pool() {
    let guests = crate::shared();
    let unnamed = "unset VSHMEM_POOL; mv /run/vshmem/pool /run/vshmem/pool.away; ";
    let back = "; code=$?; mv /run/vshmem/pool.away /run/vshmem/pool; exit $code";
    let ran =
        guests.shell(1, &format!("{unnamed} vshmem run sh -c 'echo $VSHMEM_POOL_NAME'{back}"));
    assert_eq!(ran.ok().trim(), guests.pool().name());
    assert_eq!(guests.shell(1, &format!("{unnamed} vshmem ls{back}")).code, 0);
}
