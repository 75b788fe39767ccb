//! XenStore, by its wire protocol (Xen's io/xs_wire.h and docs/misc/xenstore.txt): paths with short
//! values, kept by a daemon in dom0, through `/dev/xen/xenbus` or the daemon's socket.

use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use vshmem_mem::{Instant, StallProofTimeout};

/// Where a domain reaches it; the last is the daemon's own, in its domain.
const PLACES: [&str; 2] = ["/dev/xen/xenbus", "/proc/xen/xenbus"];
/// Bytes behind a message's head at most.
const MOST: usize = 4096;
/// Bytes of a head.
const HEAD: usize = 16;
/// How long an answer may take. The daemon is one process, in a domain that others may crowd out.
const TIMEOUT: Duration = Duration::from_secs(60);
/// What passes from one look to the next counts for so much at most: longer than that, this process
/// or its domain was stopped, and the daemon may have been stopped with it.
const MOST_OF_A_LOOK: Duration = Duration::from_secs(1);

/// Kinds of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    Directory = 1,
    Read = 2,
    Watch = 4,
    Write = 11,
    Remove = 13,
    SetPermissions = 14,
    WatchEvent = 15,
    Error = 16,
}

/// Names of errors, as the daemon spells them.
const ERRORS: [(&str, Errno); 16] = [
    ("EINVAL", Errno::INVAL),
    ("EACCES", Errno::ACCESS),
    ("EEXIST", Errno::EXIST),
    ("EISDIR", Errno::ISDIR),
    ("ENOENT", Errno::NOENT),
    ("ENOMEM", Errno::NOMEM),
    ("ENOSPC", Errno::NOSPC),
    ("EIO", Errno::IO),
    ("ENOTEMPTY", Errno::NOTEMPTY),
    ("ENOSYS", Errno::NOSYS),
    ("EROFS", Errno::ROFS),
    ("EBUSY", Errno::BUSY),
    ("EAGAIN", Errno::AGAIN),
    ("EISCONN", Errno::ISCONN),
    ("E2BIG", Errno::TOOBIG),
    ("EPERM", Errno::PERM),
];

/// A connection.
#[derive(Debug)]
pub struct Store {
    file: OwnedFd,
    next: u32,
    /// Paths that have changed, not asked for yet.
    changed: VecDeque<String>,
}

/// One message as it came.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    kind: u32,
    request: u32,
    body: Vec<u8>,
}

fn encode(kind: Kind, request: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + body.len());
    for word in [kind as u32, request, 0, body.len() as u32] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend(body);
    bytes
}

/// Kind, request and length in a head.
fn decode(head: &[u8; HEAD]) -> (u32, u32, usize) {
    let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    (word(0), word(4), word(12) as usize)
}

