//! What gives pools to guests of this machine, and what may forbid it: libvirt, AppArmor, SELinux,
//! Xen. Open MPI beside them: all of it is optional.

use std::fs;
use std::path::Path;

use super::line::Line;
use super::origin::Origin;
use crate::program;
use crate::verb::mpi_env;

/// Whether a command is in PATH.
fn is_command(name: &str) -> bool {
    program::find(Path::new(name)).is_ok()
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Open MPI, and vshmem's components for it.
pub fn mpi(origin: &Origin) -> Line {
    let found = mpi_env::components(None).ok().map(|path| path.display().to_string());
    judge_mpi(is_command("mpirun"), found, origin)
}

fn judge_mpi(has_mpirun: bool, components: Option<String>, origin: &Origin) -> Line {
    const WHAT: &str = "Open MPI (optional)";
    match (has_mpirun, components) {
        (true, Some(path)) => Line::good(WHAT, format!("its components for pools: {path}")),
        (true, None) => Line::note(
            WHAT,
            "without components for pools: between guests it uses the network",
            origin.components(),
        ),
        (false, _) => Line::good(WHAT, "not installed: there is no mpirun in PATH"),
    }
}

/// UCX, which asks whether a peer is on its host, and says nothing when it takes TCP.
pub fn ucx() -> Option<Line> {
    let directories =
        ["/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];
    directories.iter().any(|place| Path::new(place).join("libucp.so.0").exists()).then(|| {
        Line::note(
            "UCX (optional)",
            "libucp.so.0: between guests it takes TCP, unless it is told that they are one host",
            "`export UCX_TLS=shm,self`, then `vshmem run --one-host PROGRAM` (docs/guide/my-program-takes-tcp.md)",
        )
    })
}

/// libvirt, and what confines the QEMU that it starts.
pub fn libvirt() -> Vec<Line> {
    let is_there = is_command("virsh") || Path::new("/run/libvirt").exists();
    let user =
        qemu_user(&text("/etc/libvirt/qemu.conf"), |name| uzers::get_user_by_name(name).is_some());
    let mut lines = vec![judge_libvirt(is_there, user.as_deref())];
    lines.push(judge_apparmor(
        text("/sys/module/apparmor/parameters/enabled") == "Y",
        Path::new("/etc/apparmor.d/abstractions/libvirt-qemu").exists(),
        &text(LOCAL_RULES),
    ));
    lines.push(judge_selinux(&text("/sys/fs/selinux/enforce"), is_there));
    lines
}

/// As whom libvirt starts QEMU: as its configuration says, or its distribution.
fn qemu_user(configuration: &str, exists: impl Fn(&str) -> bool) -> Option<String> {
    let setting = configuration.lines().find_map(|line| {
        let value = line.trim().strip_prefix("user")?.trim().strip_prefix('=')?;
        Some(value.trim().trim_matches('"').to_owned())
    });
    let usual = ["libvirt-qemu", "qemu"];
    setting.or_else(|| usual.iter().find(|name| exists(name)).map(|name| (*name).to_owned()))
}

fn judge_libvirt(is_there: bool, user: Option<&str>) -> Line {
    const WHAT: &str = "libvirt (optional)";
    match (is_there, user) {
        (false, _) => Line::good(WHAT, "not installed: there is no virsh in PATH"),
        (true, None) => Line::good(WHAT, "virsh is there; no user for QEMU that is known here"),
        (true, Some(user)) => Line::good(
            WHAT,
            format!(
                "its QEMU runs as {user}: a pool for its guests takes `vshmem pool create NAME --mode 0660 --group GROUP` with a group of that user's"
            ),
        ),
    }
}

/// What the administrator adds to the rules for libvirt's QEMU.
const LOCAL_RULES: &str = "/etc/apparmor.d/local/abstractions/libvirt-qemu";

fn judge_apparmor(is_on: bool, confines_qemu: bool, local: &str) -> Line {
    const WHAT: &str = "AppArmor (optional)";
    if !is_on {
        return Line::good(WHAT, "off");
    }
    if !confines_qemu {
        return Line::good(WHAT, "on, without rules for libvirt's QEMU");
    }
    if local.contains("/dev/shm/vshmem.") {
        return Line::good(WHAT, format!("on; {LOCAL_RULES} lets QEMU have pools"));
    }
    Line::note(
        WHAT,
        "on: it may keep libvirt's QEMU from the files of pools and the sockets of their servers",
        format!(
            "`mkdir -p /etc/apparmor.d/local/abstractions && printf '%s\\n' '/dev/shm/vshmem.* rw,' '/run/vshmem/** rw,' >>{LOCAL_RULES}`, then start the guest again"
        ),
    )
}

fn judge_selinux(enforce: &str, has_libvirt: bool) -> Line {
    const WHAT: &str = "SELinux (optional)";
    match (enforce, has_libvirt) {
        ("", _) => Line::good(WHAT, "off"),
        ("1", true) => Line::note(
            WHAT,
            "enforcing: libvirt's QEMU may open a pool's file only with the label of its images (a `<shmem>` element gets it from libvirt)",
            "`chcon -t svirt_image_t /dev/shm/vshmem.NAME` after each `vshmem pool create`",
        ),
        ("1", false) => Line::good(WHAT, "enforcing; it confines nothing of vshmem's"),
        _ => Line::good(WHAT, "permissive"),
    }
}

/// Xen; none where this is no domain of it.
pub fn xen() -> Option<Line> {
    if text("/sys/hypervisor/type") != "xen" {
        return None;
    }
    let is_dom0 = text("/proc/xen/capabilities").contains("control_d");
    let needed: &[&str] = match is_dom0 {
        true => &["gntdev", "evtchn", "xenbus", "privcmd", "hypercall"],
        false => &["gntdev", "evtchn", "xenbus"],
    };
    let missing = needed.iter().filter(|name| !Path::new("/dev/xen").join(name).exists());
    let is_open = fs::File::options().read(true).write(true).open("/dev/xen/gntdev").is_ok();
    Some(judge_xen(is_dom0, &missing.copied().collect::<Vec<_>>(), is_open))
}

fn judge_xen(is_dom0: bool, missing: &[&str], is_open: bool) -> Line {
    const WHAT: &str = "Xen";
    let domain = if is_dom0 { "dom0" } else { "a guest" };
    if !missing.is_empty() {
        return Line::bad(
            WHAT,
            format!("{domain}, without /dev/xen/{}", missing.join(", /dev/xen/")),
            "`modprobe -a xen-gntdev xen-evtchn xen-privcmd; mount -t xenfs xenfs /proc/xen`",
        );
    }
    if !is_open {
        return Line::bad(
            WHAT,
            format!("{domain}; /dev/xen/gntdev is closed to you"),
            "as root: `chgrp vshmem /dev/xen/gntdev && chmod 0660 /dev/xen/gntdev`, or run the program as root",
        );
    }
    Line::good(WHAT, format!("{domain}, with what a pool needs in /dev/xen"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_no_fault_and_what_lacks_a_part_has_a_remedy() {
        let origin = Origin::Package;
        let fine = [
            judge_mpi(false, None, &origin),
            judge_mpi(true, Some("/usr/lib/vshmem/openmpi".into()), &origin),
            judge_libvirt(false, None),
            judge_libvirt(true, Some("libvirt-qemu")),
            judge_apparmor(false, true, ""),
            judge_apparmor(true, false, ""),
            judge_apparmor(true, true, "/dev/shm/vshmem.* rw,"),
            judge_selinux("", true),
            judge_selinux("0", true),
            judge_selinux("1", false),
            judge_xen(true, &[], true),
        ];
        for line in fine {
            assert!(line.good && line.remedy.is_none(), "{line:?}");
        }
        let lacking = [
            judge_mpi(true, None, &origin),
            judge_apparmor(true, true, ""),
            judge_selinux("1", true),
        ];
        for line in lacking {
            assert!(line.good && line.has_command(), "{line:?}");
        }
        for line in [judge_xen(false, &["gntdev"], false), judge_xen(false, &[], false)] {
            assert!(!line.good && line.has_command(), "{line:?}");
        }
    }

    #[test]
    fn libvirts_user_is_that_of_its_configuration_or_its_distribution() {
        let debian = |name: &str| name == "libvirt-qemu";
        assert_eq!(qemu_user("#user = \"root\"\n", debian).as_deref(), Some("libvirt-qemu"));
        assert_eq!(qemu_user("user = \"me\"\n", debian).as_deref(), Some("me"));
        assert_eq!(qemu_user("user_x = 1\n", |_| false), None);
    }
}
