//! Named crash points, compiled in for tests only.
//!
//! `VSHMEM_CRASH=<name>[:<nth>[:stop]]` kills (or stops) the process when it passes the point for
//! the nth time. A name is the change's name and the step's, as in `msgsnd/committed`.

/// Passes a crash point: `crash_point!(change, "step")`.
macro_rules! crash_point {
    ($change:expr, $step:expr) => {
        #[cfg(feature = "crash-points")]
        $crate::crash::pass($change, $step);
        #[cfg(not(feature = "crash-points"))]
        {
            let _ = ($change, $step);
        }
    };
}

/// The steps of every change under a lock, in order.
#[must_use]
pub const fn crash_point_names() -> [&'static str; 6] {
    ["acquired", "written", "committed", "half-applied", "applied", "released"]
}

#[cfg(feature = "crash-points")]
pub(crate) fn pass(change: &str, step: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Order {
        name: String,
        left: AtomicU32,
        stop: bool,
    }
    static ORDER: OnceLock<Option<Order>> = OnceLock::new();
    let order = ORDER.get_or_init(|| {
        let text = std::env::var("VSHMEM_CRASH").ok()?;
        let mut parts = text.split(':');
        let name = parts.next()?.to_owned();
        let nth = parts.next().and_then(|n| n.parse().ok()).unwrap_or(1);
        let stop = parts.next() == Some("stop");
        Some(Order { name, left: AtomicU32::new(nth), stop })
    });
    let Some(order) = order else {
        if std::env::var_os("VSHMEM_CRASH_LIST").is_some() {
            eprintln!("crash point {change}/{step}");
        }
        return;
    };
    let matches = order.name.strip_prefix(change).and_then(|rest| rest.strip_prefix('/'));
    if matches == Some(step) && order.left.fetch_sub(1, Ordering::Relaxed) == 1 {
        let signal =
            if order.stop { rustix::process::Signal::STOP } else { rustix::process::Signal::KILL };
        let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
    }
}
