//! What is done to semaphores by one who need not sleep.

use super::*;

pub(super) fn semaphores(session: Session) {
    let me = session.client();
    let set = tokens(me);
    // Without the lock: over others than the one before, and over the same.
    for (from, to) in [(0, 1), (1, 2), (2, 0), (0, 2), (0, 1)] {
        me.op(set, &[down(from), up(to)]).expect("an array");
    }
    me.op(set, &[down(0), up(0), down(0), up(1)]).expect("an array");
    me.op(set, &[undone(by(0, -2)), undone(by(2, 2))]).expect("an array");
    me.op(set, &[undone(down(1)), up(2), down(2), undone(up(0))]).expect("an array");
    for one in [undone(down(0)), undone(down(0)), undone(up(1)), undone(down(1))] {
        me.op(set, &[one]).expect("an operation without the lock");
    }
    // Nothing takes these back.
    for one in [up(59), down(59)] {
        me.op(wide(me), &[one]).expect("an operation without the lock");
    }
    assert_eq!(me.op(set, &[now(by(0, -50))]), Err(Errno::AGAIN));
    assert_eq!(me.op(set, &[up(0), now(by(1, -50))]), Err(Errno::AGAIN));
    let own = id(me.semget(key(OWN), 5, CREATE | 0o600, &ROOT));
    me.put(own, 1, 7);
    me.set_semaphores(own, &|n| n as u16, &ROOT).expect("SETALL");
    me.op(own, &[undone(up(4))]).expect("an operation");
    me.semaphore_values(own, &ROOT, |_, _| ()).expect("GETALL");
    me.set_change(own, 1, 1, 0o666, &ROOT).expect("IPC_SET");
    let waits = Some(Duration::from_millis(1));
    assert_eq!(me.semop(own, &[down(0)], waits, &ROOT), Err(Errno::AGAIN));
    assert_eq!(me.semop(own, &[undone(by(1, -20))], waits, &ROOT), Err(Errno::AGAIN));
    me.set_remove(own, &ROOT).expect("a removal");
    let call: Vec<_> = (0..60).map(|n| undone(up(n))).collect();
    me.op(wide(me), &call).expect("a long array");
    me.apply_adjustments().expect("an undo");
}

pub(super) fn large_sets(session: Session) {
    let me = session.client();
    let own = id(me.semget(key(OWN), 9000, CREATE | 0o600, &ROOT));
    let call: Vec<_> = (0..400).map(|n| undone(by(n * 20, 2))).collect();
    me.op(own, &call).expect("a long array");
    me.set_semaphores(own, &|_| 3, &ROOT).expect("SETALL");
    me.set_remove(own, &ROOT).expect("a removal");
}
