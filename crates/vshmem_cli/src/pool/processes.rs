//! The processes of /proc.

/// Their pids, as this process sees them.
pub fn pids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The program of one, made safe to print.
pub fn command(pid: u32) -> String {
    let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    crate::show::sanitized(String::from_utf8_lossy(&name).trim_end())
}
