//! Who reaps others, and is killed at it.

use super::*;

pub(super) fn buries(session: Session) {
    let me = session.member();
    for row in me.pool().clients().expect("a list") {
        if row.domain == me.domain() && vshmem_session::is_gone(row.pid, row.start) {
            me.bury(row.name).expect("a burial");
        }
    }
}

pub(super) fn repairs(session: Session) {
    buries_only_marks(&session);
    session.member().repair().expect("a repair");
}

/// Marks the dead without burying them: what an agent leaves that is killed at once.
pub(super) fn buries_only_marks(session: &Session) {
    let me = session.member();
    let _ = me.op(tokens(me), &[up(1), down(1)]);
}

/// Name of the domain of which nobody is left.
pub(super) const GONE: &str = "gone";

pub(super) fn other_domain(name: &str) -> DomainIdentity {
    DomainIdentity {
        boot_id: [9; 16],
        pid_namespace: 4,
        born: 0,
        name: name.to_owned(),
        named: false,
    }
}

/// A domain of which nobody is left.
pub(super) fn prepare_domain(session: &Session) {
    prepare(session);
    let pool = session.member().pool();
    for pid in [70, 71] {
        let process = Process { pid, start: 3, uid: 0 };
        let member = Member::join(pool.clone(), &other_domain(GONE), process, None, Reach::Kernel)
            .expect("a place");
        member.shmat(segment(session), true, false, &ROOT).expect("an attach");
        member.op(tokens(&member), &[undone(down(0)), undone(up(1))]).expect("an operation");
        member.send(queue(&member), 1, b"from afar").expect("a message sent");
    }
}

pub(super) fn buries_domain(session: Session) {
    let me = session.member();
    let rows = me.pool().domains().expect("a list");
    let gone = rows.iter().find(|row| row.name == GONE).expect("the other domain");
    me.evict_domain(gone.index).expect("an eviction");
    me.bury_domain(gone.index).expect("a burial");
}
