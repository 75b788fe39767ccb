//! The tables that `top` prints.

use super::report::{Client, Domain, Object, Report, Total, Waiting};
use crate::show;
use crate::table::Table;
use crate::verb::ls::limits::fullest;

/// A line about all of the pool, and the tables that are not empty.
pub fn text(report: &Report) -> String {
    let Total { operations, messages, bytes, attaches, waits, wakeups } = report.total;
    let fullest = fullest(&report.limits)
        .map(|line| format!("; fullest limit: {} {} %", line.name, line.percent()))
        .unwrap_or_default();
    let head = format!(
        "Pool {}, {:.1} s: {} operations/s, {} messages/s, {} bytes/s, {} attaches/s, {} waits/s, {} wakeups/s{fullest}",
        show::sanitized(&report.pool),
        report.seconds,
        number(operations),
        number(messages),
        number(bytes),
        number(attaches),
        number(waits),
        number(wakeups),
    );
    let tables = [
        (!report.objects.is_empty()).then(|| objects(&report.objects)),
        (!report.domains.is_empty()).then(|| domains(&report.domains)),
        (!report.clients.is_empty()).then(|| clients(&report.clients)),
        (!report.waiting.is_empty()).then(|| waiting(&report.waiting)),
    ];
    let texts: Vec<String> = tables.iter().flatten().map(Table::to_string).collect();
    let gap = if texts.is_empty() { "" } else { "\n" };
    format!("{head}\n{gap}{}", texts.join("\n"))
}

/// A number in as few characters as leave three digits of it.
fn number(value: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = UNITS.iter().find(|(least, _)| value >= *least);
    let (value, unit) = unit.map_or((value, ""), |(least, unit)| (value / least, *unit));
    let digits = match value {
        value if value == value.trunc() || value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}{unit}")
}

fn objects(rows: &[Object]) -> Table {
    const COLUMNS: [&str; 8] =
        ["KIND", "KEY", "ID", "OWNER", "RATE/S", "BYTES/S", "HOLDS", "WAITING"];
    let mut table = Table::new("Objects", &COLUMNS);
    for row in rows {
        let held = match row.kind {
            "segment" | "posix-shm" => "attaches",
            "queue" | "mq" => "messages",
            _ => "semaphores",
        };
        table.row(vec![
            row.kind.into(),
            show::sanitized(&row.key),
            row.id.to_string(),
            row.owner.clone(),
            number(row.rate),
            row.bytes.map(number).unwrap_or_default(),
            format!("{} {held}", row.holds),
            row.waiting.to_string(),
        ]);
    }
    table
}

fn domains(rows: &[Domain]) -> Table {
    const COLUMNS: [&str; 7] =
        ["NR", "NAME", "STATE", "CLIENTS", "WAITING", "WAITS/S", "WAKEUPS/S"];
    let mut table = Table::new("Domains", &COLUMNS);
    for row in rows {
        table.row(vec![
            row.index.to_string(),
            if row.here { format!("{} (here)", row.name) } else { row.name.clone() },
            row.state.into(),
            row.clients.to_string(),
            row.waiting.to_string(),
            number(row.waits),
            number(row.wakeups),
        ]);
    }
    table
}

fn clients(rows: &[Client]) -> Table {
    const COLUMNS: [&str; 8] =
        ["PROCESS", "USER", "COMMAND", "STATE", "ATTACHES", "WAITING", "WAITS/S", "WAKEUPS/S"];
    let mut table = Table::new("Clients", &COLUMNS);
    for row in rows {
        table.row(vec![
            row.process.clone(),
            row.user.clone(),
            row.command.clone().unwrap_or_default(),
            row.state.into(),
            row.attaches.to_string(),
            row.waiting.to_string(),
            number(row.waits),
            number(row.wakeups),
        ]);
    }
    table
}

fn waiting(rows: &[Waiting]) -> Table {
    let mut table = Table::new("Waiting", &["PROCESS", "AT", "UNTIL", "LAST"]);
    for row in rows {
        table.row(vec![
            row.process.clone(),
            format!("{} {}", row.kind, row.id),
            row.awaits.clone(),
            row.last.clone().unwrap_or_default(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_keep_three_digits() {
        let shown = [
            (0.0, "0"),
            (7.0, "7"),
            (1.5, "1.50"),
            (12.34, "12.3"),
            (999.0, "999"),
            (1234.0, "1.23k"),
            (123_456.0, "123k"),
            (18_700_000.0, "18.7M"),
            (2e9, "2G"),
        ];
        for (value, text) in shown {
            assert_eq!(number(value), text);
        }
    }
}
