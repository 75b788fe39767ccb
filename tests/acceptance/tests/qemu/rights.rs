//! Users of a guest: one who may use the pool's device, and one who may not.

use vshmem_acceptance::suite::skip;
use vshmem_acceptance::{Actor, build, until};

use vshmem_acceptance::guests::Machine;
use vshmem_lab::Device;

use crate::exchange::RUN;
use crate::{machine, shared};

/// The pool's device in a guest, if it is one that can be opened to ordinary users.
fn device() -> Option<String> {
    match machine() {
        Machine::Qemu { device: Device::Dax, .. } => Some("/dev/dax0.0".into()),
        Machine::Qemu { driver: true, .. } => {
            Some(format!("/dev/vshmem/{}", shared().pool().name()))
        }
        _ => {
            skip("ordinary users of a guest", "without the driver the pool is for root alone");
            None
        }
    }
}

pub fn ordinary() {
    if device().is_none() {
        return;
    }
    let guests = shared();
    let prefix = [&["setpriv"], &build::NOBODY[..], RUN].concat();
    let mut nobody = Actor::in_guest(&guests, 1, &prefix, &[]);
    let mut root = Actor::in_guest(&guests, 2, RUN, &[]);
    let segment = nobody.number("shmget 0x5e10 8192 01666");
    let set = nobody.number("semget 0x5e10 1 01666");
    let queue = nobody.number("msgget 0x5e10 01666");
    let at = nobody.number(&format!("shmat {segment} 0"));
    assert_eq!(nobody.number(&format!("poke {at} 0 42")), 42);
    let there = root.number(&format!("shmat {segment} 0"));
    assert_eq!(root.number(&format!("peek {there} 0")), 42);
    // It sleeps and is woken from the other guest, and the other way round.
    nobody.tell(&format!("semop {set} 0,-1"));
    until("it sleeps", || guests.pool().waiters(set) == 1);
    assert_eq!(root.ask(&format!("semop {set} 0,1")), "0");
    assert_eq!(nobody.hear(), "0");
    root.tell(&format!("msgrcv {queue} 0 0"));
    until("the other one sleeps", || guests.pool().waiters(queue) == 1);
    assert_eq!(nobody.ask(&format!("msgsnd {queue} 3 text")), "0");
    assert_eq!(root.hear(), "3 text");
    assert_eq!(root.ask(&format!("shmdt {there}")), "0");
    // Its objects are its own: a third one may not remove them.
    let third = ["setpriv", "--reuid", "61234", "--regid", "61234", "--clear-groups"];
    let mut third = Actor::in_guest(&guests, 2, &[&third, RUN].concat(), &[]);
    assert_eq!(third.ask(&format!("shmctl {segment} rmid")), "-1 EPERM");
    for order in [
        format!("shmdt {at}"),
        format!("shmctl {segment} rmid"),
        format!("semctl {set} 0 rmid"),
        format!("msgctl {queue} rmid"),
    ] {
        assert_eq!(nobody.ask(&order), "0");
    }
    for verb in [&["vshmem", "ls"][..], &["vshmem", "pool", "ls"], &["vshmem", "doctor"]] {
        let ran = guests.run(1, &[&["setpriv"], &build::NOBODY[..], verb].concat());
        assert!(verb[1] == "doctor" || ran.code == 0, "{ran:?}");
    }
    drop((nobody, root, third));
    guests.pool().assert_clean();
}

pub fn closed() {
    let Some(device) = device() else {
        return;
    };
    let guests = shared();
    guests.run(1, &["chmod", "0600", &device]).ok();
    let nobody =
        |words: &[&str]| guests.run(1, &[&["setpriv"], &build::NOBODY[..], words].concat());
    nobody(&["vshmem", "run", "true"]).refused(1, &["ermission denied", &device]);
    // Past the command, by hand: the errno at the call.
    let line = format!(
        "printf 'shmget 0 4096 0600\\nsemget 0 1 0600\\n' | env LD_PRELOAD=/run/vshmem/bin/libvshmem_preload.so \
         VSHMEM_POOL={device} VSHMEM_LOG=info /run/vshmem/bin/actor"
    );
    let ran = nobody(&["sh", "-c", &line]);
    assert_eq!(ran.out, "-1 ENOSYS\n".repeat(2), "{ran:?}");
    assert!(ran.err.contains(&device) && ran.err.contains("ermission denied"), "{ran:?}");
    assert_ne!(nobody(&["sh", "-c", &format!(": <{device}")]).code, 0);
    guests.run(1, &["chmod", "0666", &device]).ok();
    nobody(&["vshmem", "run", "true"]).ok();
    guests.pool().assert_clean();
}
