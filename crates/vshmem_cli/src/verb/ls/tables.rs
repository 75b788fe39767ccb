//! The tables that `ls` prints on a terminal.

use super::limits;
use super::lines::{
    ClientLine, Common, Contents, DomainLine, LeftLine, LockLine, PosixCommon, PosixQueueLine,
    PosixShmLine, QueueLine, SegmentLine, SemaphoreLine,
};
use super::view::UNLINKED;
use crate::show;
use crate::table::Table;

/// All that was asked for, a table each.
pub fn text(contents: Contents) -> String {
    let tables = [
        contents.segments.map(segments),
        contents.posix_shm.filter(|lines| !lines.is_empty()).map(posix_shm),
        contents.queues.map(queues),
        contents.posix_queues.filter(|lines| !lines.is_empty()).map(posix_queues),
        contents.semaphores.map(semaphores),
        contents.domains.map(domains),
        contents.clients.map(clients),
        contents.locks.map(locks),
        contents.left.map(left),
        contents.limits.as_deref().map(limits::table),
    ];
    let texts: Vec<String> = tables.iter().flatten().map(Table::to_string).collect();
    format!("Pool {}\n\n{}", show::sanitized(&contents.pool), texts.join("\n"))
}

/// A row of a System V object: what every kind has, then its own cells.
fn object(common: Common, rest: Vec<String>) -> Vec<String> {
    let mut cells = vec![common.key, common.id.to_string(), common.owner, common.perms];
    cells.extend(rest);
    cells
}

fn segments(lines: Vec<SegmentLine>) -> Table {
    const COLUMNS: [&str; 10] =
        ["KEY", "ID", "OWNER", "PERMS", "BYTES", "NATTCH", "STATUS", "CREATOR", "LAST", "NODES"];
    let has_nodes = lines.iter().any(|line| line.nodes.is_some());
    let columns = if has_nodes { &COLUMNS[..] } else { &COLUMNS[..COLUMNS.len() - 1] };
    let mut table = Table::new("Segments", columns);
    for line in lines {
        let mut rest = vec![
            line.bytes.to_string(),
            line.nattch.to_string(),
            line.status.join(","),
            line.creator.unwrap_or_default(),
            line.last.unwrap_or_default(),
        ];
        if has_nodes {
            rest.push(line.nodes.map(|nodes| nodes.nodes()).unwrap_or_default());
        }
        table.row(object(line.common, rest));
    }
    table
}

/// A row of a POSIX object: what every kind has, then its own cells. A name is what a program
/// chose.
fn posix_object(common: PosixCommon, rest: Vec<String>) -> Vec<String> {
    let name = common.name.map_or_else(|| UNLINKED.to_owned(), |name| show::sanitized(&name));
    let mut cells = vec![name, common.id.to_string(), common.owner, common.perms];
    cells.extend(rest);
    cells
}

fn posix_shm(lines: Vec<PosixShmLine>) -> Table {
    const COLUMNS: [&str; 9] =
        ["NAME", "ID", "OWNER", "PERMS", "BYTES", "NATTCH", "NOPEN", "CREATOR", "LAST"];
    let mut table = Table::new("POSIX shared memory", &COLUMNS);
    for line in lines {
        let rest = vec![
            line.bytes.to_string(),
            line.nattch.to_string(),
            line.nopen.to_string(),
            line.creator.unwrap_or_default(),
            line.last.unwrap_or_default(),
        ];
        table.row(posix_object(line.common, rest));
    }
    table
}

fn queues(lines: Vec<QueueLine>) -> Table {
    const COLUMNS: [&str; 9] =
        ["KEY", "ID", "OWNER", "PERMS", "USED-BYTES", "MESSAGES", "SENDER", "RECEIVER", "WAITERS"];
    let mut table = Table::new("Message queues", &COLUMNS);
    for line in lines {
        let rest = vec![
            line.used_bytes.to_string(),
            line.messages.to_string(),
            line.sender.unwrap_or_default(),
            line.receiver.unwrap_or_default(),
            line.waiters.join(","),
        ];
        table.row(object(line.common, rest));
    }
    table
}

fn posix_queues(lines: Vec<PosixQueueLine>) -> Table {
    const COLUMNS: [&str; 11] = [
        "NAME", "ID", "OWNER", "PERMS", "MESSAGES", "MAXMSG", "MSGSIZE", "NOPEN", "SENDER",
        "RECEIVER", "WAITERS",
    ];
    let mut table = Table::new("POSIX queues", &COLUMNS);
    for line in lines {
        let rest = vec![
            line.messages.to_string(),
            line.maxmsg.to_string(),
            line.msgsize.to_string(),
            line.nopen.to_string(),
            line.sender.unwrap_or_default(),
            line.receiver.unwrap_or_default(),
            line.waiters.join(","),
        ];
        table.row(posix_object(line.common, rest));
    }
    table
}

fn semaphores(lines: Vec<SemaphoreLine>) -> Table {
    let mut table =
        Table::new("Semaphore sets", &["KEY", "ID", "OWNER", "PERMS", "NSEMS", "LAST", "WAITERS"]);
    for line in lines {
        let rest =
            vec![line.nsems.to_string(), line.last.unwrap_or_default(), line.waiters.join(",")];
        table.row(object(line.common, rest));
    }
    table
}

fn domains(lines: Vec<DomainLine>) -> Table {
    let mut table =
        Table::new("Domains", &["NR", "NAME", "STATE", "EPOCH", "LEASE-AGE", "CLIENTS", "AGENT"]);
    for line in lines {
        let age = line.lease_age.map(|age| format!("{age}s")).unwrap_or_default();
        let agent = line.agent.map(|pid| pid.to_string()).unwrap_or_default();
        let name = if line.here { format!("{} (here)", line.name) } else { line.name };
        table.row(vec![
            line.index.to_string(),
            name,
            line.state.into(),
            line.epoch.to_string(),
            age,
            line.clients.to_string(),
            agent,
        ]);
    }
    table
}

fn clients(lines: Vec<ClientLine>) -> Table {
    let mut table =
        Table::new("Clients", &["PROCESS", "USER", "COMMAND", "STATE", "ATTACHES", "SLEEPING"]);
    for line in lines {
        table.row(vec![
            line.process,
            line.user,
            line.command.unwrap_or_default(),
            line.state.into(),
            line.attaches.to_string(),
            line.sleeping.to_string(),
        ]);
    }
    table
}

fn locks(lines: Vec<LockLine>) -> Table {
    let mut table = Table::new("Locks held", &["LOCK", "HOLDER", "CHANGE"]);
    for line in lines {
        let change = if line.committed { "being carried out" } else { "not yet committed" };
        table.row(vec![line.lock, line.holder.unwrap_or_default(), change.into()]);
    }
    table
}

fn left(lines: Vec<LeftLine>) -> Table {
    let mut table =
        Table::new("Programs that left the pool", &["PROGRAM", "WHY", "USER", "FIRST PID"]);
    for line in lines {
        table.row(vec![line.program, line.why, line.user, line.pid.to_string()]);
    }
    table
}
