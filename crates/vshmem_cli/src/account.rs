//! Users and groups by name, and this process's own credentials.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use vshmem_ipc::Caller;
use vshmem_link::{OVERFLOW_ID, UserNamespace};

use crate::failure::{Failure, failed};

/// Name of a user, or the number where there is none.
pub fn user_name(uid: u32) -> String {
    /// Those that were looked up: a table of thousands of objects has few users, and each look-up
    /// opens a file.
    static KNOWN: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let look_up = || {
        let user = uzers::get_user_by_uid(uid);
        user.map_or_else(|| uid.to_string(), |user| user.name().to_string_lossy().into_owned())
    };
    known.entry(uid).or_insert_with(look_up).clone()
}

/// Name of a group, or the number where there is none.
pub fn group_name(gid: u32) -> String {
    let name =
        uzers::get_group_by_gid(gid).map(|group| group.name().to_string_lossy().into_owned());
    name.unwrap_or_else(|| gid.to_string())
}

/// A group by name or number.
pub fn group(text: &str) -> Result<u32, Failure> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    match uzers::get_group_by_name(text) {
        Some(group) => Ok(group.gid()),
        None => failed(format!(
            "--group {text}: there is no such group on this machine. `getent group` lists them"
        )),
    }
}

/// The credentials of this process, as the kernel knows them: by the ids of its initial user
/// namespace, which pools have.
#[derive(Debug)]
pub struct OwnCredentials {
    namespace: UserNamespace,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    capabilities: u64,
}

const CAP_CHOWN: u32 = 0;
const CAP_DAC_OVERRIDE: u32 = 1;
const CAP_FOWNER: u32 = 3;
const CAP_IPC_OWNER: u32 = 15;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_RESOURCE: u32 = 24;

impl OwnCredentials {
    /// Reads them.
    pub fn read() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let namespace = UserNamespace::own();
        let user = |id| namespace.users.outside(id).unwrap_or(OVERFLOW_ID);
        let group = |id| namespace.groups.outside(id).unwrap_or(OVERFLOW_ID);
        Self {
            namespace,
            uid: user(rustix::process::geteuid().as_raw()),
            gid: group(rustix::process::getegid().as_raw()),
            groups: rustix::process::getgroups()
                .unwrap_or_default()
                .into_iter()
                .filter_map(|id| namespace.groups.outside(id.as_raw()))
                .collect(),
            capabilities: effective
                .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
                .unwrap_or(0),
        }
    }

    fn capable(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 == 1
    }
}

impl Caller for OwnCredentials {
    fn uid(&self) -> u32 {
        self.uid
    }

    fn gid(&self) -> u32 {
        self.gid
    }

    fn in_group(&self, gid: u32) -> bool {
        gid == self.gid || self.groups.contains(&gid)
    }

    fn capabilities_reach(&self, uid: u32, gid: u32) -> bool {
        let UserNamespace { users, groups, .. } = &self.namespace;
        users.inside(uid).is_some() && groups.inside(gid).is_some()
    }

    fn owns_all(&self) -> bool {
        self.capable(CAP_IPC_OWNER)
    }

    fn administers(&self) -> bool {
        self.capable(CAP_SYS_ADMIN)
    }

    fn unlimited(&self) -> bool {
        self.namespace.is_initial() && self.capable(CAP_SYS_RESOURCE)
    }

    fn overrides_modes(&self) -> bool {
        self.capable(CAP_DAC_OVERRIDE)
    }

    fn acts_as_owner(&self) -> bool {
        self.capable(CAP_FOWNER)
    }

    fn changes_owners(&self) -> bool {
        self.capable(CAP_CHOWN)
    }
}
