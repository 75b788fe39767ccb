//! Memory that is short, and files of other users.

use super::rig::Installed;
use super::row::{Mistake, Place, nothing, pool};

/// Runs the command as somebody who has no rights.
fn as_nobody(place: &Place) {
    let installed: &Installed = place.installed();
    let open = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(installed.path(), open).unwrap();
    place.under(&["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]);
}

/// Puts an lstopo before all others that tells of a machine, whether hwloc is installed or not.
fn with_topology(place: &Place) {
    use std::os::unix::fs::PermissionsExt;
    let machines = concat!(env!("CARGO_MANIFEST_DIR"), "/../vshmem_plan/tests/machines");
    let machine = std::fs::read_to_string(format!("{machines}/two-cpus.xml")).unwrap();
    let program = place.path("lstopo-no-graphics");
    std::fs::write(&program, format!("#!/bin/sh\ncat <<'END'\n{machine}\nEND\n")).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let before = program.parent().unwrap().display().to_string();
    place.set("PATH", &format!("{before}:{}", std::env::var("PATH").unwrap()));
}

/// Runs the command with a /dev/shm of its own.
fn with_shm_of(place: &Place, bytes: &str) {
    let script = format!("mount -t tmpfs -o size={bytes} none /dev/shm && exec \"$0\" \"$@\"");
    place.under(&["unshare", "--mount", "sh", "-c", &script]);
}

pub const ROWS: &[Mistake] = &[
    Mistake {
        what: "another user's pool",
        setup: |place| {
            pool(place);
            as_nobody(place);
        },
        line: "ls --pool {pool}",
        code: 1,
        says: &["{file}: permission denied", "--mode"],
        proposes: "chmod 0666 {file}",
    },
    Mistake {
        what: "removing another user's pool",
        setup: |place| {
            pool(place);
            as_nobody(place);
        },
        line: "pool rm {pool}",
        code: 1,
        says: &["permission denied"],
        proposes: "chmod 0660 {file}",
    },
    Mistake {
        what: "a program that cannot be read",
        setup: |place| {
            pool(place);
            as_nobody(place);
            let program =
                place.installed().program("secret", &std::fs::read("/bin/true").unwrap(), 0o711);
            std::fs::rename(program, place.path("secret")).unwrap();
        },
        line: "run --pool {pool} -- {dir}/secret",
        code: 126,
        says: &["{dir}/secret: cannot read it", "how it is linked"],
        proposes: "chmod +r {dir}/secret",
    },
    Mistake {
        what: "a lab without root",
        setup: as_nobody,
        line: "lab --name mistakes up --guest uml",
        code: 1,
        says: &["cannot run the lab", "root"],
        proposes: "sudo vshmem lab --name mistakes up --guest uml",
    },
    Mistake {
        what: "a machine without User Mode Linux",
        setup: |place| {
            // In a mount namespace where its kernel is no program.
            let script = "export VSHMEM_LAB_UML=/none; for name in linux.uml linux; do \
                kernel=$(command -v $name) && mount --bind /dev/null \"$kernel\"; done; \
                exec \"$0\" \"$@\"";
            place.under(&["unshare", "--mount", "sh", "-c", script]);
        },
        line: "lab --name {pool} up --guest uml",
        code: 1,
        says: &["cannot run the lab", "a User Mode Linux kernel"],
        proposes: "apt-get install user-mode-linux",
    },
    Mistake {
        what: "a plan without root",
        setup: |place| {
            with_topology(place);
            as_nobody(place);
        },
        line: "plan apply --guests 1 --to host --name mistakes",
        code: 1,
        says: &["/run/vshmem", "root"],
        proposes: "sudo vshmem plan apply --guests 1 --to host --name mistakes",
    },
    Mistake {
        what: "a container without the mount",
        setup: |place| {
            pool(place);
            with_shm_of(place, "1M");
        },
        line: "ls --pool {pool}",
        code: 1,
        says: &["there is none of that name on this machine"],
        proposes: "vshmem pool ls",
    },
    Mistake {
        what: "a full /dev/shm",
        setup: |place| with_shm_of(place, "6M"),
        line: "pool create {pool} --size 8M",
        code: 1,
        says: &["8388608 bytes cannot be backed", "No space left"],
        proposes: "mount -o remount,size=9M /dev/shm",
    },
    Mistake {
        what: "a private pool in a full /dev/shm",
        setup: |place| {
            place.installed();
            with_shm_of(place, "1M");
        },
        line: "run -- true",
        code: 1,
        says: &["cannot be backed"],
        proposes: "vshmem pool ls",
    },
    Mistake {
        what: "no private pool yet",
        setup: |place| with_shm_of(place, "1M"),
        line: "ls",
        code: 1,
        says: &["no private one yet", "--pool"],
        proposes: "vshmem run -- CMD",
    },
    Mistake {
        what: "no private pool for MPI",
        setup: nothing,
        line: "mpi-env",
        code: 1,
        says: &["no pool is named"],
        proposes: "vshmem mpi-env --pool job7",
    },
    Mistake {
        what: "no private pool for libfabric",
        setup: nothing,
        line: "fabric-env --for mpich",
        code: 1,
        says: &["no pool is named"],
        proposes: "vshmem fabric-env --pool job7",
    },
];
