//! On which memory node of the host a thread runs.

use std::ffi::OsString;
use std::sync::OnceLock;

use vshmem_link::Link;
use vshmem_mem::current_node;

/// The variable that says on which of the host's nodes this machine lies.
const VARIABLE: &str = "VSHMEM_NODE";

/// The variable has a value that names no nodes.
#[derive(Debug, thiserror::Error)]
#[error(
    "VSHMEM_NODE is {value:?}: it must be the host's memory node that this machine lies on (a number), or a list with the host's node for each of this machine's, as 0,1; or not be set, and new segments lie on any node. `vshmem --help` names all variables"
)]
pub struct HomeNodeError {
    value: OsString,
}

/// Whether `VSHMEM_NODE` is not set, or names nodes. For a command, which can refuse it; a library
/// goes on without.
///
/// # Errors
/// Says what it must be.
pub fn check_home_node() -> Result<(), HomeNodeError> {
    from_environment().map(|_| ())
}

fn from_environment() -> Result<Vec<u32>, HomeNodeError> {
    let value = std::env::var_os(VARIABLE).unwrap_or_default();
    value.to_str().and_then(parse).ok_or(HomeNodeError { value })
}

/// What `VSHMEM_NODE` says: the host's nodes that this machine's nodes lie on, in order. One alone
/// stands for the whole machine. Nothing when it says something else, which is written once to
/// standard error if VSHMEM_LOG asks for it.
fn declared() -> &'static [u32] {
    static NODES: OnceLock<Vec<u32>> = OnceLock::new();
    NODES.get_or_init(|| {
        from_environment().unwrap_or_else(|error| {
            if std::env::var_os("VSHMEM_LOG").is_some() {
                // A failure of that cannot be reported.
                let _ = rustix::io::write(
                    rustix::stdio::stderr(),
                    format!("vshmem: {error}\n").as_bytes(),
                );
            }
            Vec::new()
        })
    })
}

/// The nodes of a list; none when it is empty, `None` when it is no list of numbers.
fn parse(list: &str) -> Option<Vec<u32>> {
    if list.is_empty() {
        return Some(Vec::new());
    }
    list.split(',').map(|node| node.trim().parse().ok()).collect()
}

fn node_among(declared: &[u32], own: impl FnOnce() -> Option<u32>) -> Option<u32> {
    match declared {
        [] => None,
        [node] => Some(*node),
        nodes => nodes.get(own()? as usize).copied(),
    }
}

/// The host's node on which the calling thread runs, if it is known. Where the pool is a file of
/// this kernel's, this is the host.
pub fn home_node(link: &dyn Link) -> Option<u32> {
    if let Some(node) = node_among(declared(), current_node) {
        return Some(node);
    }
    link.file().and_then(|_| current_node())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_node_stands_for_the_machine_and_several_for_its_nodes_in_order() {
        let node = |list, own| node_among(&parse(list).unwrap(), || own);
        assert_eq!(node("3", Some(1)), Some(3));
        assert_eq!(node("2, 0", Some(1)), Some(0));
        assert_eq!(node("2,0", Some(2)), None);
        assert_eq!(node("2,0", None), None);
        assert_eq!(node("", Some(0)), None);
    }

    #[test]
    fn what_is_no_list_of_numbers_names_no_nodes() {
        for wrong in ["node0", "0,x", "-1", "0-1", ",", "0,", " "] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
    /// In a process of its own, as the environment is read once.
    #[test]
    fn a_value_that_names_no_nodes_is_said_once_where_the_log_is_asked_for() {
        const NAME: &str =
            "home_node::tests::a_value_that_names_no_nodes_is_said_once_where_the_log_is_asked_for";
        if std::env::var_os("TEST_ASKS_FOR_NODES").is_some() {
            assert!(declared().is_empty() && declared().is_empty());
            return;
        }
        let complaint = |log: Option<&str>| {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", NAME, "--nocapture"]).env_remove("VSHMEM_LOG");
            child.env("TEST_ASKS_FOR_NODES", "1").env(VARIABLE, "node0");
            child.envs(log.map(|log| ("VSHMEM_LOG", log)));
            let output = child.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8_lossy(&output.stderr).matches("VSHMEM_NODE is \"node0\"").count()
        };
        assert_eq!((complaint(Some("1")), complaint(None)), (1, 0));
    }
}
