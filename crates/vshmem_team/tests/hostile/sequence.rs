//! One honest member of a team; all others are whatever the bytes of a sequence say. While it
//! waits, words of the team are written: what true members would write next, or anything anywhere.
//! When the sequence is over all words are nonsense, so that each call ends.

use std::sync::{Arc, Mutex, PoisonError};

use vshmem_mem::{Map, Ordering};
use vshmem_team::{Number, Operation, Person, Shape, Started, Team, TeamError};

#[allow(dead_code)]
#[path = "../../src/layout.rs"]
mod layout;

use layout::{SLOTS, STEP, TAKEN, WHAT};

/// The bytes of a sequence, taken one after the other.
#[derive(Debug)]
struct Script {
    bytes: Vec<u8>,
    at: usize,
}

impl Script {
    fn is_over(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn byte(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte
    }

    fn below(&mut self, most: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % most.max(1)
    }
}

/// What the others do, and what they know of the honest member.
struct Others {
    script: Script,
    map: Arc<Map>,
    layout: layout::Shape,
    rank: u32,
    barriers: u64,
    /// Steps that were done before the call that is under way, and what kind of text each of its
    /// steps has.
    steps: u64,
    kinds: Vec<u64>,
    /// A member has written nonsense.
    spoiled: bool,
}

impl Others {
    fn store(&self, at: u64, value: u64) {
        self.map.store(at, value, Ordering::Release).expect("a word of the team");
    }

    /// Called while the honest member waits.
    fn act(&mut self) {
        if self.script.is_over() {
            self.spoiled = true;
            (0..self.layout.bytes() / 8).for_each(|word| self.store(word * 8, u64::MAX));
        } else if self.script.byte() < 128 {
            self.go_on();
        } else {
            self.spoiled = true;
            self.scribble();
        }
    }

    /// As true members would: all have come, have taken everything, and show their texts of the
    /// next steps.
    fn go_on(&self) {
        for round in 0..self.layout.rounds() {
            self.store(self.layout.flag(self.rank, round), self.barriers);
        }
        let mine = self.layout.member(self.rank) + TAKEN;
        let taken = self.map.load(mine, Ordering::Acquire).unwrap_or(0).max(self.steps);
        for rank in (0..self.layout.members()).filter(|rank| *rank != self.rank) {
            self.store(self.layout.member(rank) + TAKEN, self.steps + self.kinds.len() as u64);
            for step in (taken..taken.saturating_add(SLOTS)).map(|step| step.wrapping_add(1)) {
                let nth = step.wrapping_sub(self.steps + 1) as usize;
                if let Some(kind) = self.kinds.get(nth) {
                    let slot = self.layout.slot(rank, step);
                    self.store(slot + WHAT, *kind);
                    self.store(slot + STEP, step);
                }
            }
        }
    }

    /// Anything, anywhere; most often something near what is expected.
    fn scribble(&mut self) {
        let words = (self.layout.bytes() / 8) as usize;
        let at = self.script.below(words) as u64 * 8;
        let value = match self.script.byte() % 8 {
            0 => u64::MAX,
            1 => 0,
            2 => self.barriers.wrapping_add(2).wrapping_sub(u64::from(self.script.byte() % 4)),
            3 => self.steps.wrapping_add(4).wrapping_sub(u64::from(self.script.byte() % 8)),
            4 => self.kinds.first().copied().unwrap_or(7) ^ 1 << (self.script.byte() % 64),
            5 => u64::from(self.script.byte()) << 32 | u64::from(self.script.byte()),
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.script.byte())),
        };
        self.store(at, value);
    }
}

/// What a call is to do.
#[derive(Debug, Clone, Copy)]
struct Call {
    kind: u8,
    root: u32,
    things: usize,
    unit: usize,
}

impl Call {
    fn of(script: &mut Script, shape: Shape) -> Self {
        let kind = script.byte() % 14;
        let root = u32::from(script.byte()) % shape.members();
        // The numbers of this kind have eight bytes.
        let unit = if kind == 5 { 8 } else { 1 + script.below(shape.payload()) };
        let most = match kind {
            // What is started goes at once.
            11 => shape.payload() / (shape.members() as usize - 1) / unit,
            10.. => shape.payload() / unit,
            _ => 3 * shape.payload() / unit + 1,
        };
        Self { kind, root, things: script.below(most + 1), unit }
    }

    /// What kind of text each step has, as `exchange.rs` packs it.
    fn kinds(self, shape: Shape) -> Vec<u64> {
        const BROADCAST: u64 = 1 << 56;
        const REDUCE: u64 = 2 << 56;
        const ALLREDUCE: u64 = 3 << 56;
        const ALLGATHER: u64 = 4 << 56;
        const ALLTOALL: u64 = 5 << 56;
        const GATHER: u64 = 6 << 56;
        const SCATTER: u64 = 7 << 56;
        let numbers = if self.kind == 5 { (Number::Uint64 as u64 + 1) << 48 } else { 0 };
        let (bytes, others) = (self.things * self.unit, shape.members() as usize - 1);
        let steps = |kind: u64, piece: usize| {
            (0..bytes).step_by(piece).map(move |at| kind | piece.min(bytes - at) as u64)
        };
        let whole = shape.payload() / self.unit * self.unit;
        match self.kind {
            0 => Vec::new(),
            1 => steps(BROADCAST, shape.payload()).collect(),
            2 | 3 => steps(REDUCE, whole).collect(),
            6 => steps(ALLGATHER, shape.payload()).collect(),
            7 => steps(ALLTOALL, shape.payload() / others).collect(),
            8 => steps(GATHER, shape.payload()).collect(),
            9 => steps(SCATTER, shape.payload() / others).collect(),
            10 => vec![ALLGATHER | bytes as u64],
            11 => vec![ALLTOALL | bytes as u64],
            12 => vec![ALLREDUCE | bytes as u64],
            13 => vec![BROADCAST | bytes as u64],
            _ if shape.members() <= 4 => steps(ALLREDUCE | numbers, whole).collect(),
            // One makes it and passes it on.
            _ => steps(REDUCE | numbers, whole).chain(steps(BROADCAST, shape.payload())).collect(),
        }
    }

