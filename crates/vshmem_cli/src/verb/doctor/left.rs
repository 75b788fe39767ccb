//! Programs that have left a pool: they use the kernel's IPC, and their peers do not see them.

use vshmem_session::{Whose, list};

use super::line::Line;

/// A line if there are any.
pub fn line() -> Option<Line> {
    let mut found = Vec::new();
    let mut commands = Vec::new();
    for (superblock, _) in list(Whose::Mine).into_iter().filter_map(|row| row.found.ok()) {
        let programs = vshmem_link::left_programs(&superblock.uuid);
        let Some(first) = programs.first() else { continue };
        let pool = String::from_utf8_lossy(superblock.name_bytes()).into_owned();
        let more = match programs.len() {
            1 => String::new(),
            several => format!(" and {} more", several - 1),
        };
        found.push(format!("pool {pool}: {} {}{more}", first.program, first.why));
        commands.push(format!("`vshmem ls --left --pool {pool}`"));
    }
    let remedy = || format!("{} lists them, and why", commands.join(", "));
    (!found.is_empty()).then(|| Line::note("programs that left a pool", found.join("; "), remedy()))
}
