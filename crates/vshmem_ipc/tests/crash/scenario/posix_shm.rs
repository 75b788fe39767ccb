//! POSIX shared memory objects: named, sized, made longer and shorter, and unlinked.

use vshmem_ipc::{Beginning, PosixOpen, PosixShmStat};
use vshmem_mem::{Map, Protection};

use super::*;

const BOTH: PosixOpen = PosixOpen {
    read: true,
    write: true,
    create: false,
    exclusive: false,
    truncate: false,
    mode: 0o600,
};
const MAKE: PosixOpen = PosixOpen { create: true, ..BOTH };

/// Bytes of the object that all have.
const SHARED_BYTES: u64 = 6000;
/// What stands in every byte of it.
const CONTENT: u8 = 7;

fn name(of: &str) -> Vec<u8> {
    format!("{of}-{}", SHARE.load(Ordering::Relaxed)).into_bytes()
}

fn open(session: &Session, of: &str, how: PosixOpen) -> Result<i32, Errno> {
    session.client().posix_shm_open(&name(of), how, &ROOT, session)
}

fn set_size(session: &Session, id: i32, bytes: u64) {
    session.client().posix_shm_set_size(id, bytes, session).expect("a size");
}

fn unlink(session: &Session, of: &str) {
    session.client().posix_shm_unlink(&name(of), &ROOT).expect("an unlinking");
}

fn close(session: &Session, id: i32) {
    session.client().posix_shm_close(id).expect("a closing");
}

/// Does something with an object's memory.
fn with_memory<T>(session: &Session, id: i32, act: impl FnOnce(&Map, u64) -> T) -> T {
    let place = session.client().posix_shm_attach(id).expect("an attach");
    let bytes = place.bytes as usize;
    let mapping = session.link().map(place.offset, bytes, Protection::READ_WRITE);
    let done = act(&Map::of(mapping.expect("a mapping")), place.bytes);
    session.client().shmdt(id).expect("a detach");
    done
}

fn write(session: &Session, id: i32, bytes: u64) {
    let text = vec![CONTENT; bytes as usize];
    with_memory(session, id, |map, _| map.write(0, &text).expect("inside"));
}

fn read(session: &Session, id: i32) -> Vec<u8> {
    with_memory(session, id, |map, bytes| {
        let mut found = vec![0; bytes as usize];
        map.read(0, &mut found).expect("inside");
        found
    })
}

pub(super) fn prepare_names(session: &Session) {
    prepare(session);
    let id = open(session, "shared", MAKE).expect("an object");
    set_size(session, id, SHARED_BYTES);
    write(session, id, SHARED_BYTES);
    close(session, id);
}

pub(super) fn names(session: Session) {
    let me = session.client();
    let shared = open(&session, "shared", BOTH).expect("the object");
    me.posix_shm_keep(shared).expect("a descriptor");
    me.posix_shm_attach(shared).expect("an attach");
    me.attach_again(shared).expect("an attach");
    me.shmdt(shared).expect("a detach");
    set_size(&session, shared, SHARED_BYTES + 1);
    set_size(&session, shared, SHARED_BYTES);
    close(&session, shared);

    let own = open(&session, "own", MAKE).expect("an object");
    set_size(&session, own, 10_000);
    write(&session, own, 10_000);
    me.posix_shm_attach(own).expect("an attach");
    set_size(&session, own, 5000);
    me.shmdt(own).expect("a detach");
    set_size(&session, own, 9000);
    me.posix_shm_extend(own, 30_000, 5000, &session).expect("a longer object");
    assert_eq!(me.posix_shm_set_size(own, 60_000, &Broke), Err(Errno::NOSPC));
    me.posix_shm_set_mode(own, 0o644, &ROOT).expect("a mode");
    me.posix_shm_set_owner(own, Some(1), Some(1), &ROOT).expect("an owner");
    let again = open(&session, "own", PosixOpen { truncate: true, ..BOTH }).expect("the object");
    set_size(&session, again, 100);
    me.posix_shm_keep_only(&[(own, 1)]).expect("a settling");
    unlink(&session, "own");
    close(&session, own);

    let content = |at: u64| {
        let mapping = session.link().map(at, 4096, Protection::READ_WRITE)?;
        Map::of(mapping).write(0, &[CONTENT; 50]).map_err(|_| Errno::IO)
    };
    let filled = Beginning { bytes: 50, fill: &content };
    let filled = me.posix_shm_open_filled(&name("own"), MAKE, filled, &ROOT, &session);
    close(&session, filled.expect("an object"));
    unlink(&session, "own");

    let short = open(&session, "own", MAKE).expect("an object");
    close(&session, short);
    let other = open(&session, "other", MAKE).expect("an object");
    set_size(&session, other, 5000);
    close(&session, other);
    me.posix_shm_rename(&name("own"), &name("other"), true, &ROOT).expect("a renaming");
    me.posix_shm_rename(&name("other"), &name("own"), false, &ROOT).expect("a renaming");
    unlink(&session, "own");
}

/// As [`survive`], and the same on objects with names.
pub(super) fn survive_names(session: &Session) {
    survive(session);
    let shared = open(session, "shared", BOTH).expect("the object");
    assert!(read(session, shared)[..SHARED_BYTES as usize].iter().all(|byte| *byte == CONTENT));
    close(session, shared);
    let other = open(session, "survivor", MAKE).expect("an object");
    set_size(session, other, 5000);
    set_size(session, other, 50);
    set_size(session, other, 20_000);
    unlink(session, "survivor");
    assert!(read(session, other).iter().all(|byte| *byte == 0));
    close(session, other);
}

/// The shared object is whole, and nobody has any open. Where another ends, zeros follow.
pub(super) fn verify_names(session: &Session, order: &Order) -> Result<(), String> {
    verify(session, order)?;
    let me = session.client();
    for of in ["shared", "own", "other"] {
        let Ok(id) = open(session, of, BOTH) else {
            if of == "shared" {
                return Err("the shared object has gone".to_owned());
            }
            continue;
        };
        let stat = me.posix_shm_stat(id).map_err(|errno| errno.to_string())?;
        let PosixShmStat { size, attached, opened, .. } = stat;
        if (attached, opened) != (0, 1) {
            return Err(format!("{of}: {attached} attaches and {opened} descriptors"));
        }
        let bytes = if stat.capacity > 0 { read(session, id) } else { Vec::new() };
        let (inside, behind) = bytes.split_at(size as usize);
        if of == "shared" && !inside[..SHARED_BYTES as usize].iter().all(|b| *b == CONTENT) {
            return Err(format!("{of}: its content is lost"));
        }
        if behind.iter().any(|byte| *byte != 0) {
            return Err(format!("{of}: something stands behind its {size} bytes"));
        }
        close(session, id);
    }
    Ok(())
}

/// Everything with a name goes.
pub(super) fn unlink_all(session: &Session) {
    let me = session.client();
    for row in me.pool().objects(Kind::Segment).expect("a list") {
        if let Ok(name) = me.posix_shm_name(id(me.id_of(row))) {
            me.posix_shm_unlink(&name, &ROOT).expect("an unlinking");
        }
    }
}