    /// Makes it, with texts of exactly their size. The others act while a started one is looked
    /// after.
    fn make(self, team: &mut Team, act: impl FnMut()) -> Result<(), TeamError> {
        let Self { kind, root, things, unit } = self;
        let bytes = things * unit;
        let mut all = vec![0x55; bytes * team.shape().members() as usize];
        let mut data = vec![0x55; bytes];
        let mut fold = |earlier: &[u8], later: &mut [u8]| {
            assert_eq!((earlier.len(), later.len() % unit), (later.len(), 0));
            later.iter_mut().zip(earlier).for_each(|(later, earlier)| *later ^= earlier);
        };
        match kind {
            0 => team.barrier(),
            1 => team.broadcast(root, &mut data),
            2 | 3 if root == team.rank() => team.collect_by(&mut data, unit, &mut fold),
            2 | 3 => team.contribute_by(root, &data, unit),
            5 => team.allreduce(&mut data, Number::Uint64, Operation::Sum),
            6 => team.allgather(Some(&data), &mut all),
            7 => team.alltoall(None, &mut all),
            8 if root == team.rank() => team.gather(None, &mut all),
            8 => team.give(root, &data),
            9 if root == team.rank() => team.scatter(&all),
            9 => team.take_block(root, &mut data),
            10 => until_done(team, act, |team, call| team.poll_allgather(call, &mut all)),
            11 => until_done(team, act, |team, call| team.poll_alltoall(call, None, &mut all)),
            12 => until_done(team, act, |team, call| {
                team.poll_allreduce_by(call, &mut data, unit, &mut fold)
            }),
            13 => until_done(team, act, |team, call| team.poll_broadcast(call, root, &mut data)),
            _ => team.allreduce_by(&mut data, unit, &mut fold),
        }
    }
}

/// Looks after a call until it is done.
fn until_done(
    team: &mut Team,
    mut act: impl FnMut(),
    mut poll: impl FnMut(&mut Team, &mut Started) -> Result<bool, TeamError>,
) -> Result<(), TeamError> {
    let mut call = team.start();
    while !poll(team, &mut call)? {
        act();
    }
    Ok(())
}

fn lives(_: u32, _: u64) -> bool {
    false
}

/// Plays a sequence.
pub fn play(bytes: &[u8]) {
    let mut script = Script { bytes: bytes.to_vec(), at: 0 };
    let (members, payload) = (2 + u32::from(script.byte()) % 7, 8 + u64::from(script.byte()) % 56);
    let rank = u32::from(script.byte()) % members;
    let shape = Shape::new(members, payload).expect("a shape");
    let layout = layout::Shape::new(members, payload).expect("the same");
    let map = Arc::new(Map::anonymous(shape.bytes() as usize));
    // A process that joins now may find anything.
    let spoiled = script.byte() % 4 == 3;
    if spoiled {
        let at = script.below((shape.bytes() / 8) as usize) as u64 * 8;
        map.store(at, u64::from(script.byte()), Ordering::Release).expect("a word of the team");
    }
    let me = Person { domain: 1, pid: 7, start: 9 };
    let Ok(mut team) = Team::join(&map, shape, rank, me, lives) else {
        assert!(spoiled, "no member joins an empty team");
        return;
    };
    let (barriers, steps, kinds) = (0, 0, Vec::new());
    let others = Others { script, map, layout, rank, barriers, steps, kinds, spoiled };
    let others = Arc::new(Mutex::new(others));
    let theirs = Arc::clone(&others);
    team.set_idle(Some(Box::new(move || {
        theirs.lock().unwrap_or_else(PoisonError::into_inner).act();
    })));
    let mut failed = None;
    while let Some(call) = next_call(&others, shape) {
        let act = || others.lock().unwrap_or_else(PoisonError::into_inner).act();
        let result = call.make(&mut team, act);
        let spoiled = others.lock().unwrap_or_else(PoisonError::into_inner).spoiled;
        assert!(spoiled || result.is_ok(), "{call:?} failed among honest members: {result:?}");
        // The first failure stays.
        assert!(failed.is_none_or(|failure| result == Err(failure)), "{failed:?} {result:?}");
        if let Err(failure) = result {
            assert_eq!(team.failure(), Some(failure));
            assert!(failure.rank() < members && !team.explain(failure).is_empty());
            failed = Some(failure);
        }
    }
    team.leave();
}

/// The next call of a sequence, if there is one; the others know of it.
fn next_call(others: &Mutex<Others>, shape: Shape) -> Option<Call> {
    let others = &mut *others.lock().unwrap_or_else(PoisonError::into_inner);
    if others.script.is_over() {
        return None;
    }
    let call = Call::of(&mut others.script, shape);
    others.steps += others.kinds.len() as u64;
    others.kinds = call.kinds(shape);
    others.barriers += u64::from(call.kind == 0);
    Some(call)
}
