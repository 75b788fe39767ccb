//! The program that `run` is asked to start: where it is, and whether the preloaded library will
//! have any effect on it.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache, elf};
use rustix::fs::Access;
use vshmem_session::quoted;

use crate::failure::Failure;

/// Scripts that start scripts, at most (the kernel's own bound is 5).
const INTERPRETERS: usize = 5;

fn not_run<T>(sentence: String) -> Result<T, Failure> {
    Err(Failure::NotRun(sentence))
}

/// This very program, which is started again for others.
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
    let search = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut refusal = None;
    for directory in std::env::split_paths(&search) {
        let path = directory.join(word);
        match executable(&path) {
            Ok(()) => return Ok(path),
            Err(error) if path.is_file() => refusal = refusal.or(Some(error)),
            Err(_) => {}
        }
    }
    Err(refusal.unwrap_or_else(|| {
        Failure::NoProgram(format!(
            "{}: there is no such program in PATH. Give its path, as in `vshmem run -- ./{0}`",
            word.display()
        ))
    }))
}

fn executable(path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) => {
            let sentence = format!(
                "{shown}: cannot run it: {error}. Name a program that is there: `vshmem run -- CMD`"
            );
            return Err(match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => Failure::NoProgram(sentence),
                _ => Failure::NotRun(sentence),
            });
        }
    };
    if meta.is_dir() {
        return not_run(format!(
            "{shown}: cannot run it: it is a directory. Name a program in it: `vshmem run -- {}/CMD`",
            quoted(&path.to_string_lossy())
        ));
    }
    match rustix::fs::access(path, Access::EXEC_OK) {
        Ok(()) => Ok(()),
        Err(errno) => {
            let file = quoted(&path.to_string_lossy());
            let remedy = match is_on_noexec(path) {
                true => format!(
                    "Its file system is mounted noexec (`findmnt -T {file}`): run a copy that lies elsewhere"
                ),
                false => format!("`chmod +x {file}` makes it executable"),
            };
            not_run(format!("{shown}: cannot run it: {errno}. {remedy}"))
        }
    }
}

fn is_on_noexec(path: &Path) -> bool {
    use rustix::fs::{StatVfsMountFlags, statvfs};
    statvfs(path).is_ok_and(|of| of.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

/// Refuses a program that would silently use the kernel's own IPC. A lock that this process has on
/// the program's file, from the program that it was before, stays.
pub fn check(path: &Path) -> Result<(), Failure> {
    vshmem_mem::with_own_descriptors(|| check_opened(path))
}

fn check_opened(path: &Path) -> Result<(), Failure> {
    let mut path = path.to_owned();
    for _ in 0..INTERPRETERS {
        match look(&path)? {
            Form::Dynamic => return Ok(()),
            Form::Script(interpreter) => {
                there_is(&interpreter, &path)?;
                path = interpreter;
            }
        }
    }
    not_run(format!(
        "{}: its interpreter is a script, and so on, more than {INTERPRETERS} times; the kernel refuses that",
        path.display()
    ))
}

/// Refuses a script whose interpreter is missing.
fn there_is(interpreter: &Path, script: &Path) -> Result<(), Failure> {
    match std::fs::metadata(interpreter) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            not_run(format!(
                "{}: its first line names the interpreter {}, which is not there. Install that, or name another one there: `head -n 1 {}` shows the line",
                script.display(),
                crate::show::sanitized(&interpreter.to_string_lossy()),
                quoted(&script.to_string_lossy())
            ))
        }
        _ => Ok(()),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Form {
    Dynamic,
    Script(PathBuf),
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let shown = path.display();
    let file = quoted(&path.to_string_lossy());
    let remedy = match error.kind() {
        ErrorKind::PermissionDenied => format!("`chmod +r {file}` lets everybody read it"),
        _ => format!("`ls -l {file}` shows what it is"),
    };
    Failure::NotRun(format!("{shown}: cannot read it to see how it is linked: {error}. {remedy}"))
}

/// The command that makes a copy without its rights where the caller is: over no other file, nor
/// over the program itself.
fn copy_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let names =
        std::iter::once(format!("./{name}")).chain((1..).map(|nth| format!("./{name}.copy{nth}")));
    let is_free = |name: &String| std::fs::symlink_metadata(name).is_err();
    let free = names.take(100).find(is_free).unwrap_or_else(|| format!("./{name}.copy"));
    let file = quoted(&path.to_string_lossy());
    format!("Run a copy that is not: `install -m 755 {file} {}`", quoted(&free))
}

fn look(path: &Path) -> Result<Form, Failure> {
    let shown = path.display();
    let unreadable = |error| unreadable(path, &error);
    let refuse = |what: &str, remedy: String| {
        not_run(format!(
            "{shown} is {what}, so it would silently use the kernel's own IPC. {remedy}"
        ))
    };
    let mut file = File::open(path).map_err(unreadable)?;
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
        return refuse("setuid", copy_of(path));
    }
    // Without the group's execute bit it marks mandatory locking, once upon a time.
    if mode & 0o2010 == 0o2010 {
        return refuse("setgid", copy_of(path));
    }
    let mut capability = [0u8; 64];
    if rustix::fs::fgetxattr(&file, "security.capability", &mut capability[..]).is_ok_and(|n| n > 0)
    {
        return refuse("given file capabilities", copy_of(path));
    }
    match Elf::of(&file) {
        Some(Elf::Foreign) => refuse(
            "made for another kind of CPU than the preloaded library",
            format!("Build it for this one; `file -L {shown}` says what it is made for"),
        ),
        Some(Elf::Static) => {
            refuse("statically linked", format!("Link it without -static, {OWN_CALLS}"))
        }
        Some(Elf::Dynamic(linker)) if linker != LINKER => refuse(
            &format!(
                "linked for the C library of {}, the preloaded library for glibc",
                crate::show::sanitized(&linker)
            ),
            format!("Build it for glibc, {OWN_CALLS}"),
        ),
        Some(Elf::Dynamic(_)) => Ok(Form::Dynamic),
        None => not_run(format!(
            "{shown}: it begins as an ELF file and is damaged; the kernel would refuse it. `file -L {shown}` says what it is; copy or build it again"
        )),
    }
}

