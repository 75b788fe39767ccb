//! `vshmem top`: what goes on in a pool, again and again. Looks without joining.

mod rates;
mod reading;
mod report;
mod screen;
mod sort;
mod tables;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use vshmem_ipc::Pool;
use vshmem_session::open_pool;

use crate::failure::{Failure, Outcome};
use crate::{choice, show};

use reading::Reading;
use report::Report;
pub use report::{noun, noun_of};
use screen::{Key, Screen};
use sort::Sort;

/// Show what goes on in a pool: operations, messages, waits, and who waits for whom.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Top {
    /// The pool. Without: as `vshmem run` finds it.
    #[arg(long)]
    pool: Option<String>,
    /// Print tables one after the other, without redrawing; so it is where the output is no
    /// terminal.
    #[arg(long)]
    batch: bool,
    /// Print a JSON object per interval, each on a line.
    #[arg(long)]
    json: bool,
    /// Seconds between two readings.
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = interval)]
    interval: Duration,
    /// End after so many intervals. Without: go on until it is stopped.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// What comes first in each table.
    #[arg(long, default_value = "rate")]
    sort: Sort,
}

const EXAMPLES: &str = "\
Examples:
  vshmem top --pool job7                     on a terminal; q ends it, s sorts by the next column
  vshmem top --sort waiting --interval 5
  vshmem top --batch --count 3 >what-went-on
  vshmem top --json --count 1 | jq .total

RATE/S is operations of semaphores (one for each semaphore of an array), messages sent, and
attaches and detaches of segments. They are counted exactly, in all processes, and cost nothing:
they are read off what calls leave in the pool anyway. BYTES/S is estimated: messages, times the
mean size of those that could be seen. WAITS/S: threads that had to enter a wait queue;
WAKEUPS/S: waits that another thread has ended. LAST is the process that operated, sent or received
there last: the wait is likely to end by it.";

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is not a number of seconds".to_owned())?;
    if (0.01..=86400.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("it is from 0.01 to 86400 seconds".to_owned())
    }
}

impl Top {
    /// Shows it.
    pub fn carry_out(self) -> Outcome {
        let link = choice::open(self.pool.as_deref())?;
        let pool = open_pool(link.as_ref())?;
        if self.json || self.batch || !std::io::stdout().is_terminal() {
            self.print(&pool)?;
        } else {
            self.draw(&pool)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// One report after the other, until the output is closed.
    fn print(&self, pool: &Pool) -> Result<(), Failure> {
        let mut before = Reading::of(pool)?;
        for nth in 0..self.count.unwrap_or(u64::MAX) {
            before.see_sizes_for(pool, self.interval, std::thread::sleep)?;
            let now = Reading::after(&before, pool)?;
            let report = Report::between(&before, &now, pool, self.sort);
            let text = if self.json {
                show::json_line(&report)?
            } else {
                let gap = if nth == 0 { "" } else { "\n" };
                format!("{gap}{}", tables::text(&report))
            };
            if !show::write(&text)? {
                break;
            }
            before = now;
        }
        Ok(())
    }

    /// Redraws the terminal until q is pressed.
    fn draw(&self, pool: &Pool) -> Result<(), Failure> {
        let screen = Screen::take();
        let mut sort = self.sort;
        let mut before = Reading::of(pool)?;
        let mut drawn = 0;
        while self.count.is_none_or(|count| drawn < count) {
            let begun = Instant::now();
            let mut key = None;
            before.see_sizes_for(pool, self.interval, |span| {
                if key.is_none() {
                    key = screen.key_within(span);
                }
            })?;
            match key {
                Some(Key::End) => return Ok(()),
                Some(Key::Sort) => sort = sort.next(),
                None => drawn += 1,
            }
            let now = Reading::after(&before, pool)?;
            let report = Report::between(&before, &now, pool, sort);
            if !screen.draw(&tables::text(&report), sort)? {
                return Ok(());
            }
            // A key draws at once; rates over too short a time say nothing.
            if begun.elapsed() >= self.interval / 2 {
                before = now;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_seconds() {
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "soon", "nan", "1e9"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
