//! File locks on objects: claims and wants of two places, whose agent the client is itself.

use vshmem_ipc::{
    Claimed, Client, LockClass, LockMode, LockRange, LockRequest, PosixOpen, Recall, Settled,
};
use vshmem_session::Session;

use super::*;

const OBJECT: PosixOpen = PosixOpen {
    read: true,
    write: true,
    create: true,
    exclusive: false,
    truncate: false,
    mode: 0o600,
};

fn object(session: &Session) -> i32 {
    let opened = session.client().posix_shm_open(b"locked", OBJECT, &ROOT, session);
    opened.expect("an object")
}

fn request(id: i32, inode: u64, range: (u64, u64)) -> LockRequest {
    let range = LockRange { start: range.0, last: range.1 };
    let (class, mode) = (LockClass::Record, LockMode::Exclusive);
    LockRequest { id, inode, file: 3, class, mode, range, blocks: false }
}

/// Asks until the claim is had; plays the agent of the place that has it.
fn get(me: &Client, request: &LockRequest) {
    let want = match me.lock_ask(request).expect("a row") {
        Claimed::Alone => return,
        Claimed::Kept(want) => return me.lock_give_back(want).expect("a want given back"),
        Claimed::Asked(want) => want,
    };
    loop {
        give_up(me, |recall| recall.id == request.id);
        match me.lock_settle(request, want).expect("an answer") {
            Settled::Kept => break,
            Settled::Asked => {}
            Settled::Held(..) => panic!("nobody holds it"),
        }
    }
    me.lock_give_back(want).expect("a want given back");
}

/// Plays the agent of a domain.
fn give_up(me: &Client, wanted: impl Fn(&Recall) -> bool) {
    for recall in me.lock_recalls().expect("recalls").iter().filter(|recall| wanted(recall)) {
        me.lock_probe(true).expect("a probe");
        me.lock_give_up(recall).expect("a claim given up");
        me.lock_probe(false).expect("a probe");
    }
}

/// What was prepared was claimed in the survivor's domain, which may be another one: by place 1.
pub fn attend_file_locks(survivor: &Client, _: u32) {
    give_up(survivor, |recall| recall.inode == 1);
}

pub fn prepare_file_locks(session: &Session) {
    prepare(session);
    let id = object(session);
    get(session.client(), &request(id, 1, (0, 9)));
    session.client().posix_shm_close(id).expect("a close");
}

pub fn file_locks(session: Session) {
    let me = session.client();
    let id = object(&session);
    get(me, &request(id, 2, (5, 20)));
    get(me, &request(id, 1, (7, 8)));
    let asked = request(id, 3, (0, 100));
    let Claimed::Asked(want) = me.lock_ask(&asked).expect("a row") else { panic!("claimed") };
    for recall in me.lock_recalls().expect("recalls") {
        me.lock_refuse(&recall, LockMode::Exclusive, recall.range).expect("a refusal");
    }
    let held = me.lock_settle(&asked, want).expect("an answer");
    assert!(matches!(held, Settled::Held(..)), "{held:?}");
    let Claimed::Asked(_) = me.lock_ask(&asked).expect("a row") else { panic!("claimed") };
    while let Some(recall) = me.lock_recalls().expect("recalls").first() {
        me.lock_forget_place(recall).expect("a place forgotten");
    }
    // The want stays, as of a call that was left by longjmp.
    me.lock_ring().expect("a bell");
    me.posix_shm_close(id).expect("a close");
}

/// On an object of its own: what a client that is stopped is about to use stays with it.
pub fn survive_file_locks(session: &Session) {
    survive(session);
    let me = session.client();
    let id = me.posix_shm_open(b"another", OBJECT, &ROOT, session).expect("an object");
    for inode in 1..3 {
        get(me, &request(id, inode, (0, 9)));
    }
    me.posix_shm_close(id).expect("a close");
    me.posix_shm_unlink(b"another", &ROOT).expect("a removal");
}

pub fn verify_file_locks(session: &Session, order: &Order) -> Result<(), String> {
    verify(session, order)?;
    let me = session.client();
    let id = object(session);
    for inode in 1..5 {
        get(me, &request(id, inode, (0, 400)));
    }
    let left = me.lock_recalls().map_err(|error| error.to_string())?;
    me.posix_shm_close(id).map_err(|error| error.to_string())?;
    me.posix_shm_unlink(b"locked", &ROOT).map_err(|error| error.to_string())?;
    if left.is_empty() { Ok(()) } else { Err(format!("wants are left: {left:?}")) }
}
