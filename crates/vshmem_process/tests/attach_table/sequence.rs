//! Sequences of mappings, made from bytes: after each step the attach table is compared with a
//! model that knows single pages only.
//!
//! The fuzz target `attach_table` tells them, and so does the test beside this file.

use std::cell::RefCell;
use std::collections::BTreeMap;

use vshmem_process::attached::attach_table::{
    Counts, Marks, Piece, Rights, Table, advance, recut, take_range,
};

const PAGE: usize = 4096;
/// Addresses of the model, in pages. The first is not used, as in a process.
const PLACE: usize = 64;
/// Pages of each segment.
const WHOLE: usize = 8;
/// Pieces that the table holds; there are fewer pages.
const MOST: usize = 128;

/// Of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Page {
    id: i32,
    attach: u32,
    /// Address of the segment's first byte.
    base: usize,
    rights: Rights,
    /// Whether a mapping begins here, whatever lies in front of it.
    begins: bool,
}

/// What the pool would count.
#[derive(Debug, Default)]
struct Pool(RefCell<BTreeMap<i32, i64>>);

impl Pool {
    fn add(&self, id: i32, count: i64) {
        *self.0.borrow_mut().entry(id).or_default() += count;
    }
}

impl Counts for Pool {
    fn one_more(&self, id: i32) {
        self.add(id, 1);
    }

    fn one_less(&self, id: i32) {
        self.add(id, -1);
    }
}

struct World {
    table: Table<MOST>,
    pool: Pool,
    pages: [Option<Page>; PLACE],
    attaches: u32,
}

const FRESH: Rights = Rights { now: 3, writable: true, marks: Marks::none() };

/// Marks and rights that a step may give.
const KINDS: [(u32, Marks); 6] = [
    (3, Marks::none()),
    (1, Marks::none()),
    (0, Marks::none()),
    (3, Marks::LOCKED),
    (3, Marks::RANDOM),
    (3, Marks::NOT_INHERITED),
];

impl World {
    fn new() -> Self {
        Self { table: Table::new(), pool: Pool::default(), pages: [None; PLACE], attaches: 0 }
    }

    /// The pages of a step's range; at least one.
    fn range(from: u8, length: u8) -> std::ops::Range<usize> {
        let from = 1 + usize::from(from) % (PLACE - 1);
        from..(from + 1 + usize::from(length) % WHOLE).min(PLACE)
    }

    fn clear(&mut self, range: std::ops::Range<usize>) {
        for page in range.clone() {
            self.pages[page] = None;
        }
        self.begin_at(range.end);
    }

    /// What follows a cut is a mapping of its own.
    fn begin_at(&mut self, page: usize) {
        if let Some(Some(page)) = self.pages.get_mut(page) {
            page.begins = true;
        }
    }

    fn attach(&mut self, id: i32, at: usize) {
        if at + WHOLE > PLACE || self.pages[at..at + WHOLE].iter().any(Option::is_some) {
            return;
        }
        self.attaches += 1;
        let (start, attach) = (at * PAGE, self.attaches);
        let piece = Piece {
            id,
            attach,
            start,
            bytes: WHOLE * PAGE,
            base: start,
            offset: id as u64 * 0x10_0000,
            whole: WHOLE * PAGE,
            rights: FRESH,
        };
        self.pool.add(id, 1);
        self.table.add(piece).unwrap();
        for page in at..at + WHOLE {
            let begins = page == at;
            self.pages[page] = Some(Page { id, attach, base: start, rights: FRESH, begins });
        }
    }

    fn detach(&mut self, at: usize) {
        let Some(page) = self.pages[at] else { return };
        let lowest = self.table.find(|piece| piece.holds(at * PAGE, 1)).unwrap();
        while let Some(piece) = self.table.take(|piece| piece.goes_with(lowest)) {
            self.pool.one_less(piece.id);
            let (from, to) = (piece.start / PAGE, piece.end() / PAGE);
            assert!(self.pages[from..to].iter().all(|each| {
                each.is_some_and(|each| each.attach == page.attach && each.base == page.base)
            }));
            self.clear(from..to);
        }
    }

    fn unmap(&mut self, range: std::ops::Range<usize>) {
        take_range(&self.table, &self.pool, range.start * PAGE, range.len() * PAGE);
        self.clear(range);
    }

