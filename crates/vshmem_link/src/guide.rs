//! Where the guides are that messages name.

/// The path of a guide: as it is installed beside this command, else in the source tree.
#[must_use]
pub fn guide(name: &str) -> String {
    let installed = std::env::current_exe().ok().and_then(|command| {
        let path = command.parent()?.parent()?.join("share/doc/vshmem/guide").join(name);
        path.is_file().then(|| path.display().to_string())
    });
    installed.unwrap_or_else(|| format!("docs/guide/{name}"))
}
