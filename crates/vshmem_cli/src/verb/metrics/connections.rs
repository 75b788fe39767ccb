//! How many connections there may be at once, and which of them ends for another.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Connections that are open, the oldest first. With as many as there may be, the oldest that has
/// not asked for anything ends for the next: so those who connect and send nothing keep no other
/// out, however many they are.
pub struct Connections {
    most: usize,
    open: Mutex<Vec<Open>>,
    /// One has left.
    left: Condvar,
}

struct Open {
    stream: Arc<TcpStream>,
    /// It has sent no request yet, and was not ended.
    is_idle: bool,
}

impl Connections {
    /// None yet, and this many at most.
    pub fn new(most: usize) -> Self {
        Self { most, open: Mutex::new(Vec::new()), left: Condvar::new() }
    }

    fn open(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one more, as soon as there is a place for it.
    pub fn admit(&self, stream: TcpStream) -> Connection<'_> {
        let stream = Arc::new(stream);
        let mut open = self.open();
        while open.len() >= self.most {
            // Its thread leaves at once; those whose requests are answered leave by themselves.
            if let Some(oldest) = open.iter_mut().find(|one| one.is_idle) {
                oldest.is_idle = false;
                // Fails if the other side has ended it already.
                let _ = oldest.stream.shutdown(Shutdown::Both);
            }
            open = self.left.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
        open.push(Open { stream: Arc::clone(&stream), is_idle: true });
        Connection { of: self, stream }
    }
}

/// One of them; it leaves when it is dropped.
pub struct Connection<'a> {
    of: &'a Connections,
    stream: Arc<TcpStream>,
}

impl Connection<'_> {
    /// What is read and written.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Its request has come: it is answered before it ends.
    pub fn has_asked(&self) {
        let mut open = self.of.open();
        let this = open.iter_mut().find(|one| Arc::ptr_eq(&one.stream, &self.stream));
        if let Some(this) = this {
            this.is_idle = false;
        }
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.of.open().retain(|one| !Arc::ptr_eq(&one.stream, &self.stream));
        self.of.left.notify_one();
    }
}
