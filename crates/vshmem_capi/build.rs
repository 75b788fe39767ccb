//! The library's soname, and the link of that name beside it: what is linked against a build runs
//! from it, as it does against an installation.

use std::io::ErrorKind;
use std::path::PathBuf;

/// Changes when a program that was linked with the library before no longer runs with it.
const SONAME: &str = "libvshmem.so.0";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    // The directory of the profile, where cargo leaves the library.
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    let Some(profile) = out.ancestors().nth(3) else { return };
    match std::os::unix::fs::symlink("libvshmem.so", profile.join(SONAME)) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            println!("cargo:warning=no link {SONAME} beside the library: {error}");
        }
        _ => {}
    }
}
