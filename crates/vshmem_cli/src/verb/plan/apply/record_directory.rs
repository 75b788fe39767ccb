//! Where it is kept which plans were applied: /run/vshmem/plan, which this user alone can write.
//! What is done as root by what stands there must not be written by others, so nothing is taken
//! from a directory or a file that somebody else owns or may write.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::applied_plan::AppliedPlan;
use crate::again::again;
use crate::failure::{Failure, failed};

/// The directory, opened once; all files in it are found from there.
pub struct RecordDirectory {
    directory: OwnedFd,
    path: PathBuf,
}

impl RecordDirectory {
    /// Opens it, and makes it where it is not there. `root`: where /run lies.
    pub fn open(root: &Path) -> Result<Self, Failure> {
        let run = root.join("run");
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut directory = rustix::fs::open(&run, flags, Mode::empty())
            .or_else(|error| failed(format!("{}: cannot open it: {error}", run.display())))?;
        let mut path = run;
        for (name, mode) in [("vshmem", 0o755), ("plan", 0o700)] {
            path.push(name);
            match rustix::fs::mkdirat(&directory, name, Mode::from_raw_mode(mode)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => {
                    return failed(format!(
                        "{}: cannot make it: {error}. Run this as root: `sudo {}`",
                        path.display(),
                        again(&[], &[])
                    ));
                }
            }
            let flags = flags | OFlags::NOFOLLOW;
            directory =
                rustix::fs::openat(&directory, name, flags, Mode::empty()).or_else(|error| {
                    failed(format!(
                        "{}: cannot open it: {error}. Run this as root: `sudo {}`",
                        path.display(),
                        again(&[], &[])
                    ))
                })?;
            require_own(directory.as_fd(), &path)?;
        }
        Ok(Self { directory, path })
    }

    /// Opens it to look only; `None`: it is not there.
    pub fn look(root: &Path) -> Result<Option<Self>, Failure> {
        // A user who may not see it is told so when it is opened.
        let is_missing = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
        match root.join("run/vshmem/plan").symlink_metadata() {
            Err(error) if is_missing(&error) => Ok(None),
            _ => Self::open(root).map(Some),
        }
    }

    /// Waits until no other process changes the machine by a plan, and keeps others from it until
    /// this process, and each that was given [`Self::as_input`], has ended.
    pub fn lock(&self) -> Result<(), Failure> {
        let once = rustix::fs::flock(&self.directory, FlockOperation::NonBlockingLockExclusive);
        let locked = match once {
            Err(Errno::WOULDBLOCK) => {
                eprintln!("vshmem: another `vshmem plan`, or what it started, is at work: waiting");
                rustix::fs::flock(&self.directory, FlockOperation::LockExclusive)
            }
            answer => answer,
        };
        locked.or_else(|error| failed(format!("{}: cannot lock it: {error}", self.path.display())))
    }

    /// The lock, as the input of a process that is started: it then has the lock, too. So a command
    /// outlives this process without the next one undoing what it is just doing.
    pub fn as_input(&self) -> Stdio {
        self.directory.try_clone().map_or_else(|_| Stdio::null(), |copy| File::from(copy).into())
    }

    /// Where the sockets and logs of a plan's guests are.
    pub fn guests(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes the directory of the guests' sockets and logs.
    pub fn make_guests(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.guests(name);
        match rustix::fs::mkdirat(&self.directory, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Ok(path),
            Err(error) => failed(format!("{}: cannot make it: {error}", path.display())),
        }
    }

    /// What is recorded of a plan; `None`: it was not applied.
    pub fn read(&self, name: &str) -> Result<Option<AppliedPlan>, Failure> {
        let path = self.path.join(file(name));
        let unreadable = |error: String| {
            failed(format!("{}: cannot read what was applied: {error}", path.display()))
        };
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.directory, file(name), flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return unreadable(error.to_string()),
        };
        require_own(file.as_fd(), &path)?;
        let mut text = String::new();
        if let Err(error) = File::from(file).read_to_string(&mut text) {
            return unreadable(error.to_string());
        }
        serde_json::from_str(&text).map(Some).or_else(|error| unreadable(error.to_string()))
    }