/// Strings that each end with a zero byte; the last one may do without.
fn strings(body: &[u8]) -> Vec<String> {
    let body = body.strip_suffix(&[0]).unwrap_or(body);
    if body.is_empty() {
        return Vec::new();
    }
    body.split(|&byte| byte == 0).map(|text| String::from_utf8_lossy(text).into_owned()).collect()
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn nonsense(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

impl Store {
    /// Whether this kernel runs under Xen and has the device.
    #[must_use]
    pub fn is_there() -> bool {
        PLACES.iter().any(|path| Path::new(path).exists())
    }

    /// Connects.
    ///
    /// # Errors
    /// EACCES to all but root; ENOENT without Xen.
    pub fn open() -> std::io::Result<Self> {
        let mut first = None;
        for path in PLACES {
            match rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
                Ok(file) => return Ok(Self::over(file)),
                Err(Errno::NOENT) => {}
                Err(errno) => first = first.or(Some(errno)),
            }
        }
        Err(first.unwrap_or(Errno::NOENT).into())
    }

    /// A connection over any stream.
    #[must_use]
    pub fn over(file: OwnedFd) -> Self {
        Self { file, next: 1, changed: VecDeque::new() }
    }

    /// Readable when something has changed that is watched.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Names below a path; none where there is no such path.
    ///
    /// # Errors
    /// What the daemon says.
    pub fn list(&mut self, path: &str) -> std::io::Result<Vec<String>> {
        match self.ask(Kind::Directory, &joined(&[path.as_bytes(), &[0]])) {
            Ok(body) => Ok(strings(&body)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The value of a path; `None` where there is no such path.
    ///
    /// # Errors
    /// What the daemon says.
    pub fn read(&mut self, path: &str) -> std::io::Result<Option<String>> {
        match self.ask(Kind::Read, &joined(&[path.as_bytes(), &[0]])) {
            Ok(body) => Ok(Some(String::from_utf8_lossy(&body).into_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A number.
    ///
    /// # Errors
    /// What the daemon says; a value that is no number is none.
    pub fn number(&mut self, path: &str) -> std::io::Result<Option<u32>> {
        Ok(self.read(path)?.and_then(|text| text.trim().parse().ok()))
    }

    /// Writes a value; makes the path.
    ///
    /// # Errors
    /// What the daemon says.
    pub fn write(&mut self, path: &str, value: &str) -> std::io::Result<()> {
        let body = joined(&[path.as_bytes(), &[0], value.as_bytes()]);
        self.ask(Kind::Write, &body).map(drop)
    }

    /// Removes a path and all below it; it need not be there.
    ///
    /// # Errors
    /// What the daemon says.
    pub fn remove(&mut self, path: &str) -> std::io::Result<()> {
        match self.ask(Kind::Remove, &joined(&[path.as_bytes(), &[0]])) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other.map(drop),
        }
    }

    /// Says whose a path is, and who may read it besides.
    ///
    /// # Errors
    /// What the daemon says.
    pub fn share(&mut self, path: &str, owner: u16, readers: &[u16]) -> std::io::Result<()> {
        let mut body = joined(&[path.as_bytes(), &[0], format!("n{owner}\0").as_bytes()]);
        for reader in readers {
            body.extend(format!("r{reader}\0").into_bytes());
        }
        self.ask(Kind::SetPermissions, &body).map(drop)
    }

    /// Watches a path and what is below it. One change is reported at once.
    ///
    /// # Errors
    /// What the daemon says.
    pub fn watch(&mut self, path: &str) -> std::io::Result<()> {
        let body = joined(&[path.as_bytes(), &[0], path.as_bytes(), &[0]]);
        match self.ask(Kind::Watch, &body) {
            Err(error) if error.raw_os_error() == Some(Errno::EXIST.raw_os_error()) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Whether changes have been reported that this process has not read yet, although
    /// [`Store::descriptor`] may not be readable: they came in front of an answer.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Reads all changes that have been reported; whether there were any.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn take_changes(&mut self) -> std::io::Result<bool> {
        let mut any = !self.changed.is_empty();
        self.changed.clear();
        while self.wait(Duration::ZERO)? {
            let message = self.receive()?;
            any |= message.kind == Kind::WatchEvent as u32;
        }
        Ok(any)
    }

    fn wait(&self, within: Duration) -> std::io::Result<bool> {
        is_readable(self.file.as_fd(), within)
    }

    fn receive(&mut self) -> std::io::Result<Message> {
        let mut stream = Stream { file: self.file.as_fd(), within: TIMEOUT };
        let mut head = [0; HEAD];
        stream.read_exact(&mut head)?;
        let (kind, request, length) = decode(&head);
        if length > MOST {
            return Err(nonsense("XenStore's answer is longer than one may be"));
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        Ok(Message { kind, request, body })
    }

    fn ask(&mut self, kind: Kind, body: &[u8]) -> std::io::Result<Vec<u8>> {
        if body.len() > MOST {
            return Err(Errno::TOOBIG.into());
        }
        let request = self.next;
        self.next = self.next.wrapping_add(1).max(1);
        let mut stream = Stream { file: self.file.as_fd(), within: TIMEOUT };
        stream.write_all(&encode(kind, request, body))?;
        until_answered(Instant::now, || self.look_for_answer(kind, request))
    }

    /// The answer to a request, if it comes within one look.
    fn look_for_answer(&mut self, kind: Kind, request: u32) -> std::io::Result<Option<Vec<u8>>> {
        if !self.wait(MOST_OF_A_LOOK)? {
            return Ok(None);
        }
        let message = self.receive()?;
        if message.kind == Kind::WatchEvent as u32 {
            self.changed.extend(strings(&message.body).into_iter().next());
        } else if message.request == request {
            return answer(kind, message).map(Some);
        }
        Ok(None)
    }
}

/// Looks until there is an answer, for as long as one may take in all: what the daemon tells
/// meanwhile is none.
fn until_answered<T>(
    mut now: impl FnMut() -> Instant,
    mut look: impl FnMut() -> std::io::Result<Option<T>>,
) -> std::io::Result<T> {
    let mut timeout = StallProofTimeout::new(now(), TIMEOUT, MOST_OF_A_LOOK);
    loop {
        if let Some(answer) = look()? {
            return Ok(answer);
        }
        if timeout.is_over(now()) {
            return Err(Error::new(ErrorKind::TimedOut, "XenStore does not answer"));
        }
    }
}

fn answer(kind: Kind, message: Message) -> std::io::Result<Vec<u8>> {
    if message.kind == kind as u32 {
        return Ok(message.body);
    }
    if message.kind != Kind::Error as u32 {
        return Err(nonsense("XenStore's answer is of another kind than the question"));
    }
    let names = strings(&message.body);
    let name = names.first().map_or("", String::as_str);
    let errno = ERRORS.iter().find(|(spelt, _)| *spelt == name).map_or(Errno::IO, |(_, e)| *e);
    Err(errno.into())
}

fn is_readable(file: BorrowedFd<'_>, within: Duration) -> std::io::Result<bool> {
    let timeout =
        Timespec { tv_sec: within.as_secs() as i64, tv_nsec: i64::from(within.subsec_nanos()) };
    loop {
        match poll(&mut [PollFd::from_borrowed_fd(file, PollFlags::IN)], Some(&timeout)) {
            Err(Errno::INTR) => {}
            other => return Ok(other? > 0),
        }
    }
}

/// Reads and writes the device as it is: one message may come in several pieces. A daemon that is
/// stopped between two of them is not waited for without end.
struct Stream<'a> {
    file: BorrowedFd<'a>,
    within: Duration,
}

impl Read for Stream<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if !is_readable(self.file, self.within)? {
            return Err(Error::new(ErrorKind::TimedOut, "XenStore breaks off"));
        }
        Ok(rustix::io::read(self.file, into)?)
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(rustix::io::write(self.file, bytes)?)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    /// A kind and a body.
    type Exchange = (u32, Vec<u8>);

    /// Answers each question with the messages that are given for it; returns the questions.
    fn daemon(
        mut stream: UnixStream,
        answers: Vec<Vec<(u32, &'static [u8])>>,
    ) -> thread::JoinHandle<Vec<Exchange>> {
        thread::spawn(move || {
            let mut asked = Vec::new();
            for few in answers {
                let mut head = [0; HEAD];
                stream.read_exact(&mut head).unwrap();
                let (kind, request, length) = decode(&head);
                let mut body = vec![0; length];
                stream.read_exact(&mut body).unwrap();
                asked.push((kind, body));
                for (kind, body) in few {
                    let mut bytes = Vec::new();
                    for word in [kind, request, 0, body.len() as u32] {
                        bytes.extend(word.to_ne_bytes());
                    }
                    bytes.extend(body);
                    // In two pieces, as the device may hand it out.
                    let (front, back) = bytes.split_at(5);
                    stream.write_all(front).unwrap();
                    stream.write_all(back).unwrap();
                }
            }
            asked
        })
    }

    fn pair(answers: Vec<Vec<(u32, &'static [u8])>>) -> (Store, thread::JoinHandle<Vec<Exchange>>) {
        let (near, far) = UnixStream::pair().unwrap();
        (Store::over(near.into()), daemon(far, answers))
    }

    #[test]
    fn a_message_that_breaks_off_is_given_up() {
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(&[0; HEAD / 2]).unwrap();
        let file = OwnedFd::from(near);
        let mut stream = Stream { file: file.as_fd(), within: Duration::from_millis(1) };
        let broken_off = stream.read_exact(&mut [0; HEAD]).unwrap_err();
        assert_eq!(broken_off.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn values_and_names_are_read() {
        let (mut store, daemon) = pair(vec![
            vec![(2, b"5")],
            vec![(16, b"ENOENT\0")],
            vec![(1, b"a\0bc\0")],
            vec![(1, b"")],
            vec![(16, b"EACCES\0")],
        ]);
        assert_eq!(store.number("vshmem/p/pool-dom").unwrap(), Some(5));
        assert_eq!(store.read("nothing").unwrap(), None);
        assert_eq!(store.list("vshmem").unwrap(), ["a", "bc"]);
        assert!(store.list("empty").unwrap().is_empty());
        let refused = store.read("/secret").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        assert_eq!(daemon.join().unwrap()[0], (2, b"vshmem/p/pool-dom\0".to_vec()));
    }

    #[test]
    fn writing_and_sharing_spell_what_the_daemon_reads() {
        let (mut store, daemon) =
            pair(vec![vec![(11, b"OK\0")], vec![(14, b"OK\0")], vec![(13, b"OK\0")]]);
        store.write("data/x", "17").unwrap();
        store.share("data/x", 1, &[2]).unwrap();
        store.remove("data/x").unwrap();
        let asked = daemon.join().unwrap();
        assert_eq!(asked[0], (11, b"data/x\x0017".to_vec()));
        assert_eq!(asked[1], (14, b"data/x\0n1\0r2\0".to_vec()));
        assert_eq!(asked[2], (13, b"data/x\0".to_vec()));
    }

    #[test]
    fn changes_that_come_before_an_answer_are_kept() {
        let (mut store, daemon) = pair(vec![
            vec![(15, b"@releaseDomain\0@releaseDomain\0"), (4, b"OK\0")],
            vec![(2, b"5")],
        ]);
        store.watch("@releaseDomain").unwrap();
        assert!(store.has_changes() && store.take_changes().unwrap() && !store.has_changes());
        assert_eq!(store.number("domid").unwrap(), Some(5));
        daemon.join().unwrap();
    }

    #[test]
    fn a_message_longer_than_one_may_be_is_refused() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut store = Store::over(near.into());
        for word in [2u32, 1, 0, 1 << 20] {
            far.write_all(&word.to_ne_bytes()).unwrap();
        }
        assert_eq!(store.read("x").unwrap_err().kind(), ErrorKind::InvalidData);
    }

    /// Looks by a clock that goes on by `passes` at each look, and finds the answer at the look of
    /// that number. Returns the looks.
    fn looks_until(found: u32, passes: impl Fn(u32) -> Duration) -> (u32, std::io::Result<()>) {
        let (clock, looks) = (Cell::new(Instant::now()), Cell::new(0));
        let result = until_answered(
            || clock.get(),
            || {
                looks.set(looks.get() + 1);
                clock.set(clock.get().after(passes(looks.get())));
                Ok((looks.get() == found).then_some(()))
            },
        );
        (looks.get(), result)
    }

    #[test]
    fn a_stop_of_the_machine_is_no_silence_of_the_daemon() {
        let hour = Duration::from_secs(3600);
        let (looks, result) = looks_until(5, |look| if look == 1 { hour } else { MOST_OF_A_LOOK });
        assert_eq!((looks, result.is_ok()), (5, true));
    }

    #[test]
    fn a_daemon_that_tells_of_changes_alone_is_not_waited_for_without_end() {
        let (looks, result) = looks_until(u32::MAX, |_| MOST_OF_A_LOOK / 2);
        assert_eq!(MOST_OF_A_LOOK / 2 * looks, TIMEOUT);
        assert_eq!(result.unwrap_err().kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn an_answer_to_another_question_is_not_taken() {
        let (mut store, daemon) = pair(vec![vec![(1, b"x\0")]]);
        assert_eq!(store.read("x").unwrap_err().kind(), ErrorKind::InvalidData);
        daemon.join().unwrap();
    }
}
