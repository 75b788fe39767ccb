//! What is tested: the release binaries and the C programs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Top of the source tree.
pub fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the source tree")
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| source().join("target"), PathBuf::from)
}

fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(source());
    cargo
}

#[track_caller]
fn must(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Where `vshmem` and `libvshmem_preload.so` are: VSHMEM_BIN_DIR, or target/release, brought up to
/// date.
pub fn binaries() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        if let Some(place) = std::env::var_os("VSHMEM_BIN_DIR") {
            return PathBuf::from(place).canonicalize().expect("VSHMEM_BIN_DIR");
        }
        let packages = ["vshmem_cli", "vshmem_lab_command", "vshmem_preload", "vshmem_capi"];
        must(cargo().args(["build", "--release"]).args(packages.map(|name| format!("-p{name}"))));
        must(Command::new("make").args(["-s", "library"]).current_dir(source()));
        target().join("release").canonicalize().expect("target/release")
    })
}

/// The driver for ivshmem devices, where there are headers to build it with.
pub fn driver() -> Option<PathBuf> {
    static PLACE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let make = || {
        let place = target().join("acceptance-driver");
        let mut make = Command::new("make");
        make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").env_remove("CARGO_MAKEFLAGS");
        must(
            make.args(["-s", "module", "-C"])
                .arg(source().join("kernel/ivshmem"))
                .arg(format!("BUILD={}", place.display())),
        );
        let driver = place.join("module/vshmem.ko");
        driver.is_file().then_some(driver)
    };
    PLACE.get_or_init(make).clone()
}

/// The `vshmem` command.
pub fn vshmem() -> PathBuf {
    binaries().join("vshmem")
}

/// The program of `vshmem lab`, which guests begin with.
pub fn lab() -> PathBuf {
    binaries().join("vshmem-lab")
}

/// A directory with the same command and a preload library that dies at the named step of a change
/// (VSHMEM_CRASH).
pub fn crashing_binaries() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        // Apart: the features of a package are those of the whole build.
        let apart = target().join("crash-points");
        let words = ["build", "--profile", "quick", "-p", "vshmem_preload"];
        must(
            cargo()
                .args(words)
                .args(["--features", "crash-points"])
                .env("CARGO_TARGET_DIR", &apart),
        );
        let place = apart.join("installed");
        std::fs::create_dir_all(&place).expect("a directory");
        let put = |from: PathBuf, name: &str| {
            let to = place.join(name);
            let _ = std::fs::remove_file(&to);
            std::fs::copy(from, to).expect("a copy");
        };
        put(vshmem(), "vshmem");
        put(apart.join("quick/libvshmem_preload.so"), "libvshmem_preload.so");
        place
    })
}

/// Where the C programs are that a makefile in that directory of the source tree builds.
pub fn programs(directory: &str) -> PathBuf {
    let place = target().join("acceptance-programs").join(directory.replace('/', "-"));
    let mut make = Command::new("make");
    // Not this run's own job server or flags.
    make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").env_remove("CARGO_MAKEFLAGS");
    must(
        make.arg("-s")
            .arg("-C")
            .arg(source().join(directory))
            .arg(format!("BUILD={}", place.display())),
    );
    place
}

/// The program that makes calls on demand.
pub fn actor() -> PathBuf {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    // Where other users can run it, too.
    PLACE.get_or_init(|| public_program("tests/acceptance/programs", "actor")).clone()
}

/// An ordinary user, for setpriv.
pub const NOBODY: [&str; 5] = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];

/// A directory that every user can read, with copies of the binaries; the source tree may be closed
/// to others.
pub fn public() -> PathBuf {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let place = std::env::temp_dir()
            .join(format!("vshmem-acceptance-{}", rustix::process::geteuid().as_raw()));
        std::fs::create_dir_all(&place).expect("a directory");
        let names = [
            "vshmem",
            "vshmem-lab",
            "libvshmem_preload.so",
            "libvshmem_preload_posix.so",
            "libvshmem_preload_sysv.so",
        ];
        for name in names {
            publish(&binaries().join(name), &place.join(name));
        }
        place
    };
    PLACE.get_or_init(make).clone()
}

/// A copy in [`public`] of a program that the makefile in a directory of the source tree builds, or
/// of a file there.
pub fn public_program(directory: &str, name: &str) -> PathBuf {
    let kept = source().join(directory).join(name);
    let from = if kept.exists() { kept } else { programs(directory).join(name) };
    let to = public().join(name);
    publish(&from, &to);
    to
}

fn publish(from: &Path, to: &Path) {
    use std::os::unix::fs::PermissionsExt;
    // Not over a file that may be running, nor over another run's draft.
    let draft = to.with_extension(format!("draft{}", std::process::id()));
    std::fs::copy(from, &draft).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    std::fs::rename(&draft, to).expect("a name");
}
