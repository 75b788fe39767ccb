//! Crates, their files, and the modules that the files are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One Rust file of a crate's `src`, and the module that it is.
#[derive(Debug)]
pub struct SourceFile {
    /// Path below the repository's root.
    pub path: PathBuf,
    /// Names from the crate's root: empty for lib.rs and main.rs.
    pub module: Vec<String>,
    /// What is in it.
    pub syntax: syn::File,
}

/// A crate of the workspace.
#[derive(Debug)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its folder below the repository's root.
    pub folder: PathBuf,
    /// The files of `src`, by module.
    pub files: Vec<SourceFile>,
}

/// The repository's root.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root is there")
}

/// Files that git has, or would take, whose names end so; below the root. Without git (an unpacked
/// tarball): all that are there.
#[must_use]
pub fn tracked(ending: &str) -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root())
        .output();
    let mut found: Vec<PathBuf> = match listed {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
            .split('\0')
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
            .collect(),
        _ => below(Path::new("")),
    };
    found.retain(|path| path.to_string_lossy().ends_with(ending) && root().join(path).is_file());
    found.sort();
    found
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(root().join(folder)).expect("a folder of the tree is readable");
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let built = folder == Path::new("") && (name == "target" || name == "build");
        if built || name == ".git" {
            continue;
        }
        let path = folder.join(&name);
        if entry.path().is_dir() {
            found.extend(below(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// All crates of the workspace that have a library or a program.
#[must_use]
pub fn crates() -> Vec<Crate> {
    let mut files: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for path in tracked(".rs") {
        let Some(folder) = crate_folder(&path) else { continue };
        files.entry(folder).or_default().push(path);
    }
    files
        .into_iter()
        .map(|(folder, paths)| Crate {
            name: package_name(&folder),
            files: paths.iter().filter_map(|path| source(&folder, path)).collect(),
            folder,
        })
        .collect()
}

fn crate_folder(path: &Path) -> Option<PathBuf> {
    let folder =
        path.ancestors().skip(1).find(|folder| root().join(folder).join("Cargo.toml").is_file())?;
    (folder != Path::new("") && !folder.starts_with("fuzz")).then(|| folder.to_path_buf())
}

fn package_name(folder: &Path) -> String {
    let manifest = std::fs::read_to_string(root().join(folder).join("Cargo.toml"))
        .expect("a crate has a manifest");
    manifest
        .lines()
        .find_map(|line| line.strip_prefix("name = "))
        .expect("a package has a name")
        .trim_matches('"')
        .to_owned()
}

fn source(folder: &Path, path: &Path) -> Option<SourceFile> {
    let inside = path.strip_prefix(folder.join("src")).ok()?;
    let mut module: Vec<String> = inside
        .with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        module.pop();
    }
    let text = std::fs::read_to_string(root().join(path)).expect("a source is readable");
    let syntax =
        syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Some(SourceFile { path: path.to_path_buf(), module, syntax })
}
