//! What a session that was killed has left: its lab and its pools.

use procfs::process::Process;

use vshmem_lab::Lab;

use crate::study::journal::Session;

/// Names of labs and pools of a process go by its number and count up to this.
const MOST: u32 = 8;

/// This process: its number, and when it began by the kernel's clock.
#[must_use]
pub fn this_process() -> (u32, u64) {
    let own = std::process::id();
    (own, began(own).unwrap_or(0))
}

/// Takes down what sessions have left whose process has ended.
pub fn clear_leftovers(sessions: &[Session]) {
    for session in sessions {
        let (number, since) = session.process;
        if began(number) == Some(since) {
            continue;
        }
        for nth in 0..MOST {
            let name = format!("bench-{number}-{nth}");
            // Mostly there is nothing of that name.
            let _ = Lab::down_named(&name);
            let _ = vshmem_session::remove(&name);
        }
    }
}

/// When a process began, in ticks since boot; none if there is no such process.
fn began(process: u32) -> Option<u64> {
    Some(Process::new(i32::try_from(process).ok()?).ok()?.stat().ok()?.starttime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_beginning() {
        let (number, since) = this_process();
        assert!(since > 0 && began(number) == Some(since));
        assert_eq!(began(u32::MAX), None);
    }
}