const OWN_CALLS: &str = "or have it use libvshmem's own calls (`man 3 libvshmem`)";

fn interpreter(start: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let line = start[2..].split(|&byte| byte == b'\n').next().unwrap_or_default();
    let word = line.split(|byte| b" \t\r".contains(byte)).find(|word| !word.is_empty());
    PathBuf::from(std::ffi::OsStr::from_bytes(word.unwrap_or(b"/bin/sh")))
}

/// What matters of an ELF file.
#[derive(Debug, PartialEq, Eq)]
enum Elf {
    /// Of another class, byte order or machine than this one.
    Foreign,
    /// It names no dynamic linker (PT_INTERP).
    Static,
    /// It names this one: the last part of its path.
    Dynamic(String),
}

/// glibc's dynamic linker, wherever it lies.
#[cfg(target_arch = "x86_64")]
const LINKER: &str = "ld-linux-x86-64.so.2";
#[cfg(target_arch = "aarch64")]
const LINKER: &str = "ld-linux-aarch64.so.1";

#[cfg(target_arch = "x86_64")]
const MACHINE: elf::Machine = elf::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: elf::Machine = elf::EM_AARCH64;

impl Elf {
    /// `None` for a damaged one.
    fn of(file: &File) -> Option<Self> {
        let file = ReadCache::new(file);
        if FileKind::parse(&file).ok()? != FileKind::Elf64 {
            return Some(Elf::Foreign);
        }
        let header = elf::FileHeader64::<Endianness>::parse(&file).ok()?;
        let order = header.endian().ok()?;
        if order != Endianness::default() || header.e_machine(order) != MACHINE {
            return Some(Elf::Foreign);
        }
        let segments = header.program_headers(order, &file).ok()?;
        let named = segments.iter().find(|segment| segment.p_type(order) == elf::PT_INTERP);
        let Some(named) = named else { return Some(Elf::Static) };
        let path = String::from_utf8_lossy(named.data(order, &file).ok()?).into_owned();
        let path = path.trim_end_matches('\0');
        Some(Elf::Dynamic(path.rsplit('/').next().unwrap_or(path).to_owned()))
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
    fn a_copy_replaces_no_file() {
        // Of this package, where tests run.
        let copy = copy_of(Path::new("./Cargo.toml"));
        assert!(copy.contains("`install -m 755 ./Cargo.toml ./Cargo.toml.copy1`"), "{copy}");
        let copy = copy_of(Path::new("/a b/no such name"));
        assert!(copy.contains("`install -m 755 '/a b/no such name' './no such name'`"), "{copy}");
    }

    #[test]
    fn this_test_is_dynamic() {
        let me = std::env::current_exe().unwrap();
        assert_eq!(look(&me).unwrap(), Form::Dynamic);
    }
}
