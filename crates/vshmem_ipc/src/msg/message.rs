//! Messages, and which of them a receiver wants: msgrcv(2).

use std::collections::BTreeSet;
use std::mem::offset_of;

use vshmem_mem::{Map, Ordering};
use vshmem_sync::{Fault, structure};
use vshmem_wire::{
    Layout, MSG_HEADER_BYTES, MovedMessage, MsgHeader, Place, RING_PAYLOAD_BYTES, ReceiveWait,
    ThreadSlot, field,
};

use crate::msg::queue::Receive;
use crate::pool::chunk::Chunk;

/// Type and size of a message in the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub mtype: i64,
    pub size: u64,
}

impl Header {
    /// Bytes that a receiver gets of a message in the ring; `None` if it is too long for the
    /// receiver, or too long to be there.
    #[inline(always)]
    pub fn fitting(self, wanted: Receive) -> Option<usize> {
        let fits = self.size <= wanted.room as u64 || wanted.cut;
        (self.size <= RING_PAYLOAD_BYTES && fits).then(|| (self.size as usize).min(wanted.room))
    }

    /// Reads the header of a message in a chunk.
    ///
    /// # Errors
    /// When the chunk is outside the heap.
    pub fn read(map: &Map, layout: &Layout, chunk: Chunk) -> Result<Self, Fault> {
        let at = chunk.place(layout)?;
        let tag = map.load(field!(at, MsgHeader, tag), Ordering::Relaxed)?;
        if let Some(moved) = MovedMessage::unpack(tag) {
            return Ok(Self { mtype: moved.mtype.into(), size: moved.size.into() });
        }
        Self::read_untagged(map, at)
    }

    /// Reads the header at `at`, of a message that has never lain in a slot: so in a ring.
    #[inline]
    pub fn read_untagged(map: &Map, at: Place<MsgHeader>) -> Result<Self, Fault> {
        let fields = structure!(map, at, MsgHeader)?;
        let mtype = fields.load(offset_of!(MsgHeader, mtype), Ordering::Relaxed).cast_signed();
        Ok(Self { mtype, size: fields.load(offset_of!(MsgHeader, size), Ordering::Relaxed) })
    }

    /// Writes the header and the payload of a message for the list.
    pub fn write_payload(
        map: &Map,
        layout: &Layout,
        chunk: Chunk,
        mtype: i64,
        payload: &[u8],
    ) -> Result<(), Fault> {
        let at = chunk.place(layout)?;
        map.store(field!(at, MsgHeader, tag), 0, Ordering::Relaxed)?;
        Self::write_tagged(map, at, mtype, payload)
    }

    /// Writes the header at `at` and the payload of a message whose chunk has its tag.
    #[inline(always)]
    pub fn write_tagged(
        map: &Map,
        at: Place<MsgHeader>,
        mtype: i64,
        payload: &[u8],
    ) -> Result<(), Fault> {
        Self { mtype, size: payload.len() as u64 }.write_at(map, at)?;
        map.write(at.offset() + MSG_HEADER_BYTES, payload)?;
        Ok(())
    }

    /// Writes the header of a message for the list.
    pub fn write(self, map: &Map, layout: &Layout, chunk: Chunk) -> Result<(), Fault> {
        let at = chunk.place(layout)?;
        map.store(field!(at, MsgHeader, tag), 0, Ordering::Relaxed)?;
        self.write_at(map, at)
    }

    #[inline]
    fn write_at(self, map: &Map, at: Place<MsgHeader>) -> Result<(), Fault> {
        let fields = structure!(map, at, MsgHeader)?;
        fields.store(offset_of!(MsgHeader, mtype), self.mtype.cast_unsigned(), Ordering::Relaxed);
        fields.store(offset_of!(MsgHeader, size), self.size, Ordering::Relaxed);
        Ok(())
    }
}

/// Which message a receiver wants (`convert_mode` of `ipc/msg.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Search {
    /// The first.
    Any,
    /// The first of a type.
    Equal(i64),
    /// The first of any other type.
    NotEqual(i64),
    /// The first of the lowest type up to this one.
    AtMost(i64),
    /// The nth, counted from 0 (MSG_COPY).
    Nth(u64),
}

