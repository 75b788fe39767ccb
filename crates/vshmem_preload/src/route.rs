//! Which objects lie in the pool, and which stay with the kernel: `VSHMEM_SHARE`.

use std::sync::OnceLock;

use vshmem_ipc::{Kind, is_pool_id};

/// What `--share` says.
#[derive(Debug, Default)]
struct Share {
    everything: bool,
    kinds: [bool; 3],
    keys: Vec<(u32, u32)>,
}

fn share() -> &'static Share {
    static SHARE: OnceLock<Share> = OnceLock::new();
    SHARE.get_or_init(|| parse(&std::env::var("VSHMEM_SHARE").unwrap_or_default()))
}

fn parse(text: &str) -> Share {
    let mut share = Share { everything: text.is_empty(), ..Share::default() };
    for word in text.split(',') {
        match word {
            "all" => share.everything = true,
            "shm" => share.kinds[Kind::Segment as usize] = true,
            "sem" => share.kinds[Kind::Semaphore as usize] = true,
            "msg" => share.kinds[Kind::Queue as usize] = true,
            other => {
                let range = other.strip_prefix("key=").and_then(|range| {
                    let (low, high) = range.split_once('-').unwrap_or((range, range));
                    Some((number(low)?, number(high)?))
                });
                share.keys.extend(range);
            }
        }
    }
    share
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Whether everything lies in the pool.
pub fn all_in_pool() -> bool {
    share().everything
}

/// Whether all objects of a kind lie in the pool, so that calls about all of them go there.
pub fn kind_in_pool(kind: Kind) -> bool {
    let share = share();
    share.everything || share.kinds[kind as usize]
}

/// Whether an object of this kind and key lies in the pool.
pub fn key_in_pool(kind: Kind, key: i32) -> bool {
    let share = share();
    kind_in_pool(kind)
        || (key != 0 && share.keys.iter().any(|(low, high)| (*low..=*high).contains(&(key as u32))))
}

/// Whether an id is the pool's to answer for.
pub fn id_in_pool(id: i32) -> bool {
    is_pool_id(id) || all_in_pool()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_as_the_command_line_gives_them() {
        assert!(parse("").everything);
        assert!(parse("all").everything);
        let some = parse("shm,key=0x10-0x20,key=7");
        assert!(!some.everything && some.kinds[0] && !some.kinds[1]);
        assert_eq!(some.keys, [(16, 32), (7, 7)]);
    }
}
