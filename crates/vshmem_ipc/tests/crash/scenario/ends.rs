//! What has to hold in the end.

use super::*;

pub(super) fn verify_all(session: &Session, expected: u32) -> Result<(), String> {
    let me = session.client();
    let set = tokens(me);
    let values: Vec<u32> = (0..3).map(|n| me.value(set, n)).collect();
    if values.iter().sum::<u32>() != expected {
        return Err(format!("tokens are {values:?}, together not {expected}"));
    }
    let queue = queue(me);
    let mut numbers = Vec::new();
    while let Ok((kind, text)) = me.receive_now(queue, 0) {
        if kind == NUMBERED {
            numbers.push(u32::from_ne_bytes(text[..4].try_into().expect("a number")));
            if text[4..].iter().any(|byte| *byte != text[0]) {
                return Err(format!("message {numbers:?} is torn"));
            }
        }
    }
    if numbers.windows(2).any(|pair| pair[0] + 1 != pair[1]) {
        return Err(format!("messages are {numbers:?}"));
    }
    let stat = me.segment_stat(segment(session), &ROOT).map_err(|errno| errno.to_string())?;
    if stat.attached != 0 {
        return Err(format!("{} attaches are left", stat.attached));
    }
    Ok(())
}

/// Everything goes, and nothing is left, not even the session's place, but so many thread slots.
pub fn verify_empty(session: &Session, kept_threads: u32) -> Result<(), String> {
    let me = session.client();
    let pool = me.pool();
    unlink_all(session);
    for row in pool.objects(Kind::Segment).expect("a list") {
        me.segment_remove(id(me.id_of(row)), &ROOT).expect("a removal");
    }
    for row in pool.objects(Kind::Semaphore).expect("a list") {
        me.set_remove(id(me.id_of(row)), &ROOT).expect("a removal");
    }
    for row in pool.objects(Kind::Queue).expect("a list") {
        me.queue_remove(id(me.id_of(row)), &ROOT).expect("a removal");
    }
    for row in pool.clients().expect("a list") {
        if row.index != me.client_slot() && row.domain == me.domain() {
            return Err(format!("client {} is left", row.index));
        }
    }
    let room = room(pool);
    let pages = pool.geometry().pages;
    if room.pages_used != 0 || room.free_extents != 1 || room.largest_free != pages {
        return Err(format!("{room:?}"));
    }
    me.reap(me.client_id()).expect("reaping");
    let left = crate::fixture::room(pool);
    if left.chunks_in_objects != 0 || left.chunks_held != 0 || left.threads != kept_threads {
        return Err(format!("{left:?}"));
    }
    Ok(())
}
