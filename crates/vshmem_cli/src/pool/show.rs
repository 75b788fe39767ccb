//! `vshmem pool show`.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use vshmem_agent::NotifyStatus;
use vshmem_ipc::{DomainRow, Errno, Pool};
use vshmem_link::{PoolDomain, XenSlot};
use vshmem_session::{find, nodes_of, open_pool};
use vshmem_wire::{DomainState, Layout, NodeRange, PAGE_BYTES};

use crate::failure::{Failure, Outcome, unreadable};
use crate::node_bytes::NodeBytes;
use crate::table::Table;
use crate::{show, size, uuid};

use super::show_as::{self, Device, Form};

/// Show the facts of a pool, or how to give it to a virtual machine.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Show {
    /// Its name.
    name: String,
    /// What to put on the command line of a virtual machine monitor or a container engine, or into
    /// its configuration.
    #[arg(long = "as", value_name = "TOOL", conflicts_with = "json")]
    form: Option<Form>,
    /// With --as: what kind of device. The default is what the pool was made for: dax when it was
    /// made with --dax, doorbell while it has a server, else plain.
    #[arg(long, requires = "form")]
    device: Option<Device>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Arguments and elements go to standard output, hints to standard error.
For root in dom0 of Xen the rows of the grant table are shown as well: whose they are, how many pages
they grant, and how many of those are mapped.

Examples:
  vshmem pool show job7
  qemu-system-x86_64 ... $(vshmem pool show job7 --as qemu)
  vshmem pool show job7 --as libvirt --device plain     an element for <devices>
  podman run $(vshmem pool show job7 --as podman) ...
  vshmem pool show job7 --as cdi                        for /etc/cdi/vshmem-job7.json";

/// Pages of a pool that are looked at, to tell on which nodes they lie.
const MOST_PAGES: usize = 1 << 16;

#[derive(Debug, Serialize)]
struct Facts {
    name: String,
    link: &'static str,
    #[serde(rename = "place")]
    path: std::path::PathBuf,
    uuid: String,
    size: u64,
    /// Bytes of tables.
    metadata: u64,
    metadata_percent: f64,
    /// Bytes for messages and the values of semaphores.
    heap: u64,
    /// Bytes for segments.
    data: u64,
    created: u64,
    evict_after: u64,
    /// Bytes of free memory that agents keep zeroed ahead of demand.
    prepare: u64,
    /// Bytes of free memory.
    free: u64,
    /// Bytes of it that read as zeros already.
    clean: u64,
    owner_uid: u32,
    mode: String,
    /// Bytes of the pages that hold it.
    page_size: u64,
    /// Where its pages lie, where it is this machine's memory.
    nodes: Option<NodeBytes>,
    /// Pages for segments that lie on a node of their own; none where all lie alike.
    node_ranges: Vec<Range>,
    limits: Limits,
    datagrams: Datagrams,
    /// Rows of the grant table, in dom0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    grants: Vec<Grants>,
}

/// Bytes for segments that lie on one node.
#[derive(Debug, Serialize)]
struct Range {
    node: u32,
    /// Where they begin in the pool.
    offset: u64,
    bytes: u64,
}

impl Range {
    fn of(range: &NodeRange, layout: &Layout) -> Self {
        Self {
            node: range.node,
            offset: layout.data.offset() + u64::from(range.first) * PAGE_BYTES,
            bytes: u64::from(range.pages) * PAGE_BYTES,
        }
    }
}

/// Datagrams between agents (docs/guide/datagrams.md).
#[derive(Debug, Serialize)]
struct Datagrams {
    /// What the agent of this domain tells of them.
    here: Option<String>,
    domains: Vec<Listening>,
}

/// A domain whose agent listens.
#[derive(Debug, Serialize)]
struct Listening {
    domain: String,
    /// Domains whose agents it has heard lately.
    hears: Vec<String>,
}

impl Datagrams {
    fn of(pool: &Pool) -> Result<Self, Errno> {
        let rows = pool.domains()?;
        let alive = || rows.iter().filter(|row| row.state == DomainState::Alive);
        let listening = |row: &DomainRow| Listening {
            domain: row.name.clone(),
            hears: alive()
                .filter(|one| row.heard.has(one.index))
                .map(|one| one.name.clone())
                .collect(),
        };
        Ok(Self {
            here: NotifyStatus::read(&pool.superblock().uuid),
            domains: alive().filter(|row| row.listens).map(listening).collect(),
        })
    }

    fn text(&self) -> String {
        let here = self.here.iter().map(|here| show::sanitized(here));
        let domains = self.domains.iter().map(|one| {
            let hears: Vec<String> = one.hears.iter().map(|name| show::sanitized(name)).collect();
            let hears = if hears.is_empty() { "no other".to_owned() } else { hears.join(", ") };
            format!("{} hears {hears}", show::sanitized(&one.domain))
        });
        let said: Vec<String> = here.chain(domains).collect();
        if said.is_empty() { "off".to_owned() } else { said.join("; ") }
    }
}

#[derive(Debug, Serialize)]
struct Grants {
    slot: u32,
    domain: Option<u16>,
    guest: Option<String>,
    /// Pages.
    granted: u32,
    mapped: u32,
}

impl Grants {
    fn of(slot: XenSlot) -> Self {
        let (domain, guest) = slot.member.unzip();
        Self { slot: slot.slot, domain, guest, granted: slot.granted, mapped: slot.mapped }
    }
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
    futexes: u32,
    locks: u32,
    slabs: u32,
}

