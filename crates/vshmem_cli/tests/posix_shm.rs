//! POSIX shared memory objects in `ls`, `rm`, `top` and `pool check`.

mod rig;

use rig::{Me, Name, refusal};
use vshmem_ipc::PosixOpen;
use vshmem_session::{Session, find};

const MAKE: PosixOpen = PosixOpen {
    read: true,
    write: true,
    create: true,
    exclusive: true,
    truncate: false,
    mode: 0o640,
};

/// Objects in a pool, which this process has open.
struct Open(Session);

impl Open {
    fn in_pool(name: &Name) -> Self {
        Self(Session::join(find(&name.0).unwrap()).unwrap())
    }

    fn make(&self, name: &[u8], bytes: u64) -> i32 {
        let id = self.0.client().posix_shm_open(name, MAKE, &Me, &self.0).unwrap();
        self.0.client().posix_shm_set_size(id, bytes, &self.0).unwrap();
        id
    }

    fn close(self, ids: &[i32]) {
        for id in ids {
            self.0.client().posix_shm_close(*id).unwrap();
        }
    }
}

/// What the command prints; it succeeds.
fn expect(words: &[&str]) -> String {
    String::from_utf8_lossy(&rig::expect(0, words).stdout).into_owned()
}

/// Rows of the table of objects, as `ls` prints them.
fn rows(pool: &str) -> Vec<Vec<String>> {
    let text = expect(&["ls", "-M", "--pool", pool]);
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    let table = text.split("POSIX shared memory").nth(1).unwrap_or("");
    table.lines().skip(2).take_while(|line| !line.is_empty()).map(cells).collect()
}

#[test]
fn objects_are_listed_by_name_and_removed_by_it() {
    let name = Name::with_pool("names");
    let pool = name.0.as_str();
    let open = Open::in_pool(&name);
    let data = open.make(b"data", 5000);
    let gone = open.make(b"gone", 1);
    let odd = open.make(b"odd\x1b[31m\xff", 1);
    let semaphore = open.make(b"sem.lock", 32);
    open.0.client().posix_shm_unlink(b"gone", &Me).unwrap();
    let id = |id: i32| id.to_string();
    let found = rows(pool);
    let row = |name: &str| found.iter().find(|row| row[0] == name).expect(name).clone();
    let cells = [&id(data), Me::name().as_str(), "640", "5000", "0", "1"].map(str::to_owned);
    assert_eq!(row("/data")[1..7], cells);
    assert_eq!(row("(unlinked)")[1], id(gone));
    assert_eq!(row("/odd?[31m\u{fffd}")[1], id(odd));
    assert_eq!(row("/sem.lock")[1], id(semaphore));
    let segments = expect(&["ls", "-m", "--pool", pool]);
    assert!(!segments.contains("5000"), "{segments}");
    let json = expect(&["ls", "--json", "--pool", pool]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let objects = json["posix_shm"].as_array().unwrap();
    assert_eq!(json["segments"].as_array().unwrap().len(), 0);
    let object = objects.iter().find(|row| row["name"] == "/data").unwrap();
    assert_eq!((object["bytes"].as_u64(), object["nopen"].as_u64()), (Some(5000), Some(1)));
    assert!(objects.iter().any(|row| row["name"].is_null() && row["id"] == gone));
    expect(&["pool", "check", pool]);

    let by_name = format!("`vshmem rm --posix-shmem /data --pool {pool}`");
    refusal(&["rm", "-m", &id(data), "--pool", pool], &[&by_name]);
    let kept = "is a POSIX object without a name, kept by 1 process (";
    refusal(&["rm", "-m", &id(gone), "--pool", pool], &[kept]);
    for (wrong, says) in [
        ("/none", "there is no POSIX shared memory object /none"),
        ("a/b", "\"a/b\" is not the name of a POSIX shared memory object"),
    ] {
        refusal(&["rm", "--posix-shmem", wrong, "--pool", pool], &[says]);
    }
    expect(&["rm", "--posix-shmem", "data", "--posix-semaphore", "/lock", "--pool", pool]);
    expect(&["rm", "-a", "--pool", pool]);
    assert!(rows(pool).iter().all(|row| row[0] == "(unlinked)"), "{:?}", rows(pool));
    open.close(&[data, gone, odd, semaphore]);
    assert_eq!(rows(pool), Vec::<Vec<String>>::new());
    expect(&["pool", "check", pool]);
}

#[test]
fn top_calls_objects_by_their_names() {
    let name = Name::with_pool("top");
    let open = Open::in_pool(&name);
    let data = open.make(b"data", 5000);
    let report = expect(&["top", "--json", "--count", "1", "--interval", "0.1", "--pool", &name.0]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let object = &report["objects"][0];
    assert_eq!(
        (object["kind"].as_str(), object["key"].as_str()),
        (Some("posix-shm"), Some("/data"))
    );
    open.close(&[data]);
}
