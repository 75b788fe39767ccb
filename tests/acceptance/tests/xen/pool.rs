//! Making and removing pools in dom0.

use crate::rig::{DOM0, POOL, until};
use crate::shared;

/// What xl and XenStore have to say about pools.
fn traces() -> String {
    let keys = "xenstore-ls -f / | cut -d= -f1 | grep vshmem";
    let said = shared().shell(DOM0, &format!("xl list | grep vshmem-; {keys}; ls /run/vshmem/xen"));
    said.out
}

pub fn too_large() {
    let xen = shared();
    assert_eq!(traces(), "", "before there was any pool");
    let refused = xen.shell(DOM0, "vshmem pool create big --xen --size 4G --slots 16");
    refused.refused(1, &["gnttab_max_frames=", "--size of at most"]);
    let refused = xen.shell(DOM0, "vshmem pool create big --xen --size 16M --slots 1");
    refused.refused(2, &["--slots"]);
    assert_eq!(traces(), "");
}

pub fn granted() {
    let xen = shared();
    xen.make_pool();
    let listed = xen.shell(DOM0, "xl list").ok();
    assert!(listed.contains(&format!("vshmem-{POOL}")), "{listed}");
    for domain in [DOM0, 1, 2] {
        let pools = xen.shell(domain, "vshmem pool ls").ok();
        let row = pools.lines().find(|line| line.starts_with(POOL)).unwrap_or_default();
        assert!(row.contains("xen (") && row.contains("32M"), "{pools}");
    }
    xen.shell(1, &format!("vshmem pool rm {POOL}")).refused(1, &["a device of this guest"]);
    xen.shell(1, &format!("vshmem pool serve {POOL}")).refused(1, &["only dom0"]);
    xen.shell(DOM0, &format!("vshmem pool create {POOL} --xen --size 16M"))
        .refused(1, &["exists already"]);
    let line = xen.shell(DOM0, &format!("vshmem pool show {POOL} --as xl")).ok();
    assert!(line.starts_with("max_maptrack_frames = "), "{line}");
    // As xl reads it, without making the domain.
    let domain = r#"name = "dry"\ntype = "pvh"\nkernel = "/bin/busybox"\nmemory = 64\n"#;
    let dry = format!("printf '{domain}{line}' >/tmp/dry.cfg && xl -N create /tmp/dry.cfg");
    let read = xen.shell(DOM0, &dry).ok();
    let frames = line.trim().rsplit(' ').next().unwrap_or_default();
    assert!(read.contains(&format!("\"max_maptrack_frames\": {frames}")), "{read}");
}

pub fn removed() {
    let xen = shared();
    assert!(traces().contains(POOL));
    xen.shell(DOM0, &format!("vshmem pool check {POOL}")).ok();
    xen.remove_pool();
    until("nothing is left", || traces().is_empty());
    for domain in [1, 2] {
        let pools = xen.shell(domain, "vshmem pool ls").ok();
        assert!(!pools.contains(POOL), "{pools}");
    }
}
