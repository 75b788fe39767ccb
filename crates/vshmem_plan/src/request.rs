//! What is asked of a plan.

/// How the host is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// So many guests of equal size, along the coarsest boundary that allows it.
    Count(u32),
    /// A guest for each socket.
    PerSocket,
    /// A guest for each node that has CPUs.
    PerNode,
    /// A guest for each last-level cache.
    PerL3,
}

/// The size of the huge pages that back the guests and the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HugePage {
    /// 2 MiB.
    Mega2,
    /// 1 GiB.
    Giga1,
}

impl HugePage {
    /// In bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::Mega2 => 2 << 20,
            Self::Giga1 => 1 << 30,
        }
    }
}

/// Where the pages of a pool lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolPlacement {
    /// As the rule has it: one pool for all guests; on their node, or on all of their nodes in
    /// turn.
    ByRule,
    /// A pool for each two neighbouring guests, on the nodes of those two.
    PerPair,
    /// One pool for all guests, on all of their nodes in turn.
    Interleave,
    /// One pool for all guests, with a range of its pages on each of their nodes: new segments lie
    /// on the node of the guest that makes them.
    Ranges,
    /// One pool for all guests, on this node.
    Node(u32),
}

/// The memory that the guests share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolRequest {
    /// Bytes of each pool. A PCI device shows a power of two.
    pub bytes: u64,
    /// Where they lie.
    pub placement: PoolPlacement,
}

/// What becomes of the second and further threads of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Smt {
    /// A guest has all threads of its cores, and sees them as threads.
    Keep,
    /// A guest has the first thread of each of its cores; the others stay idle.
    Off,
}

/// What is asked of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// How the host is cut.
    pub cut: Cut,
    /// CPUs that the host and the guests' emulator threads keep, in whole cores. `None`: a core of
    /// each socket.
    pub host_cpus: Option<u32>,
    /// Bytes of memory that the host keeps. `None`: 2 GiB and 512 MiB for each guest, but not more
    /// than a quarter.
    pub host_memory: Option<u64>,
    /// Huge pages for guests and pool. `None`: pages of the usual size.
    pub huge_pages: Option<HugePage>,
    /// The memory that the guests share. `None`: none.
    pub pool: Option<PoolRequest>,
    /// What becomes of further threads of a core.
    pub smt: Smt,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            cut: Cut::PerSocket,
            host_cpus: None,
            host_memory: None,
            huge_pages: None,
            pool: None,
            smt: Smt::Keep,
        }
    }
}
