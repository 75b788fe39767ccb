//! What launchers of parallel programs are told by environment: where a component is that they
//! load, which pool it takes, and how they reach the other guests of a lab.

use std::path::{Path, PathBuf};

use vshmem_link::Link;

use crate::choice::{self, Choice};
use crate::failure::{Failure, failed};
use crate::show;

/// How another guest of a lab is reached from inside one: the command, and the words before the
/// guest's name.
pub const LAB_SHELL: (&str, &str) = ("vshmem", "lab exec --shell");

/// A variable and its value.
pub type Word = (&'static str, String);

/// A file that a launcher's programs load, beside this command or where it is installed.
pub struct Component {
    /// Name of its file.
    pub file: &'static str,
    /// The folder below `build` in a source tree, and below `lib/vshmem` of an installation.
    pub folder: &'static str,
    /// How it comes there.
    pub remedy: &'static str,
}

impl Component {
    /// The directory that it is in: `directory`, or where a build or an installation leaves it.
    pub fn find(&self, directory: Option<&Path>) -> Result<PathBuf, Failure> {
        let paths = match directory {
            Some(directory) => vec![directory.to_owned()],
            None => self.usual_places(),
        };
        let found = paths.iter().find(|path| path.join(self.file).is_file());
        match found.and_then(|path| path.canonicalize().ok()) {
            Some(path) => Ok(path),
            None => {
                let shown: Vec<String> = paths.iter().map(|at| at.display().to_string()).collect();
                failed(format!(
                    "{} is at none of {}. {}. --components names another place",
                    self.file,
                    shown.join(", "),
                    self.remedy
                ))
            }
        }
    }

    fn usual_places(&self) -> Vec<PathBuf> {
        let Some(beside) = own_directory() else { return Vec::new() };
        let folder = self.folder;
        [".".to_owned(), format!("../../build/{folder}"), format!("../lib/vshmem/{folder}")]
            .map(|at| beside.join(at))
            .to_vec()
    }
}

/// Where `vshmem` is, seen from any command of the project.
fn own_directory() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?.canonicalize().ok()?;
    let beside = own.parent()?;
    match beside.ends_with("lib/vshmem") {
        true => Some(beside.join("../../bin")),
        false => Some(beside.to_owned()),
    }
}

/// The first of these files that there is, seen from where `vshmem` is.
pub(crate) fn beside(paths: &[&str]) -> Option<PathBuf> {
    let directory = own_directory()?;
    paths.iter().find_map(|path| directory.join(path).canonicalize().ok())
}

/// The `vshmem` command, for a program that carries out one of its verbs.
///
/// # Errors
/// It is not where the program's own place says.
pub fn vshmem() -> Result<PathBuf, Failure> {
    match beside(&["vshmem"]) {
        Some(command) => Ok(command),
        None => failed(
            "the command `vshmem` is neither beside this program nor in ../../bin. `make build` or `apt-get install vshmem` brings it there",
        ),
    }
}

/// What says in a guest of the lab that it is one, and what its host wants of it.
pub const LAB_ORDERS: &str = "/run/vshmem/lab.json";

/// Whether this process is in a guest of the lab.
pub(crate) fn in_lab_guest() -> bool {
    Path::new(LAB_ORDERS).exists()
}

/// The pool that the programs shall take: its name, and its link. `verb` is who asks.
pub fn pool(option: Option<&str>, verb: &str) -> Result<(String, Box<dyn Link>), Failure> {
    let pool = match choice::choose(option)? {
        Choice::Named(name) => name,
        // Other guests have it under the same name, at places of their own.
        Choice::Given { name, .. } => name,
        Choice::Private => {
            return failed(format!(
                "no pool is named, and this machine was not given one. Name one, as in `vshmem {verb} --pool job7` (`vshmem pool ls` shows them), or set VSHMEM_POOL"
            ));
        }
    };
    // Better said now than by every process of the job.
    let link = vshmem_session::find(&pool)?;
    Ok((pool, link))
}

/// How Open MPI's mpirun reaches the other guests of a lab; nothing elsewhere.
pub fn mpirun_in_lab() -> Vec<Word> {
    if !in_lab_guest() {
        return Vec::new();
    }
    let (command, words) = LAB_SHELL;
    // Open MPI 4's name, and that of Open MPI 5's mpirun, which is PRRTE.
    let mut lines: Vec<Word> = ["OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"]
        .map(|name| (name, format!("{command} {words}")))
        .into();
    if rustix::process::geteuid().is_root() {
        lines.push(("OMPI_ALLOW_RUN_AS_ROOT", "1".to_owned()));
        lines.push(("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1".to_owned()));
    }
    lines
}

/// Prints the words as a shell takes them.
pub fn print(words: &[Word]) -> Result<(), Failure> {
    for (name, value) in words {
        show::line(format!("export {name}='{}'", value.replace('\'', "'\\''")))?;
    }
    Ok(())
}
