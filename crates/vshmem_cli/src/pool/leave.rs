//! `vshmem pool leave`, `vshmem pool drain` and `vshmem pool join`: a domain leaves a pool in good
//! order, and comes back.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use vshmem_agent::{DEPARTURE_STEP, Departure, Holder, Progress};
use vshmem_ipc::{Client, DomainRow, Pool};
use vshmem_link::{Link, command_name};
use vshmem_session::{Session, find, open_pool};
use vshmem_wire::DomainState;

use super::evict::{choose, no_such_domain};
use crate::failure::{Failure, Outcome, failed, unreadable};
use crate::here::is_here;
use crate::show;
use crate::visit::Visit;

/// Leave a pool: programs here go on with private copies of what they have attached.
#[derive(Debug, Args)]
#[command(after_help = LEAVE_EXAMPLES)]
pub struct Leave {
    /// The pool's name or device.
    name: String,
    /// Seconds until those that have not parted are named, and this domain is evicted.
    #[arg(long, value_name = "SECS", default_value_t = 30)]
    within: u64,
}

/// Have a domain leave a pool.
#[derive(Debug, Args)]
#[command(after_help = DRAIN_EXAMPLES)]
pub struct Drain {
    /// The pool's name.
    name: String,
    /// The domain: its name, or its number as `vshmem ls` shows it.
    domain: String,
    /// Seconds until those that have not parted are named, and the domain is evicted.
    #[arg(long, value_name = "SECS", default_value_t = 30)]
    within: u64,
}

/// Let programs here use a pool again that this domain has left.
#[derive(Debug, Args)]
#[command(after_help = JOIN_EXAMPLES)]
pub struct Join {
    /// The pool's name or device.
    name: String,
}

const LEAVE_EXAMPLES: &str = "\
Examples:
  vshmem pool leave job7               in a guest: then the device can be unplugged
  vshmem pool leave job7 --within 5    what has not parted after 5 seconds is named, and evicted";

const DRAIN_EXAMPLES: &str = "\
Examples:
  vshmem pool drain job7 guest2        on the host: the guest's agent does what `vshmem pool leave` does";

const JOIN_EXAMPLES: &str = "\
Examples:
  vshmem pool join job7                programs that start from now on use it again";

impl Leave {
    /// Leaves.
    pub fn carry_out(self) -> Outcome {
        let link = find(&self.name)?;
        require_right(link.as_ref(), &self.name, "this domain leaves it")?;
        let session = Session::join_to_leave(link)?;
        let left = leave(&session, &self.name, Duration::from_secs(self.within));
        let _ = session.leave();
        left
    }
}

