//! Two pools at once.

use std::process::Command;

use vshmem_acceptance::suite::root;
use vshmem_acceptance::{Actor, Pool, build, isolation, run};

pub fn matrix() {
    let (first, second) = (Pool::new("32M", &[]), Pool::new("32M", &[]));
    isolation::matrix(&first, &second, &|| Actor::on(&first), &|| Actor::on(&second));
    first.assert_clean();
    second.assert_clean();
}

/// Pools of two users: neither gets at the other's, by name or by path.
pub fn paths() {
    if !root("pools of two users") {
        return;
    }
    let public = build::public();
    let pool = Pool::new("32M", &[]);
    let (path, vshmem) =
        (pool.path().display().to_string(), public.join("vshmem").display().to_string());
    let nobody = |words: &[&str]| run(Command::new("setpriv").args(build::NOBODY).args(words));
    let refusals: [&[&str]; 6] = [
        &[&vshmem, "run", "--pool", pool.name(), "--", "true"],
        &[&vshmem, "run", "--pool", &path, "--", "true"],
        &[&vshmem, "ls", "--pool", pool.name()],
        &[&vshmem, "rm", "-a", "--pool", pool.name()],
        &[&vshmem, "pool", "check", pool.name()],
        &[&vshmem, "pool", "rm", "--force", pool.name()],
    ];
    for words in refusals {
        nobody(words).refused(1, &[&path]);
    }
    // And by hand, past the command: errno at the call, and a sentence for who asks.
    let actor = build::actor();
    let settings = [
        format!("LD_PRELOAD={}", public.join("libvshmem_preload.so").display()),
        format!("VSHMEM_POOL={path}"),
        format!(
            "printf 'shmget 0 4096 0600\\nsemget 0 1 0600\\nmsgget 0 0600\\n' | {}",
            actor.display()
        ),
    ];
    let [library, at, line] = &settings;
    let ran = nobody(&["env", library, at, "VSHMEM_LOG=info", "sh", "-c", line]);
    assert_eq!(ran.out, "-1 ENOSYS\n".repeat(3), "{ran:?}");
    assert!(ran.err.contains(&path), "{ran:?}");
    assert_ne!(nobody(&["cat", &path]).code, 0);
    assert_ne!(nobody(&["sh", "-c", &format!(": >>{path}")]).code, 0);
    pool.assert_clean();
}
