//! What all processes work on, and shorter calls.

use vshmem_ipc::{Client, Errno, Kind, Operation, Receive, Superuser};
use vshmem_session::Session;

/// Tokens of each semaphore that are held with SEM_UNDO only.
pub const TOKENS: u32 = 3;
pub const TOKEN_SEMAPHORES: u16 = 4;
/// Tokens of each semaphore that atomic arrays move about.
pub const MOVED: u32 = 6;
pub const MOVED_SEMAPHORES: u16 = 6;
/// What the semaphore of single operations holds at first.
pub const FAST: u32 = 20;
/// Keys of objects that come and go.
pub const FIRST_KEY: i32 = 500;
pub const KEYS: i32 = 3;
/// At the start of the shared segment; then who is inside, and how many have been.
pub const MAGIC: u64 = 0x50a4;

/// Ids, in the order of `struct objects` in programs/storm.h.
#[derive(Debug, Clone, Copy)]
pub struct Objects {
    pub tokens: i32,
    pub moved: i32,
    pub fast: i32,
    pub mutex: i32,
    pub strict: i32,
    pub mixed: i32,
    pub segment: i32,
}

const CREATE: i32 = 0o1600;

impl Objects {
    /// Makes them.
    pub fn make(session: &Session) -> Result<Self, Errno> {
        let me = session.client();
        let set = |count: u16, value: u32| {
            let id = me.semget(0, i32::from(count), CREATE, &Superuser)?;
            for at in 0..count {
                me.set_semaphore(id, i32::from(at), value as i32, &Superuser)?;
            }
            Ok::<_, Errno>(id)
        };
        Ok(Self {
            tokens: set(TOKEN_SEMAPHORES, TOKENS)?,
            moved: set(MOVED_SEMAPHORES, MOVED)?,
            fast: set(1, FAST)?,
            mutex: set(1, 1)?,
            strict: me.msgget(0, CREATE, &Superuser)?,
            mixed: me.msgget(0, CREATE, &Superuser)?,
            segment: me.shmget(0, 8192, CREATE, &Superuser, session)?,
        })
    }

    pub fn ids(&self) -> [i32; 7] {
        let Self { tokens, moved, fast, mutex, strict, mixed, segment } = *self;
        [tokens, moved, fast, mutex, strict, mixed, segment]
    }

    pub fn of(ids: &[i32]) -> Option<Self> {
        let &[tokens, moved, fast, mutex, strict, mixed, segment] = ids else { return None };
        Some(Self { tokens, moved, fast, mutex, strict, mixed, segment })
    }

    /// Removes everything else, as what was made by a process that died before removing it.
    pub fn remove_others(&self, me: &Client) -> Result<(), String> {
        for kind in Kind::ALL {
            for row in me.pool().objects(kind).map_err(|errno| errno.to_string())? {
                // Gone meanwhile, with its last user.
                let Ok(id) = me.id_of(row) else { continue };
                if self.ids().contains(&id) {
                    continue;
                }
                let removed = match kind {
                    Kind::Segment => me.segment_remove(id, &Superuser),
                    Kind::Semaphore => me.set_remove(id, &Superuser),
                    Kind::Queue => me.queue_remove(id, &Superuser),
                };
                removed.map_err(|errno| format!("removal of {kind:?} {id}: {errno}"))?;
            }
        }
        Ok(())
    }
}

pub fn values(me: &Client, set: i32) -> Result<Vec<u32>, Errno> {
    let mut values: Vec<u32> = Vec::new();
    // May begin again from the first.
    me.semaphore_values(set, &Superuser, |at, value| {
        values.truncate(at);
        values.push(value.into());
    })?;
    Ok(values)
}

pub fn step(number: u16, change: i16) -> Operation {
    Operation { number, change, no_wait: false, undo: false }
}

pub fn undone(number: u16, change: i16) -> Operation {
    Operation { undo: true, ..step(number, change) }
}

pub fn receive(me: &Client, queue: i32, kind: i64, no_wait: bool) -> Result<(i64, Vec<u8>), Errno> {
    let wanted =
        Receive { mtype: kind, room: 8192, no_wait, cut: false, except: false, copy: false };
    let mut got = (0, Vec::new());
    me.msgrcv(queue, wanted, &Superuser, &mut |kind, size, copy| {
        let mut text = vec![0; size];
        copy(&mut text);
        got = (kind, text);
        Ok(size)
    })?;
    Ok(got)
}
