//! The user who waits for a benchmark.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use vshmem_bench::Watch;

use crate::failure::Failure;

/// The user: is shown how far it is, and may break it off. What was started is then taken down in
/// order; a second Ctrl-C ends at once.
pub struct Terminal {
    stop: Arc<AtomicBool>,
    /// Hidden where standard error is no terminal: then there is a line now and then.
    bar: ProgressBar,
    last_line: Mutex<Option<Instant>>,
}

/// Between two lines in a file.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

impl Terminal {
    /// Watches for signals from now on.
    pub fn watch() -> Result<Self, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
                .map_err(|error| {
                    Failure::failed(format!("cannot watch for signal {signal}: {error}"))
                })?;
        }
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(0).with_style(style.progress_chars("=> "));
        Ok(Self { stop, bar, last_line: Mutex::new(Some(Instant::now())) })
    }

    /// Wipes the line of progress.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
        if std::io::stderr().is_terminal() {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

impl Watch for Terminal {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn tell(&self, line: &str) {
        if std::io::stderr().is_terminal() {
            let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
        }
    }

    fn advance(&self, done: usize, of: usize, left: Option<Duration>, now: &str) {
        self.bar.set_length(of as u64);
        self.bar.set_position(done as u64);
        let left = left.map_or(String::new(), |left| match left.as_secs() {
            seconds @ 0..120 => format!("{seconds} s left, "),
            seconds => format!("{} min left, ", seconds.div_ceil(60)),
        });
        if !std::io::stderr().is_terminal() {
            self.line_now_and_then(&format!("vshmem: {done} of {of} runs, {left}now {now}"));
        }
        self.bar.set_message(format!("{left}{now}"));
    }
}

impl Terminal {
    /// For a file that somebody looks into.
    fn line_now_and_then(&self, line: &str) {
        let Ok(mut last) = self.last_line.lock() else { return };
        if last.is_none_or(|last| last.elapsed() >= BETWEEN_LINES) {
            *last = Some(Instant::now());
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }
}
