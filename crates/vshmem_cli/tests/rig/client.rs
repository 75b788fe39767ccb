//! A client process of a pool, which tests start and kill.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use vshmem_ipc::Operation;
use vshmem_mem::Protection;
use vshmem_session::{Session, find};

use super::{Me, Name};

const POOL: &str = "CLITEST_POOL";
/// Set for a process that maps the pool, and is no client.
const MAPS: &str = "CLITEST_MAPS";
/// A command that the client starts the agent of its domain with.
const AGENT: &str = "CLITEST_AGENT";
const IPC_CREAT: i32 = 0o1000;
/// Key of the segment that each client has attached, and of the set on which it holds an
/// adjustment.
pub const KEY: i32 = 77;

/// Is the client, until the test ends. To be called by a test named `client` that is ignored, in
/// each file of tests that starts one: a client is this test program under that name.
pub fn be() {
    let Ok(pool) = std::env::var(POOL) else { return };
    if std::env::var_os(MAPS).is_some() {
        let _mapping = find(&pool).unwrap().map(0, 4096, Protection::READ_WRITE).unwrap();
        await_end();
    }
    let session = match Session::join(find(&pool).unwrap()) {
        Ok(session) => session,
        Err(error) => {
            println!("\nclient is refused: {error}");
            std::process::exit(0);
        }
    };
    let me = session.client();
    let id = me.shmget(KEY, 4096, IPC_CREAT | 0o600, &Me, &session).unwrap();
    me.shmat(id, true, false, &Me).unwrap();
    let set = me.semget(KEY, 1, IPC_CREAT | 0o600, &Me).unwrap();
    let add = Operation { number: 0, change: 1, no_wait: true, undo: true };
    me.semop(set, &[add], None, &Me).unwrap();
    if let Ok(command) = std::env::var(AGENT) {
        let path = session.link().path();
        let status = Command::new(command).args(["agent", "--pool"]).arg(path).status().unwrap();
        assert!(status.success());
    }
    await_end();
}

/// Says that it is ready, and ends with the test, however that ends.
fn await_end() -> ! {
    println!("\nclient is ready");
    let _ = std::io::stdin().lines().next();
    std::process::exit(0);
}

/// A client, perhaps in namespaces of its own.
pub struct Client {
    child: Child,
    /// What it says of how it went.
    pub said: String,
}

impl Client {
    /// Starts one.
    pub fn start(name: &Name) -> Self {
        let client = Self::start_in(name, &[], false);
        assert!(client.is_ready(), "{}", client.said);
        client
    }

    /// Starts a process that maps the pool's file as a machine monitor does, without becoming a
    /// client. It alone has it mapped: a child that another test starts would show this process's
    /// mappings until it executes.
    pub fn start_monitor(name: &Name) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(MAPS, "yes");
        let monitor = Self::start_as(command, name);
        assert!(monitor.is_ready(), "{}", monitor.said);
        monitor
    }

    /// Starts it under `unshare` with `words`, or as it is when there are none.
    pub fn start_in(name: &Name, words: &[&str], with_agent: bool) -> Self {
        let me = std::env::current_exe().unwrap();
        let mut command = match words {
            [] => Command::new(me),
            words => {
                let mut command = Command::new("unshare");
                command.args(words).arg(me);
                command
            }
        };
        if with_agent {
            command.env(AGENT, env!("CARGO_BIN_EXE_vshmem"));
        }
        Self::start_as(command, name)
    }

    fn start_as(mut command: Command, name: &Name) -> Self {
        let mut child = command
            .args(["--exact", "client", "--ignored", "--nocapture"])
            .env(POOL, &name.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = lines.map_while(Result::ok).find(|line| line.contains("client is "));
        Self { child, said: said.unwrap_or_default() }
    }

    pub fn is_ready(&self) -> bool {
        self.said.contains("client is ready")
    }

    /// Its pid, where it is under no `unshare`.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, and with `unshare --kill-child` everything in its PID namespace.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
