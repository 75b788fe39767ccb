//! POSIX queues in `ls`, `rm` and `pool check`.

mod rig;

use rig::{Me, Name, json, refusal};
use vshmem_ipc::{QueueOpen, QueueSize, Wait};
use vshmem_session::{Session, find};

const MAKE: QueueOpen = QueueOpen {
    read: true,
    write: true,
    create: true,
    exclusive: true,
    mode: 0o640,
    size: Ok(QueueSize { most_messages: 5, most_bytes: 64 }),
};

/// Queues in a pool, which this process has open.
struct Open(Session);

impl Open {
    fn in_pool(name: &Name) -> Self {
        Self(Session::join(find(&name.0).unwrap()).unwrap())
    }

    fn make(&self, name: &[u8]) -> i32 {
        self.0.client().mq_open(name, &MAKE, &Me).unwrap()
    }

    fn close(&self, ids: &[i32]) {
        for id in ids {
            self.0.client().mq_close(*id).unwrap();
        }
    }
}

/// What the command prints; it succeeds.
fn expect(words: &[&str]) -> String {
    String::from_utf8_lossy(&rig::expect(0, words).stdout).into_owned()
}

/// Rows of the table of queues, as `ls` prints them.
fn rows(pool: &str) -> Vec<Vec<String>> {
    let text = expect(&["ls", "-Q", "--pool", pool]);
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    let table = text.split("POSIX queues").nth(1).unwrap_or("");
    table.lines().skip(2).take_while(|line| !line.is_empty()).map(cells).collect()
}

#[test]
fn queues_are_listed_by_name_and_apart_from_system_vs() {
    let name = Name::with_pool("mqls");
    let pool = name.0.as_str();
    let open = Open::in_pool(&name);
    let ids = [b"jobs".as_slice(), b"gone", b"odd\x1b[31m\xff"].map(|name| open.make(name));
    let [jobs, gone, odd] = ids;
    open.0.client().mq_send(jobs, b"a message", 1, Wait::Never).unwrap();
    open.0.client().mq_unlink(b"gone", &Me).unwrap();

    let found = rows(pool);
    let row = |name: &str| found.iter().find(|row| row[0] == name).expect(name).clone();
    let id = |id: i32| id.to_string();
    let cells = [&id(jobs), Me::name().as_str(), "640", "1", "5", "64", "1"].map(str::to_owned);
    assert_eq!(row("/jobs")[1..8], cells);
    assert_eq!(row("(unlinked)")[1], id(gone));
    assert_eq!(row("/odd?[31m\u{fffd}")[1], id(odd));
    let all = expect(&["ls", "--pool", pool]);
    assert!(all.contains("POSIX queues") && !all.contains('\x1b'), "{all}");
    let system_v = expect(&["ls", "-q", "--pool", pool]);
    assert!(!system_v.contains("jobs") && !system_v.contains("unlinked"), "{system_v}");

    let contents = json(&["ls", "--json", "--pool", pool]);
    assert_eq!(contents["queues"].as_array().unwrap().len(), 0);
    let queues = contents["posix_queues"].as_array().unwrap();
    let queue = queues.iter().find(|row| row["name"] == "/jobs").unwrap();
    let number = |key: &str| queue[key].as_u64().unwrap();
    let numbers = ["messages", "used_bytes", "maxmsg", "msgsize", "nopen"].map(number);
    assert_eq!(numbers, [1, 9, 5, 64, 1]);
    assert!(queues.iter().any(|row| row["name"].is_null() && row["id"] == gone));
    open.close(&ids);
    expect(&["pool", "check", pool]);
}

#[test]
fn queues_are_removed_by_name_and_with_everything_else() {
    let name = Name::with_pool("mqrm");
    let pool = name.0.as_str();
    let open = Open::in_pool(&name);
    let names = [b"jobs".as_slice(), b"gone", b"odd\x1b\xff", b"two; words"];
    let ids = names.map(|name| open.make(name));
    let [jobs, gone, _, words] = ids.map(|id| id.to_string());
    open.0.client().mq_unlink(b"gone", &Me).unwrap();

    let by_name = format!("`vshmem rm --posix-mqueue /jobs --pool {pool}`");
    refusal(&["rm", "-q", &jobs, "--pool", pool], &[&by_name]);
    refusal(&["rm", "-q", &words, "--pool", pool], &["--posix-mqueue '/two; words' --pool"]);
    let kept = format!("{gone} is a POSIX object without a name, kept by 1 process (");
    refusal(&["rm", "-q", &gone, "--pool", pool], &[&kept]);
    for (wrong, says) in [
        ("/none", "there is no POSIX queue /none"),
        ("a/b", "\"a/b\" is not the name of a POSIX queue"),
    ] {
        refusal(&["rm", "--posix-mqueue", wrong, "--pool", pool], &[says]);
    }

    expect(&["rm", "--posix-mqueue", "/jobs", "--pool", pool]);
    let left = rows(pool);
    assert_eq!(left.iter().filter(|row| row[0] == "(unlinked)").count(), 2, "{left:?}");
    expect(&["rm", "-a", "--pool", pool]);
    let left = rows(pool);
    assert_eq!(left.iter().filter(|row| row[0] == "(unlinked)").count(), 4, "{left:?}");
    open.close(&ids);
    assert_eq!(rows(pool), Vec::<Vec<String>>::new());
    expect(&["pool", "check", pool]);
}
