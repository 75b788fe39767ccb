//! Asking a lab's keeper.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crate::error::{Doing, Result};
use crate::host::directory::Directory;
use crate::transport::control::{Control, ControlRequest, Reply};

pub(super) fn ask(
    directory: &Directory,
    wish: &ControlRequest,
) -> Result<(Control, Reply, Option<OwnedFd>)> {
    let socket = directory.socket();
    let asking = || format!("ask the lab's keeper at {socket:?}");
    let mut control = Control::new(UnixStream::connect(&socket).doing(asking)?);
    control.send(wish, None).doing(asking)?;
    let (reply, descriptor) = control.receive().doing(asking)?;
    Ok((control, reply, descriptor))
}
