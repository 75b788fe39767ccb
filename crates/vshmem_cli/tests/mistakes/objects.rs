//! Objects, domains and users of a pool that are not there, or that are.

use super::rig::client::Client;
use super::row::{Mistake, Place, nothing, pool};

/// A pool with this domain in it and nobody else any more.
fn visited(place: &Place) {
    pool(place);
    super::rig::expect(0, &["rm", "-a", "--pool", &place.pool.0]);
}

pub const ROWS: &[Mistake] = &[
    Mistake {
        what: "an id without its kind",
        setup: nothing,
        line: "rm 16384",
        code: 2,
        says: &["\"16384\" is one word too many"],
        proposes: "vshmem rm -m 16384",
    },
    Mistake {
        what: "nothing to remove",
        setup: nothing,
        line: "rm --pool job7",
        code: 2,
        says: &["it is not said what is meant"],
        proposes: "vshmem rm -m 16384 -s 16385",
    },
    Mistake {
        what: "an id that is not there",
        setup: pool,
        line: "rm -m 16384 --pool {pool}",
        code: 1,
        says: &["there is no segment with id 16384"],
        proposes: "vshmem ls --pool {pool}",
    },
    Mistake {
        what: "an id that is no number",
        setup: nothing,
        line: "rm -q first",
        code: 2,
        says: &["\"first\"", "whole number"],
        proposes: "vshmem rm -m 16384 -s 16385",
    },
    Mistake {
        what: "an id that is too large",
        setup: nothing,
        line: "rm -q 99999999999",
        code: 2,
        says: &["99999999999", "must be from"],
        proposes: "vshmem rm -m 16384 -s 16385",
    },
    Mistake {
        what: "a key that is not there",
        setup: pool,
        line: "rm -S 0x4d2 --pool {pool}",
        code: 1,
        says: &["there is no semaphore set with key 0x000004d2"],
        proposes: "vshmem ls --pool {pool}",
    },
    Mistake {
        what: "the key of objects without one",
        setup: nothing,
        line: "rm -M 0",
        code: 2,
        says: &["IPC_PRIVATE", "by id"],
        proposes: "vshmem rm -m 16384 -s 16385",
    },
    Mistake {
        what: "a key that is no number",
        setup: nothing,
        line: "rm -Q name",
        code: 2,
        says: &["\"name\" is not a key"],
        proposes: "vshmem rm -Q 0x4d2 --pool job7",
    },
    Mistake {
        what: "a domain that is not there",
        setup: pool,
        line: "pool evict {pool} guest9",
        code: 1,
        says: &["no domain \"guest9\""],
        proposes: "vshmem ls --pool {pool}",
    },
    Mistake {
        what: "evicting oneself",
        setup: visited,
        line: "pool evict {pool} 0",
        code: 1,
        says: &["cannot evict itself"],
        proposes: "vshmem ls --pool {pool}",
    },
    Mistake {
        what: "removing a pool that a program uses",
        setup: |place| {
            pool(place);
            place.keep(Client::start(&place.pool));
        },
        line: "pool rm {pool}",
        code: 1,
        says: &["1 client uses it"],
        proposes: "vshmem pool rm {pool} --force",
    },
    Mistake {
        what: "removing a pool that a virtual machine has as a device",
        setup: |place| {
            pool(place);
            place.keep(Client::start_monitor(&place.pool));
        },
        line: "pool rm {pool}",
        code: 1,
        says: &["1 process has its file mapped", "virtual machine"],
        proposes: "vshmem pool rm {pool} --force",
    },
    Mistake {
        what: "removing a damaged pool that a virtual machine has as a device",
        setup: |place| {
            pool(place);
            place.keep(Client::start_monitor(&place.pool));
            let file = std::fs::OpenOptions::new().write(true).open(place.pool.path()).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, &[0xff; 16], 16).unwrap();
        },
        line: "pool rm {pool}",
        code: 1,
        says: &["1 process has its file mapped", "virtual machine"],
        proposes: "vshmem pool rm {pool} --force",
    },
    Mistake {
        what: "more programs than the table has rows",
        setup: |place| {
            let words = ["pool", "create", &place.pool.0, "--size", "8M", "--limit", "clients=1"];
            super::rig::expect(0, &words);
            place.keep(Client::start(&place.pool));
        },
        line: "rm -a --pool {pool}",
        code: 1,
        says: &["its table of clients is full (1)"],
        proposes: "vshmem pool create big --size 1G --limit clients=2",
    },
];
