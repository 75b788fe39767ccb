//! Names and files behind which there is no pool, or not any more.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use super::row::{Mistake, Place, nothing, pool};

/// Writes into the pool's file.
fn patch(place: &Place, at: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(place.pool.path()).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

pub const ROWS: &[Mistake] = &[
    Mistake {
        what: "a pool that is not there",
        setup: nothing,
        line: "run --pool {pool} -- true",
        code: 1,
        says: &["pool {pool}: there is none of that name"],
        proposes: "vshmem pool create {pool} --size {size}",
    },
    Mistake {
        what: "one that the environment names",
        setup: |place| place.set("VSHMEM_POOL", "mistakes-nowhere"),
        line: "ls",
        code: 1,
        says: &["pool mistakes-nowhere: there is none of that name"],
        proposes: "vshmem pool ls",
    },
    Mistake {
        what: "a path that is not there",
        setup: nothing,
        line: "ls --pool /dev/shm/{pool}",
        code: 1,
        says: &["/dev/shm/{pool}: there is no such pool"],
        proposes: "vshmem pool ls",
    },
    Mistake {
        what: "a directory",
        setup: nothing,
        line: "ls --pool {dir}",
        code: 1,
        says: &["{dir}: it is a directory"],
        proposes: "vshmem pool ls",
    },
    Mistake {
        what: "a device of another kind",
        setup: nothing,
        line: "run --pool /dev/null -- true",
        code: 1,
        says: &["/dev/null: it is no regular file"],
        proposes: "vshmem pool ls",
    },
    Mistake {
        what: "a short file that is something else",
        setup: |place| std::fs::write(place.path("text"), "not a pool\n").unwrap(),
        line: "pool rm {dir}/text",
        code: 1,
        says: &["{dir}/text", "it is not a pool"],
        proposes: "vshmem pool ls",
    },
    Mistake {
        what: "a pool that was overwritten",
        setup: |place| {
            pool(place);
            patch(place, 0, b"ELFELFEL");
        },
        line: "ls --pool {pool}",
        code: 1,
        says: &["magic number", "overwritten"],
        proposes: "vshmem pool ls",
    },
    Mistake {
        what: "a pool of another format",
        setup: |place| {
            pool(place);
            patch(place, 8, &99u32.to_ne_bytes());
        },
        line: "run --pool {pool} -- true",
        code: 1,
        says: &["format version 99"],
        proposes: "vshmem pool rm {pool}",
    },
    Mistake {
        what: "a truncated pool",
        setup: |place| {
            pool(place);
            let file = OpenOptions::new().write(true).open(place.pool.path()).unwrap();
            file.set_len(1 << 20).unwrap();
        },
        line: "pool check {pool}",
        code: 1,
        says: &["it was truncated"],
        proposes: "vshmem pool create {pool} --size {size}",
    },
    Mistake {
        what: "a damaged superblock",
        setup: |place| {
            pool(place);
            patch(place, 16, &[0xff; 16]);
        },
        line: "pool show {pool}",
        code: 1,
        says: &["damaged"],
        proposes: "vshmem pool rm {pool}",
    },
    Mistake {
        what: "a file for a pool that is a device",
        setup: nothing,
        line: "pool create {pool} --file /dev/zero --size 8M",
        code: 1,
        says: &["/dev/zero cannot become a pool", "no regular file"],
        proposes: "vshmem pool create {pool} --size 8388608",
    },
    Mistake {
        what: "a file for a pool that has something in it",
        setup: |place| std::fs::write(place.path("full"), vec![7; 8 << 20]).unwrap(),
        line: "pool create {pool} --file {dir}/full",
        code: 1,
        says: &["something is in it"],
        proposes: "truncate -s 0 {dir}/full && truncate -s 8388608 {dir}/full",
    },
    Mistake {
        what: "a socket where a regular file lies",
        setup: |place| {
            pool(place);
            std::fs::write(place.path("taken"), "").unwrap();
        },
        line: "pool serve {pool} --socket {dir}/taken",
        code: 1,
        says: &["cannot listen at {dir}/taken", "not a socket"],
        proposes: "vshmem pool serve {pool} --socket /run/vshmem/{pool}.sock",
    },
    Mistake {
        what: "a path where a name is meant",
        setup: pool,
        line: "pool serve {file}",
        code: 2,
        says: &["not its path"],
        proposes: "vshmem pool ls",
    },
];
