//! Making a pool in a file: one of its own, or one that is there already.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use vshmem_link::{Local, OVERFLOW_ID, UserNamespace, file_limit_allows};
use vshmem_mem::PageNodes;

use super::contents::{is_all_zeros, touch, write_pool};
use super::draft::Draft;
use super::huge_pages::HugePages;
use super::nodes::{BackError, Part, Placement, back};
use super::plan::Plan;
use super::request::{CreateError, CreateRequest};

/// Makes a pool and returns its file. It is not seen before it is whole.
///
/// # Errors
/// Says what failed; nothing is left behind.
pub fn create(request: &CreateRequest) -> Result<PathBuf, CreateError> {
    create_at(request, Local::path_of(&request.name, request.huge_page.is_some()))
}

/// Makes a pool in a file of another name: one that a virtual machine monitor knows already, or a
/// new one. What is there must be a regular file with nothing but zeros in it, as long as asked
/// for; its owner and mode stay.
///
/// # Errors
/// Says what failed.
pub fn create_in(request: &CreateRequest, path: &Path) -> Result<PathBuf, CreateError> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            create_at(request, path.to_owned())
        }
        _ => fill(request, path),
    }
}

fn create_at(request: &CreateRequest, path: PathBuf) -> Result<PathBuf, CreateError> {
    let name = &request.name;
    let plan = Plan::of(request)?;
    let exists = || CreateError::Exists { name: name.clone(), path: path.clone() };
    let failed = failing(request, &path);
    if path.symlink_metadata().is_ok() {
        return Err(exists());
    }
    if file_limit_allows(plan.total).is_err() {
        return Err(CreateError::FileLimit { name: name.clone(), bytes: plan.total });
    }
    let draft = Draft::new(&path).map_err(failed("create"))?;
    let file = &draft.file;
    file.set_len(plan.total).map_err(failed("size"))?;
    let owner = owner_outside(rustix::process::geteuid().as_raw());
    furnish(file, &plan, request, &path, (owner, request.mode))?;
    if request.group.is_some() {
        std::os::unix::fs::fchown(file, None, request.group).map_err(failed("set the group of"))?;
    }
    file.set_permissions(std::fs::Permissions::from_mode(request.mode))
        .map_err(failed("set the mode of"))?;
    match draft.publish(&path) {
        Err(Errno::EXIST) => Err(exists()),
        other => other.map_err(std::io::Error::from).map_err(failed("publish")),
    }?;
    Ok(path)
}

/// Who owns the file in the kernel's initial user namespace, as far as this process can know.
fn owner_outside(uid: u32) -> u32 {
    UserNamespace::own().users.outside(uid).unwrap_or(OVERFLOW_ID)
}

/// Makes a pool in a file that exists already.
fn fill(request: &CreateRequest, path: &Path) -> Result<PathBuf, CreateError> {
    let plan = Plan::of(request)?;
    let failed = failing(request, path);
    // Neither a link to another file nor a pipe without a writer.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .map_err(failed("open"))?;
    let facts = file.metadata().map_err(failed("look at"))?;
    let found = if !facts.is_file() {
        Some("it is no regular file")
    } else if facts.len() != plan.total {
        Some("it has another length")
    } else if !is_all_zeros(&file).map_err(failed("read"))? {
        Some("something is in it")
    } else {
        None
    };
    if let Some(found) = found {
        let (name, path, bytes) = (request.name.clone(), path.to_owned(), plan.total);
        return Err(CreateError::File { name, path, found, bytes });
    }
    furnish(&file, &plan, request, path, (owner_outside(facts.uid()), facts.mode() & 0o777))?;
    Ok(path.to_owned())
}

/// Backs a file of zeros that is as long as planned, and writes the pool into it.
fn furnish(
    file: &File,
    plan: &Plan,
    request: &CreateRequest,
    path: &Path,
    owner: (u32, u32),
) -> Result<(), CreateError> {
    let failed = failing(request, path);
    let parts = plan.parts(request);
    let reserves = request.huge_page.map_or_else(Vec::new, |page| reserves(page, &parts));
    back(file, &parts, plan.backed, request.huge_page.is_some()).map_err(|error| {
        let name = request.name.clone();
        match error {
            BackError::Nodes(errno) => {
                let nodes = request.placement.iter().flat_map(Placement::nodes);
                let list: Vec<String> = nodes.map(u32::to_string).collect();
                CreateError::Nodes { name, nodes: list.join(","), errno }
            }
            BackError::Room(node, bytes, errno) => {
                let found = reserves.into_iter().find(|(of, _)| *of == node);
                match (found, request.huge_page) {
                    (Some((_, found)), Some(page)) => {
                        CreateError::HugePages { name, bytes, page, node, found }
                    }
                    _ => CreateError::Room { name, bytes, path: path.to_owned(), errno },
                }
            }
        }
    })?;
    write_pool(file, plan, request, owner).map_err(failed("lay out"))?;
    touch(file, plan.front + plan.layout.data.offset(), plan.touched)
        .map_err(failed("prepare memory of"))
}

/// Huge pages of the machine, and of each node that has a part of its own.
fn reserves(page: u64, parts: &[Part]) -> Vec<(Option<u32>, HugePages)> {
    let nodes = parts.iter().filter_map(|part| match part.nodes {
        PageNodes::Bind(node) => Some(Some(node)),
        PageNodes::Interleave(_) => None,
    });
    std::iter::once(None).chain(nodes).map(|node| (node, HugePages::read(page, node))).collect()
}

/// An error that names the pool, its file and what was tried.
fn failing(
    request: &CreateRequest,
    path: &Path,
) -> impl Fn(&'static str) -> Box<dyn FnOnce(std::io::Error) -> CreateError> + use<> {
    let (name, path) = (request.name.clone(), path.to_owned());
    move |tried| {
        let (name, path) = (name.clone(), path.clone());
        Box::new(move |error| CreateError::Failed { name, path, tried, error })
    }
}
