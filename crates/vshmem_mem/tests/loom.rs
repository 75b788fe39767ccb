//! Models of what this crate itself shares between threads. `RUSTFLAGS="--cfg loom" cargo test
//! --release -p vshmem_mem --test loom`
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use vshmem_mem::RememberedSecond;

/// Every order of events with up to three preemptions.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Ticks for which a second is good here; the moments below are further apart than that.
const SPAN: u64 = 10;

/// A thread asked in second 5 and was stopped before it could write that down; others go on, an
/// hour of ticks later. The thread that looks then finds their second or none, never the old one
/// beside a new tick.
#[test]
fn an_old_second_never_goes_with_a_new_tick() {
    check(|| {
        let remembered = Arc::new(RememberedSecond::new());
        let stopped = {
            let remembered = remembered.clone();
            thread::spawn(move || remembered.remember(1000, 5))
        };
        let later = {
            let remembered = remembered.clone();
            thread::spawn(move || remembered.remember(9000, 3605))
        };
        let seen = remembered.recall(9001, SPAN);
        assert!(matches!(seen, None | Some(3605)), "{seen:?} at the tick of second 3605");
        stopped.join().unwrap();
        later.join().unwrap();
        let seen = remembered.recall(9001, SPAN);
        assert!(matches!(seen, None | Some(3605)), "{seen:?} at the tick of second 3605");
    });
}

/// The guest was idle since second 5. One thread asks anew while another one looks.
#[test]
fn who_looks_while_another_asks_sees_no_old_second() {
    check(|| {
        let remembered = Arc::new(RememberedSecond::new());
        remembered.remember(1000, 5);
        let asks = {
            let remembered = remembered.clone();
            thread::spawn(move || {
                remembered.remember(9000, 3605);
                remembered.remember(9002, 3605);
            })
        };
        let seen = remembered.recall(9003, SPAN);
        assert!(matches!(seen, None | Some(3605)), "{seen:?} at the tick of second 3605");
        asks.join().unwrap();
        assert_eq!(remembered.recall(9003, SPAN), Some(3605));
    });
}
