//! The terminal that `top` draws on: taken without line editing, and given back whatever happens.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::sort::Sort;
use crate::failure::Failure;
use crate::show;

const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
const HOME: &str = "\x1b[H";
const INVERSE: &str = "\x1b[7m";
const PLAIN: &str = "\x1b[m";
/// Another screen than the shell's, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// To end.
    End,
    /// To sort by the next column.
    Sort,
}

/// The terminal, as long as it is drawn on.
pub struct Screen {
    /// How standard input was before, if that is a terminal.
    before: Option<Termios>,
    /// Set by a signal that asks to end.
    ended: Arc<AtomicBool>,
    has_colour: bool,
}

impl Screen {
    /// Takes the terminal: keys are read as they are pressed.
    pub fn take() -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Without it the signal ends the command at once, and the terminal stays as it is.
            let _ = signal_hook::flag::register(signal, Arc::clone(&ended));
        }
        let stdin = std::io::stdin();
        let before = if stdin.is_terminal() { tcgetattr(&stdin).ok() } else { None };
        if let Some(before) = &before {
            let mut now = before.clone();
            now.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            let _ = tcsetattr(&stdin, OptionalActions::Now, &now);
        }
        let _ = show::text(ENTER);
        Self { before, ended, has_colour: show::colours(&std::io::stdout()) }
    }

    /// Waits for a key for so long.
    pub fn key_within(&self, span: Duration) -> Option<Key> {
        let end = Instant::now() + span;
        loop {
            if self.ended.load(Ordering::Relaxed) {
                return Some(Key::End);
            }
            let left = end.checked_duration_since(Instant::now())?;
            if self.before.is_none() {
                std::thread::sleep(left.min(Duration::from_millis(100)));
                continue;
            }
            let stdin = std::io::stdin();
            let mut asked = [PollFd::new(&stdin, PollFlags::IN)];
            // A signal interrupts it, and is looked at above.
            let ready = poll(&mut asked, Timespec::try_from(left).ok().as_ref()).unwrap_or(0);
            if ready == 0 {
                continue;
            }
            let mut byte = [0];
            match rustix::io::read(&stdin, &mut byte) {
                Ok(0) => return Some(Key::End),
                Ok(_) if matches!(byte[0], b'q' | b'Q') => return Some(Key::End),
                Ok(_) if matches!(byte[0], b's' | b'S') => return Some(Key::Sort),
                _ => {}
            }
        }
    }

    /// Draws a text over what was there. False when the terminal is gone.
    pub fn draw(&self, text: &str, sort: Sort) -> Result<bool, Failure> {
        let size = tcgetwinsize(std::io::stdout()).ok();
        let (rows, columns) = size.map_or((24, 80), |size| (size.ws_row, size.ws_col));
        let frame = frame(text, sort, (rows.into(), columns.into()), self.has_colour);
        show::write(&frame)
    }
}

/// As many lines as there is room for, each cut to the width, and a line about keys.
fn frame(text: &str, sort: Sort, (rows, columns): (usize, usize), has_colour: bool) -> String {
    let mut frame = HOME.to_owned();
    for (nth, line) in text.lines().take(rows.saturating_sub(1)).enumerate() {
        let line: String = line.chars().take(columns).collect();
        let is_head = nth == 0 || line.starts_with("------");
        if is_head && has_colour {
            frame.push_str(&format!("{INVERSE}{line}{PLAIN}{CLEAR_LINE}\r\n"));
        } else {
            frame.push_str(&format!("{line}{CLEAR_LINE}\r\n"));
        }
    }
    let keys = format!("q ends, s sorts by the next column (now: {sort:?})").to_lowercase();
    let keys: String = keys.chars().take(columns).collect();
    frame.push_str(&format!("{CLEAR_BELOW}{keys}"));
    frame
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = show::text(LEAVE);
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fits_the_terminal_and_has_colour_only_where_it_is_wanted() {
        let plain = frame("0123456789\nb\nc\nd", Sort::Rate, (3, 5), false);
        assert_eq!(plain, "\x1b[H01234\x1b[K\r\nb\x1b[K\r\n\x1b[Jq end");
        assert!(frame("a", Sort::Rate, (3, 5), true).contains(INVERSE));
    }
}
