//! Labs and guests that are not there.

use super::row::{Mistake, Place, nothing};

/// A lab of another release, which writes down less than this one.
fn of_another_release(place: &Place, keeper: &str) {
    let lab = place.path(&place.pool.0);
    std::fs::create_dir(&lab).unwrap();
    let record = format!("{{\"first_uid\": 2000000000, \"keeper\": {keeper}}}");
    std::fs::write(lab.join("lab.json"), record).unwrap();
    place.set("VSHMEM_LAB_DIR", &place.directory.path().display().to_string());
}

fn ended(place: &Place) {
    of_another_release(place, "null");
}

/// With this process as its keeper.
fn running(place: &Place) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let behind_name = stat.rsplit_once(") ").unwrap().1;
    let start = behind_name.split(' ').nth(19).unwrap();
    of_another_release(place, &format!("[{}, {start}]", std::process::id()));
}

pub const ROWS: &[Mistake] = &[
    Mistake {
        what: "no kind of guests",
        setup: nothing,
        line: "lab up -n 2",
        code: 2,
        says: &["--guest <GUEST> is missing"],
        proposes: "vshmem lab up --guest uml -n 2",
    },
    Mistake {
        what: "a kind that is not there",
        setup: nothing,
        line: "lab up --guest kvm",
        code: 2,
        says: &["invalid value 'kvm' for '--guest", "uml, qemu, xen"],
        proposes: "vshmem lab up --guest uml -n 2",
    },
    Mistake {
        what: "no guests",
        setup: nothing,
        line: "lab --name mistakes-none up --guest uml -n 0",
        code: 2,
        says: &["-n is 0", "from 1 to 64"],
        proposes: "vshmem lab up --guest uml -n 2",
    },
    Mistake {
        what: "an option for other guests",
        setup: nothing,
        line: "lab up --guest uml --device plain",
        code: 2,
        says: &["--device and --driver are for QEMU guests"],
        proposes: "vshmem lab up --device plain --guest qemu",
    },
    Mistake {
        what: "an option for other guests, among others",
        setup: nothing,
        line: "lab --name {pool} up --guest uml --device plain -n 3",
        code: 2,
        says: &["--device and --driver are for QEMU guests"],
        proposes: "vshmem lab --name {pool} up --guest uml -n 3",
    },
    Mistake {
        what: "memory that is no size",
        setup: nothing,
        line: "lab up --guest uml --mem lots",
        code: 2,
        says: &["\"lots\" is not a size"],
        proposes: "vshmem lab up --guest uml --mem 512M --pool job7",
    },
    Mistake {
        what: "a pool that is not there",
        setup: nothing,
        line: "lab --name {pool} up --guest uml --pool {pool}",
        code: 1,
        says: &["pool {pool}: there is none of that name"],
        proposes: "vshmem pool create {pool} --size {size}",
    },
    Mistake {
        what: "a lab that is not up",
        setup: nothing,
        line: "lab --name {pool} exec 1 -- true",
        code: 1,
        says: &["lab {pool}: it is not up"],
        proposes: "vshmem lab --name {pool} up --guest uml",
    },
    Mistake {
        what: "listing a lab that is not there",
        setup: nothing,
        line: "lab --name {pool} ls",
        code: 1,
        says: &["lab {pool}: there is none of that name"],
        proposes: "vshmem lab ls",
    },
    Mistake {
        what: "taking down a lab that is not there",
        setup: nothing,
        line: "lab --name {pool} down",
        code: 1,
        says: &["lab {pool}: there is none of that name"],
        proposes: "vshmem lab ls",
    },
    Mistake {
        what: "killing nobody",
        setup: nothing,
        line: "lab kill",
        code: 2,
        says: &["<GUEST> is missing"],
        proposes: "vshmem lab kill 1",
    },
    Mistake {
        what: "a name with a space",
        setup: nothing,
        line: "lab --name 'a b' up --guest uml",
        code: 2,
        says: &["\"a b\""],
        proposes: "vshmem lab --name lab2 up --guest uml",
    },
    Mistake {
        what: "a command in a lab of another release",
        setup: ended,
        line: "lab --name {pool} exec 1 -- true",
        code: 1,
        says: &["lab {pool}: cannot understand", "another release"],
        proposes: "vshmem lab --name {pool} down",
    },
    Mistake {
        what: "listing a lab of another release",
        setup: ended,
        line: "lab --name {pool} ls",
        code: 1,
        says: &["lab {pool}: cannot understand", "another release"],
        proposes: "vshmem lab --name {pool} down",
    },
    Mistake {
        what: "taking down a lab of another release while it runs",
        setup: running,
        line: "lab --name {pool} down",
        code: 1,
        says: &["lab {pool}: cannot understand", "another release"],
        proposes: "/proc/{self}/exe lab --name {pool} down",
    },
];
