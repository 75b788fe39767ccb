//! The lists of what a client holds: its thread slots, and its undo records.
//!
//! A thread that claims something puts it at the beginning of the list, without a lock. What is
//! claimed leaves the list before it becomes free, so a thread that reaps the client finds all that
//! others may wait for.

use vshmem_mem::Map;
use vshmem_wire::{Cell, ClientId, ClientListHead, Place, RawCell};

use crate::cell::{claim_word, load_cell, load_word};
use crate::fault::Fault;

/// How often a list is tried: others of the same process change it now and then.
const MOST_TRIES: u32 = 1 << 16;

/// Where the cells of something lie that a client can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListEntry {
    /// Which of its kind it is.
    pub number: u32,
    /// The cell that says whose it is.
    pub owner: Place<RawCell>,
    /// The cell that leads to what its owner had claimed before.
    pub sibling: Place<RawCell>,
}

impl ListEntry {
    /// Whether `client` owns it.
    fn is_of(&self, map: &Map, client: ClientId) -> Result<bool, Fault> {
        Ok(load_word(map, self.owner)? == client.word())
    }
}

/// One list of a client.
#[derive(Debug, Clone, Copy)]
pub struct ClientList<'a> {
    /// The pool.
    pub map: &'a Map,
    /// The cell that the list begins with.
    pub list: Place<RawCell>,
    /// Whose it is.
    pub client: ClientId,
}

impl ClientList<'_> {
    /// Claims something that is free, and puts it on the list; false when it is not free.
    ///
    /// # Errors
    /// [`Fault::Evicted`] when the client has been reaped meanwhile.
    #[cfg_attr(feature = "crash-points", track_caller)]
    pub fn claim(&self, held: ListEntry) -> Result<bool, Fault> {
        if !claim_word(self.map, held.owner, 0, self.client.word())? {
            return Ok(false);
        }
        self.enlist(held)?;
        Ok(true)
    }

    /// Puts what the client has just claimed at the beginning of its list.
    ///
    /// # Errors
    /// [`Fault::Evicted`] when it is not the client's any more, or the client's slot is another's.
    pub fn enlist(&self, held: ListEntry) -> Result<(), Fault> {
        for _ in 0..MOST_TRIES {
            let before = load_cell(self.map, held.sibling)?;
            let head = load_cell(self.map, self.list)?;
            let client_list_head = ClientListHead::unpack(head.word);
            if !client_list_head.is_of(self.client) || !held.is_of(self.map, self.client)? {
                return Err(Fault::Evicted);
            }
            if !self.map.replace_cell(held.sibling, before, head.word)? {
                continue;
            }
            let first = ClientListHead { first: held.number + 1, ..client_list_head };
            if self.map.replace_cell(self.list, head, first.pack())? {
                return Ok(());
            }
        }
        Err(Fault::corrupt(self.list, "a cell that never stays the same"))
    }

    /// What the client has claimed last, and the head that says so; `None` when it holds nothing.
    ///
    /// # Errors
    /// When the list is outside the pool.
    pub fn last(&self) -> Result<Option<(Cell, u32)>, Fault> {
        let head = load_cell(self.map, self.list)?;
        let client_list_head = ClientListHead::unpack(head.word);
        let number = client_list_head.last_of(self.client);
        Ok(number.map(|number| (head, number)))
    }

    /// Takes what the client has claimed last off its list, and frees it. False when another thread
    /// has: `head` is not the list's any more.
    ///
    /// # Errors
    /// When one of the cells is outside the pool.
    #[cfg_attr(feature = "crash-points", track_caller)]
    pub fn give_up(&self, head: Cell, held: ListEntry) -> Result<bool, Fault> {
        let next = ClientListHead::unpack(load_word(self.map, held.sibling)?);
        let ours = held.is_of(self.map, self.client)?;
        // The first entry is another client's only if a hostile member has changed the list.
        let first = if ours && next.is_of(self.client) { next.first } else { 0 };
        let rest = ClientListHead { first, ..ClientListHead::empty(self.client) };
        if !self.map.replace_cell(self.list, head, rest.pack())? {
            return Ok(false);
        }
        if ours {
            claim_word(self.map, held.owner, self.client.word(), 0)?;
        }
        Ok(true)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn no_client_adds_to_the_list_of_a_successor() {
        let map = Map::anonymous(4096);
        let list = Place::at(64);
        let held = |number: u32| ListEntry {
            number,
            owner: Place::at(128 + u64::from(number) * 32),
            sibling: Place::at(144 + u64::from(number) * 32),
        };
        let (former, next) = (ClientId::new(3, 1), ClientId::new(3, 2));
        let of = |client| ClientList { map: &map, list, client };
        let write = |word| {
            let seen = load_cell(&map, list).unwrap();
            assert!(map.replace_cell(list, seen, word).unwrap());
        };
        write(ClientListHead::empty(former).pack());
        assert!(of(former).claim(held(5)).unwrap() && of(former).claim(held(6)).unwrap());
        assert!(!of(former).claim(held(6)).unwrap(), "not free");
        assert_eq!(of(former).last().unwrap().unwrap().1, 6);
        assert_eq!(ClientListHead::unpack(load_word(&map, held(6).sibling).unwrap()).first, 6);
        write(ClientListHead::empty(next).pack());
        assert_eq!(of(former).claim(held(7)), Err(Fault::Evicted));
        assert_eq!(of(former).last().unwrap(), None);
        assert_eq!(
            ClientListHead::unpack(load_word(&map, list).unwrap()),
            ClientListHead::empty(next)
        );
    }
}
