//! Two pools, with two guests each.

use std::cell::Cell;

use vshmem_acceptance::{Actor, Guests, Pool, guests, isolation};

use crate::exchange::RUN;
use crate::machine;

pub fn matrix() {
    crate::close_shared();
    let boot =
        |suffix: &str, pool: Pool| Guests::boot(machine(), suffix, 2, pool, &guests::programs());
    let one = boot("one", machine().pool("32M"));
    let other = boot("other", machine().pool("32M"));
    // Each member that is started is in the next guest of its pool.
    let next = |guests: &Guests, turn: &Cell<u32>| {
        turn.set(turn.get() % 2 + 1);
        Actor::in_guest(guests, turn.get(), RUN, &[])
    };
    let (of_one, of_other) = (Cell::new(0), Cell::new(0));
    // Both guests of the other pool try.
    for _ in 0..2 {
        isolation::matrix(one.pool(), other.pool(), &|| next(&one, &of_one), &|| {
            next(&other, &of_other)
        });
    }
    // A guest has no device of the pool that is not its own, and no name opens it.
    for guest in [1, 2] {
        let listed = other.run(guest, &["vshmem", "pool", "ls"]).ok();
        assert!(listed.contains(other.pool().name()), "{listed}");
        assert!(!listed.contains(one.pool().name()), "{listed}");
        other
            .run(guest, &["vshmem", "run", "--pool", one.pool().name(), "true"])
            .refused(1, &["there is none of that name"]);
    }
    one.pool().assert_clean();
    other.pool().assert_clean();
}
