use std::fs::{Permissions, set_permissions, write};
use std::os::unix::fs::{PermissionsExt, symlink};

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

/// A directory with a file of that content and mode.
fn noted_as(content: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("node");
    write(&path, content).unwrap();
    set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    (directory, path)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn the_first_file_that_there_is_says_where_the_machine_lies() {
    let (_kept, path) = noted_as("1\n", 0o644);
    let (_other_kept, other) = noted_as("0,1", 0o644);
    let absent = path.with_file_name("absent");
    if !is_root() {
        assert!(from_files(&[&path]).is_err());
        return;
    }
    let told = |paths: &[&Path]| from_files(paths).unwrap().map(|told| (told.source, told.nodes));
    let shown = |path: &Path| path.display().to_string();
    assert_eq!(told(&[&absent, &path, &other]), Some((shown(&path), vec![1])));
    assert_eq!(told(&[&other, &path]), Some((shown(&other), vec![0, 1])));
    assert_eq!(told(&[&absent]), None);
}

#[test]
fn a_file_that_others_can_write_or_that_is_none_is_not_believed() {
    let (directory, path) = noted_as("1", 0o666);
    let refused = |path: &Path| {
        let error = from_files(&[path]).unwrap_err().to_string();
        assert!(error.contains(&format!("{}: ", path.display())), "{error}");
        error
    };
    assert!(refused(&path).contains("others than root can write it"));
    let link = directory.path().join("link");
    symlink(&path, &link).unwrap();
    refused(&link);
    refused(directory.path());
}

#[test]
fn a_file_without_nodes_is_an_error_that_shows_it() {
    for content in ["node0", "", "\n", "-1", "0 1"] {
        let (_kept, path) = noted_as(content, 0o644);
        let error = from_files(&[&path]).unwrap_err().to_string();
        assert!(!is_root() || error.contains(&format!("it says {content:?}")), "{error}");
    }
}
