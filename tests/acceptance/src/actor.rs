//! Programs that make System V calls on demand.

use std::io::{BufRead, BufReader, PipeWriter, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use vshmem_lab::{ExecRequest, Streams};

use crate::{Guests, Pool, TIMEOUT, build};

/// A running `actor` (programs/actor.c): an order is a line, and so is its answer.
#[derive(Debug)]
pub struct Actor {
    orders: Option<PipeWriter>,
    answers: Receiver<(String, Instant)>,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Here(Child),
    Guest { exec: Option<std::thread::JoinHandle<i32>>, guest: u32 },
}

fn listen(from: impl Read + Send + 'static) -> Receiver<(String, Instant)> {
    let (tell, answers) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if tell.send((line, Instant::now())).is_err() {
                return;
            }
        }
    });
    answers
}

impl Actor {
    /// One on this machine; the command gets the actor as its last word.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        let (input, orders) = std::io::pipe().expect("a pipe");
        let mut child = command
            .arg(build::actor())
            .stdin(input)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        // The command holds the other end of the pipe until it is used again.
        command.stdin(Stdio::null());
        let answers = listen(child.stdout.take().expect("a pipe"));
        Self { orders: Some(orders), answers, body: Body::Here(child) }
    }

    /// One on this machine and on a pool.
    #[track_caller]
    pub fn on(pool: &Pool) -> Self {
        Self::start(&mut pool.run())
    }

    /// One in a guest, on its pool: what is run there before the actor's name.
    ///
    /// # Panics
    /// When there are no pipes.
    pub fn in_guest(guests: &Guests, guest: u32, prefix: &[&str], env: &[(&str, &str)]) -> Self {
        let (input, orders) = std::io::pipe().expect("a pipe");
        let (output, answers) = std::io::pipe().expect("a pipe");
        let words = prefix.iter().copied().chain([crate::guests::ACTOR]);
        let mut request = ExecRequest::new(words);
        request.env = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let lab = guests.open();
        let exec = std::thread::spawn(move || {
            let streams = Streams {
                stdin: Some(input.into()),
                stdout: Box::new(answers),
                stderr: Box::new(std::io::stderr()),
            };
            lab.exec_with(guest, &request, streams).unwrap_or(255)
        });
        Self {
            orders: Some(orders),
            answers: listen(output),
            body: Body::Guest { exec: Some(exec), guest },
        }
    }

    /// Gives an order and does not wait for the answer.
    ///
    /// # Panics
    /// When the actor is gone.
    #[track_caller]
    pub fn tell(&mut self, order: &str) {
        let orders = self.orders.as_mut().expect("its orders have been closed");
        writeln!(orders, "{order}").unwrap_or_else(|error| panic!("{order}: {error}"));
    }

    /// The next answer, if it comes in that time, and when it came.
    pub fn hear_within(&mut self, time: Duration) -> Option<(String, Instant)> {
        self.answers.recv_timeout(time).ok()
    }

    /// Waits until it has either answered or ended: true if it has answered.
    ///
    /// # Panics
    /// When it does neither.
    #[track_caller]
    pub fn lives_and_answers(&mut self) -> bool {
        match self.answers.recv_timeout(TIMEOUT) {
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => panic!("it lives on for {} s", TIMEOUT.as_secs()),
            Ok(_) => true,
        }
    }

    /// The next answer.
    ///
    /// # Panics
    /// When none comes.
    #[track_caller]
    pub fn hear(&mut self) -> String {
        match self.hear_within(TIMEOUT) {
            Some((answer, _)) => answer,
            None => panic!("no answer in {} s", TIMEOUT.as_secs()),
        }
    }

    /// Gives an order and returns its answer.
    #[track_caller]
    pub fn ask(&mut self, order: &str) -> String {
        self.tell(order);
        match self.hear_within(TIMEOUT) {
            Some((answer, _)) => answer,
            None => panic!("{order}: no answer in {} s", TIMEOUT.as_secs()),
        }
    }

    /// Gives an order that must succeed with a number.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn number(&mut self, order: &str) -> i64 {
        let answer = self.ask(order);
        answer.parse().unwrap_or_else(|_| panic!("{order}: {answer}"))
    }

    /// Its pid, in its own domain.
    #[track_caller]
    pub fn pid(&mut self) -> i64 {
        self.number("pid")
    }

    /// The pid of one on this machine.
    ///
    /// # Panics
    /// When it is in a guest.
    pub fn pid_here(&self) -> i32 {
        match &self.body {
            Body::Here(child) => child.id() as i32,
            Body::Guest { guest, .. } => panic!("it is in guest {guest}"),
        }
    }

    /// SIGKILLs one on this machine.
    ///
    /// # Panics
    /// When it is in a guest.
    pub fn kill(&mut self) {
        match &mut self.body {
            Body::Here(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Body::Guest { guest, .. } => panic!("it is in guest {guest}: kill it there"),
        }
    }

    /// Closes its orders, so that it ends, and waits for that. Its exit code.
    pub fn end(mut self) -> i32 {
        self.finish()
    }

    fn finish(&mut self) -> i32 {
        self.orders = None;
        match &mut self.body {
            Body::Here(child) => child.wait().ok().and_then(|status| status.code()).unwrap_or(-1),
            Body::Guest { exec, .. } => exec.take().map_or(-1, |exec| exec.join().unwrap_or(-1)),
        }
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.orders = None;
        if let Body::Here(child) = &mut self.body {
            // It may be asleep in a call.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Sends SIGKILL to a process of this machine.
pub fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}
