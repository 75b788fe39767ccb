//! Hardware and hypervisors that are not there.

use super::row::{Mistake, nothing, pool};

pub const ROWS: &[Mistake] = &[
    Mistake {
        what: "a device that is not there",
        setup: nothing,
        line: "run --pool /dev/vshmem99 -- true",
        code: 1,
        says: &["/dev/vshmem99: there is no such pool"],
        proposes: "vshmem pool ls",
    },
    Mistake {
        what: "Xen where there is none",
        setup: nothing,
        line: "pool create {pool} --size 8M --xen",
        code: 1,
        says: &["cannot make Xen domains", "dom0"],
        proposes: "xl info",
    },
    Mistake {
        what: "an option of Xen's without it",
        setup: nothing,
        line: "pool create {pool} --size 8M --member web1",
        code: 2,
        says: &["--xen is missing"],
        proposes: "vshmem pool create grid --size 16M --xen --member web1 --member web2",
    },
    Mistake {
        what: "huge pages of a size that there is not",
        setup: nothing,
        line: "pool create {pool} --size 8M --hugepages 3M",
        code: 2,
        says: &["invalid value '3M' for '--hugepages", "2M, 1G"],
        proposes: "vshmem pool create big --size 8G --hugepages 2M --limit shmmni=100",
    },
    Mistake {
        what: "huge pages where none are mounted",
        setup: nothing,
        line: "pool create {pool} --size 1G --hugepages 1G",
        code: 1,
        says: &["/dev/hugepages"],
        proposes: "mount -t hugetlbfs -o pagesize=1G none /dev/hugepages",
    },
    Mistake {
        what: "more doorbells than a guest has",
        setup: pool,
        line: "pool serve {pool} --vectors 99",
        code: 2,
        says: &["--vectors is 99", "from 1 to"],
        proposes: "vshmem pool serve job7 --vectors 1",
    },
];
