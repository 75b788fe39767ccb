//! Bytes as a sequence: scribbles and operations in turn. What the fuzzer invents, and what it has
//! found before.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vshmem_ipc::Pool;
use vshmem_mem::Map;

use super::fixture::{CREATE, Calls, ROOT, undone, up};
use super::operations::{ALL, Stage};
use super::places::{WordRange, nasty};
use super::setup::{Setup, newcomer};

/// What the scribbles of a sequence may hit: a target of the fuzzer.
pub type Target = (&'static str, &'static [&'static str]);

/// All targets.
pub const TARGETS: &[Target] = &[
    ("registry", &["registry", "segments", "keys of segments", "keys of sets", "keys of queues"]),
    ("extents", &["segments", "extents", "dirty marks", "attaches"]),
    ("heap", &["slabs", "units", "heap"]),
    ("sets", &["sets", "undos", "threads", "heap"]),
    ("queues", &["queues", "threads", "units", "heap"]),
    ("clients", &["domains", "clients", "attaches", "threads"]),
    (
        "everything",
        &[
            "superblock",
            "registry",
            "domains",
            "clients",
            "threads",
            "segments",
            "sets",
            "queues",
            "keys of segments",
            "keys of sets",
            "keys of queues",
            "attaches",
            "undos",
            "futexes",
            "locks",
            "slabs",
            "units",
            "extents",
            "dirty marks",
            "heap",
        ],
    ),
];

/// Steps of a sequence that are played at most.
const STEPS: usize = 48;

/// Gives a superblock the checksum that its other bytes ask for: a hostile member can do that, too.
pub fn seal(header: &mut [u8]) {
    let at = std::mem::offset_of!(vshmem_wire::Superblock, checksum);
    if header.len() < at + 8 {
        return;
    }
    let sum = header[..at].iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    header[at..at + 8].copy_from_slice(&sum.to_ne_bytes());
}

/// Opens a region that begins with `header`, if it is small, and looks it over.
pub fn open(header: &[u8]) {
    const MOST: u64 = 8 << 20;
    let mut header = header.to_vec();
    seal(&mut header);
    let Ok((superblock, layout)) = Pool::identify(&header, 1 << 40) else { return };
    assert!(layout.total_bytes <= superblock.total_bytes);
    if superblock.total_bytes > MOST || header.len() as u64 > superblock.total_bytes {
        return;
    }
    let map = Map::anonymous(superblock.total_bytes as usize);
    map.write(0, &header).expect("a header that fits");
    let Ok(pool) = Pool::open(Arc::new(map), superblock.total_bytes) else { return };
    let pool = Arc::new(pool);
    let _ = (pool.check(), pool.space(), pool.clients(), pool.name());
    if let Some(me) = newcomer(&pool, "a", 10) {
        let _ = (me.segment(1, 1, CREATE), me.msgget(1, CREATE | 0o600, &ROOT), me.repair());
        let _ = me.semget(1, 2, CREATE | 0o600, &ROOT).map(|id| me.op(id, &[undone(up(1))]));
        let _ = me.leave();
    }
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some((*first).into())
    }

    fn word(&mut self, bytes: usize) -> u64 {
        (0..bytes).fold(0, |word, nth| word | self.byte().unwrap_or(0) << (8 * nth))
    }
}

/// Plays a sequence on `pool` as it is laid out: odd bytes begin a scribble (place, word, value),
/// even ones are operations. `watch` runs each call.
pub fn play(
    setup: &Setup,
    pool: &Arc<Pool>,
    places: &[WordRange],
    sequence: &[u8],
    watch: &mut dyn FnMut(&str, &dyn Fn()),
) {
    setup.restore(pool);
    let mut bytes = Bytes(sequence);
    // Some scribbles come before the first client joins.
    let early = bytes.byte().unwrap_or(0) % 4;
    let scribble = |bytes: &mut Bytes<'_>, how: u64| {
        let place = places[(how >> 3) as usize % places.len()];
        let at = place.word(bytes.word(2));
        let old = pool.map().load(at, Ordering::Relaxed).unwrap_or(0);
        let value = match how >> 1 & 3 {
            0 => bytes.word(8),
            1 => old & !0xffff_ffff | bytes.word(2),
            _ => nasty(old, bytes.word(1)),
        };
        let _ = pool.map().store(at, value, Ordering::Relaxed);
    };
    for _ in 0..early {
        let how = bytes.word(1);
        scribble(&mut bytes, how);
    }
    let all_clients = std::cell::RefCell::new(None);
    watch("join", &|| {
        *all_clients.borrow_mut() = Some((newcomer(pool, "a", 10), newcomer(pool, "b", 21)))
    });
    let Some((Some(me), Some(far))) = all_clients.into_inner() else {
        return watch("check", &|| drop(pool.check()));
    };
    for nth in 0..STEPS {
        let Some(how) = bytes.byte() else { break };
        if how & 1 != 0 {
            scribble(&mut bytes, how);
            continue;
        }
        let (call, run) = ALL[(how >> 1) as usize % ALL.len()];
        let nth = nth as u64 + (how >> 6);
        watch(call, &|| run(&Stage { setup, pool, me: &me, far: &far, nth }));
    }
    watch("check", &|| drop(pool.check()));
    watch("farewell", &|| {
        let _ = far.release_at_exit();
    });
}
