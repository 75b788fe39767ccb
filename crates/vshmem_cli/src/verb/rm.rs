//! `vshmem rm`: ipcrm for a pool.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use clap::Args;
use vshmem_ipc::{Client, Errno, FoundBy, Kind, ObjectDetails};

use crate::account::OwnCredentials;
use crate::failure::{Outcome, failed};
use crate::pool::Participants;
use crate::visit::Visit;
use crate::{choice, show};
use vshmem_session::quoted;

/// Remove objects from a pool (as ipcrm does).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("wishes").required(true).multiple(true)))]
pub struct Rm {
    /// Remove the segment with this id (once no process has it attached any more).
    #[arg(group = "wishes", short = 'm', long = "shmem-id", value_name = "ID")]
    shm_ids: Vec<i32>,
    /// Remove the segment with this key.
    #[arg(group = "wishes", short = 'M', long = "shmem-key", value_name = "KEY", value_parser = key)]
    shm_keys: Vec<i32>,
    /// Remove the POSIX shared memory object with this name, as shm_unlink does.
    #[arg(group = "wishes", long = "posix-shmem", value_name = "NAME")]
    posix_shm: Vec<OsString>,
    /// Remove the POSIX semaphore with this name, as sem_unlink does.
    #[arg(group = "wishes", long = "posix-semaphore", value_name = "NAME")]
    posix_sem: Vec<OsString>,
    /// Remove the POSIX queue with this name, as mq_unlink does.
    #[arg(group = "wishes", long = "posix-mqueue", value_name = "NAME")]
    posix_queues: Vec<OsString>,
    /// Remove the queue with this id.
    #[arg(group = "wishes", short = 'q', long = "queue-id", value_name = "ID")]
    msg_ids: Vec<i32>,
    /// Remove the queue with this key.
    #[arg(group = "wishes", short = 'Q', long = "queue-key", value_name = "KEY", value_parser = key)]
    msg_keys: Vec<i32>,
    /// Remove the semaphore set with this id.
    #[arg(group = "wishes", short = 's', long = "semaphore-id", value_name = "ID")]
    sem_ids: Vec<i32>,
    /// Remove the semaphore set with this key.
    #[arg(group = "wishes", short = 'S', long = "semaphore-key", value_name = "KEY", value_parser = key)]
    sem_keys: Vec<i32>,
    /// Remove everything that you may remove.
    #[arg(group = "wishes", short = 'a', long)]
    all: bool,
    /// The pool. Without: as `vshmem run` finds it.
    #[arg(long)]
    pool: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  vshmem rm -m 16384 -s 16385      by id
  vshmem rm -Q 0x4d2 --pool job7   by key
  vshmem rm --posix-shmem /data    by name
  vshmem rm -a                     everything of yours in your private pool";

fn key(text: &str) -> Result<i32, String> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let number = match hex {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse::<u32>().ok().or_else(|| text.parse::<i32>().ok().map(|key| key as u32)),
    };
    match number {
        Some(0) => Err("key 0 is IPC_PRIVATE: such objects have no key; remove them by id".into()),
        Some(key) => Ok(key as i32),
        None => Err(format!("{text:?} is not a key: write a number, as in 1234 or 0x4d2")),
    }
}

impl Rm {
    /// Removes them.
    pub fn carry_out(self) -> Outcome {
        let link = choice::open(self.pool.as_deref())?;
        Visit::join(link)?
            .with(|this_client| self.remove(this_client))
            .unwrap_or(Ok(ExitCode::SUCCESS))
    }

    fn remove(&self, this_client: &Client) -> Outcome {
        let caller = OwnCredentials::read();
        let mut troubles = self.unlink(this_client, &caller);
        let wishes = [
            (Kind::Segment, &self.shm_ids, &self.shm_keys),
            (Kind::Queue, &self.msg_ids, &self.msg_keys),
            (Kind::Semaphore, &self.sem_ids, &self.sem_keys),
        ];
        for (kind, ids, keys) in wishes {
            let mut ids = ids.clone();
            let entries = this_client
                .pool()
                .entries(kind)
                .map_err(crate::failure::unreadable(&this_client.pool().name()))?;
            for &key in keys {
                match entries.iter().find(|entry| entry.permission.key == key) {
                    Some(entry) => ids.push(entry.id),
                    None => troubles
                        .push(format!("there is no {} with key {key:#010x}", show::noun(kind))),
                }
            }
            for id in ids {
                let found = entries.iter().find(|entry| entry.id == id);
                troubles.extend(match found.map(|entry| (entry, &entry.found_by)) {
                    Some((_, FoundBy::Name(name))) => Some(has_name(this_client, kind, id, name)),
                    Some((entry, FoundBy::Nothing)) => Some(has_no_name(this_client, entry)),
                    _ => {
                        let done = remove(this_client, kind, id, &caller);
                        done.err().map(|errno| trouble(kind, id, errno))
                    }
                });
            }
            if self.all {
                troubles.extend(remove_all(this_client, &entries, &caller));
            }
        }
        if troubles.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        let pool = this_client.pool().name();
        failed(format!(
            "pool {pool}: {}. `vshmem ls --pool {pool}` shows what there is",
            troubles.join("; ")
        ))
    }
}

