//! What a program meets that was made, or is limited, by another user.

use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use vshmem_acceptance::suite::root;
use vshmem_acceptance::{Actor, Pool, build, run};

/// A user that nothing belongs to.
const USER: u32 = 61_235;

/// A pool for everybody with an object for root alone: its name, and that of the file behind its
/// descriptor.
struct Secret {
    pool: Pool,
    name: String,
    file: String,
}

impl Secret {
    fn new() -> Self {
        let pool = Pool::new("16M", &["--mode", "0666"]);
        let name = format!("/{}", pool.name());
        let made = run(Self::command(&pool).arg(marker()).args(["make", &name, "secret"])).ok();
        let file = made.trim_start_matches("/memfd:").trim_end_matches(" (deleted)\n").to_owned();
        Self { pool, name, file }
    }

    /// What runs a program on the pool, in place of one.
    fn command(pool: &Pool) -> Command {
        let mut command = Command::new(build::public().join("vshmem"));
        command.current_dir("/");
        command.args(["run", "--pool", pool.name(), "--share", "all,posix", "--"]);
        command
    }

    /// The words of a command.
    fn words(&self) -> Vec<String> {
        let command = Self::command(&self.pool);
        std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }
}

fn marker() -> std::path::PathBuf {
    build::public_program("tests/acceptance/programs", "marker")
}

/// Anybody can make a file with the name of the one behind a descriptor. A program that inherits it
/// or receives it is not led to the object, whether it could open the object itself or not.
pub fn forged() {
    if !root("a forged descriptor of an object of root's") {
        return;
    }
    let secret = Secret::new();
    for (how, then) in [("forge", "read"), ("pass", "receive")] {
        let by = |mut command: Command| {
            let forged = command.arg(marker()).args([how, &secret.file]);
            run(forged.args(secret.words()).arg(marker()).arg(then))
        };
        let mut nobody = Command::new("setpriv");
        nobody.current_dir("/").args(build::NOBODY);
        let ran = by(nobody);
        assert_eq!(ran.clone().ok(), "nothing\n", "{how}, by another user: {ran:?}");
        let mut root = Command::new("env");
        root.current_dir("/");
        let ran = by(root);
        assert_eq!(ran.clone().ok(), "nothing\n", "{how}, by root, without the pool: {ran:?}");
    }
    secret.pool.assert_clean();
}

/// As a file that is open: the user that root has become goes on with what root has opened, also in
/// the program that it executes.
pub fn kept() {
    if !root("an object that root opens for another user") {
        return;
    }
    let secret = Secret::new();
    let ran = run(Secret::command(&secret.pool)
        .env("NAME", &secret.name)
        .arg(marker())
        .args(["keep", "65534"])
        .arg(marker())
        .arg("read"));
    assert_eq!(ran.clone().ok(), "secret\n", "{ran:?}");
    secret.pool.assert_clean();
}

/// Segments are cleared although no file may be written to beyond the first KiB.
pub fn limited() {
    let pool = Pool::new("16M", &[]);
    let mut command = pool.run();
    command.args(["sh", "-c", "ulimit -f 1; exec \"$0\""]);
    let mut actor = Actor::start(&mut command);
    for turn in 0..3 {
        let segment = actor.number("shmget 0 8192 0600");
        let at = actor.number(&format!("shmat {segment} 0"));
        assert_eq!(actor.number(&format!("peek {at} 4096")), 0, "turn {turn}");
        assert_eq!(actor.number(&format!("poke {at} 4096 42")), 42);
        assert_eq!(actor.ask(&format!("shmdt {at}")), "0");
        assert_eq!(actor.ask(&format!("shmctl {segment} rmid")), "0");
    }
    assert_eq!(actor.end(), 0);
    pool.assert_clean();
}

/// The library itself looks whose a private pool is, at the descriptor that it maps.
pub fn private() {
    if !root("another user's private pool (made by root)") {
        return;
    }
    let pool = Pool::new("16M", &[]);
    let path = std::path::PathBuf::from(format!("/dev/shm/vshmem.private-{USER}"));
    let _ = std::fs::remove_file(&path);
    std::fs::hard_link(pool.path(), &path).unwrap();
    for (owner, mode, words) in
        [(USER + 1, 0o666, "belongs to user"), (USER, 0o660, "others may use it")]
    {
        chown(&path, Some(owner), None).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let ran = run(Command::new("env")
            .arg(format!("LD_PRELOAD={}", build::binaries().join("libvshmem_preload.so").display()))
            .arg(format!("VSHMEM_POOL={}", path.display()))
            .args(["VSHMEM_LOG=info", "sh", "-c", "printf 'shmget 0 4096 0600\\n' | exec \"$0\""])
            .arg(build::actor()));
        assert_eq!(ran.out, "-1 ENOSYS\n", "{ran:?}");
        assert!(ran.err.contains(words), "{ran:?}");
    }
    std::fs::remove_file(&path).unwrap();
    chown(pool.path(), Some(0), None).unwrap();
}
