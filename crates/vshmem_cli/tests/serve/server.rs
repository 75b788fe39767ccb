//! `vshmem pool serve` under test.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use crate::rig::{self, Name, until, vshmem};

/// A running server, and what it has said.
pub struct Server {
    pub child: Child,
    pub socket: PathBuf,
    said: Arc<Mutex<Vec<String>>>,
}

/// A pool that a PCI device can show.
pub fn pool(test: &str) -> Name {
    let name = Name::new(test);
    rig::expect(0, &["pool", "create", &name.0, "--size", "8M"]);
    name
}

/// Whether these tests can run: the usual place belongs to root.
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("SKIPPED: needs root to make sockets in /run/vshmem/serve");
    }
    root
}

impl Server {
    pub fn start(name: &Name, words: &[&str]) -> Self {
        let mut child = vshmem()
            .args(["pool", "serve", &name.0])
            .args(words)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                heard.lock().unwrap().push(line);
            }
        });
        let path = vshmem_serve::ServerPaths::usual(&name.0).socket;
        let server = Self { child, socket: path, said };
        server.until_said("guests connect at");
        server
    }

    pub fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    pub fn until_said(&self, part: &str) {
        until(part, || self.said().iter().any(|line| line.contains(part)));
    }

    /// Ends it as a service manager does.
    pub fn stop(mut self) -> Vec<String> {
        self.signal("-TERM");
        assert!(self.child.wait().unwrap().success());
        self.until_said("no longer served");
        self.said()
    }

    /// Kills it, so that it cleans nothing up.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let killed = std::process::Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(killed.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for path in [&self.socket, &self.socket.with_extension("control")] {
            let _ = std::fs::remove_file(path);
        }
        let _ = std::fs::remove_file(self.socket.with_extension("record"));
    }
}

/// Open descriptors of a process.
pub fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")).unwrap().count()
}