    /// Records it. When this returns, it is there even after a crash of the machine.
    pub fn write(&self, applied: &AppliedPlan) -> Result<(), Failure> {
        let name = file(&applied.name);
        let draft = format!(".{name}.new");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let write = || -> std::io::Result<()> {
            match rustix::fs::unlinkat(&self.directory, &draft, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
            let mode = Mode::RUSR | Mode::WUSR;
            let mut file = File::from(rustix::fs::openat(&self.directory, &draft, flags, mode)?);
            file.write_all(serde_json::to_string_pretty(applied)?.as_bytes())?;
            file.sync_all()?;
            rustix::fs::renameat(&self.directory, &draft, &self.directory, &name)?;
            Ok(rustix::fs::fsync(&self.directory)?)
        };
        write().or_else(|error| {
            failed(format!("{}: cannot write it: {error}", self.path.join(&name).display()))
        })
    }

    /// Removes a plan's record, its guests' sockets and logs first.
    pub fn remove(&self, name: &str) -> Result<(), Failure> {
        let guests = self.guests(name);
        let removed = match std::fs::remove_dir_all(&guests) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => [format!(".{}.new", file(name)), file(name)].iter().try_for_each(|name| {
                match rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            }),
        };
        removed.or_else(|error| failed(format!("{}: cannot remove it: {error}", guests.display())))
    }

    /// The other plans that are applied, by name.
    pub fn others(&self, name: &str) -> Result<Vec<AppliedPlan>, Failure> {
        let names = self.names().into_iter().filter(|other| other != name);
        names.filter_map(|other| self.read(&other).transpose()).collect()
    }

    /// A sentence for a plan that is not recorded.
    pub fn unknown(&self, name: &str) -> String {
        not_applied(name, &self.names())
    }

    /// The plans that are applied.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let names = names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned));
        let mut names: Vec<String> = names.filter(|name| is_name(name)).collect();
        names.sort_unstable();
        names
    }
}

/// A sentence for a plan that is not among those that are applied.
pub fn not_applied(name: &str, applied: &[String]) -> String {
    let known = match applied.is_empty() {
        true => "no plan is".to_owned(),
        false => format!("applied are: {}", applied.join(", ")),
    };
    format!(
        "plan {name}: it is not applied; {known}. `vshmem plan apply --name {name} --to qemu --dry-run` shows what applying one would do"
    )
}

fn file(name: &str) -> String {
    format!("{name}.json")
}

/// Refuses what another user owns or may write.
fn require_own(file: BorrowedFd<'_>, path: &Path) -> Result<(), Failure> {
    let facts = rustix::fs::fstat(file)
        .or_else(|error| failed(format!("{}: cannot look at it: {error}", path.display())))?;
    let closed = facts.st_mode & 0o022 == 0;
    if closed && facts.st_uid == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    if closed && facts.st_uid == 0 {
        return failed(format!(
            "{}: it is root's: only root changes the host's settings and places guests by a plan. Run this as root: `sudo {}`; `vshmem plan apply --dry-run` with the plan's options shows any user what it would do",
            path.display(),
            again(&[], &[])
        ));
    }
    failed(format!(
        "{}: others may change it (owner {}, mode {:o}), so it is not used. `ls -ld {0}` shows it; the user who applied the plan can undo it",
        path.display(),
        facts.st_uid,
        facts.st_mode & 0o7777
    ))
}

/// Whether it can be the name of a plan, a guest or a pool: no path, and no option.
pub fn is_name(name: &str) -> bool {
    let is_of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    !name.is_empty() && name.len() <= 32 && !name.starts_with('-') && name.bytes().all(is_of_a_name)
}
