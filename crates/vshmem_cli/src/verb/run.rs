//! `vshmem run`: an unmodified program on a pool.
//!
//! This process joins the pool and then becomes the program, which finds the membership again by
//! its pid and start time. So there is no moment at which the agent could find no client and end.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::{Args, ValueEnum};
use vshmem_ipc::JoinError;
use vshmem_link::Link;
use vshmem_mem::{Instant, StallProofTimeout};
use vshmem_session::{
    POSIX_PRELOAD_LIBRARY, PRELOAD_LIBRARY, SYSV_PRELOAD_LIBRARY, Session, SessionError, Share,
    is_preload_library,
};

use super::doctor::{devices, monitors};
use crate::choice::{self, Choice};
use crate::failure::{Failure, Outcome, failed};
use crate::heap::HeapOption;
use crate::launch::Word;
use crate::program;

/// How long a full table may take to be emptied: the agent looks once a second.
const REAP_TIMEOUT: Duration = Duration::from_secs(3);
/// What passes between two looks counts for so much at most: the agent may have been stopped
/// together with this process.
const MOST_OF_A_LOOK: Duration = Duration::from_secs(1);

/// Run an unmodified program on a pool.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Run {
    /// The pool. Without: VSHMEM_POOL, then the only pool that this guest was given, then your own
    /// private pool, which is made when it is missing.
    #[arg(long)]
    pool: Option<String>,
    /// What of the program's IPC lies in the pool; the rest stays with the kernel. Of System V:
    /// all, or some of shm,sem,msg and key=LO-HI (decimal or 0x; IPC_PRIVATE lies in no range). Of
    /// POSIX, beside it: posix; or posix=PREFIX for names that begin so; or some of
    /// posix-shm,posix-sem,mq,pthread. It may be given several times. Without: all; and in a guest
    /// whose kernel cannot sleep on the pool's memory all,pthread,posix-sem.
    #[arg(long, value_parser = share)]
    share: Vec<String>,
    /// What ftok() answers: path: the same in all domains; inode: as libc does.
    #[arg(long, default_value = "path")]
    ftok: Ftok,
    /// Programs that ask whether a peer is on their host are told that all members of the pool are:
    /// one boot id, one IPC namespace, and numbers of processes that mean the same everywhere
    /// (UCX takes shared memory between guests then, not TCP).
    #[arg(long)]
    one_host: bool,
    #[command(flatten)]
    heap: HeapOption,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  vshmem run ./producer                        on your private pool
  vshmem run --pool job7 -- ./consumer -n 3
  vshmem run --share shm,key=0x100-0x1ff ./a.out
  vshmem run --share all,posix python3 app.py  shm_open, sem_open, mq_open and locks as well
  vshmem run --one-host ucx_perftest guest1    UCX between two guests by shared memory

The program must be dynamically linked and neither setuid, setgid nor given file capabilities:
otherwise it would silently use the kernel's own IPC, and is refused.";

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Ftok {
    Path,
    Inode,
}

fn share(text: &str) -> Result<String, String> {
    match Share::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("{error}, as in --share shm,key=0x100-0x1ff")),
    }
}

/// With keys of a kind here and there, an id tells whose the object is: the kernel's have an index
/// below 16384, unless the machine was started with longer ones.
fn refuse_long_ids(share: &str, kernel: &str) -> Result<(), Failure> {
    let mixes = Share::parse(share).is_ok_and(|share| share.mixes());
    if mixes && kernel.split_whitespace().any(|word| word == "ipcmni_extend") {
        return failed(
            "--share key=LO-HI does not work on this kernel: it was started with ipcmni_extend, so its ids cannot be distinguished from a pool's. Name whole kinds, as in --share shm,sem, or start it without",
        );
    }
    Ok(())
}

/// What is shared where nothing was asked for. Where the kernel cannot sleep on the pool's memory,
/// glibc aborts a program whose thread has to wait for a lock or a semaphore in a segment: they are
/// the pool's there, as all else in it is.
fn usual_share(sleeps: bool) -> &'static str {
    if sleeps { "all" } else { "all,pthread,posix-sem" }
}

/// Whether this kernel can sleep on the pool's memory, which it says itself.
fn sleeps_on_pool(session: &Session) -> bool {
    session.client().pool().map().futex(0).is_ok_and(vshmem_mem::can_sleep_on)
}

