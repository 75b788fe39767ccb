//! What a program meets that was made, or is limited, by another user.

use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use vshmem_acceptance::suite::root;
use vshmem_acceptance::{Actor, Pool, build, run};

/// A user that nothing belongs to.
const USER: u32 = 61_235;

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
    let place = std::path::PathBuf::from(format!("/dev/shm/vshmem.private-{USER}"));
    let _ = std::fs::remove_file(&place);
    std::fs::hard_link(pool.place(), &place).unwrap();
    for (owner, mode, words) in
        [(USER + 1, 0o666, "belongs to user"), (USER, 0o660, "others may use it")]
    {
        chown(&place, Some(owner), None).unwrap();
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(mode)).unwrap();
        let ran = run(Command::new("env")
            .arg(format!("LD_PRELOAD={}", build::binaries().join("libvshmem_preload.so").display()))
            .arg(format!("VSHMEM_POOL={}", place.display()))
            .args(["VSHMEM_LOG=info", "sh", "-c", "printf 'shmget 0 4096 0600\\n' | exec \"$0\""])
            .arg(build::actor()));
        assert_eq!(ran.out, "-1 ENOSYS\n", "{ran:?}");
        assert!(ran.err.contains(words), "{ran:?}");
    }
    std::fs::remove_file(&place).unwrap();
    chown(pool.place(), Some(0), None).unwrap();
}
