//! The keeper's control server: answers clients, each in a thread of its own.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Doing, Error, GuestFault, Result};
use crate::host::{admission, json};
use crate::keeper::port;
use crate::keeper::shared::Shared;
use crate::keeper::supervisor;
use crate::keeper::supervisor::SupervisedGuest;
use crate::model::boot::Boot;
use crate::model::names::{AGENT_PORT, address, domain};
use crate::model::{GuestListing, GuestState};
use crate::transport::control::{Control, ControlRequest, Reply};

/// How long the kernel of a guest may take to accept a connection to its agent.
const ANSWER: Duration = Duration::from_secs(5);

/// How long an ordered death may take, its notice included.
const DEATH: Duration = Duration::from_secs(45);

/// Answers clients until one wants the lab down.
pub(super) fn serve(lab: &Arc<Shared>, listener: &UnixListener) -> Result<()> {
    loop {
        let (stream, _) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(error).doing(|| "accept clients".into()),
        };
        let lab = Arc::clone(lab);
        std::thread::spawn(move || {
            let mut control = Control::new(stream);
            let Ok((wish, _)) = control.receive::<ControlRequest>() else {
                return;
            };
            let down = matches!(wish, ControlRequest::Down);
            // A client that does not wait for its answer has gone.
            let _ = match grant(&lab, &wish, &control) {
                Ok(Some(reply)) => control.send(&reply, None),
                Ok(None) => Ok(()),
                Err(error) => control.send(&Reply::Fault(error.into()), None),
            };
            if down {
                std::process::exit(0);
            }
        });
    }
}

/// The answer to a wish; `None` if it has been given already.
fn grant(lab: &Arc<Shared>, wish: &ControlRequest, control: &Control) -> Result<Option<Reply>> {
    match *wish {
        ControlRequest::Connect(guest) => {
            connect(lab, guest, control)?;
            return Ok(None);
        }
        ControlRequest::List => {
            return Ok(Some(Reply::Guests(
                lab.all_supervised.iter().map(|supervised| listing(lab, supervised)).collect(),
            )));
        }
        ControlRequest::Kill(guest) => {
            let supervised = lab.supervised(guest)?;
            supervised.kill();
            if !supervised.await_death(DEATH) {
                return Err(busy(supervised, "it was killed, but its processes are not gone yet"));
            }
        }
        ControlRequest::Pause(guest, pause) => {
            let supervised = lab.supervised(guest)?;
            if supervised.condition().state != GuestState::Running {
                return Err(busy(supervised, "only a running guest can be paused"));
            }
            supervised.pause(pause)?;
        }
        ControlRequest::Restart(guest) => {
            let supervised = lab.supervised(guest)?;
            admission::admit(&lab.record, guest..=guest)?;
            let booted = supervised.boot().and_then(supervisor::Boot::wait);
            // Others may be booting: their entries must stay.
            let booting =
                |other: &Arc<SupervisedGuest>| other.condition().state == GuestState::Booting;
            if !lab.all_supervised.iter().any(booting) {
                admission::withdraw(&lab.record)?;
            }
            booted?;
        }
        ControlRequest::Down => lab.end_guests(),
    }
    Ok(Some(Reply::Done))
}

fn busy(supervised: &SupervisedGuest, rule: &str) -> Error {
    GuestFault::Busy {
        guest: supervised.guest,
        state: supervised.condition().state.to_string(),
        rule: rule.to_owned(),
    }
    .into()
}

fn listing(lab: &Shared, supervised: &SupervisedGuest) -> GuestListing {
    let condition = supervised.condition();
    GuestListing {
        guest: supervised.guest,
        domain: domain(supervised.guest),
        state: condition.state,
        how: condition.how,
        address: address(supervised.guest),
        uid: lab.record.uid(supervised.guest),
    }
}

/// Hands a connection to the guest's agent over, and keeps the line for the news of the guest's
/// death.
fn connect(lab: &Shared, guest: u32, control: &Control) -> Result<()> {
    let supervised = lab.supervised(guest)?;
    let line = control.stream().try_clone().doing(|| "keep a client's line".into())?;
    // Before the look at the state: a death in between is reported.
    let number = supervised.watch(line);
    let result = hand_over(lab, supervised, control);
    if result.is_ok() {
        await_hang_up(control.stream());
    }
    supervised.unwatch(number);
    result
}

fn hand_over(lab: &Shared, supervised: &SupervisedGuest, control: &Control) -> Result<()> {
    let guest = supervised.guest;
    let condition = supervised.condition();
    match condition.state {
        GuestState::Running => {}
        GuestState::Dead | GuestState::Dying => {
            return Err(supervised.dead(condition.how).into());
        }
        GuestState::Booting => return Err(busy(supervised, "wait until it is running")),
    }
    let connection: std::io::Result<OwnedFd> = match supervised.port() {
        Some(port) => port.open(port::ANSWER).map(Into::into),
        None => {
            let to = SocketAddr::from((address(guest), AGENT_PORT));
            TcpStream::connect_timeout(&to, ANSWER).map(Into::into)
        }
    };
    let connection =
        connection.map_err(|error| GuestFault::Unreachable { guest, why: error.to_string() })?;
    let path = lab.directory.boot(guest);
    let boot: Option<Boot> = json::read(&path)?;
    let token = boot.map(|boot| boot.token).unwrap_or_default();
    control
        .send(&Reply::Connected(token), Some(connection.as_fd()))
        .doing(|| "answer a client".into())
}

/// Waits until the client hangs up, or the line is shut because the guest has died.
fn await_hang_up(mut stream: &UnixStream) {
    let mut byte = [0];
    while let Ok(1..) = stream.read(&mut byte) {}
}
