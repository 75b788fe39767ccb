//! Measurements without programs, guests or sense.

use super::row::{Mistake, nothing};

pub const ROWS: &[Mistake] = &[
    Mistake {
        what: "a comparison that is not there",
        setup: nothing,
        line: "bench sysv --only nonsense",
        code: 2,
        says: &["--only nonsense", "nothing of that name"],
        proposes: "vshmem bench sysv --list",
    },
    Mistake {
        what: "no programs",
        setup: nothing,
        line: "bench sysv --only semop --programs {dir}",
        code: 1,
        says: &["sysv_calls: not found at any of {dir}"],
        proposes: "apt-get install vshmem-tools",
    },
    Mistake {
        what: "no programs for MPI",
        setup: nothing,
        line: "bench mpi --programs {dir}",
        code: 1,
        says: &["{dir}/pairs"],
        proposes: "apt-get install vshmem-openmpi",
    },
    Mistake {
        what: "an odd number of processes",
        setup: nothing,
        line: "bench mpi -n 3",
        code: 2,
        says: &["in pairs", "even"],
        proposes: "vshmem bench mpi -n 4",
    },
    Mistake {
        what: "no runs",
        setup: nothing,
        line: "bench sysv --pairs 0",
        code: 2,
        says: &["--pairs is 0", "from 1 to 10000"],
        proposes: "vshmem bench sysv",
    },
    Mistake {
        what: "a lab without guests",
        setup: nothing,
        line: "bench sysv --lab lab",
        code: 2,
        says: &["--guests is missing"],
        proposes: "vshmem bench sysv --guests",
    },
    Mistake {
        what: "an environment that is not there",
        setup: nothing,
        line: "bench run {dir}/new --environments mars",
        code: 2,
        says: &["--environments mars", "native, guest"],
        proposes: "vshmem bench run --list",
    },
    Mistake {
        what: "a report of nothing",
        setup: nothing,
        line: "bench report {dir}",
        code: 1,
        says: &["{dir}/journal.jsonl"],
        proposes: "vshmem bench run --quick {dir}",
    },
    Mistake {
        what: "one directory to compare",
        setup: nothing,
        line: "bench compare {dir}",
        code: 2,
        says: &["<B> is missing"],
        proposes: "vshmem bench compare before after",
    },
];