impl Run {
    /// Becomes the program; returns only if that fails.
    pub fn carry_out(self) -> Outcome {
        let kernel = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
        let words = self.share.join(",");
        if !words.is_empty() {
            refuse_long_ids(&words, &kernel)?;
        }
        // The parser has seen to it that there is one.
        let (word, arguments) = (&self.command[0], &self.command[1..]);
        check_spin()?;
        vshmem_session::check_home_node().map_err(|error| Failure::Usage(error.to_string()))?;
        let found = program::find(Path::new(word))?;
        program::check(&found)?;
        let library = library()?;
        if std::io::stderr().is_terminal()
            && choice::choose(self.pool.as_deref())? == Choice::Private
        {
            say_what_keeps_pools_away();
        }
        let link = choice::open_or_make(self.pool.as_deref())?;
        let path = link.path().to_owned();
        let heap = self.heap.words(&path.display().to_string(), link.as_ref())?;
        let session = join(link)?;
        if let Err(error) = vshmem_agent::start(&path) {
            // The program starts one again when it comes to a slow path.
            tracing::warn!("{error}; deaths are not noticed until there is one");
        }
        let usual = || usual_share(sleeps_on_pool(&session));
        let share = if words.is_empty() { usual() } else { &words };
        let library = if self.one_host { library } else { for_share(library, share) };
        let me = program::own_binary()?;
        let ftok = match self.ftok {
            Ftok::Path => "path",
            Ftok::Inode => "inode",
        };
        tracing::debug!(program = %found.display(), pool = %path.display(), library = %library.display(), "starting");
        let error = Command::new(&found)
            .arg0(word)
            .args(arguments)
            .env("LD_PRELOAD", preload(library.as_os_str(), heap.first()))
            .envs(heap.into_iter().skip(1))
            .env("VSHMEM_POOL", &path)
            .env("VSHMEM_POOL_NAME", session.client().pool().name())
            .env("VSHMEM_SHARE", share)
            .env("VSHMEM_FTOK", ftok)
            .env("VSHMEM_ONE_HOST", if self.one_host { "1" } else { "0" })
            .env("VSHMEM_COMMAND", me)
            .env("VSHMEM_NOTICE", notice_mark(&session.client().pool().superblock().uuid))
            .exec();
        // What is left behind if this fails is reaped by the agent.
        let _ = session.leave();
        let sentence = format!(
            "{}: cannot run it: {error}. If it is a script, look at the program named in its first line",
            found.display()
        );
        Err(match error.kind() {
            std::io::ErrorKind::NotFound => Failure::NoProgram(sentence),
            _ => Failure::NotRun(sentence),
        })
    }
}

/// A device that could hold a pool and cannot be used: the private pool is taken instead, and the
/// program would wait for others in vain.
fn say_what_keeps_pools_away() {
    for line in [devices::nvdimm(), monitors::xen()].into_iter().flatten() {
        if let Some(remedy) = line.remedy.filter(|_| !line.good) {
            eprintln!("vshmem: {}: {}: {remedy}", line.what, line.found);
        }
    }
}

/// What marks that a program outside of the pool has been named: for a run inside a run that of the
/// outer one.
fn notice_mark(uuid: &[u8; 16]) -> PathBuf {
    let outer = std::env::var_os("VSHMEM_NOTICE").map(PathBuf::from);
    // Another directory is no place for what the agent does not remove.
    let is_of_pool = |mark: &PathBuf| vshmem_link::is_notice_mark(mark, uuid);
    // An empty path: the mark cannot be made, and each program says it once.
    outer.filter(is_of_pool).or_else(|| vshmem_link::notice_mark(uuid)).unwrap_or_default()
}

/// What the library takes from the environment and cannot complain about.
fn check_spin() -> Result<(), Failure> {
    match std::env::var_os("VSHMEM_SPIN") {
        Some(word) if word != "0" && word != "1" => Err(Failure::Usage(format!(
            "VSHMEM_SPIN is {:?}: it must be 0 (a waiting thread sleeps at once) or 1 (it spins first), or not be set. `vshmem --help` names all variables",
            word
        ))),
        _ => Ok(()),
    }
}

