//! The processes of /proc.

/// The program of one, made safe to print.
pub fn command(pid: u32) -> String {
    let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    crate::show::sanitized(String::from_utf8_lossy(&name).trim_end())
}
