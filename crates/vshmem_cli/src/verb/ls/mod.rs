//! `vshmem ls`: ipcs for a pool, with the domains and clients behind it. Looks without joining.

pub mod limits;
pub mod lines;
mod tables;
pub mod view;

use std::process::ExitCode;

use clap::Args;
use vshmem_ipc::{Kind, ObjectDetails, Pool};
use vshmem_link::LeftProgram;
use vshmem_session::open_pool;

use crate::account::user_name;
use crate::failure::{Failure, Outcome, unreadable};
use crate::node_bytes::has_several_nodes;
use crate::pool::Participants;
use crate::{choice, show};

use lines::{Contents, LeftLine};
use view::View;

/// Show what is in a pool and who uses it (as ipcs does).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Ls {
    /// Segments only.
    #[arg(short = 'm', long = "shmems")]
    segments: bool,
    /// POSIX shared memory objects only, named semaphores among them.
    #[arg(short = 'M', long = "posix-shmems")]
    posix_shm: bool,
    /// Queues only.
    #[arg(short = 'q', long = "queues")]
    queues: bool,
    /// POSIX queues only.
    #[arg(short = 'Q', long = "posix-queues")]
    posix_queues: bool,
    /// Semaphore sets only.
    #[arg(short = 's', long = "semaphores")]
    semaphores: bool,
    /// Only how much of each limit is used.
    #[arg(long, conflicts_with_all = ["segments", "posix_shm", "queues", "posix_queues", "semaphores"])]
    limits: bool,
    /// Also who holds an internal lock at this moment.
    #[arg(long)]
    locks: bool,
    /// Programs that have left the pool in this kernel, and why: the library was not loaded into
    /// them, so they use the kernel's IPC. Yours and root's; for root, all users'.
    #[arg(long)]
    left: bool,
    /// The pool. Without: as `vshmem run` finds it.
    #[arg(long)]
    pool: Option<String>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  vshmem ls                      your private pool
  vshmem ls -m --pool job7       its segments
  vshmem ls --limits             what is full (as ipcs -u and -l)
  vshmem ls --pool job7 --json
  vshmem ls --left               what runs outside of the pool, and why

A domain is alive, silent (alive, with clients, and no sign of life for 5 s: paused, or without an
agent), evicted (declared gone; what it has attached is kept), or dead.";

impl Ls {
    /// Shows it.
    pub fn carry_out(self) -> Outcome {
        let link = choice::open(self.pool.as_deref())?;
        let pool = open_pool(link.as_ref())?;
        let mut contents = self.look(&pool)?;
        if has_several_nodes() {
            contents.find_nodes(link.as_ref(), &pool);
        }
        if self.json {
            show::json(&contents)?;
        } else {
            show::text(&tables::text(contents))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn look(&self, pool: &Pool) -> Result<Contents, Failure> {
        let name = pool.name();
        let posix = self.posix_shm || self.posix_queues;
        let asked = [self.segments, self.queues, self.semaphores, self.left, self.limits];
        let everything = !posix && asked.iter().all(|asked| !asked);
        let view = View {
            participants: Participants::of(pool)?,
            waiters: pool.waiters().map_err(unreadable(&name))?,
        };
        let entries = |kind: Kind, wanted: bool| -> Result<Option<Vec<ObjectDetails>>, Failure> {
            if !(wanted || everything) {
                return Ok(None);
            }
            pool.entries(kind).map(Some).map_err(unreadable(&name))
        };
        let locks = if self.locks { Some(view.locks(pool)?) } else { None };
        Ok(Contents {
            segments: entries(Kind::Segment, self.segments)?
                .map(|rows| rows.iter().filter_map(|row| view.segment(row)).collect()),
            posix_shm: entries(Kind::Segment, self.posix_shm)?
                .map(|rows| rows.iter().filter_map(|row| view.posix_shm(row)).collect()),
            queues: entries(Kind::Queue, self.queues)?
                .map(|rows| rows.iter().filter_map(|row| view.queue(row)).collect()),
            posix_queues: entries(Kind::Queue, self.posix_queues)?
                .map(|rows| rows.iter().filter_map(|row| view.posix_queue(row)).collect()),
            semaphores: entries(Kind::Semaphore, self.semaphores)?
                .map(|rows| rows.iter().filter_map(|row| view.semaphore(row)).collect()),
            domains: everything
                .then(|| view.participants.domains.iter().map(|row| view.domain(row)).collect()),
            clients: everything
                .then(|| view.participants.clients.iter().map(|row| view.client(row)).collect()),
            locks,
            left: self.left.then(|| left(pool)),
            limits: if self.limits { Some(limits::of(pool)?) } else { None },
            pool: name,
        })
    }
}

fn left(pool: &Pool) -> Vec<LeftLine> {
    let programs = vshmem_link::left_programs(&pool.superblock().uuid);
    let line = |row: LeftProgram| LeftLine {
        program: row.program,
        why: row.why,
        user: user_name(row.uid),
        uid: row.uid,
        pid: row.pid,
    };
    programs.into_iter().map(line).collect()
}