/// Joins. A table that is full of programs that have just ended is emptied by the agent's next
/// round, so that is waited for.
fn join(link: Box<dyn Link>) -> Result<Session, Failure> {
    let path = link.path().to_owned();
    let mut timeout = StallProofTimeout::new(Instant::now(), REAP_TIMEOUT, MOST_OF_A_LOOK);
    let mut link = Some(link);
    loop {
        let next = match link.take() {
            Some(link) => link,
            None => vshmem_session::find(&path.to_string_lossy())?,
        };
        match Session::join(next) {
            Err(SessionError::Join { error: JoinError::Full { .. }, .. })
                if !timeout.is_over(Instant::now()) =>
            {
                // Without one, it is not emptied.
                let _ = vshmem_agent::start(&path);
                std::thread::sleep(Duration::from_millis(100));
            }
            other => return Ok(other?),
        }
    }
}

/// The library in front of what is preloaded already, or would be for a heap. Of a run inside a run
/// it is the last one that decides.
fn preload(library: &OsStr, heap: Option<&Word>) -> OsString {
    let before = match heap {
        Some((_, before)) => before.into(),
        None => std::env::var_os("LD_PRELOAD").unwrap_or_default(),
    };
    let words = before.as_bytes().split(|byte| b": ".contains(byte));
    let others = words.filter(|word| !word.is_empty() && !is_preload_library(word));
    let all: Vec<&[u8]> = std::iter::once(library.as_bytes()).chain(others).collect();
    OsString::from_vec(all.join(&b':'))
}

/// Where the library may be, in order.
pub fn library_places() -> Vec<PathBuf> {
    let mut paths = Vec::new();
    if let Some(beside) = std::env::current_exe().ok().as_deref().and_then(Path::parent) {
        paths.push(beside.to_owned());
        if let Some(above) = beside.parent() {
            paths.push(above.join("lib/vshmem"));
            paths.push(above.join("lib"));
        }
    }
    paths.extend(["/usr/lib/vshmem", "/usr/local/lib/vshmem"].map(PathBuf::from));
    paths.into_iter().map(|directory| directory.join(PRELOAD_LIBRARY)).collect()
}

/// The library beside this one that answers no more calls than the program needs, where it is
/// there.
fn for_share(library: PathBuf, share: &str) -> PathBuf {
    let has_posix = Share::parse(share).is_ok_and(|share| share.has_posix());
    let name = if has_posix { POSIX_PRELOAD_LIBRARY } else { SYSV_PRELOAD_LIBRARY };
    let smaller = library.with_file_name(name);
    if smaller.is_file() { smaller } else { library }
}

/// Finds the library.
pub fn library() -> Result<PathBuf, Failure> {
    let paths = library_places();
    let Some(found) = paths.iter().find(|path| path.is_file()) else {
        let shown: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        return failed(format!(
            "{PRELOAD_LIBRARY} is not installed: it is at none of {}. `apt-get install --reinstall vshmem` installs it again; in the source tree `make build` builds it",
            shown.join(", ")
        ));
    };
    if found.as_os_str().to_string_lossy().contains([':', ' ']) {
        return failed(format!(
            "{}: the dynamic linker cannot preload from a path with a space or colon in it. Install vshmem somewhere else",
            found.display()
        ));
    }
    Ok(found.clone())
}

#[cfg(test)]
mod tests {
    use vshmem_ipc::Kind;
    use vshmem_session::{Owner, Posix};

    use super::*;

    #[test]
    fn locks_in_segments_are_the_pools_where_the_kernel_cannot_sleep_on_them() {
        for (sleeps, has) in [(true, false), (false, true)] {
            let share = Share::parse(usual_share(sleeps)).unwrap();
            assert_eq!(share.has(Posix::Lock), has);
            assert_eq!(share.has(Posix::Semaphore), has);
            assert!(!share.has(Posix::Queue) && !share.has(Posix::SharedMemory));
            assert_eq!(share.owner(Kind::Segment), Owner::Pool);
        }
    }

    #[test]
    fn keys_by_range_are_refused_where_ids_do_not_tell() {
        for (share, kernel, refused) in [
            ("key=1-9", "quiet ipcmni_extend ro", true),
            ("shm,key=1-9", "ipcmni_extend", true),
            ("all,key=1-9", "ipcmni_extend", false),
            ("shm,sem", "ipcmni_extend", false),
            ("key=1-9", "noipcmni_extend ipcmni_extend=0", false),
        ] {
            assert_eq!(refuse_long_ids(share, kernel).is_err(), refused, "{share} on {kernel}");
        }
    }
}
