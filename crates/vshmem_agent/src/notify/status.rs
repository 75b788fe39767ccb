//! What an agent tells about its datagrams: a small file, for `vshmem pool show` and `vshmem
//! doctor`. It decides nothing.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use vshmem_link::{domain_facts, uuid_digits};

use super::peers::Counts;

/// Where such files are.
const DIRECTORY: &str = "/dev/shm";
/// Bytes that are read of one.
const MOST_BYTES: u64 = 4096;

/// The file in which the agent of this domain tells how it stands with its datagrams. Goes when
/// this is dropped.
#[derive(Debug)]
pub struct NotifyStatus {
    path: PathBuf,
    file: Option<File>,
    written: String,
}

fn path_of(directory: &Path, uuid: &[u8; 16]) -> Option<PathBuf> {
    let pool = uuid_digits(uuid);
    // Domains of one kernel may share the directory.
    let domain = domain_facts().ok()?.pid_namespace;
    Some(directory.join(format!("vshmem-notify.{pool}.{domain}")))
}

impl NotifyStatus {
    /// Makes the file for a pool. What cannot be made is done without.
    #[must_use]
    pub fn new(uuid: &[u8; 16]) -> Self {
        Self::new_in(Path::new(DIRECTORY), uuid)
    }

    fn new_in(directory: &Path, uuid: &[u8; 16]) -> Self {
        let path = path_of(directory, uuid).unwrap_or_default();
        // Of an agent before, if it was this user's: the directory is sticky.
        let _ = std::fs::remove_file(&path);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path).ok();
        Self { path, file, written: String::new() }
    }

    /// Tells a sentence, and what has come and gone.
    pub fn tell(&mut self, sentence: &str, counts: Option<Counts>) {
        let mut text = sentence.to_owned();
        if let Some(Counts { sent, put_off, received, foreign, floods }) = counts {
            text.push_str(&format!(
                "; {sent} sent, {put_off} put off by the limit, {received} received, {foreign} from others dropped, {floods} floods"
            ));
        }
        text.push('\n');
        let Some(file) = self.file.as_mut().filter(|_| text != self.written) else { return };
        // Readers may see the end of a longer one before, cut at its line.
        let written =
            file.write_all_at(text.as_bytes(), 0).and_then(|()| file.set_len(text.len() as u64));
        if written.is_ok() {
            let _ = file.flush();
            self.written = text;
        }
    }

    /// Leaves the file behind: what it tells stays true when its maker has ended.
    pub fn leave(mut self) {
        self.file = None;
    }

    /// What the agent of this domain tells; `None` when there is none, or it has nothing to tell.
    #[must_use]
    pub fn read(uuid: &[u8; 16]) -> Option<String> {
        Self::read_in(Path::new(DIRECTORY), uuid)
    }

    fn read_in(directory: &Path, uuid: &[u8; 16]) -> Option<String> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let path = path_of(directory, uuid)?;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let meta = file.metadata().ok()?;
        let me = rustix::process::geteuid().as_raw();
        // Another user's sentences are shown to root alone, who can find out whose they are.
        if !meta.is_file() || ![0, me].contains(&meta.uid()) && me != 0 {
            return None;
        }
        let mut text = String::new();
        file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
        text.lines().next().map(str::to_owned)
    }
}

impl Drop for NotifyStatus {
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: [u8; 16] = [3; 16];

    #[test]
    fn the_status_is_read_until_the_agent_ends() {
        let directory = tempfile::tempdir().unwrap();
        let read = || NotifyStatus::read_in(directory.path(), &POOL);
        assert_eq!(read(), None);
        let mut status = NotifyStatus::new_in(directory.path(), &POOL);
        status.tell("a long sentence about it", None);
        status.tell("on", Some(Counts { foreign: 4, ..Counts::default() }));
        assert!(
            read().unwrap().starts_with("on; 0 sent") && read().unwrap().contains("4 from others")
        );
        status.tell("off", None);
        assert_eq!(read().unwrap(), "off");
        drop(status);
        assert_eq!(read(), None);
    }

    #[test]
    fn what_a_killed_agent_left_is_replaced_and_a_link_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = path_of(directory.path(), &POOL).unwrap();
        std::fs::write(&path, "old\n").unwrap();
        NotifyStatus::new_in(directory.path(), &POOL).tell("never seen", None);
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert_eq!(NotifyStatus::read_in(directory.path(), &POOL), None);
        let mut status = NotifyStatus::new_in(directory.path(), &POOL);
        status.tell("on", None);
        assert!(!path.is_symlink());
    }
}
