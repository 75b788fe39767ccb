//! Messages that say who sent them and whether they are whole, as programs/storm.c makes them.

const HEAD: usize = 16;
/// Types above this tell sender and number of a message too short to do so itself.
const TELLING: i64 = 1 << 40;

/// Sender and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin {
    pub sender: u32,
    pub number: u32,
}

fn sum_of(text: &[u8], number: u32) -> u32 {
    text.iter().fold(number, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)))
}

/// A message of that length, and its type.
pub fn make(origin: Origin, bytes: usize) -> (i64, Vec<u8>) {
    let Origin { sender, number } = origin;
    if bytes < HEAD {
        let kind = TELLING + (i64::from(sender) << 24) + i64::from(number);
        return (kind, vec![number as u8; bytes]);
    }
    let filling: Vec<u8> = (0..bytes - HEAD).map(|at| (number as usize + at) as u8).collect();
    let mut text = Vec::with_capacity(bytes);
    for word in [sender, number, bytes as u32, sum_of(&filling, number)] {
        text.extend(word.to_ne_bytes());
    }
    text.extend(filling);
    (i64::from(1 + number % 4), text)
}

/// Who sent it; an error when it is not as it was sent.
pub fn read(kind: i64, text: &[u8]) -> Result<Origin, String> {
    let torn = || format!("a torn message: type {kind}, {} bytes", text.len());
    let origin = if kind >= TELLING {
        let said = kind - TELLING;
        Origin { sender: (said >> 24) as u32, number: (said & 0xff_ffff) as u32 }
    } else {
        let word = |at: usize| {
            let bytes = text.get(4 * at..4 * at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u32::from_ne_bytes).ok_or_else(torn)
        };
        Origin { sender: word(0)?, number: word(1)? }
    };
    if make(origin, text.len()) == (kind, text.to_vec()) { Ok(origin) } else { Err(torn()) }
}