impl Search {
    /// What msgrcv(2) takes with this type and these flags: MSG_EXCEPT, MSG_COPY.
    pub fn of(mtype: i64, except: bool, copy: bool) -> Self {
        match mtype {
            _ if copy => Self::Nth(mtype as u64),
            0 => Self::Any,
            // The lowest type has no positive counterpart.
            ..0 => Self::AtMost(mtype.checked_neg().unwrap_or(i64::MAX)),
            _ if except => Self::NotEqual(mtype),
            _ => Self::Equal(mtype),
        }
    }

    /// What the receiver in a thread slot waits for.
    pub fn of_waiter(map: &Map, thread: Place<ThreadSlot>) -> Result<Self, Fault> {
        let wait = thread.receive_wait();
        let mode = map.load(field!(wait, ReceiveWait, mode), Ordering::Relaxed)?;
        let mtype = map.load(field!(wait, ReceiveWait, mtype), Ordering::Relaxed)?;
        Ok(Self::unpack(mode, mtype))
    }

    /// Whether a message of `mtype` would do.
    pub fn accepts(self, mtype: i64) -> bool {
        match self {
            Self::Any | Self::Nth(_) => true,
            Self::Equal(wanted) => mtype == wanted,
            Self::NotEqual(unwanted) => mtype != unwanted,
            Self::AtMost(highest) => mtype <= highest,
        }
    }

    /// Whether a message of `mtype` would do if it is the oldest, whatever follows.
    #[inline]
    pub fn takes_first(self, mtype: i64) -> bool {
        match self {
            Self::AtMost(_) => mtype == 1,
            Self::Nth(_) => false,
            other => other.accepts(mtype),
        }
    }

    /// Whether the oldest message is all that it usually needs to know.
    pub fn is_plain(self) -> bool {
        !matches!(self, Self::AtMost(_) | Self::Nth(_))
    }

    /// Whether one of several types would do.
    pub fn accepts_any(self, kinds: &BTreeSet<i64>) -> bool {
        match self {
            Self::Any | Self::Nth(_) => !kinds.is_empty(),
            Self::Equal(wanted) => kinds.contains(&wanted),
            Self::NotEqual(unwanted) => kinds.len() > usize::from(kinds.contains(&unwanted)),
            Self::AtMost(highest) => kinds.first().is_some_and(|lowest| *lowest <= highest),
        }
    }

    /// As two words, for a waiter's record.
    pub fn pack(self) -> (u64, u64) {
        match self {
            Self::Any | Self::Nth(_) => (0, 0),
            Self::Equal(mtype) => (1, mtype as u64),
            Self::NotEqual(mtype) => (2, mtype as u64),
            Self::AtMost(mtype) => (3, mtype as u64),
        }
    }

    /// The reverse; what is invalid accepts anything.
    pub fn unpack(mode: u64, mtype: u64) -> Self {
        match mode {
            1 => Self::Equal(mtype as i64),
            2 => Self::NotEqual(mtype as i64),
            3 => Self::AtMost(mtype as i64),
            _ => Self::Any,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_as_msgrcv_reads_them() {
        assert_eq!(Search::of(0, false, false), Search::Any);
        assert_eq!(Search::of(0, true, false), Search::Any);
        assert_eq!(Search::of(5, true, false), Search::NotEqual(5));
        assert_eq!(Search::of(-5, true, false), Search::AtMost(5));
        assert_eq!(Search::of(i64::MIN, false, false), Search::AtMost(i64::MAX));
        assert_eq!(Search::of(3, false, true), Search::Nth(3));
    }

    #[test]
    fn only_the_lowest_type_of_all_needs_no_look_at_the_rest() {
        assert!(Search::AtMost(9).takes_first(1) && !Search::AtMost(9).takes_first(2));
        assert!(Search::Equal(4).takes_first(4) && !Search::Equal(4).takes_first(5));
        assert!(!Search::Nth(0).takes_first(1) && Search::Any.takes_first(7));
    }

    #[test]
    fn searches_survive_the_pool() {
        for search in [Search::Any, Search::Equal(4), Search::NotEqual(9), Search::AtMost(i64::MAX)]
        {
            let (mode, mtype) = search.pack();
            assert_eq!(Search::unpack(mode, mtype), search);
        }
    }
}
