//! The agent of this domain, which notices deaths: started when a pool is opened and there is none.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use vshmem_agent::{AgentOptions, AgentStarter, Stay};
use vshmem_session::Session;

/// Runs when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        vshmem_agent::remember_surroundings();
    }
    at_load
};

/// The `vshmem` command: VSHMEM_COMMAND, or beside this library, or in the `bin` of the place where
/// it is installed.
fn command() -> Option<PathBuf> {
    if let Some(word) = std::env::var_os("VSHMEM_COMMAND") {
        return Some(PathBuf::from(word));
    }
    let library = library()?;
    let directory = library.parent()?;
    let paths = ["vshmem", "../bin/vshmem", "../../bin/vshmem", "../../../bin/vshmem"];
    paths.iter().map(|path| directory.join(path)).find(|path| path.is_file())
}

/// Path of this library.
fn library() -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let here = library as *const libc::c_void;
    // SAFETY: dladdr fills in the structure when it returns other than 0; the name is a C string
    // for as long as the library is loaded.
    let name = unsafe {
        if libc::dladdr(here, info.as_mut_ptr()) == 0 {
            return None;
        }
        let name = info.assume_init().dli_fname;
        if name.is_null() {
            return None;
        }
        CStr::from_ptr(name)
    };
    Path::new(OsStr::from_bytes(name.to_bytes())).canonicalize().ok()
}

/// Starts an agent if there is none, and waits until it is up. This does not fail: without an agent
/// deaths are noticed later, by one that another process starts.
pub fn ensure(session: &Session) {
    if let Some(command) = command()
        && let Some(starter) = AgentStarter::open(&command, session.link().path())
    {
        starter.ensure(session, true);
    }
}

/// The agent itself, for a package that carries no `vshmem` command: a program of its own that is
/// linked with the static library and run as `vshmem agent --pool PLACE`. Not in vshmem.h. With
/// `stays`, this process is the agent; else it starts it, by the same words and `--stay`.
///
/// # Safety
/// `path` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn agent_of_vshmem_main(path: *const c_char, stays: c_int) -> c_int {
    // SAFETY: as the caller guarantees.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
    let wanted = AgentOptions { path: PathBuf::from(path), stay: Stay::WhileInUse, owner: None };
    let done =
        if stays == 0 { vshmem_agent::detach(&wanted) } else { vshmem_agent::run_agent(&wanted) };
    match done {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("vshmem agent: {error}");
            1
        }
    }
}
