//! The lists of what clients have claimed: their thread slots, their undo records.

use vshmem_sync::{Fault, ListEntry, thread_list_entry};
use vshmem_wire::{ClientListHead, ClientSlot, Layout, Place, RawCell, field};

use crate::check::checker::Checker;
use crate::check::client_table::ClientTable;
use crate::sem::undo::undo_list_entry;

/// A kind of thing that clients list.
#[derive(Debug, Clone, Copy)]
pub(super) enum Listed {
    ThreadSlots,
    UndoRecords,
}

impl Listed {
    fn noun(self) -> &'static str {
        match self {
            Self::ThreadSlots => "thread slot",
            Self::UndoRecords => "undo record",
        }
    }

    /// How many the pool has.
    fn count(self, layout: &Layout) -> u64 {
        match self {
            Self::ThreadSlots => layout.threads.count,
            Self::UndoRecords => layout.undos.count,
        }
    }

    /// The head of the list of the client in `slot`.
    fn head(self, slot: Place<ClientSlot>) -> Place<RawCell> {
        match self {
            Self::ThreadSlots => field!(slot, ClientSlot, threads),
            Self::UndoRecords => field!(slot, ClientSlot, undos),
        }
    }

    fn entry(self, layout: &Layout, number: u32) -> Result<ListEntry, Fault> {
        match self {
            Self::ThreadSlots => thread_list_entry(layout.threads, number),
            Self::UndoRecords => undo_list_entry(layout, number),
        }
    }
}

impl Checker<'_> {
    /// Which things of a kind are on the list of their client.
    pub(super) fn listed(
        &mut self,
        kind: Listed,
        client_table: &ClientTable,
    ) -> Result<Vec<bool>, Fault> {
        let (layout, noun) = (self.layout, kind.noun());
        let mut listed = vec![false; kind.count(layout) as usize];
        for client in 0..layout.clients.count as u32 {
            let Some(id) = client_table.id(client).filter(|_| client_table.is_in_use(client))
            else {
                continue;
            };
            let mut head =
                ClientListHead::unpack(self.word(kind.head(layout.clients.row(client)?))?);
            while let Some(number) = head.first.checked_sub(1) {
                let Some(seen) = listed.get_mut(number as usize).filter(|_| head.is_of(id)) else {
                    self.wrong(format!(
                        "the {noun}s of client {client} lead to {number}, which is not its own"
                    ));
                    break;
                };
                if std::mem::replace(seen, true) {
                    self.wrong(format!("{noun} {number} is listed twice"));
                    break;
                }
                let entry = kind.entry(layout, number)?;
                if self.word(entry.owner)? != id.word() {
                    self.wrong(format!(
                        "client {client} lists {noun} {number}, which is not its own"
                    ));
                    break;
                }
                head = ClientListHead::unpack(self.word(entry.sibling)?);
            }
        }
        Ok(listed)
    }
}
