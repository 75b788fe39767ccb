//! `vshmem pool show`.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::Serialize;
use vshmem_session::{find, identify};

use crate::failure::{Outcome, failed};
use crate::{show, size};

/// Show the facts of a pool.
#[derive(Debug, Args)]
pub struct Show {
    /// Its name.
    name: String,
    /// What to put on a hypervisor's command line or into its configuration.
    #[arg(long = "as", value_name = "TOOL")]
    form: Option<Form>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Form {
    Qemu,
    Libvirt,
    Xl,
}

#[derive(Debug, Serialize)]
struct Facts {
    name: String,
    link: &'static str,
    place: std::path::PathBuf,
    uuid: String,
    size: u64,
    /// Bytes in front of the segments: tables and the heap of messages and semaphores.
    metadata: u64,
    metadata_percent: f64,
    data: u64,
    created: u64,
    evict_after: u64,
    owner_uid: u32,
    mode: String,
    limits: Limits,
}

#[derive(Debug, Serialize)]
struct Limits {
    shmmni: u32,
    shmmax: u64,
    shmall: u64,
    semmni: u32,
    semmsl: u32,
    semmns: u32,
    semopm: u32,
    semvmx: u32,
    msgmni: u32,
    msgmax: u32,
    msgmnb: u32,
    domains: u32,
    clients: u32,
    threads: u32,
    attaches: u32,
    undos: u32,
    slabs: u32,
}

/// A pool's identity as text.
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    let mut text = String::new();
    for (i, byte) in uuid.iter().enumerate() {
        if [4, 6, 8, 10].contains(&i) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

impl Show {
    /// Shows them.
    pub fn carry_out(self) -> Outcome {
        if let Some(form) = self.form {
            let tool = form
                .to_possible_value()
                .map(|value| value.get_name().to_owned())
                .unwrap_or_default();
            return failed(format!(
                "pool {}: --as {tool} is not yet supported by this release. `vshmem pool show {0}` tells the file that a hypervisor has to share",
                self.name
            ));
        }
        let facts = facts(&self.name)?;
        if self.json {
            show::json(&facts)?;
        } else {
            show::text(&text(&facts))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn facts(name: &str) -> Result<Facts, crate::failure::Failure> {
    let link = find(name)?;
    let (superblock, layout) = identify(link.as_ref())?;
    let used = superblock.name.iter().position(|&byte| byte == 0).unwrap_or(superblock.name.len());
    let geometry = superblock.geometry;
    let total = superblock.total_bytes;
    Ok(Facts {
        name: String::from_utf8_lossy(&superblock.name[..used]).into_owned(),
        link: link.kind(),
        place: link.place().to_owned(),
        uuid: uuid_text(&superblock.uuid),
        size: total,
        metadata: layout.data.offset,
        metadata_percent: (layout.data.offset as f64 * 1000.0 / total as f64).round() / 10.0,
        data: total - layout.data.offset,
        created: superblock.created,
        evict_after: superblock.evict_after,
        owner_uid: superblock.owner_uid,
        mode: format!("{:04o}", superblock.mode),
        limits: Limits {
            shmmni: geometry.shmmni,
            shmmax: geometry.shmmax,
            shmall: geometry.shmall,
            semmni: geometry.semmni,
            semmsl: geometry.semmsl,
            semmns: geometry.semmns,
            semopm: geometry.semopm,
            semvmx: geometry.semvmx,
            msgmni: geometry.msgmni,
            msgmax: geometry.msgmax,
            msgmnb: geometry.msgmnb,
            domains: geometry.domains,
            clients: geometry.clients,
            threads: geometry.threads,
            attaches: geometry.attaches,
            undos: geometry.undos,
            slabs: geometry.slabs,
        },
    })
}

fn text(facts: &Facts) -> String {
    let limits = &facts.limits;
    let evict = match facts.evict_after {
        0 => "never".to_owned(),
        seconds => format!("after {seconds} s of silence"),
    };
    let rows = [
        ("name", show::clean(&facts.name)),
        ("link", facts.link.to_owned()),
        ("place", facts.place.display().to_string()),
        ("uuid", facts.uuid.clone()),
        ("size", size::show(facts.size)),
        ("metadata", format!("{} ({} %)", size::show(facts.metadata), facts.metadata_percent)),
        ("for segments", size::show(facts.data)),
        (
            "owner, mode",
            format!("{}, {} at creation", crate::account::user_name(facts.owner_uid), facts.mode),
        ),
        ("eviction", evict),
        (
            "segments",
            format!("shmmni {}, shmmax {}, shmall {}", limits.shmmni, limits.shmmax, limits.shmall),
        ),
        (
            "semaphores",
            format!(
                "semmni {}, semmsl {}, semmns {}, semopm {}, semvmx {}",
                limits.semmni, limits.semmsl, limits.semmns, limits.semopm, limits.semvmx
            ),
        ),
        (
            "queues",
            format!("msgmni {}, msgmax {}, msgmnb {}", limits.msgmni, limits.msgmax, limits.msgmnb),
        ),
        (
            "members",
            format!(
                "domains {}, clients {}, threads {}",
                limits.domains, limits.clients, limits.threads
            ),
        ),
        (
            "records",
            format!("attaches {}, undos {}, slabs {}", limits.attaches, limits.undos, limits.slabs),
        ),
    ];
    rows.iter().map(|(what, value)| format!("{what:<13} {value}\n")).collect()
}