impl Show {
    /// Shows them.
    pub fn carry_out(self) -> Outcome {
        if let Some(form) = self.form {
            return show_as::show(&self.name, form, self.device);
        }
        let facts = facts(&self.name)?;
        if self.json {
            show::json(&facts)?;
        } else {
            show::text(&text(&facts))?;
            if !facts.grants.is_empty() {
                show::text(&table(&facts.grants).to_string())?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn facts(name: &str) -> Result<Facts, Failure> {
    let link = find(name)?;
    let pool = open_pool(link.as_ref())?;
    let (superblock, layout) = (pool.superblock(), pool.layout());
    let room = pool.space().map_err(unreadable(name))?;
    let geometry = superblock.geometry;
    let total = superblock.total_bytes;
    // All that is neither, the gaps between them too.
    let metadata = layout.data.offset() - (layout.heap.end() - layout.heap.offset());
    Ok(Facts {
        name: String::from_utf8_lossy(superblock.name_bytes()).into_owned(),
        link: link.kind(),
        path: link.path().to_owned(),
        uuid: uuid::shown(&superblock.uuid),
        size: total,
        metadata,
        metadata_percent: (metadata as f64 * 1000.0 / total as f64).round() / 10.0,
        heap: layout.heap.end() - layout.heap.offset(),
        data: total - layout.data.offset(),
        created: superblock.created,
        evict_after: superblock.evict_after,
        prepare: superblock.prepare,
        free: room.pages_free * PAGE_BYTES,
        clean: room.pages_clean * PAGE_BYTES,
        owner_uid: superblock.owner_uid,
        mode: format!("{:04o}", superblock.mode),
        page_size: link.capabilities().page_bytes,
        nodes: nodes_of(link.as_ref(), &pool, 0, total, MOST_PAGES).as_ref().map(NodeBytes::of),
        node_ranges: superblock.node_ranges().iter().map(|it| Range::of(it, layout)).collect(),
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
            futexes: geometry.futexes,
            locks: geometry.locks,
            slabs: geometry.slabs,
        },
        datagrams: Datagrams::of(&pool).map_err(unreadable(name))?,
        grants: if link.kind() == "xen" { grants(name)? } else { Vec::new() },
    })
}

/// What the hypervisor's table says, for those who may read it.
fn grants(name: &str) -> Result<Vec<Grants>, Failure> {
    if !PoolDomain::is_dom0() || !rustix::process::geteuid().is_root() {
        return Ok(Vec::new());
    }
    let said = |error| Failure::Failed(format!("pool {name}: {error}"));
    let Some(mut pool) = PoolDomain::open(name).map_err(said)? else { return Ok(Vec::new()) };
    Ok(pool.slots().map_err(said)?.into_iter().map(Grants::of).collect())
}

fn table(grants: &[Grants]) -> Table {
    let mut table = Table::new("Grants", &["SLOT", "DOMAIN", "GUEST", "GRANTED", "MAPPED"]);
    for row in grants {
        table.row(vec![
            row.slot.to_string(),
            row.domain.map(|domain| domain.to_string()).unwrap_or_default(),
            row.guest.clone().unwrap_or_default(),
            row.granted.to_string(),
            row.mapped.to_string(),
        ]);
    }
    table
}

fn ranges_text(ranges: &[Range]) -> String {
    let range = |range: &Range| format!("{} on node {}", size::show(range.bytes), range.node);
    let list: Vec<String> = ranges.iter().map(range).collect();
    if list.is_empty() { "none (--numa N,M)".to_owned() } else { list.join(", ") }
}

fn prepared_text(facts: &Facts) -> String {
    format!(
        "{} of {} free read as zeros; {}",
        size::show(facts.clean),
        size::show(facts.free),
        match facts.prepare {
            0 => "old data is cleared when a segment is made (--prepare)".to_owned(),
            bytes => format!("agents keep {} ready", size::show(bytes)),
        }
    )
}

fn text(facts: &Facts) -> String {
    let limits = &facts.limits;
    let evict = match facts.evict_after {
        0 => "never".to_owned(),
        seconds => format!("after {seconds} s of silence"),
    };
    let rows = [
        ("name", show::sanitized(&facts.name)),
        ("link", facts.link.to_owned()),
        ("place", facts.path.display().to_string()),
        ("uuid", facts.uuid.clone()),
        ("size", size::show(facts.size)),
        ("metadata", format!("{} ({} %)", size::show(facts.metadata), facts.metadata_percent)),
        ("for messages", format!("{}, and for semaphores", size::show(facts.heap))),
        ("for segments", size::show(facts.data)),
        (
            "owner, mode",
            format!("{}, {} at creation", crate::account::user_name(facts.owner_uid), facts.mode),
        ),
        ("pages", format!("of {}", size::show(facts.page_size))),
        ("nodes", facts.nodes.as_ref().map_or("not known".to_owned(), NodeBytes::text)),
        ("node ranges", ranges_text(&facts.node_ranges)),
        ("prepared", prepared_text(facts)),
        ("eviction", evict),
        ("datagrams", facts.datagrams.text()),
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
            format!(
                "attaches {}, undos {}, futexes {}, locks {}, slabs {}",
                limits.attaches, limits.undos, limits.futexes, limits.locks, limits.slabs
            ),
        ),
    ];
    rows.iter().map(|(what, value)| format!("{what:<13} {value}\n")).collect()
}
