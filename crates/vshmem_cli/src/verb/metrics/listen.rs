//! As little of HTTP as Prometheus needs.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::failure::{Failure, failed};
use crate::show;

/// How long a request may take to come, and its answer to go.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of a request that are read at most.
const MOST_BYTES: u64 = 8192;

/// Answers requests, one after the other, until the command is stopped.
pub fn serve(address: &str, text: impl Fn() -> Result<String, Failure>) -> Result<(), Failure> {
    // What cannot be read now is said now, and not to the first client.
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
        let answered = connection.and_then(|connection| answer(&connection, TIMEOUT, &text));
        if let Err(error) = answered {
            tracing::debug!(%error, "a request for metrics was not answered");
        }
    }
    Ok(())
}

/// A connection that ends at a time, however slowly the other side sends or reads: a timeout of the
/// socket alone begins anew with each byte.
#[derive(Clone, Copy)]
struct Limited<'a> {
    connection: &'a TcpStream,
    end: Instant,
}

impl<'a> Limited<'a> {
    fn new(connection: &'a TcpStream, time: Duration) -> Self {
        Self { connection, end: Instant::now() + time }
    }

    fn left(&self) -> std::io::Result<Option<Duration>> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Limited<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.connection.set_read_timeout(self.left()?)?;
        self.connection.read(into)
    }
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.connection.set_write_timeout(self.left()?)?;
        // One call waits for no longer in all, and returns how much has gone by then.
        self.connection.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn answer(
    connection: &TcpStream,
    time: Duration,
    text: &impl Fn() -> Result<String, Failure>,
) -> std::io::Result<()> {
    let mut request = String::new();
    let mut lines = BufReader::new(Limited::new(connection, time).take(MOST_BYTES));
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
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    Limited::new(connection, time).write_all(answer.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Two ends of a connection.
    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, client)
    }

    const TIME: Duration = Duration::from_millis(200);

    #[test]
    fn a_request_that_comes_byte_by_byte_is_given_up() {
        let (server, mut client) = connected();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Each byte comes long before the timeout.
                while !is_over.load(Ordering::Relaxed) && client.write_all(b"G").is_ok() {
                    std::thread::sleep(TIME / 10);
                }
            });
            let answered = answer(&server, TIME, &|| Ok(String::new()));
            is_over.store(true, Ordering::Relaxed);
            assert!(answered.is_err());
        });
    }

    #[test]
    fn an_answer_that_is_read_byte_by_byte_is_given_up() {
        let (server, mut client) = connected();
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut some = vec![0; 64 << 10];
                while !is_over.load(Ordering::Relaxed) && client.read(&mut some).is_ok() {
                    std::thread::sleep(TIME / 10);
                }
            });
            // More than the buffers of both sides hold, and than is read in that time.
            let answered = answer(&server, TIME, &|| Ok("x".repeat(64 << 20)));
            is_over.store(true, Ordering::Relaxed);
            drop(server);
            assert!(answered.is_err());
        });
    }
}
