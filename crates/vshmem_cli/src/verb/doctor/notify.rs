//! Datagrams between agents: whether the operator has configured them, and how it goes.

use vshmem_agent::{NOTIFY_DIRECTORIES, NotifyConfig, NotifyStatus};
use vshmem_session::{find, identify};

use super::line::Line;

const WHAT: &str = "datagrams between agents (optional)";

/// A line for each file; one when there is none.
pub fn all() -> Vec<Line> {
    let files = NotifyConfig::all();
    if files.is_empty() {
        let found = format!("off: there is no file in {}", NOTIFY_DIRECTORIES.join(" or "));
        return vec![Line::good(WHAT, found)];
    }
    files
        .into_iter()
        .map(|file| file.map_or_else(|error| broken(&error.to_string()), line))
        .collect()
}

fn broken(error: &str) -> Line {
    Line::bad(
        WHAT,
        format!("off: {error}"),
        "correct the file that the sentence names; it is in one of `ls /etc/vshmem/notify.d /run/vshmem/notify.d`",
    )
}

fn line(config: NotifyConfig) -> Line {
    let peers: Vec<String> = config.peers.iter().map(ToString::to_string).collect();
    let mut said = config.pool.iter().filter_map(|path| {
        let link = find(&path.to_string_lossy()).ok()?;
        NotifyStatus::read(&identify(link.as_ref()).ok()?.0.uuid)
    });
    let status = said.next().unwrap_or_else(|| "no agent has reported them".to_owned());
    let found = format!(
        "{}: listens at {}, peers {}; {status}",
        config.file.display(),
        config.listen,
        peers.join(" ")
    );
    if status.starts_with("off") {
        Line::bad(
            WHAT,
            found,
            format!(
                "correct what the sentence names: `ls -l {}`; an agent reads the file when it starts",
                config.file.display()
            ),
        )
    } else {
        Line::good(WHAT, found)
    }
}
