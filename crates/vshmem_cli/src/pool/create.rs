//! `vshmem pool create`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use vshmem_link::{DAX_FRONT, XenAdmission};
use vshmem_mem::PageNodes;
use vshmem_plan::NumberSet;
use vshmem_session::{CreateRequest, Placement};

use crate::failure::{Failure, Outcome, failed};
use crate::huge_page::HugePage;
use crate::{account, show, size};

/// Make a pool.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Create {
    /// Its name: letters, digits, '-', '_' and '.', at most 48.
    name: String,
    /// Its size: a number with K, M, G or T behind it.
    #[arg(long, value_parser = size::parse, required_unless_present = "file")]
    size: Option<u64>,
    /// Make it in this file, which a virtual machine monitor knows already, as
    /// /dev/shm/pve-shm-job7 of Proxmox VE; without --size as long as that is. The file must hold
    /// zeros alone; its owner and mode stay. Such a pool is named by its path.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["xen", "hugepages", "group"])]
    file: Option<PathBuf>,
    /// Back it with huge pages of this size (on /dev/hugepages), which must have been reserved.
    #[arg(long)]
    hugepages: Option<HugePage>,
    /// Where its pages lie, for every process and guest that uses it: on one NUMA node; a range of
    /// pages on each of several nodes (0,1 or 0-3), and a new segment gets pages of its maker's own
    /// node or else of the nearest; or on all nodes that have memory in turn, or
    /// on some of them (interleave:0,1).
    #[arg(long, value_name = "N|N,M|interleave[:N,M]", value_parser = placement)]
    numa: Option<Placement>,
    /// Who may use it, as the mode of its file, in octal.
    #[arg(long, default_value = "0600", value_parser = mode)]
    mode: u32,
    /// Group of its file, by name or number.
    #[arg(long)]
    group: Option<String>,
    /// Change a limit, for example shmmni=100 or clients=2000. May be repeated.
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limit)]
    limits: Vec<(String, u64)>,
    /// Evict a domain after this many seconds of silence, without asking. 0: never. For links
    /// where the death of a domain cannot be noticed: a paused guest looks the same.
    #[arg(long, value_name = "SECS", default_value_t = 0)]
    evict_after: u64,
    /// Back memory when a segment is made rather than now. Guests cannot use such a pool.
    #[arg(long, conflicts_with = "prepare")]
    sparse: bool,
    /// For guests that get it as an nvdimm or virtio-pmem: put a label in front of it, so that it
    /// shows there as /dev/daxX.Y at boot, and nothing has to be installed or set up.
    #[arg(long, conflicts_with = "sparse")]
    dax: bool,
    /// In dom0 of Xen: for Xen guests. The pool gets a domain of its own, which never runs; its
    /// pages are granted to the members.
    #[arg(long, conflicts_with_all = ["sparse", "dax", "hugepages", "prepare", "numa"])]
    xen: bool,
    /// With --xen: members at most, dom0 counted. Without, 8, or as many as Xen's grant tables
    /// hold.
    #[arg(long, value_name = "N", requires = "xen",
          value_parser = clap::value_parser!(u32).range(2..=127))]
    slots: Option<u32>,
    /// With --xen: a guest that becomes a member, by its name in `xl list`; may be repeated, and
    /// need not run yet. Without any, all guests do.
    #[arg(long = "member", value_name = "GUEST", requires = "xen")]
    members: Vec<String>,
    /// Keep so much free memory ready: zeroed ahead of demand, now and by the agents afterwards,
    /// so that a new segment, above all a large one, costs no clearing. Without a SIZE, an
    /// eighth of the pool.
    #[arg(long, value_name = "SIZE", value_parser = size::parse, num_args = 0..=1)]
    prepare: Option<Option<u64>>,
    /// Its UUID, chosen by `plan apply`, which knows its pools by it.
    #[arg(long, hide = true, value_parser = uuid, conflicts_with = "xen")]
    uuid: Option<[u8; 16]>,
}

const EXAMPLES: &str = "\
Examples:
  vshmem pool create job7 --size 1G
  vshmem pool create team --size 64M --mode 0660 --group hpc
  vshmem pool create fast --size 1G --prepare 128M
  vshmem pool create big --size 8G --hugepages 2M --limit shmmni=100
  vshmem pool create near --size 1G --numa 0
  vshmem pool create both --size 2G --numa 0,1 --hugepages 2M
  vshmem pool create pmem7 --size 1G --dax
  vshmem pool create job7 --file /dev/shm/pve-shm-job7
  vshmem pool create grid --size 16M --xen --member web1 --member web2";

