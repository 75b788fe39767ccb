//! What somebody does on the first day: names and paths with blanks, pools that are gone.

use std::os::unix::fs::PermissionsExt;

use super::row::{Mistake, Place, nothing, pool};

fn not_executable(place: &Place) {
    let program = place.path("a b");
    std::fs::write(&program, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o644)).unwrap();
}

pub const ROWS: &[Mistake] = &[
    Mistake {
        what: "a name with a blank",
        setup: nothing,
        line: "pool show 'my pool'",
        code: 1,
        says: &["\"my pool\"", "no pool can have that name"],
        proposes: "vshmem pool ls",
    },
    Mistake {
        what: "a program on a pool whose name has a blank behind it",
        setup: nothing,
        line: "run --pool '{pool} ' -- true",
        code: 1,
        says: &["no pool can have that name"],
        proposes: "vshmem pool ls",
    },
    Mistake {
        what: "a look at a pool that is gone",
        setup: nothing,
        line: "top --pool {pool}",
        code: 1,
        says: &["there is none of that name"],
        proposes: "vshmem pool create {pool} --size {size}",
    },
    Mistake {
        what: "a device of a pool that is gone",
        setup: nothing,
        line: "pool show {pool} --as libvirt",
        code: 1,
        says: &["there is none of that name"],
        proposes: "vshmem pool ls",
    },
    Mistake {
        what: "metrics into a directory that is not there",
        setup: pool,
        line: "metrics --pool {pool} --output {dir}/none/vshmem.prom",
        code: 1,
        says: &["{dir}/none/vshmem.prom", "cannot be written"],
        proposes: "vshmem metrics --output /tmp/vshmem.prom",
    },
    Mistake {
        what: "a file for a pool in a directory that is not there, with a blank",
        setup: nothing,
        line: "pool create {pool} --size 8M --file '{dir}/a b/pool'",
        code: 1,
        says: &["cannot create {dir}/a b/pool"],
        proposes: "mkdir -p '{dir}/a b'",
    },
    Mistake {
        what: "a file for a pool where none can be made",
        setup: nothing,
        line: "pool create {pool} --size 8M --file /sys/{pool}",
        code: 1,
        says: &["cannot create /sys/{pool}"],
        proposes: "ls -ld /sys",
    },
    Mistake {
        what: "a report of a directory with a blank",
        setup: nothing,
        line: "bench report '{dir}/a b'",
        code: 1,
        says: &["cannot be read"],
        proposes: "vshmem bench run --quick '{dir}/a b'",
    },
    Mistake {
        what: "a program with a blank that is not executable",
        setup: not_executable,
        line: "run -- '{dir}/a b'",
        code: 126,
        says: &["{dir}/a b: cannot run it"],
        proposes: "chmod +x '{dir}/a b'",
    },
    Mistake {
        what: "an agent of a pool that is gone",
        setup: nothing,
        line: "agent --keep --pool {file}",
        code: 1,
        says: &["{file}: there is no such pool"],
        proposes: "vshmem pool ls",
    },
    Mistake {
        what: "a plan that was never applied",
        setup: nothing,
        line: "plan check mistakes-none",
        code: 1,
        says: &["plan mistakes-none: it is not applied"],
        proposes: "vshmem plan apply --name mistakes-none --to qemu --dry-run",
    },
    Mistake {
        what: "a socket in a directory that is not there",
        setup: pool,
        line: "pool serve {pool} --socket '{dir}/a b/socket'",
        code: 1,
        says: &["cannot listen at {dir}/a b/socket"],
        proposes: "vshmem pool serve {pool} --socket /run/vshmem/{pool}.sock",
    },
    Mistake {
        what: "two pools at once",
        setup: pool,
        line: "pool rm {pool} other",
        code: 2,
        says: &["\"other\" is one word too many"],
        proposes: "vshmem pool rm --help",
    },
    Mistake {
        what: "no domain to evict",
        setup: pool,
        line: "pool evict {pool}",
        code: 2,
        says: &["<DOMAIN> is missing"],
        proposes: "vshmem pool evict job7 guest2",
    },
    Mistake {
        what: "a library that is not known",
        setup: nothing,
        line: "fabric-env --for openmpy",
        code: 2,
        says: &["invalid value 'openmpy' for '--for"],
        proposes: "vshmem fabric-env --help",
    },
    Mistake {
        what: "a mode as ls shows it",
        setup: nothing,
        line: "pool create {pool} --size 8M --mode rw-rw----",
        code: 2,
        says: &["write it in octal"],
        proposes: "vshmem pool create team --size 64M --mode 0660 --group hpc",
    },
];
