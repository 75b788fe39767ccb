//! Compiles the library that User Mode Linux needs on processors with AMX (`uml/registers.c`). An
//! empty file where that cannot be done: the lab then boots without it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=uml/registers.c");
    println!("cargo:rerun-if-env-changed=CC");
    let library = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("registers.so");
    if let Err(why) = compile(&library) {
        println!("cargo:warning=guests of User Mode Linux will not boot where there is AMX: {why}");
        if let Err(error) = std::fs::write(&library, b"") {
            println!("cargo:warning={}: {error}", library.display());
        }
    }
}

fn compile(library: &Path) -> Result<(), String> {
    let is_x86 = |name: &str| env::var(name).is_ok_and(|value| value.starts_with("x86_64"));
    if !is_x86("TARGET") || !is_x86("HOST") {
        // Other processors have no AMX.
        return std::fs::write(library, b"").map_err(|error| error.to_string());
    }
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let words = ["-O2", "-g0", "-Wall", "-Wextra", "-shared", "-fPIC", "uml/registers.c", "-o"];
    match Command::new(&compiler).args(words).arg(library).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ")),
        Err(error) => Err(format!("{}: {error}", compiler.display())),
    }
}
