//! `vshmem rm`: ipcrm for a pool.

use std::process::ExitCode;

use clap::Args;
use vshmem_ipc::{Client, Errno, Kind};

use crate::account::OwnCredentials;
use crate::choice;
use crate::failure::{Outcome, failed};
use crate::visit::Visit;

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

fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Segment => "segment",
        Kind::Semaphore => "semaphore set",
        Kind::Queue => "queue",
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
        let mut troubles = Vec::new();
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
                    None => {
                        troubles.push(format!("there is no {} with key {key:#010x}", noun(kind)))
                    }
                }
            }
            for id in ids {
                if let Err(errno) = remove(this_client, kind, id, &caller) {
                    troubles.push(trouble(kind, id, errno));
                }
            }
            if !self.all {
                continue;
            }
            for entry in entries {
                match remove(this_client, kind, entry.id, &caller) {
                    // Removed by another process meanwhile, or not ours: `all` is all that may be.
                    Ok(()) | Err(Errno::INVAL | Errno::IDRM | Errno::PERM) => {}
                    Err(errno) => troubles.push(trouble(kind, entry.id, errno)),
                }
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

fn trouble(kind: Kind, id: i32, errno: Errno) -> String {
    let noun = noun(kind);
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
