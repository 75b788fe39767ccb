//! What is full: `vshmem ls --limits`, and what VSHMEM_LOG says of a call that has met a limit.

mod rig;

use rig::{Name, expect, json};
use vshmem_ipc::{Errno, Superuser};
use vshmem_session::{Session, find};

/// What `ls --limits` says of one: used, and how much there is.
fn limit(pool: &Name, limit: &str) -> (u64, u64) {
    let found = json(&["ls", "--limits", "--pool", &pool.0, "--json"]);
    let rows = found["limits"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == limit).unwrap();
    (row["used"].as_u64().unwrap(), row["limit"].as_u64().unwrap())
}

#[test]
fn each_limit_shows_what_is_used_of_it() {
    let pool = Name::new("limits");
    let limits = ["--limit", "semmni=3", "--limit", "semmns=40", "--limit", "shmmni=2"];
    expect(0, &[&["pool", "create", &pool.0, "--size", "8M"][..], &limits].concat());
    let session = Session::join(find(&pool.0).unwrap()).unwrap();
    let me = session.client();
    assert_eq!(limit(&pool, "semmni"), (0, 3));
    for count in [5, 7] {
        me.semget(0, count, 0o600, &Superuser).unwrap();
    }
    assert_eq!(limit(&pool, "semmni"), (2, 3));
    assert_eq!(limit(&pool, "semmns"), (12, 40));
    assert_eq!(limit(&pool, "clients").0, 1);
    assert!(limit(&pool, "slabs").0 > 0);
    let before = limit(&pool, "memory");
    me.shmget(0, 10_000, 0o600, &Superuser, &session).unwrap();
    assert_eq!(limit(&pool, "memory"), (before.0 + 3 * 4096, before.1));
    assert_eq!(limit(&pool, "shmmni"), (1, 2));
    let table = expect(0, &["ls", "--limits", "--pool", &pool.0]).stdout;
    let table = String::from_utf8(table).unwrap();
    assert!(table.contains("semaphore sets") && !table.contains("Domains"), "{table}");
    me.semget(0, 1, 0o600, &Superuser).unwrap();
    assert_eq!(me.semget(0, 1, 0o600, &Superuser), Err(Errno::NOSPC));
}
