//! As little of HTTP as Prometheus needs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::failure::{Failure, failed};
use crate::show;

/// How long a request may take to come, and its answer to go.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of a request that are read at most.
const MOST_BYTES: u64 = 8192;

/// Answers requests, one after the other, until the command is stopped.
pub fn serve(address: &str, text: impl Fn() -> Result<String, Failure>) -> Result<(), Failure> {
    // What cannot be read now is said now, and not to whoever asks first.
    text()?;
    let listener = match TcpListener::bind(address) {
        Ok(listener) => listener,
        Err(error) => {
            return failed(format!(
                "--listen {address}: it cannot be listened at ({error}). Name an address of this machine and a free port, as in `vshmem metrics --listen 127.0.0.1:9809`"
            ));
        }
    };
    if let Ok(address) = listener.local_addr() {
        show::line(format!("metrics at http://{address}/metrics"))?;
    }
    for connection in listener.incoming() {
        // One that failed before it was accepted, or that has ended meanwhile, is its own affair.
        let answered = connection.and_then(|connection| answer(&connection, &text));
        if let Err(error) = answered {
            tracing::debug!(%error, "a request for metrics was not answered");
        }
    }
    Ok(())
}

fn answer(
    mut connection: &TcpStream,
    text: &impl Fn() -> Result<String, Failure>,
) -> std::io::Result<()> {
    connection.set_read_timeout(Some(TIMEOUT))?;
    connection.set_write_timeout(Some(TIMEOUT))?;
    let mut request = String::new();
    let mut lines = BufReader::new(connection.take(MOST_BYTES));
    lines.read_line(&mut request)?;
    // The rest is read, so that closing does not reset what is sent.
    let mut header = String::new();
    while lines.read_line(&mut header)? > 2 {
        header.clear();
    }
    let mut words = request.split_whitespace();
    let (status, kind, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics")) => match text() {
            Ok(text) => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", text),
            Err(failure) => ("503 Service Unavailable", "text/plain", format!("{failure}\n")),
        },
        (Some("GET"), Some(_)) => ("404 Not Found", "text/plain", "see /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "GET /metrics\n".to_owned()),
    };
    let length = body.len();
    write!(
        connection,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}