fn uuid(text: &str) -> Result<[u8; 16], String> {
    crate::uuid::parse(text).ok_or_else(|| format!("{text:?} is no UUID: write 32 digits, 0 to f"))
}

fn mode(text: &str) -> Result<u32, String> {
    // Who may only read it would learn the key of its descriptors, and with that could write.
    let is_whole = |mode: u32| (mode >> 2 ^ mode >> 1) & 0o111 == 0;
    match u32::from_str_radix(text.trim_start_matches("0o"), 8) {
        Ok(mode) if mode & !0o666 == 0 && mode & 0o600 == 0o600 && is_whole(mode) => Ok(mode),
        _ => Err(format!(
            "{text:?} is not a mode for a pool: write it in octal, with read and write together for each (who may only read a pool cannot use it), as 0600, 0660 or 0666"
        )),
    }
}

/// Nodes: one, a list as the kernel writes it, or all that have memory in turn.
fn placement(text: &str) -> Result<Placement, String> {
    let listed = || std::fs::read_to_string("/sys/devices/system/node/has_memory");
    let in_turn = text.strip_prefix("interleave");
    let list = match in_turn {
        Some("") => listed().unwrap_or_else(|_| "0".into()),
        Some(rest) => rest.strip_prefix(':').unwrap_or_default().to_owned(),
        None => text.to_owned(),
    };
    let nodes: Vec<u32> =
        NumberSet::from_list(&list).map(|set| set.iter().collect()).unwrap_or_default();
    match nodes[..] {
        [] => {
            Err(format!("{text:?} names no node: write 0, 0,1, 0-3, interleave or interleave:0,1"))
        }
        _ if in_turn.is_some() => Ok(Placement::Uniform(PageNodes::Interleave(nodes))),
        [node] => Ok(Placement::Uniform(PageNodes::Bind(node))),
        _ => Ok(Placement::RangeEach(nodes)),
    }
}

fn limit(text: &str) -> Result<(String, u64), String> {
    let Some((name, value)) = text.split_once('=') else {
        return Err(format!("{text:?} is not a limit: write NAME=NUMBER, as in shmmni=100"));
    };
    let value = size::parse(value)
        .map_err(|_| format!("limit {name} cannot be {value:?}: it must be a number from 1 on"))?;
    Ok((name.to_owned(), value))
}

/// Makes a pool with default limits, fully backed, for this user alone; with a label in front if
/// `dax`.
pub fn make(name: &str, bytes: u64, dax: bool) -> Result<std::path::PathBuf, Failure> {
    Ok(vshmem_session::create(&CreateRequest {
        name: name.to_owned(),
        bytes,
        mode: 0o600,
        group: None,
        huge_page: None,
        placement: None,
        limits: Vec::new(),
        evict_after: 0,
        backed: true,
        dax,
        prepare: 0,
        uuid: None,
    })?)
}