impl Rm {
    /// Removes what is named, and says what went wrong.
    fn unlink(&self, this_client: &Client, caller: &OwnCredentials) -> Vec<String> {
        let named = [
            (Kind::Segment, "POSIX shared memory object", "", &self.posix_shm),
            (Kind::Segment, "POSIX semaphore", "sem.", &self.posix_sem),
            (Kind::Queue, "POSIX queue", "", &self.posix_queues),
        ];
        let mut troubles = Vec::new();
        for (kind, noun, prefix, names) in named {
            troubles.extend(names.iter().filter_map(|name| {
                let bare = name.as_bytes().iter().position(|byte| *byte != b'/');
                let bare = &name.as_bytes()[bare.unwrap_or(name.len())..];
                let whole = [prefix.as_bytes(), bare].concat();
                let errno = unlink(this_client, kind, &whole, caller).err()?;
                Some(not_unlinked(noun, bare, errno))
            }));
        }
        troubles
    }
}

fn not_unlinked(noun: &str, name: &[u8], errno: Errno) -> String {
    let name = show::sanitized(&String::from_utf8_lossy(name));
    match errno {
        Errno::NOENT => format!("there is no {noun} /{name}"),
        Errno::ACCESS | Errno::PERM => format!("{noun} /{name} belongs to another user"),
        Errno::INVAL | Errno::NAMETOOLONG => format!("{name:?} is not the name of a {noun}"),
        errno => format!("cannot remove {noun} /{name}: {errno}"),
    }
}

/// What to do about the id of an object that programs find by a name. Any member has chosen that:
/// it must not become more than a word of the command line.
fn has_name(this_client: &Client, kind: Kind, id: i32, name: &[u8]) -> String {
    let option = if kind == Kind::Queue { "--posix-mqueue" } else { "--posix-shmem" };
    let name = quoted(&format!("/{}", show::sanitized(&String::from_utf8_lossy(name))));
    let pool = quoted(&this_client.pool().name());
    format!(
        "{id} is a POSIX object, which goes by its name: `vshmem rm {option} {name} --pool {pool}`"
    )
}

/// What to know about the id of an object that has been unlinked.
fn has_no_name(this_client: &Client, entry: &ObjectDetails) -> String {
    let pool = this_client.pool();
    let Ok(mut clients) = entry.holders(pool) else {
        return format!("{} is a POSIX object without a name", entry.id);
    };
    clients.sort_unstable();
    clients.dedup();
    let processes: Vec<String> = match Participants::of(pool) {
        Ok(participants) => clients.iter().map(|slot| participants.client(*slot)).collect(),
        Err(_) => Vec::new(),
    };
    let who = if processes.is_empty() { "" } else { &format!(" ({})", processes.join(", ")) };
    let number = clients.len();
    let noun = if number == 1 { "process" } else { "processes" };
    format!(
        "{} is a POSIX object without a name, kept by {number} {noun}{who}: it goes when none has \
         it open or mapped any more",
        entry.id
    )
}

/// Removes what may be removed of a kind, and says what went wrong.
fn remove_all(
    this_client: &Client,
    entries: &[ObjectDetails],
    caller: &OwnCredentials,
) -> Vec<String> {
    let remove_any = |entry: &ObjectDetails| {
        let done = match &entry.found_by {
            FoundBy::Key => remove(this_client, entry.kind, entry.id, caller),
            FoundBy::Name(name) => unlink(this_client, entry.kind, name, caller),
            // It goes with the last process that has it.
            FoundBy::Nothing => Ok(()),
        };
        match done.err()? {
            // Removed by another process meanwhile, or not ours: `all` is all that may be.
            Errno::PERM => None,
            Errno::INVAL | Errno::IDRM if entry.found_by == FoundBy::Key => None,
            Errno::NOENT | Errno::ACCESS if entry.found_by != FoundBy::Key => None,
            errno => Some(trouble(entry.kind, entry.id, errno)),
        }
    };
    entries.iter().filter_map(remove_any).collect()
}

/// Removes a POSIX object by its name, without the slash in front.
fn unlink(
    this_client: &Client,
    kind: Kind,
    name: &[u8],
    caller: &OwnCredentials,
) -> Result<(), Errno> {
    match kind {
        Kind::Queue => this_client.mq_unlink(name, caller),
        Kind::Segment | Kind::Semaphore => this_client.posix_shm_unlink(name, caller),
    }
}

fn trouble(kind: Kind, id: i32, errno: Errno) -> String {
    let noun = show::noun(kind);
    match errno {
        Errno::INVAL | Errno::IDRM => format!("there is no {noun} with id {id}"),
        Errno::PERM | Errno::ACCESS => format!("{noun} {id} belongs to another user"),
        errno => format!("cannot remove {noun} {id}: {errno}"),
    }
}

fn remove(this_client: &Client, kind: Kind, id: i32, caller: &OwnCredentials) -> Result<(), Errno> {
    match kind {
        Kind::Segment => this_client.segment_remove(id, caller),
        Kind::Semaphore => this_client.set_remove(id, caller),
        Kind::Queue => this_client.queue_remove(id, caller),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read() {
        assert_eq!(key("0x4d2"), Ok(1234));
        assert_eq!(key("1234"), Ok(1234));
        assert_eq!(key("0xffffffff"), Ok(-1));
        assert_eq!(key("-1"), Ok(-1));
        assert!(key("0").is_err());
        assert!(key("x").is_err());
    }
}
