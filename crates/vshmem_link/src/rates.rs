//! How fast pool memory is, beside private memory: a device whose memory is not cached (a wrong
//! memory type) works, and is ten to a hundred times slower.

use std::time::{Duration, Instant};

use rustix::io::Errno;
use vshmem_mem::{Map, Mapping, Ordering, Protection};

use crate::atomics::loses_changes;
use crate::link::Link;

/// Bytes read in one pass: little enough to be quick on uncached memory (some milliseconds).
const PASS: usize = 256 << 10;
/// The best of so many passes counts: others have the machine in between.
const PASSES: u32 = 4;
/// Slower than private memory by this much is a wrong memory type, not bad luck.
const SUSPICIOUS: u32 = 8;

/// Bandwidths in MiB a second, of the same loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Reading the pool.
    pub pool: u32,
    /// Reading private memory.
    pub private: u32,
    /// Locked stores to the pool, which change nothing.
    pub pool_write: u32,
    /// Locked stores to private memory.
    pub private_write: u32,
}

impl Rates {
    /// In the order in which a pool's domain table has them.
    #[must_use]
    pub fn to_array(self) -> [u32; 4] {
        [self.pool, self.private, self.pool_write, self.private_write]
    }

    /// The reverse; `None` when nothing was measured.
    #[must_use]
    pub fn of_array(rates: [u32; 4]) -> Option<Self> {
        let [pool, private, pool_write, private_write] = rates;
        (pool != 0).then_some(Self { pool, private, pool_write, private_write })
    }

    /// Whether the pool's memory is so slow that it cannot be cached.
    #[must_use]
    pub fn is_suspicious(&self) -> bool {
        self.pool < self.private / SUSPICIOUS || self.pool_write < self.private_write / SUSPICIOUS
    }
}

/// Measures for some milliseconds, on the pool's first bytes. Stores put back what they find.
///
/// # Errors
/// When memory cannot be mapped; EOPNOTSUPP where putting back is not atomic.
pub fn measure_rates(link: &dyn Link) -> Result<Rates, Errno> {
    if loses_changes(link) {
        return Err(Errno::OPNOTSUPP);
    }
    let bytes = PASS.min(usize::try_from(link.bytes()).unwrap_or(PASS));
    let pool = Map::of(link.map(0, bytes, Protection::READ_WRITE)?);
    let private = Map::of(Mapping::anonymous(bytes)?);
    Ok(Rates {
        pool: rate(&pool, read),
        private: rate(&private, read),
        pool_write: rate(&pool, rewrite),
        private_write: rate(&private, rewrite),
    })
}

fn read(map: &Map) {
    for at in (0..map.bytes() - 7).step_by(8) {
        let word = map.load(at, Ordering::Relaxed);
        std::hint::black_box(word.unwrap_or(0));
    }
}

/// One locked store to each cache line: a compare-and-swap of a word for itself, which is refused
/// where a peer was faster, and harmless everywhere.
fn rewrite(map: &Map) {
    for at in (0..map.bytes() - 7).step_by(64) {
        if let Ok(word) = map.load(at, Ordering::Relaxed) {
            std::hint::black_box(map.replace(at, word, word).unwrap_or(false));
        }
    }
}

fn rate(map: &Map, pass: fn(&Map)) -> u32 {
    pass(map);
    let best = (0..PASSES)
        .map(|_| {
            let begun = Instant::now();
            pass(map);
            begun.elapsed()
        })
        .min()
        .unwrap_or(Duration::MAX);
    let mebibytes = map.bytes() as f64 / f64::from(1 << 20);
    (mebibytes / best.as_secs_f64()).clamp(1.0, f64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_an_eighth_as_fast_is_suspicious() {
        let rates = Rates { pool: 5000, private: 9000, pool_write: 400, private_write: 500 };
        assert!(!rates.is_suspicious());
        assert!(Rates { pool: 100, ..rates }.is_suspicious());
        assert!(Rates { pool_write: 10, ..rates }.is_suspicious());
    }

    #[test]
    fn measuring_a_pool_changes_nothing_in_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text: Vec<u8> = (0..PASS).map(|at| at as u8).collect();
        std::fs::write(file.path(), &text).unwrap();
        let link = crate::Local::open(file.path()).unwrap();
        let rates = measure_rates(&link).unwrap();
        assert!(rates.pool > 0 && rates.private > 0);
        assert_eq!(std::fs::read(file.path()).unwrap(), text);
    }
}