impl Create {
    /// Makes it.
    pub fn carry_out(self) -> Outcome {
        vshmem_session::check_home_node().map_err(|error| Failure::Usage(error.to_string()))?;
        if self.sparse && self.hugepages.is_some() && self.numa.is_some() {
            return Err(Failure::Usage(
                "the nodes of huge pages are chosen when the pool is made: leave out --sparse"
                    .into(),
            ));
        }
        if let Some(page) = self.hugepages {
            require_huge_pages(page.size().bytes())?;
        }
        let bytes = self.bytes()?;
        let request = CreateRequest {
            name: self.name.clone(),
            bytes,
            mode: self.mode,
            group: self.group.as_deref().map(account::group).transpose()?,
            huge_page: self.hugepages.map(|page| page.size().bytes()),
            placement: self.numa.clone(),
            limits: self.limits,
            evict_after: self.evict_after,
            backed: !self.sparse,
            dax: self.dax,
            prepare: self.prepare.map_or(0, |asked| asked.unwrap_or(bytes / 8)),
            uuid: self.uuid,
        };
        if self.xen {
            return create_xen(&request, self.slots, self.members);
        }
        let path = match &self.file {
            Some(file) => vshmem_session::create_in(&request, file)?,
            None => vshmem_session::create(&request)?,
        };
        let prepared = match request.prepare {
            0 => String::new(),
            bytes => format!(", {} of it prepared", size::show(bytes)),
        };
        show::line(format!(
            "pool {}: {}{prepared} at {}",
            self.name,
            size::show(bytes),
            path.display()
        ))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Its size: what was asked for, or that of the file.
    fn bytes(&self) -> Result<u64, Failure> {
        match (self.size, &self.file) {
            (Some(bytes), _) => Ok(bytes),
            (None, Some(file)) => match std::fs::metadata(file) {
                Ok(facts) => Ok(facts.len().saturating_sub(if self.dax { DAX_FRONT } else { 0 })),
                Err(error) => failed(format!(
                    "pool {}: {}: cannot look at it: {error}. Say how large the pool is to be with --size, and the file is made",
                    self.name,
                    file.display()
                )),
            },
            (None, None) => {
                Err(Failure::Usage("say how large it is to be, as in --size 1G".into()))
            }
        }
    }
}

/// Makes it in a domain of its own.
fn create_xen(request: &CreateRequest, slots: Option<u32>, names: Vec<String>) -> Outcome {
    let admission = if names.is_empty() { XenAdmission::All } else { XenAdmission::Named(names) };
    let made = vshmem_session::create_xen(request, slots, admission)?;
    for error in &made.refused {
        eprintln!("vshmem: pool {}: {error}", request.name);
    }
    let mut members = vec!["dom0".to_owned()];
    members.extend(made.members.iter().map(|member| show::sanitized(&member.name)));
    show::line(format!(
        "pool {}: {} in Xen domain {}, granted to {} ({} at most) at {}",
        request.name,
        size::show(request.bytes),
        made.domid,
        members.join(", "),
        made.slots,
        made.path.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Checks that pages of that size are what /dev/hugepages gives.
fn require_huge_pages(bytes: u64) -> Result<(), Failure> {
    const HUGETLBFS: i64 = 0x9584_58f6;
    let wanted = size::show(bytes);
    let remedy = format!(
        "Mount it with `mount -t hugetlbfs -o pagesize={wanted} none /dev/hugepages`, and reserve pages in /sys/kernel/mm/hugepages"
    );
    match rustix::fs::statfs("/dev/hugepages") {
        Ok(stat) if stat.f_type == HUGETLBFS && stat.f_bsize as u64 == bytes => Ok(()),
        Ok(stat) if stat.f_type == HUGETLBFS => failed(format!(
            "--hugepages {wanted}: /dev/hugepages gives pages of {}. {remedy}",
            size::show(stat.f_bsize as u64)
        )),
        Ok(_) => failed(format!(
            "--hugepages {wanted}: no hugetlbfs is mounted at /dev/hugepages. {remedy}"
        )),
        Err(errno) => failed(format!(
            "--hugepages {wanted}: cannot look at /dev/hugepages: {errno}. {remedy}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_nodes_are_read() {
        assert_eq!(placement("1"), Ok(Placement::Uniform(PageNodes::Bind(1))));
        assert_eq!(placement("0,2-3"), Ok(Placement::RangeEach(vec![0, 2, 3])));
        let in_turn = placement("interleave");
        assert!(matches!(in_turn, Ok(Placement::Uniform(PageNodes::Interleave(_)))));
        let in_turn = Placement::Uniform(PageNodes::Interleave(vec![1, 3]));
        assert_eq!(placement("interleave:1,3"), Ok(in_turn));
        assert!(
            ["-1", "", "all", "interleave1", "interleave:"]
                .iter()
                .all(|wrong| placement(wrong).is_err())
        );
    }

    #[test]
    fn a_mode_that_lets_others_only_read_is_refused() {
        for (text, is) in [("0600", 0o600), ("0660", 0o660), ("666", 0o666), ("0o606", 0o606)] {
            assert_eq!(mode(text), Ok(is));
        }
        for text in ["0644", "0640", "0664", "0662", "0400", "0066", "0700", "1660", "rw"] {
            let said = mode(text).unwrap_err();
            assert!(said.contains("0666"), "{said}");
        }
    }
}
