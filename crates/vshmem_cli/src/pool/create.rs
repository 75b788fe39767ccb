//! `vshmem pool create`.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use vshmem_session::CreateRequest;

use crate::failure::{Failure, Outcome, failed};
use crate::{account, show, size};

/// Make a pool.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Create {
    /// Its name: letters, digits, '-', '_' and '.', at most 48.
    name: String,
    /// Its size: a number with K, M, G or T behind it.
    #[arg(long, value_parser = size::parse)]
    size: u64,
    /// Back it with huge pages of this size (on /dev/hugepages).
    #[arg(long)]
    hugepages: Option<HugePage>,
    /// Bind it to a NUMA node, or interleave it over all.
    #[arg(long, value_name = "N|interleave")]
    numa: Option<String>,
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
    /// where nobody can tell that a domain is dead: a paused guest looks the same.
    #[arg(long, value_name = "SECS", default_value_t = 0)]
    evict_after: u64,
    /// Back memory when a segment is made rather than now. Guests cannot use such a pool.
    #[arg(long)]
    sparse: bool,
}

const EXAMPLES: &str = "\
Examples:
  vshmem pool create job7 --size 1G
  vshmem pool create team --size 64M --mode 0660 --group hpc
  vshmem pool create big --size 8G --hugepages 2M --limit shmmni=100";

/// Sizes of huge pages.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum HugePage {
    /// 2 MiB.
    #[value(name = "2M")]
    Large,
    /// 1 GiB.
    #[value(name = "1G")]
    Giant,
}

impl HugePage {
    fn bytes(self) -> u64 {
        match self {
            Self::Large => 2 << 20,
            Self::Giant => 1 << 30,
        }
    }
}

fn mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text.trim_start_matches("0o"), 8) {
        Ok(mode) if mode & !0o666 == 0 && mode & 0o600 == 0o600 => Ok(mode),
        _ => Err(format!(
            "{text:?} is not a mode for a pool: write it in octal, with read and write together, as 0600, 0660 or 0666"
        )),
    }
}

fn limit(text: &str) -> Result<(String, u64), String> {
    let wrong = || format!("{text:?} is not a limit: write NAME=NUMBER, as in shmmni=100");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let value = size::parse(value).map_err(|_| wrong())?;
    Ok((name.to_owned(), value))
}

/// Makes a pool with default limits, fully backed, for this user alone.
pub fn make(name: &str, bytes: u64) -> Result<std::path::PathBuf, Failure> {
    Ok(vshmem_session::create(&CreateRequest {
        name: name.to_owned(),
        bytes,
        mode: 0o600,
        group: None,
        huge_page: None,
        limits: Vec::new(),
        evict_after: 0,
        backed: true,
    })?)
}

impl Create {
    /// Makes it.
    pub fn carry_out(self) -> Outcome {
        if let Some(node) = &self.numa {
            return failed(format!(
                "--numa {node}: not yet supported by this release. Until it is, `numactl --membind=N vshmem pool create ...` (or --interleave=all) does it, because a pool's memory is backed when it is made"
            ));
        }
        if let Some(page) = self.hugepages {
            require_huge_pages(page.bytes())?;
        }
        let request = CreateRequest {
            name: self.name.clone(),
            bytes: self.size,
            mode: self.mode,
            group: self.group.as_deref().map(account::group).transpose()?,
            huge_page: self.hugepages.map(HugePage::bytes),
            limits: self.limits,
            evict_after: self.evict_after,
            backed: !self.sparse,
        };
        let place = vshmem_session::create(&request)?;
        show::line(format!(
            "pool {}: {} at {}",
            self.name,
            size::show(self.size),
            place.display()
        ))?;
        Ok(ExitCode::SUCCESS)
    }
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
