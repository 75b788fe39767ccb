//! A member of a team whose others write anything: its calls end, with a result or with a failure
//! that stays, and reach nothing else. `fuzz/run 60 team` makes up longer ones.

mod sequence;

#[test]
fn members_that_write_anything_harm_their_team_only() {
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut throw = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 24) as u8
    };
    for nth in 0..3000 {
        // Every other one with honest members for a while.
        let honest = if nth % 2 == 0 { 0x7f } else { 0xff };
        let length = usize::from(throw());
        let bytes: Vec<u8> = (0..length).map(|_| throw() & honest).collect();
        sequence::play(&bytes);
    }
}

#[test]
fn what_fuzzing_has_kept_is_played_again() {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/team");
    for entry in std::fs::read_dir(kept).unwrap() {
        sequence::play(&std::fs::read(entry.unwrap().path()).unwrap());
    }
}
