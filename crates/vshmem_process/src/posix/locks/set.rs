//! Taking locks and giving them up.

use std::time::Duration;

use libc::c_int;
use vshmem_ipc::{Claimed, Client, Errno, LockRequest};
use vshmem_mem::sleep_shortly;

use super::claim::{self, Had};
use super::kernel::{Kernel, Locks};
use super::prior::Prior;
use crate::session::current;
use crate::{errno, process};

/// How long an agent holds a lock itself, at most, to find out whether a program does; and how
/// often that is waited for. One that has died in between is not waited for any longer.
const PROBE: Duration = Duration::from_micros(200);
const MOST_PROBES: u32 = 250;

/// What an agent does while its kernel is asked: what the kernel says may be about the agent's own
/// lock, and is asked again then.
#[derive(Debug, Default)]
pub(super) struct Probes {
    before: u32,
    waited_for: u32,
}

impl Probes {
    /// To be called before the kernel is asked.
    pub fn look(&mut self, client: &Client) -> Result<(), Errno> {
        self.before = client.lock_probes()?;
        Ok(())
    }

    /// Whether the kernel is to be asked again; the agent's lock has been waited for.
    pub fn are_waited_for(&mut self, client: &Client) -> Result<bool, Errno> {
        let goes_on = self.waited_for < MOST_PROBES
            && (self.before % 2 == 1 || client.lock_probes()? != self.before);
        if goes_on {
            self.waited_for += 1;
            sleep_shortly(PROBE);
        }
        Ok(goes_on)
    }
}

/// Takes a lock: `wait` asks the kernel for it and waits there.
pub(super) fn lock(
    kernel: &Kernel,
    request: &LockRequest,
    wait: &dyn Fn() -> c_int,
) -> Result<(), Errno> {
    let client = current::watchful_session()?.client();
    let mut probes = Probes::default();
    loop {
        let had = errno::untouched(|| claim::have(client, request))?;
        if let Had::Held(..) = had {
            return Err(Errno::AGAIN);
        }
        probes.look(client)?;
        match kernel.try_lock(request.mode, request.range) {
            Ok(()) => {
                if errno::untouched(|| is_claimed(client, request, had))? {
                    return Ok(());
                }
                give_up(client, kernel, request)?;
            }
            Err(Errno::AGAIN) => {
                errno::untouched(|| claim::give_back(client, had));
                if probes.are_waited_for(client)? {
                    continue;
                }
                if !request.blocks {
                    return Err(Errno::AGAIN);
                }
                let prior = Prior::of(kernel);
                if wait() == -1 {
                    return Err(Errno::from_raw_os_error(errno::get()));
                }
                if errno::untouched(|| is_claimed_now(client, request))? {
                    return Ok(());
                }
                match prior {
                    // Nothing may be held while this thread waits for others.
                    Some(prior) => prior.restore(kernel, request)?,
                    None => give_up(client, kernel, request)?,
                }
            }
            Err(other) => {
                errno::untouched(|| claim::give_back(client, had));
                return Err(other);
            }
        }
    }
}

/// Whether the place has the claim for a lock that the kernel has just granted.
fn is_claimed(client: &Client, request: &LockRequest, had: Had) -> Result<bool, Errno> {
    match had {
        Had::Alone => claim::is_alone(client, request),
        kept => {
            claim::give_back(client, kept);
            Ok(true)
        }
    }
}

/// As [`is_claimed`], without a claim that was had before. One that nobody else has is taken.
fn is_claimed_now(client: &Client, request: &LockRequest) -> Result<bool, Errno> {
    if claim::is_alone(client, request)? {
        return Ok(true);
    }
    match client.lock_ask(request)? {
        Claimed::Alone => Ok(true),
        Claimed::Kept(want) => client.lock_give_back(want).map(|()| true),
        Claimed::Asked(want) => client.lock_give_back(want).map(|()| false),
    }
}

/// Gives up what the kernel has granted, where the place has no claim for it: another place may
/// have granted it. What this process held before stays: for that, the place has a claim.
fn give_up(client: &Client, kernel: &Kernel, request: &LockRequest) -> Result<(), Errno> {
    if kernel.locks == Locks::Whole {
        return kernel.unlock(request.range);
    }
    for range in errno::untouched(|| client.lock_uncovered(request))? {
        kernel.unlock(range)?;
    }
    Ok(())
}

/// After an unlock, as C answers it.
pub(super) fn unlocked(result: c_int) -> c_int {
    if result == 0 {
        given_up();
    }
    result
}

/// A lock may have been given up: a client that waits for it in another domain is told.
pub fn given_up() {
    if let Some(session) = process::joined() {
        errno::untouched(|| {
            let _ = session.client().lock_given_up();
        });
    }
}
