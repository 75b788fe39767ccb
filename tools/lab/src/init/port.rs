//! The serial port (virtio) by which a guest's keeper reaches its agent, whatever the guest does to
//! its network.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Doing, Result};
use crate::init::session;
use crate::model::boot::PORT_NAME;
use crate::transport::connection::Connection;
use crate::transport::mux::Mux;

const PORTS: &str = "/sys/class/virtio-ports";

/// Serves the keeper's clients there, if there is such a port.
pub(super) fn serve(token: &Arc<str>) -> Result<()> {
    let Some(device) = find() else {
        return Ok(());
    };
    let opening = || format!("open the serial port {device:?}");
    let port = File::options().read(true).write(true).open(&device).doing(opening)?;
    let mux = Mux::new(port.try_clone().doing(opening)?);
    let token = Arc::clone(token);
    std::thread::spawn(move || {
        let accept = |end| session::attend(Connection::new(end), &token);
        let error = mux.listen(Port(port), Some(&accept));
        let _ = writeln!(io::stdout(), "vshmem-lab: the serial port has ended: {error}");
    });
    Ok(())
}

fn find() -> Option<PathBuf> {
    let named = |entry: &fs::DirEntry| {
        fs::read_to_string(entry.path().join("name")).is_ok_and(|name| name.trim() == PORT_NAME)
    };
    let entry = fs::read_dir(PORTS).ok()?.flatten().find(named)?;
    Some(Path::new("/dev").join(entry.file_name()))
}

/// While no process is connected at the host's side, reading such a port gives nothing, which is
/// not its end.
struct Port(File);

impl Read for Port {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(bytes) {
                Ok(0) => std::thread::sleep(Duration::from_millis(20)),
                other => return other,
            }
        }
    }
}
