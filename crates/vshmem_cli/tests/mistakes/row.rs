//! A mistake, and what the command has to answer.

use std::path::Path;
use std::process::{Command, Output};

use super::rig::{Installed, Name, complaint, expect};

/// A typical mistake. In all words `{pool}` is the name of this row's pool, `{file}` its file,
/// `{dir}` a directory of this row's own, `{self}` this process, `{size}` a size that fits here.
pub struct Mistake {
    /// What has been done wrong.
    pub what: &'static str,
    /// What there is before.
    pub setup: fn(&Place),
    /// The command line, behind `vshmem`, as a shell would split it: words between `'` belong
    /// together.
    pub line: &'static str,
    pub code: i32,
    /// Words that the sentence must have.
    pub says: &'static [&'static str],
    /// The command that it must propose.
    pub proposes: &'static str,
}

/// Where a row happens.
pub struct Place {
    pub pool: Name,
    pub directory: tempfile::TempDir,
    /// The command beside a library, in a directory of its own.
    installed: std::cell::OnceCell<Installed>,
    /// Variables, and a program with arguments in front of the command.
    pub surroundings: std::cell::RefCell<Surroundings>,
    /// Kept until the row is over.
    pub kept: std::cell::RefCell<Vec<Box<dyn std::any::Any>>>,
}

#[derive(Default)]
pub struct Surroundings {
    pub variables: Vec<(&'static str, String)>,
    pub before: Vec<String>,
}

impl Place {
    fn new(topic: &str, nth: usize) -> Self {
        let directory = tempfile::tempdir_in("/tmp").unwrap();
        let open = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open).unwrap();
        Self {
            pool: Name::new(&format!("{topic}{nth}")),
            directory,
            installed: std::cell::OnceCell::new(),
            surroundings: std::cell::RefCell::default(),
            kept: std::cell::RefCell::default(),
        }
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    pub fn set(&self, name: &'static str, value: &str) {
        self.surroundings.borrow_mut().variables.push((name, value.to_owned()));
    }

    /// Puts a program in front of the command, as `unshare`.
    pub fn under(&self, words: &[&str]) {
        self.surroundings.borrow_mut().before = words.iter().map(|&word| word.to_owned()).collect();
    }

    /// Keeps something until the row is over.
    pub fn keep(&self, thing: impl std::any::Any) {
        self.kept.borrow_mut().push(Box::new(thing));
    }

    pub fn installed(&self) -> &Installed {
        self.installed.get_or_init(Installed::new)
    }

    fn fill(&self, text: &str) -> String {
        text.replace("{pool}", &self.pool.0)
            .replace("{file}", &self.pool.path().display().to_string())
            .replace("{dir}", &self.directory.path().display().to_string())
            .replace("{self}", &std::process::id().to_string())
            // What is proposed on a machine with so much memory.
            .replace("{size}", &vshmem_session::Memory::now().pool_size())
    }

    fn run(&self, line: &str) -> Output {
        let own = env!("CARGO_BIN_EXE_vshmem");
        let command = match self.installed.get() {
            Some(installed) => installed.path().join("vshmem"),
            None => Path::new(own).to_owned(),
        };
        let surroundings = self.surroundings.borrow();
        let mut whole = surroundings.before.clone();
        whole.push(command.display().to_string());
        whole.extend(split(&self.fill(line)));
        let mut started = Command::new(&whole[0]);
        for variable in ["VSHMEM_POOL", "VSHMEM_LOG", "VSHMEM_SPIN", "LD_PRELOAD"] {
            started.env_remove(variable);
        }
        started.envs(surroundings.variables.iter().map(|(name, value)| (name, value)));
        started.args(&whole[1..]).output().unwrap()
    }
}

/// Words as a shell splits them, but for quotes of one kind.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (nth, part) in line.split('\'').enumerate() {
        match nth % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

/// Goes through a table, and fails with all rows that are not answered as they should be.
pub fn check(topic: &str, rows: &[Mistake]) {
    let mut wrong = Vec::new();
    for (nth, row) in rows.iter().enumerate() {
        let place = Place::new(topic, nth);
        (row.setup)(&place);
        let output = place.run(row.line);
        let said = complaint(&output);
        const NO_LAB: &str = "this machine cannot run the lab";
        if said.contains(NO_LAB) && !row.says.contains(&NO_LAB) {
            println!("SKIPPED: vshmem {}: {NO_LAB}", row.line);
            continue;
        }
        let mut fault = |why: String| {
            wrong.push(format!("{}\n  $ vshmem {}\n  {}  {why}", row.what, row.line, said));
        };
        if output.status.code() != Some(row.code) {
            fault(format!("ends with {:?} and not with {}", output.status.code(), row.code));
        }
        // A list of what is missing has a line for each.
        let lines = said.lines().filter(|line| !line.starts_with("  - "));
        if !said.starts_with("vshmem: ") || lines.count() != 1 {
            fault("is not one sentence".into());
        }
        for part in row.says {
            let part = place.fill(part);
            if !said.contains(&part) {
                fault(format!("does not say {part:?}"));
            }
        }
        let proposed = place.fill(row.proposes);
        if !said.contains(&format!("`{proposed}`")) {
            fault(format!("does not propose `{proposed}`"));
        }
        for command in said.split('`').skip(1).step_by(2) {
            if let Err(why) = can_be_pasted(command) {
                fault(format!("proposes `{command}`, {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} answers are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Whether a command that a sentence proposes is one: our own ones are understood by the parser
/// (which their --help shows, without doing anything), others are commands that people have.
fn can_be_pasted(command: &str) -> Result<(), String> {
    const OTHERS: [&str; 20] = [
        "apt-get", "cat", "chmod", "file", "getent", "git", "install", "make", "man", "modprobe",
        "mount", "rm", "truncate", "ulimit", "xl", "chgrp", "ls", "mkdir", "head", "findmnt",
    ];
    let mut words = split(command.trim_start_matches("sudo "));
    let first = words.remove(0);
    // Another release's command, as it runs.
    if first.starts_with("/proc/") && first.ends_with("/exe") {
        return Ok(());
    }
    if first != "vshmem" {
        return match OTHERS.contains(&first.as_str()) {
            true => Ok(()),
            false => Err("which is no command that is known here".into()),
        };
    }
    // Behind `--`, and from the program on, the words are another program's.
    let others = |word: &String| word == "--" || word.starts_with("./");
    let own = words.iter().position(others).unwrap_or(words.len());
    words.truncate(own);
    words.push("--help".into());
    let shown = expect_any(&words);
    match shown.status.code() {
        Some(0) => Ok(()),
        _ => Err(format!("which is not understood: {}", complaint(&shown))),
    }
}

fn expect_any(words: &[String]) -> Output {
    super::rig::vshmem().args(words).output().unwrap()
}

/// No setup.
pub fn nothing(_: &Place) {}

/// A small pool.
pub fn pool(place: &Place) {
    expect(0, &["pool", "create", &place.pool.0, "--size", "8M"]);
}
