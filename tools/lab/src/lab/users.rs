//! The labs of this user, and users on the host for the guests of another one.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::host::directory::{Directory, root};
use crate::host::guest_processes::GuestProcesses;
use crate::host::record::{Outline, Record};
use crate::host::sweep::clear_away_locked;
use crate::lab::down::reap_all;

/// The users of guests come from here: numbers that no distribution and no container tool gives
/// out...
const FIRST_UID: u32 = 2_000_000_000;
const MOST_LABS: u32 = 64;
/// ...or, where a user namespace has no such numbers, from a gap that the distributions leave.
const SMALL_FIRST_UID: u32 = 60_600;
const FEW_LABS: u32 = 8;
/// Guests of one lab.
pub(super) const MOST_GUESTS: u32 = 64;

/// The names of all labs.
pub(super) fn names() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root()) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| Directory::of(name).is_ok())
        .collect()
}

/// The first of enough users that no lab has and no process runs as. Labs without a keeper keep
/// their console for who wants to read it, but only until others need their users. The caller holds
/// the naming lock.
pub(super) fn free_users() -> Result<u32> {
    if let Some(first) = unused_users() {
        return Ok(first);
    }
    for record in records().filter(|record| record.living_keeper().is_none()) {
        let directory = Directory::of(&record.name)?;
        reap_all(&record, &directory)?;
        clear_away_locked(&record, &directory)?;
    }
    unused_users().ok_or_else(|| Error::Argument {
        what: "the number of labs",
        value: format!("more than {}", users().1),
        rule: "no users are left for another lab's guests; take one down (`lab ls` shows them)",
    })
}

/// The first user of all labs, and how many labs there are users for.
fn users() -> (u32, u32) {
    if mapped(FIRST_UID) { (FIRST_UID, MOST_LABS) } else { (SMALL_FIRST_UID, FEW_LABS) }
}

fn unused_users() -> Option<u32> {
    let taken: Vec<u32> = names().iter().filter_map(|name| first_user_of(name)).collect();
    let (first, labs) = users();
    let nowhere = PathBuf::from("/nonexistent");
    (0..labs).map(|slot| first + slot * MOST_GUESTS).find(|first| {
        // Another release may have given out users from other numbers on.
        !taken.iter().any(|taken| taken.abs_diff(*first) < MOST_GUESTS)
            && GuestProcesses::take(&(*first..first + MOST_GUESTS), &nowhere).is_empty()
    })
}

/// The first user of a lab, also of one that another release has made.
fn first_user_of(name: &str) -> Option<u32> {
    Outline::read(&Directory::of(name).ok()?).first_uid
}

/// The records of all labs that this release understands.
fn records() -> impl Iterator<Item = Record> {
    names().into_iter().filter_map(|name| Record::read(&Directory::of(&name).ok()?).ok()?)
}

/// Does this user namespace have that user?
fn mapped(uid: u32) -> bool {
    let Ok(map) = std::fs::read_to_string("/proc/self/uid_map") else {
        return false;
    };
    map.lines().any(|line| {
        let words = line.split_whitespace();
        let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        let [inside, _, count] = numbers[..] else { return false };
        (inside..inside + count).contains(&u64::from(uid))
    })
}
