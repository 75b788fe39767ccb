//! The program that `run` is asked to start: where it is, and whether the preloaded library will
//! have any effect on it.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache, elf};
use rustix::fs::Access;

use crate::failure::Failure;

/// Scripts that start scripts, at most (the kernel's own bound is 5).
const INTERPRETERS: usize = 5;

fn not_run<T>(sentence: String) -> Result<T, Failure> {
    Err(Failure::NotRun(sentence))
}

/// This very program, which the lab and the benchmarks start again.
pub fn own_binary() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::Failed(format!("cannot find this binary: {error}")))
}

/// Finds a program as execvp(3) does.
pub fn find(word: &Path) -> Result<PathBuf, Failure> {
    if word.as_os_str().is_empty() {
        return Err(Failure::Usage(
            "the program's name is empty. Say what to run, as in `vshmem run -- ./a.out`".into(),
        ));
    }
    if word.as_os_str().to_string_lossy().contains('/') {
        return executable(word).map(|()| word.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut refusal = None;
    for directory in std::env::split_paths(&path) {
        let place = directory.join(word);
        match executable(&place) {
            Ok(()) => return Ok(place),
            Err(error) if place.is_file() => refusal = refusal.or(Some(error)),
            Err(_) => {}
        }
    }
    Err(refusal.unwrap_or_else(|| {
        Failure::NoProgram(format!(
            "{}: there is no such program in PATH. Give its path, as in ./{0}",
            word.display()
        ))
    }))
}

fn executable(place: &Path) -> Result<(), Failure> {
    let shown = place.display();
    let meta = match std::fs::metadata(place) {
        Ok(meta) => meta,
        Err(error) => {
            let sentence = format!("{shown}: cannot run it: {error}. Check the path");
            return Err(match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => Failure::NoProgram(sentence),
                _ => Failure::NotRun(sentence),
            });
        }
    };
    if meta.is_dir() {
        return not_run(format!("{shown}: cannot run it: it is a directory. Name a program in it"));
    }
    match rustix::fs::access(place, Access::EXEC_OK) {
        Ok(()) => Ok(()),
        Err(errno) => {
            not_run(format!("{shown}: cannot run it: {errno}. Make it executable with chmod +x"))
        }
    }
}

/// Refuses a program that would silently use the kernel's own IPC.
pub fn check(place: &Path) -> Result<(), Failure> {
    let mut place = place.to_owned();
    for _ in 0..INTERPRETERS {
        match look(&place)? {
            Form::Dynamic => return Ok(()),
            Form::Script(interpreter) => place = interpreter,
        }
    }
    not_run(format!(
        "{}: its interpreter is a script, and so on, more than {INTERPRETERS} times; the kernel refuses that",
        place.display()
    ))
}

#[derive(Debug, PartialEq, Eq)]
enum Form {
    Dynamic,
    Script(PathBuf),
}

fn look(place: &Path) -> Result<Form, Failure> {
    let shown = place.display();
    let unreadable = |error: std::io::Error| {
        Failure::NotRun(format!(
            "{shown}: cannot read it to see how it is linked: {error}. `vshmem run` needs read permission on the program"
        ))
    };
    let refuse = |what: &str| {
        not_run(format!(
            "{shown} is {what}, so it would silently use the kernel's own IPC. {REMEDY}"
        ))
    };
    let mut file = File::open(place).map_err(unreadable)?;
    let mut start = Vec::new();
    file.by_ref().take(4096).read_to_end(&mut start).map_err(unreadable)?;
    if start.starts_with(b"#!") {
        return Ok(Form::Script(interpreter(&start)));
    }
    if !start.starts_with(b"\x7fELF") {
        // Without a magic number execvp gives it to the shell.
        return Ok(Form::Script("/bin/sh".into()));
    }
    let mode = file.metadata().map_err(unreadable)?.mode();
    if mode & 0o4000 != 0 {
        return refuse("setuid");
    }
    // Without the group's execute bit it marks mandatory locking, once upon a time.
    if mode & 0o2010 == 0o2010 {
        return refuse("setgid");
    }
    let mut capability = [0u8; 64];
    if rustix::fs::fgetxattr(&file, "security.capability", &mut capability[..]).is_ok_and(|n| n > 0)
    {
        return refuse("given file capabilities");
    }
    match Elf::of(&file) {
        Some(elf) if elf.foreign => {
            refuse("made for another kind of CPU than the preloaded library")
        }
        Some(elf) if !elf.interpreter => refuse("statically linked"),
        Some(_) => Ok(Form::Dynamic),
        None => not_run(format!(
            "{shown}: it begins as an ELF file and is damaged; the kernel would refuse it"
        )),
    }
}

const REMEDY: &str =
    "Link it dynamically and run it without special privileges, or use libvshmem's own calls";

fn interpreter(start: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let line = start[2..].split(|&byte| byte == b'\n').next().unwrap_or_default();
    let word = line.split(|byte| b" \t\r".contains(byte)).find(|word| !word.is_empty());
    PathBuf::from(std::ffi::OsStr::from_bytes(word.unwrap_or(b"/bin/sh")))
}

/// What matters of an ELF file.
#[derive(Debug, PartialEq, Eq)]
struct Elf {
    /// Of another class, byte order or machine than this one.
    foreign: bool,
    /// It names a dynamic linker (PT_INTERP).
    interpreter: bool,
}

#[cfg(target_arch = "x86_64")]
const MACHINE: elf::Machine = elf::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: elf::Machine = elf::EM_AARCH64;

impl Elf {
    /// `None` for a damaged one.
    fn of(file: &File) -> Option<Self> {
        const FOREIGN: Elf = Elf { foreign: true, interpreter: false };
        let file = ReadCache::new(file);
        if FileKind::parse(&file).ok()? != FileKind::Elf64 {
            return Some(FOREIGN);
        }
        let header = elf::FileHeader64::<Endianness>::parse(&file).ok()?;
        let order = header.endian().ok()?;
        if order != Endianness::default() || header.e_machine(order) != MACHINE {
            return Some(FOREIGN);
        }
        let segments = header.program_headers(order, &file).ok()?;
        let interpreter = segments.iter().any(|segment| segment.p_type(order) == elf::PT_INTERP);
        Some(Self { foreign: false, interpreter })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_are_found() {
        assert_eq!(interpreter(b"#!/bin/sh\necho"), PathBuf::from("/bin/sh"));
        assert_eq!(interpreter(b"#!  /usr/bin/env python3\n"), PathBuf::from("/usr/bin/env"));
        assert_eq!(interpreter(b"#!/bin/x"), PathBuf::from("/bin/x"));
    }

    #[test]
    fn this_test_is_dynamic() {
        let me = std::env::current_exe().unwrap();
        assert_eq!(look(&me).unwrap(), Form::Dynamic);
    }
}
