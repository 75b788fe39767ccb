use std::time::Duration;

/// Between two rounds: two looks at the client table, two renewals of the lease.
pub const ROUND: Duration = Duration::from_secs(1);
