//! Taking a lab down, whatever is left of it.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::Result;
use crate::host::directory::Directory;
use crate::host::record::Record;
use crate::host::sweep::{exterminate, sweep};
use crate::keeper::run_death_command;
use crate::lab::ask::{answers, ask_at};
use crate::model::names::death_command;
use crate::transport::control::{ControlRequest, Reply};

/// How long the keeper may take to end all guests and give their death notices.
const CLOSING: Duration = Duration::from_secs(60);

/// Ends everything of the lab and clears it away.
pub(super) fn take_down(record: &Record, directory: &Directory) -> Result<()> {
    let noticed = record.living_keeper().is_some_and(|keeper| end_keeper(keeper, directory));
    if noticed {
        sweep(record, directory)
    } else {
        reap_all(record, directory).and_then(|()| sweep(record, directory))
    }
}

/// Ends the keeper: asks it first, then kills it. True if it ended all guests and gave notice of
/// their deaths.
pub(super) fn end_keeper(keeper: i32, directory: &Directory) -> bool {
    let Some(pidfd) =
        Pid::from_raw(keeper).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
    else {
        return false;
    };
    // One that is stopped would keep this command for as long as the end of the guests may take.
    let noticed = answers(directory)
        && matches!(
            ask_at(&directory.socket(), &ControlRequest::Down, CLOSING),
            Ok((_, Reply::Done, _))
        );
    let gone = |limit: Duration| {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left)) {
                Err(rustix::io::Errno::INTR) => {}
                answer => return matches!(answer, Ok(1..)),
            }
        }
    };
    if !(noticed && gone(Duration::from_secs(5))) {
        let _ = pidfd_send_signal(&pidfd, Signal::KILL);
        gone(Duration::from_secs(5));
    }
    noticed
}

/// Empties the guests of a lab without a keeper, and gives notice of their deaths in its stead.
pub(super) fn reap_all(record: &Record, directory: &Directory) -> Result<()> {
    exterminate(record, directory)?;
    for guest in record.guests() {
        if let Some(words) = record.on_death.as_ref().filter(|_| record.keeper.is_some()) {
            // The pool may be gone with everything else; the lab goes in any case.
            if let Err(error) = run_death_command(&death_command(words, guest)) {
                eprintln!("vshmem-lab: guest{guest}: no death notice: {error}");
            }
        }
    }
    Ok(())
}
