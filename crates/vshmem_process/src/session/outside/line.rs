//! A line of text that is put together without the heap.

use std::fmt::{self, Write};

/// A line without the heap. What does not fit is cut off.
pub struct Line {
    bytes: [u8; 640],
    used: usize,
}

impl Line {
    /// So much of a path is shown.
    const SHOWN: usize = 256;

    /// An empty one.
    pub fn new() -> Self {
        Self { bytes: [0; 640], used: 0 }
    }

    /// Another user's text, for a terminal. Behind 0xc2, in UTF-8, 0x80 to 0x9f are control
    /// characters as well; and by themselves on a terminal of 8-bit characters.
    pub fn put(&mut self, text: &[u8]) {
        let mut before = 0;
        for &byte in text.iter().take(Self::SHOWN) {
            let is_high_control = (0x80..0xa0).contains(&byte) && (before == 0xc2 || before < 0x80);
            self.push(if byte.is_ascii_control() || is_high_control { b'?' } else { byte });
            before = byte;
        }
    }

    /// A number, in decimal.
    pub fn put_number(&mut self, number: u32) {
        let _ = write!(self, "{number}");
    }

    /// One character, as it is.
    pub fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.used) {
            (*place, self.used) = (byte, self.used + 1);
        }
    }

    /// What was put so far.
    pub fn written(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.push(byte));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Line;

    #[test]
    fn names_of_programs_write_nothing_but_text_on_a_terminal() {
        let mut line = Line::new();
        line.put("a\u{1b}[2J\u{9b}2J\u{e4}\u{20ac}".as_bytes());
        line.put(b"\x9b2J");
        assert_eq!(line.written(), b"a?[2J\xc2?2J\xc3\xa4\xe2\x82\xac?2J");
    }
}
