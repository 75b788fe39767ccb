//! A server among peers, processes and members that do what they like: it goes on, or ends with a
//! reason, and keeps nothing.

mod sequence;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::sync::Mutex;

use sequence::Stage;

/// One at a time: descriptors are counted.
static TURN: Mutex<()> = Mutex::new(());

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Bytes that look like stories: actions more often than anything else.
fn made_up(seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let requests = [&b"ring 1"[..], b"ring 65536", b"ring 0", b"ring 00000000000000000000001"];
    let mut sequence = Vec::new();
    while sequence.len() < 400 {
        let what = (next() % 10) as u8;
        sequence.push(what);
        match what {
            5 if next() % 2 == 0 => {
                let request = requests[next() as usize % requests.len()];
                sequence.push(request.len() as u8);
                sequence.extend(request);
            }
            6 | 7 => {
                // Offset and value, small ones as a rule.
                sequence.push(2);
                sequence.extend((next() as u16).to_be_bytes());
                let bytes = if next() % 3 == 0 { 8 } else { 1 };
                sequence.push(bytes);
                sequence.extend(&next().to_be_bytes()[..usize::from(bytes)]);
            }
            _ => sequence.extend(&next().to_be_bytes()[..2]),
        }
    }
    sequence
}

#[test]
fn whatever_is_done_to_a_server_it_ends_in_order() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let stage = Stage::new("random");
    stage.play(&[]);
    let before = descriptors();
    for round in 0..300 {
        let seed = RandomState::new().build_hasher().finish();
        let sequence = made_up(seed);
        let played =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stage.play(&sequence)));
        assert!(played.is_ok(), "round {round}: made_up({seed:#x})");
    }
    assert_eq!(descriptors(), before, "descriptors were kept");
}

#[test]
fn stories_of_the_fuzzer_end_well() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/server"));
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let stage = Stage::new("corpus");
    let mut stories = 0;
    for entry in std::fs::read_dir(folder).expect("fuzz/corpus/server").flatten() {
        stage.play(&std::fs::read(entry.path()).unwrap());
        stories += 1;
    }
    assert!(stories > 0, "an empty corpus");
}
