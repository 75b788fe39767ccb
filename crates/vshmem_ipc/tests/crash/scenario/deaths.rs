//! Who reaps others, and is killed at it.

use super::*;

pub(super) fn reaps(session: Session) {
    let me = session.client();
    for row in me.pool().clients().expect("a list") {
        if row.domain == me.domain() && vshmem_session::is_gone(row.pid, row.start) {
            me.reap(row.id).expect("reaping");
        }
    }
}

pub(super) fn repairs(session: Session) {
    reaps_only_marks(&session);
    session.client().repair().expect("a repair");
}

/// Marks the dead without reaping them: what an agent leaves that is killed at once.
pub(super) fn reaps_only_marks(session: &Session) {
    let me = session.client();
    let _ = me.op(tokens(me), &[up(1), down(1)]);
}

/// Name of the domain of which no process is left.
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

/// A domain of which no process is left.
pub(super) fn prepare_domain(session: &Session) {
    prepare(session);
    let pool = session.client().pool();
    for pid in [70, 71] {
        let process = Process { pid, start: 3, uid: 0 };
        let this_client =
            Client::join(pool.clone(), &other_domain(GONE), process, None, WakeScope::Kernel)
                .expect("a place");
        this_client.shmat(segment(session), true, false, &ROOT).expect("an attach");
        this_client
            .op(tokens(&this_client), &[undone(down(0)), undone(up(1))])
            .expect("an operation");
        this_client.send(queue(&this_client), 1, b"from afar").expect("a message sent");
    }
}

pub(super) fn reaps_domain(session: Session) {
    let me = session.client();
    let rows = me.pool().domains().expect("a list");
    let gone = rows.iter().find(|row| row.name == GONE).expect("the other domain");
    me.evict_domain(gone.index).expect("an eviction");
    me.reap_domain(gone.index).expect("reaping");
}
