//! Plays what the fuzzer has found worth keeping (`fuzz/corpus`), without the fuzzer.

use crate::places;
use crate::script::{TARGETS, open, play, seal};
use crate::setup::Setup;
use crate::watchdog::Watchdog;
use vshmem_ipc::Pool;

fn stories(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");
    let entries = std::fs::read_dir(format!("{folder}/{target}")).expect("a corpus");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("an entry").path();
        (path.display().to_string(), std::fs::read(path).expect("a sequence"))
    };
    entries.map(read).collect()
}

#[test]
fn stories_of_the_fuzzer_end_well() {
    let setup = Setup::new();
    let pool = setup.lay_out();
    let layout = *pool.layout();
    let watchdog = Watchdog::new(1);
    for (target, names) in TARGETS {
        let places = places::named(&layout, names);
        for (name, sequence) in stories(target) {
            play(&setup, &pool, &places, &sequence, &mut |call, run| {
                watchdog.call(0, || format!("{call} in {name}"), run);
            });
        }
    }
}

/// Those of another format, or that are cut short, say nothing about what is behind the superblock.
#[test]
fn a_superblock_of_the_fuzzer_is_that_of_a_pool() {
    let is_pool = |mut header: Vec<u8>| {
        seal(&mut header);
        Pool::identify(&header, 1 << 40).is_ok()
    };
    let has_pool = stories("open").into_iter().any(|(_, header)| is_pool(header));
    assert!(has_pool, "`fuzz/seeds target/release/vshmem` makes some");
}

#[test]
fn superblocks_of_the_fuzzer_are_refused_or_possible() {
    let watchdog = Watchdog::new(1);
    for (name, header) in stories("open") {
        watchdog.call(0, || name.clone(), || open(&header));
    }
}

#[test]
fn a_changed_superblock_opens_nothing_else() {
    let watchdog = Watchdog::new(1);
    let mut header = vec![0; Pool::HEADER_BYTES];
    Setup::new().lay_out().map().read(0, &mut header).unwrap();
    for at in 0..Pool::HEADER_BYTES / 4 {
        for value in [0, 1, 2, 7, 127, 0x7fff, 1 << 20, i32::MAX as u32, u32::MAX] {
            let mut header = header.clone();
            header[4 * at..4 * at + 4].copy_from_slice(&value.to_ne_bytes());
            watchdog.call(0, || format!("word {at} is {value}"), || open(&header));
        }
    }
}
