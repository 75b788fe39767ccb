//! As little of HTTP as Prometheus needs.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::connections::{Connection, Connections};
use crate::failure::{Failure, failed};
use crate::show;

/// How long a request may take to come, and its answer to go.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of a request that are read at most.
const MOST_BYTES: u64 = 8192;
/// Connections at once, each with a thread.
const MOST_CONNECTIONS: usize = 32;
/// Before a connection is accepted after one could not be: for want of descriptors this goes on.
const PAUSE: Duration = Duration::from_millis(10);

/// Answers requests until the command is stopped. `make` gets the text of the answer before.
pub fn serve(
    address: &str,
    make: impl Fn(&str) -> Result<String, Failure> + Sync,
) -> Result<(), Failure> {
    let text = Text::new(make);
    // What cannot be read now is said now, and not to the first client.
    text.since(Instant::now())?;
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
    answer_all(listener.incoming(), TIMEOUT, &text);
    Ok(())
}

/// Each connection in a thread of its own: one that sends nothing holds up no other.
fn answer_all(
    incoming: impl Iterator<Item = std::io::Result<TcpStream>>,
    time: Duration,
    text: &Text<impl Fn(&str) -> Result<String, Failure> + Sync>,
) {
    let connections = Connections::new(MOST_CONNECTIONS);
    std::thread::scope(|scope| {
        for stream in incoming {
            // One that failed before it was accepted, or has ended meanwhile, is its own affair.
            let begun = stream.and_then(|stream| {
                let connection = connections.admit(stream);
                let answer = move || {
                    if let Err(error) = answer(&connection, time, text) {
                        tracing::debug!(%error, "a request for metrics was not answered");
                    }
                };
                std::thread::Builder::new().spawn_scoped(scope, answer)
            });
            if let Err(error) = begun {
                tracing::debug!(%error, "a connection was not accepted");
                std::thread::sleep(PAUSE);
            }
        }
    });
}

/// The text of all answers. Reading a large pool takes a while, so requests that wait for it
/// meanwhile get one reading.
struct Text<M> {
    make: M,
    /// When its reading began, and what was read.
    last: Mutex<Option<(Instant, String)>>,
}

impl<M: Fn(&str) -> Result<String, Failure>> Text<M> {
    fn new(make: M) -> Self {
        Self { make, last: Mutex::new(None) }
    }

    /// One that was begun to be read at this time or later.
    fn since(&self, asked: Instant) -> Result<String, Failure> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((begun, text)) = &*last
            && *begun >= asked
        {
            return Ok(text.clone());
        }
        let begun = Instant::now();
        let text = (self.make)(last.as_ref().map_or("", |(_, text)| text))?;
        *last = Some((begun, text.clone()));
        Ok(text)
    }
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
    connection: &Connection<'_>,
    time: Duration,
    text: &Text<impl Fn(&str) -> Result<String, Failure>>,
) -> std::io::Result<()> {
    let stream = connection.stream();
    let mut request = String::new();
    let mut lines = BufReader::new(Limited::new(stream, time).take(MOST_BYTES));
    lines.read_line(&mut request)?;
    // The rest is read, so that closing does not reset what is sent.
    let mut header = String::new();
    while lines.read_line(&mut header)? > 2 {
        header.clear();
    }
    connection.has_asked();
    let mut words = request.split_whitespace();
    let (status, kind, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics")) => match text.since(Instant::now()) {
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
    Limited::new(stream, time).write_all(answer.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::sync::mpsc;

    use super::*;

    /// Two ends of a connection.
    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, client)
    }

    const TIME: Duration = Duration::from_millis(200);

    fn answer_one(server: &TcpStream, text: String) -> std::io::Result<()> {
        let connections = Connections::new(1);
        let connection = connections.admit(server.try_clone()?);
        answer(&connection, TIME, &Text::new(move |_: &str| Ok(text.clone())))
    }

    /// As long as no test takes: what waits for this time to pass has failed.
    const LONG: Duration = Duration::from_secs(600);

    /// Asks a server that has this many connections which send nothing.
    fn ask_behind(idle: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let text = Text::new(|_: &str| Ok("metrics 1\n".to_owned()));
        std::thread::scope(|scope| {
            scope.spawn(|| answer_all(listener.incoming().take(idle + 1), LONG, &text));
            let connect = |_| TcpStream::connect(address).unwrap();
            let idle: Vec<TcpStream> = (0..idle).map(connect).collect();
            let mut client = connect(0);
            client.set_read_timeout(Some(LONG / 20)).unwrap();
            client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
            let mut answer = String::new();
            let read = client.read_to_string(&mut answer);
            drop(idle);
            read.unwrap();
            answer
        })
    }

    #[test]
    fn connections_that_send_nothing_hold_up_no_other() {
        for idle in [1, MOST_CONNECTIONS - 1, MOST_CONNECTIONS, 5 * MOST_CONNECTIONS] {
            let answer = ask_behind(idle);
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{idle}: {answer}");
            assert!(answer.ends_with("\r\n\r\nmetrics 1\n"), "{idle}: {answer}");
        }
    }

    #[test]
    fn requests_that_wait_for_one_reading_get_the_next_one_together() {
        let readings = AtomicU32::new(0);
        let (began, has_begun) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let may_go = Mutex::new(may_go);
        let text = Text::new(|_: &str| {
            began.send(()).unwrap();
            // Until the test lets it go on; all further ones once it has dropped its end.
            let _ = may_go.lock().unwrap().recv();
            Ok(readings.fetch_add(1, Ordering::Relaxed).to_string())
        });
        let text = &text;
        std::thread::scope(|scope| {
            let first = scope.spawn(|| text.since(Instant::now()).unwrap());
            has_begun.recv().unwrap();
            // Asked during the first reading, which may have missed what they ask for.
            let asked = Instant::now();
            let others: Vec<_> =
                (0..4).map(|_| scope.spawn(move || text.since(asked).unwrap())).collect();
            drop(go);
            assert_eq!(first.join().unwrap(), "0");
            for other in others {
                assert_eq!(other.join().unwrap(), "1");
            }
        });
    }

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
            let answered = answer_one(&server, String::new());
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
            let answered = answer_one(&server, "x".repeat(64 << 20));
            is_over.store(true, Ordering::Relaxed);
            drop(server);
            assert!(answered.is_err());
        });
    }
}
