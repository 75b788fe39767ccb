//! A domain that leaves the pool and comes back: who carries that out is killed at it, and another
//! one does it meanwhile.

use std::sync::Arc;

use vshmem_ipc::{Entry, JoinError, WaitPolicy};
use vshmem_wire::DomainState;

use super::*;
use crate::run::paused;

/// No process has these pids.
const OTHERS: [u32; 2] = [1 << 29, (1 << 29) + 1];

/// A client of the domain that leaves, with tables of its own: they know whose they are.
fn member(session: &Session, pid: u32, entry: Entry) -> Result<Client, JoinError> {
    let pool = Arc::new(vshmem_session::open_pool(session.link()).expect("the pool"));
    let process = Process { pid, start: 3, uid: 0 };
    let waits = (WakeScope::Kernel, WaitPolicy::default());
    let over = (&(|_, _| false) as _, entry);
    Client::join_over_dead(pool, &paused(), process, None, waits, over)
}

/// Others of the domain hold a bit of everything.
pub(super) fn prepare_departure(session: &Session) {
    prepare(session);
    for pid in OTHERS {
        let other = member(session, pid, Entry::User).expect("a place");
        other.shmat(segment(session), true, false, &ROOT).expect("an attach");
        other.op(tokens(&other), &[undone(down(0)), undone(up(1))]).expect("an operation");
        other.send(queue(&other), 1, b"before").expect("a message sent");
        other.ask_for_notice().expect("a wish");
    }
}

/// What `vshmem pool leave` does, and `vshmem pool join`.
fn carry_out(leaver: &Client) -> Result<(), Errno> {
    let rows = leaver.pool().domains()?;
    let own = rows.iter().find(|row| row.index == leaver.domain()).expect("its domain");
    leaver.begin_leave(own.index, own.epoch, false)?;
    leaver.to_be_told()?;
    leaver.depart()?;
    for client in leaver.pool().local_clients(own.index)? {
        if vshmem_session::is_gone(client.pid, 0) {
            leaver.reap_local(&client)?;
        }
    }
    leaver.come_back().map(|_| ())
}

pub(super) fn departs(session: Session) {
    // Refused when another one has gone ahead, or the domain is evicted.
    let leaver = match member(&session, std::process::id(), Entry::Leaver) {
        Err(JoinError::Evicted) => return,
        joined => joined.expect("a place"),
    };
    let done = carry_out(&leaver).and_then(|()| leaver.leave());
    assert!(matches!(done, Ok(()) | Err(Errno::IO | Errno::IDRM)), "{done:?}");
}

/// Goes on where the child was stopped, unless the domain is evicted meanwhile.
pub(super) fn survive_departure(session: &Session) {
    survive(session);
    let domains = session.client().pool().domains().expect("a list");
    if domains.iter().any(|row| row.state == DomainState::Evicted) {
        return;
    }
    let leaver = member(session, std::process::id(), Entry::Leaver).expect("a place");
    carry_out(&leaver).expect("a departure");
    let left = leaver.pool().local_clients(leaver.domain()).expect("a list");
    assert!(left.iter().all(|client| !OTHERS.contains(&client.pid)), "{left:?}");
    leaver.leave().expect("a leave");
}