/// Carries it out as a member.
fn leave(session: &Session, name: &str, within: Duration) -> Outcome {
    let this_client = session.client();
    let broken = unreadable(name);
    let rows = this_client.pool().domains().map_err(&broken)?;
    let own = rows.iter().find(|row| row.index == this_client.domain());
    let epoch = own.map_or(0, |row| row.epoch);
    if !this_client.has_left() {
        this_client.begin_leave(this_client.domain(), epoch, false).map_err(&broken)?;
    }
    let departure = match Departure::new(session) {
        Ok(departure) => departure,
        Err(errno) => {
            this_client.come_back().map_err(&broken)?;
            return failed(format!(
                "pool {name}: cannot see which processes have it mapped ({errno}): /proc has to show those of this PID namespace. Mount it: `mount -t proc proc /proc`"
            ));
        }
    };
    let end = Instant::now() + within;
    let mut progress = departure.step().map_err(&broken)?;
    while let Progress::Waits(holders) = &progress {
        if Instant::now() >= end {
            return give_up(this_client, &departure, name, holders, within);
        }
        std::thread::sleep(DEPARTURE_STEP);
        progress = departure.step().map_err(&broken)?;
    }
    show::line(format!(
        "pool {name}: this domain has left it, and nothing here has it mapped. `vshmem pool join {name}` lets programs use it again"
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// The time is over. Those that were told are not asked any longer: maybe they are all.
fn give_up(
    this_client: &Client,
    departure: &Departure<'_>,
    name: &str,
    told: &[Holder],
    within: Duration,
) -> Outcome {
    let broken = unreadable(name);
    let deadline = Instant::now() + DEPARTURE_STEP * 20;
    let mut holders = told.to_vec();
    while Instant::now() < deadline {
        match departure.part().map_err(&broken)? {
            Progress::Done => holders.clear(),
            Progress::Waits(waits) => holders = waits,
        }
        if holders.is_empty() {
            break;
        }
        std::thread::sleep(DEPARTURE_STEP);
    }
    this_client.evict_domain(this_client.domain()).map_err(&broken)?;
    let named = holders.iter().chain(told.iter().filter(|told| !holders.contains(told)));
    let named: Vec<String> = named
        .map(|holder| {
            let command = command_name(holder.pid).unwrap_or_default();
            format!("{} (pid {}): {}", show::sanitized(&command), holder.pid, holder.why)
        })
        .collect();
    failed(format!(
        "pool {name}: after {} s not all programs of this domain had parted, so that it is evicted. {}. They get SIGBUS when the device is unplugged: end them first. When they have ended, `vshmem pool evict {name} DOMAIN --dead` on the host gives back what they had",
        within.as_secs(),
        named.join(". ")
    ))
}

impl Drain {
    /// Asks the domain's agent, and waits.
    pub fn carry_out(self) -> Outcome {
        let link = find(&self.name)?;
        require_right(link.as_ref(), &self.name, "a domain leaves it")?;
        let pool = open_pool(link.as_ref())?;
        let Some(row) = choose(&pool, &self.name, &self.domain)? else {
            return no_such_domain(&self.name, &self.domain);
        };
        if is_here(&row) {
            return failed(format!(
                "pool {}: {} is the domain that this command runs in: `vshmem pool leave {0}`",
                self.name,
                show::sanitized(&row.name)
            ));
        }
        if !row.state.takes_part() && row.state != DomainState::Left {
            return failed(format!(
                "pool {}: {} is evicted or dead, and has nothing to leave",
                self.name,
                show::sanitized(&row.name)
            ));
        }
        let drained = Visit::join(link)?.with(|this_client| self.wait(this_client, &row));
        drained.unwrap_or(Ok(ExitCode::SUCCESS))
    }

    fn wait(&self, this_client: &Client, row: &DomainRow) -> Outcome {
        let broken = unreadable(&self.name);
        let shown = show::sanitized(&row.name);
        if row.state != DomainState::Left {
            this_client.begin_leave(row.index, row.epoch, true).map_err(&broken)?;
        }
        let end = Instant::now() + Duration::from_secs(self.within);
        loop {
            match stands(this_client.pool(), row).map_err(&broken)? {
                None | Some(DomainState::Dead | DomainState::Evicted | DomainState::Alive) => {
                    return failed(format!(
                        "pool {}: {shown} was evicted, ended, or told to join again meanwhile",
                        self.name
                    ));
                }
                Some(DomainState::Left) if clients(this_client.pool(), row).is_empty() => break,
                _ if Instant::now() >= end => return self.give_up(this_client, row),
                _ => std::thread::sleep(DEPARTURE_STEP),
            }
        }
        show::line(format!(
            "pool {}: {shown} has left it, and nothing there has it mapped",
            self.name
        ))?;
        Ok(ExitCode::SUCCESS)
    }

    fn give_up(&self, this_client: &Client, row: &DomainRow) -> Outcome {
        let shown = show::sanitized(&row.name);
        let named: Vec<String> = clients(this_client.pool(), row)
            .iter()
            .map(|client| format!("{shown}:{} (user {})", client.pid, client.uid))
            .collect();
        this_client.evict_epoch(row.index, row.epoch).map_err(unreadable(&self.name))?;
        failed(format!(
            "pool {}: after {} s not all programs of {shown} had parted, so that it is evicted: {}. They get SIGBUS when the device is unplugged. When its machine has ended: `vshmem pool evict {0} {shown} --dead`",
            self.name,
            self.within,
            if named.is_empty() { "its agent did not answer".to_owned() } else { named.join(", ") }
        ))
    }
}

/// Where the domain stands, if it is still the same.
fn stands(pool: &Pool, row: &DomainRow) -> Result<Option<DomainState>, vshmem_ipc::Errno> {
    let rows = pool.domains()?;
    let same = rows.iter().find(|now| (now.index, now.epoch) == (row.index, row.epoch));
    Ok(same.map(|row| row.state))
}

/// The clients that a domain has.
fn clients(pool: &Pool, row: &DomainRow) -> Vec<vshmem_ipc::ClientRow> {
    let rows = pool.clients().unwrap_or_default();
    rows.into_iter().filter(|client| client.domain == row.index).collect()
}

impl Join {
    /// Comes back.
    pub fn carry_out(self) -> Outcome {
        let link = find(&self.name)?;
        require_right(link.as_ref(), &self.name, "this domain joins it again")?;
        let session = Session::join_to_leave(link)?;
        let came_back = session.client().come_back().map_err(unreadable(&self.name));
        let _ = session.leave();
        show::line(if came_back? {
            format!("pool {}: programs of this domain use it again", self.name)
        } else {
            format!("pool {}: this domain had not left it: programs use it", self.name)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether the caller may decide that for all users.
fn require_right(link: &dyn Link, name: &str, what: &str) -> Result<(), Failure> {
    let user = rustix::process::geteuid().as_raw();
    if link.is_ruled_by(user) {
        return Ok(());
    }
    failed(format!(
        "pool {name}: whether {what} is decided by root, or by the owner of {}, for all users. Run it as one of these",
        link.path().display()
    ))
}