    fn change(&mut self, range: std::ops::Range<usize>, kind: u8) {
        let (now, marks) = KINDS[usize::from(kind) % KINDS.len()];
        let changed = |before: Rights| Rights { now, marks, ..before };
        recut(
            &self.table,
            &self.pool,
            range.start * PAGE,
            range.len() * PAGE,
            |piece| changed(piece.rights) != piece.rights,
            |piece| Some(Piece { rights: changed(piece.rights), ..piece }),
        );
        for at in range.clone() {
            let Some(page) = self.pages[at] else { continue };
            if changed(page.rights) == page.rights {
                continue;
            }
            // Cut off where its mapping goes on without the change: before the range, and behind
            // it.
            let first = at == range.start || self.pages[at].is_some_and(|page| page.begins);
            self.pages[at] = Some(Page { rights: changed(page.rights), begins: first, ..page });
            if at + 1 == range.end {
                self.begin_at(range.end);
            }
        }
    }

    /// mremap of a range in one mapping to a free place.
    fn relocate(&mut self, range: std::ops::Range<usize>, to: usize) {
        let length = range.len();
        let free = to + length <= PLACE && self.pages[to..to + length].iter().all(Option::is_none);
        let one = self.table.find(|piece| piece.holds(range.start * PAGE, length * PAGE)).is_some();
        if !free || !one {
            return;
        }
        let (from, to_start) = (range.start * PAGE, to * PAGE);
        recut(
            &self.table,
            &self.pool,
            from,
            length * PAGE,
            |_| true,
            |piece| Some(piece.moved(from, to_start)),
        );
        for index in 0..length {
            let page = self.pages[range.start + index].unwrap();
            let base = page.base.wrapping_add(to_start.wrapping_sub(from));
            self.pages[to + index] = Some(Page { base, begins: index == 0, ..page });
        }
        self.begin_at(to + length);
        self.clear(range);
    }

    /// mremap that makes a mapping longer in place.
    fn grow(&mut self, at: usize) {
        let Some(piece) = self.table.find(|piece| piece.holds(at * PAGE, 1)) else { return };
        let end = piece.end() / PAGE;
        if end >= PLACE || self.pages[end].is_some() {
            return;
        }
        advance(&self.table, at * PAGE, piece.end() - at * PAGE, PAGE).unwrap();
        self.pages[end] = self.pages[end - 1].map(|page| Page { begins: false, ..page });
    }

    /// The attach table and the model say the same.
    fn check(&self) {
        let mut counted = BTreeMap::<i32, i64>::new();
        let mut at = 0;
        while at < PLACE {
            let Some(page) = self.pages[at] else {
                assert_eq!(self.table.find(|piece| piece.holds(at * PAGE, 1)), None, "page {at}");
                at += 1;
                continue;
            };
            let alike = |next: Page| !next.begins && next.rights == page.rights;
            let mut end = at + 1;
            while end < PLACE && self.pages[end].is_some_and(alike) {
                end += 1;
            }
            let piece = self.table.find(|piece| piece.holds(at * PAGE, 1)).expect("a piece");
            assert_eq!((piece.start, piece.end()), (at * PAGE, end * PAGE), "page {at}");
            assert_eq!((piece.id, piece.attach), (page.id, page.attach));
            assert_eq!((piece.base, piece.rights), (page.base, page.rights));
            *counted.entry(page.id).or_default() += 1;
            at = end;
        }
        let pool: BTreeMap<i32, i64> = self
            .pool
            .0
            .borrow()
            .iter()
            .filter(|each| *each.1 != 0)
            .map(|(&id, &n)| (id, n))
            .collect();
        assert_eq!(pool, counted);
    }
}

/// Plays a sequence: four bytes a step.
pub fn play(sequence: &[u8]) {
    let mut world = World::new();
    for step in sequence.chunks_exact(4).take(300) {
        let &[kind, from, length, more] = step else { break };
        let range = World::range(from, length);
        match kind % 8 {
            0 | 1 => world.attach(i32::from(more % 3), range.start),
            2 => world.detach(range.start),
            3 => world.unmap(range),
            4 | 5 => world.change(range, more),
            6 => world.relocate(range, 1 + usize::from(more) % (PLACE - 1)),
            _ => world.grow(range.start),
        }
        world.check();
    }
}
