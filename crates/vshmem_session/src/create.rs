//! Making and removing pools: the host's privilege.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, FallocateFlags};
use rustix::io::Errno;
use vshmem_ipc::{NewPool, Pool};
use vshmem_link::{DAX_FRONT, Local, dax_label, file_limit_allows};
use vshmem_mem::{Map, Protection, map_file};
use vshmem_wire::{Geometry, GeometryError, Layout, PAGE_BYTES};

use crate::FindError;

/// What a pool is to be.
#[derive(Debug, Clone)]
pub struct CreateRequest {
    /// Name: letters, digits, `-`, `_` and `.`, at most 48.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// Mode of the file.
    pub mode: u32,
    /// Group of the file.
    pub group: Option<u32>,
    /// Bytes of a huge page, for a pool on hugetlbfs.
    pub huge_page: Option<u64>,
    /// Changes to the limits, name and value.
    pub limits: Vec<(String, u64)>,
    /// Seconds of silence until automatic eviction; 0: never.
    pub evict_after: u64,
    /// Back all memory now, so that nothing can fail later. Guests need it: they cannot back.
    pub backed: bool,
    /// With a label in front, for guests that get it as an nvdimm or virtio-pmem.
    pub dax: bool,
    /// Bytes of free memory that agents keep zeroed ahead of demand; as many are touched now.
    pub prepare: u64,
}

/// Why a pool cannot be made or removed.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// Bad name.
    #[error(
        "pool name {0:?}: use 1 to 48 letters, digits, '-', '_' or '.', not beginning with '.'"
    )]
    Name(String),
    /// There is one already.
    #[error("pool {name}: it exists already ({}). Remove it first with `vshmem pool rm {name}`, or take another name", place.display())]
    Exists {
        /// The name.
        name: String,
        /// Its file.
        place: PathBuf,
    },
    /// Counts do not fit.
    #[error("pool {name}: {error}")]
    Geometry {
        /// The name.
        name: String,
        /// What does not fit.
        error: GeometryError,
    },
    /// No such limit.
    #[error("limit {0:?}: there is none of that name; there are {LIMIT_NAMES}")]
    Limit(String),
    /// More is to be prepared than there is.
    #[error(
        "pool {name}: {asked} bytes are to be prepared, and it has {most} for segments. Take a smaller --prepare or a larger --size"
    )]
    Prepare {
        /// The name.
        name: String,
        /// Bytes wanted.
        asked: u64,
        /// Bytes there are.
        most: u64,
    },
    /// A file that was named cannot become a pool.
    #[error(
        "pool {name}: {} cannot become a pool: {found}. It must be a regular file of {bytes} bytes, all of them zeros; `truncate -s 0 {0} && truncate -s {bytes} {0}` makes it so where nothing in it is needed", place.display()
    )]
    File {
        /// The name.
        name: String,
        /// The file.
        place: PathBuf,
        /// What is wrong with it.
        found: &'static str,
        /// Bytes that it must have.
        bytes: u64,
    },
    /// No room.
    #[error("pool {name}: {bytes} bytes cannot be backed at {} ({errno}). Take a smaller --size, free some memory, or enlarge the file system", place.display())]
    Room {
        /// The name.
        name: String,
        /// Bytes wanted.
        bytes: u64,
        /// Its file.
        place: PathBuf,
        /// What came back.
        errno: Errno,
    },
    /// A file so long is not allowed.
    #[error(
        "pool {name}: its file would have {bytes} bytes, and the limit on the size of files (ulimit -f) is below. Raise it with `ulimit -f unlimited`, or take a smaller --size"
    )]
    FileLimit {
        /// The name.
        name: String,
        /// Bytes wanted.
        bytes: u64,
    },
    /// Not in a domain of Xen's.
    #[error("pool {name}: {error}")]
    Xen {
        /// The name.
        name: String,
        /// Why not.
        error: vshmem_link::XenError,
    },
    /// Anything else.
    #[error("pool {name}: cannot {tried} {}: {error}", place.display())]
    Failed {
        /// The name.
        name: String,
        /// Its file.
        place: PathBuf,
        /// What was tried.
        tried: &'static str,
        /// What came back.
        error: std::io::Error,
    },
    /// Not there.
    #[error(transparent)]
    Find(#[from] FindError),
}

const LIMIT_NAMES: &str = "shmmni semmni msgmni shmmax shmall semmsl semmns semopm semvmx msgmax msgmnb domains clients threads attaches undos slabs";

fn set_limit(geometry: &mut Geometry, name: &str, value: u64) -> Result<(), CreateError> {
    let narrow = u32::try_from(value).unwrap_or(u32::MAX);
    match name {
        "shmmni" => geometry.shmmni = narrow,
        "semmni" => geometry.semmni = narrow,
        "msgmni" => geometry.msgmni = narrow,
        "semmsl" => geometry.semmsl = narrow,
        "semmns" => geometry.semmns = narrow,
        "semopm" => geometry.semopm = narrow,
        "semvmx" => geometry.semvmx = narrow,
        "msgmax" => geometry.msgmax = narrow,
        "msgmnb" => geometry.msgmnb = narrow,
        "domains" => geometry.domains = narrow,
        "clients" => geometry.clients = narrow,
        "threads" => geometry.threads = narrow,
        "attaches" => geometry.attaches = narrow,
        "undos" => geometry.undos = narrow,
        "slabs" => geometry.slabs = narrow,
        "shmmax" => geometry.shmmax = value,
        "shmall" => geometry.shmall = value,
        _ => return Err(CreateError::Limit(name.to_owned())),
    }
    Ok(())
}

fn valid_name(name: &str) -> bool {
    (1..=48).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c))
}

/// Counts and places of what is asked for, which is then known to make sense.
pub(crate) fn layout_of(request: &CreateRequest) -> Result<(Geometry, Layout), CreateError> {
    let name = &request.name;
    if !valid_name(name) {
        return Err(CreateError::Name(name.clone()));
    }
    let refused = |error| CreateError::Geometry { name: name.clone(), error };
    let mut geometry = Geometry::for_size(request.bytes).map_err(refused)?;
    for (limit, value) in &request.limits {
        set_limit(&mut geometry, limit, *value)?;
    }
    geometry.fit_pages(request.bytes).map_err(refused)?;
    let layout = geometry.layout().map_err(refused)?;
    let most = geometry.pages * PAGE_BYTES;
    if request.prepare > most {
        return Err(CreateError::Prepare { name: name.clone(), asked: request.prepare, most });
    }
    Ok((geometry, layout))
}

/// Makes a pool and returns its file. Nobody sees it before it is whole.
///
/// # Errors
/// Says what stood in the way; nothing is left behind.
pub fn create(request: &CreateRequest) -> Result<PathBuf, CreateError> {
    create_at(request, Local::place_of(&request.name, request.huge_page.is_some()))
}

/// Makes a pool in a file of another name: one that a monitor of virtual machines knows already, or a new one. What is
/// there must be a regular file with nothing but zeros in it, as long as asked for; its owner and mode stay.
///
/// # Errors
/// Says what stood in the way.
pub fn create_in(request: &CreateRequest, place: &Path) -> Result<PathBuf, CreateError> {
    match place.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            create_at(request, place.to_owned())
        }
        _ => fill(request, place),
    }
}

fn create_at(request: &CreateRequest, place: PathBuf) -> Result<PathBuf, CreateError> {
    let name = &request.name;
    let (geometry, layout) = layout_of(request)?;
    let exists = || CreateError::Exists { name: name.clone(), place: place.clone() };
    let failed = |tried| {
        let (name, place) = (name.clone(), place.clone());
        move |error| CreateError::Failed { name, place, tried, error }
    };
    if place.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let front = if request.dax { DAX_FRONT } else { 0 };
    let total = file_bytes(request, front + layout.total_bytes.max(request.bytes));
    if file_limit_allows(total).is_err() {
        return Err(CreateError::FileLimit { name: name.clone(), bytes: total });
    }
    let draft = Draft::new(&place).map_err(failed("create"))?;
    let file = &draft.file;
    file.set_len(total).map_err(failed("size"))?;
    let backed = if request.backed { total } else { front + layout.data.offset };
    rustix::fs::fallocate(file.as_fd(), FallocateFlags::KEEP_SIZE, 0, backed).map_err(|errno| {
        CreateError::Room { name: name.clone(), bytes: backed, place: place.clone(), errno }
    })?;
    let owner = rustix::process::geteuid().as_raw();
    write_pool(file, total, request, geometry, &layout, (owner, request.mode))
        .map_err(failed("lay out"))?;
    // Huge pages are few, and cleared when they are backed.
    let untouched = if request.huge_page.is_some() { 0 } else { request.prepare };
    touch(file, front + layout.data.offset, untouched).map_err(failed("prepare memory of"))?;
    if request.group.is_some() {
        std::os::unix::fs::fchown(file, None, request.group).map_err(failed("set the group of"))?;
    }
    file.set_permissions(std::fs::Permissions::from_mode(request.mode))
        .map_err(failed("set the mode of"))?;
    match draft.publish(&place) {
        Err(Errno::EXIST) => Err(exists()),
        other => other.map_err(std::io::Error::from).map_err(failed("publish")),
    }?;
    Ok(place)
}

/// Makes a pool in a file that somebody else has made.
fn fill(request: &CreateRequest, place: &Path) -> Result<PathBuf, CreateError> {
    use std::os::unix::fs::MetadataExt;
    let name = &request.name;
    let (geometry, layout) = layout_of(request)?;
    let failed = |tried| {
        let (name, place) = (name.clone(), place.to_owned());
        move |error| CreateError::Failed { name, place, tried, error }
    };
    // Neither a link to another file nor a pipe that nobody writes to.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(place)
        .map_err(failed("open"))?;
    let facts = file.metadata().map_err(failed("look at"))?;
    let front = if request.dax { DAX_FRONT } else { 0 };
    let total = file_bytes(request, front + layout.total_bytes.max(request.bytes));
    let refused = |found| CreateError::File {
        name: name.clone(),
        place: place.to_owned(),
        found,
        bytes: total,
    };
    if !facts.is_file() {
        return Err(refused("it is no regular file"));
    }
    if facts.len() != total {
        return Err(refused("it has another length"));
    }
    if !is_all_zeros(&file).map_err(failed("read"))? {
        return Err(refused("something is in it"));
    }
    let backed = if request.backed { total } else { front + layout.data.offset };
    rustix::fs::fallocate(file.as_fd(), FallocateFlags::KEEP_SIZE, 0, backed).map_err(|errno| {
        CreateError::Room { name: name.clone(), bytes: backed, place: place.to_owned(), errno }
    })?;
    let owner = (facts.uid(), facts.mode() & 0o777);
    write_pool(&file, total, request, geometry, &layout, owner).map_err(failed("lay out"))?;
    touch(&file, front + layout.data.offset, request.prepare)
        .map_err(failed("prepare memory of"))?;
    Ok(place.to_owned())
}

fn is_all_zeros(file: &File) -> std::io::Result<bool> {
    use std::os::unix::fs::FileExt;
    let mut portion = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        match file.read_at(&mut portion, at)? {
            0 => return Ok(true),
            read if portion[..read].iter().any(|&byte| byte != 0) => return Ok(false),
            read => at += read as u64,
        }
    }
}

/// Writes the tables of a pool into a file of zeros; who opens it meanwhile finds no pool.
fn write_pool(
    file: &File,
    total: u64,
    request: &CreateRequest,
    geometry: Geometry,
    layout: &Layout,
    (owner_uid, mode): (u32, u32),
) -> std::io::Result<()> {
    let front = if request.dax { DAX_FRONT } else { 0 };
    let new = NewPool {
        name: request.name.clone(),
        uuid: *uuid::Uuid::new_v4().as_bytes(),
        geometry,
        owner_uid,
        mode,
        created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        evict_after: request.evict_after,
        prepare: request.prepare,
        backed: request.backed,
    };
    if request.dax {
        write_label(file, total, &new.uuid)?;
    }
    lay_out(file, front, layout.data.offset, &new)?;
    write_home(file, front)
}

/// Bytes of the file behind a pool. As many as were asked for, even if the layout leaves some at
/// the end unused: a PCI device can only show a power of two.
fn file_bytes(request: &CreateRequest, least: u64) -> u64 {
    let page = request.huge_page.unwrap_or(PAGE_BYTES);
    // Device-dax maps large pages only.
    least.next_multiple_of(if request.dax { page.max(DAX_FRONT) } else { page })
}

/// Through a mapping: hugetlbfs has no write.
fn write_label(file: &File, total: u64, uuid: &[u8; 16]) -> std::io::Result<()> {
    let mapping = map_file(file.as_fd(), 0, DAX_FRONT as usize, Protection::READ_WRITE)?;
    let outside = |_| std::io::Error::from(Errno::INVAL);
    Map::of(mapping).write(0, &dax_label(total, uuid)).map_err(outside)
}

fn lay_out(file: &File, front: u64, bytes: u64, new: &NewPool) -> std::io::Result<()> {
    let mapping = map_file(file.as_fd(), front, bytes as usize, Protection::READ_WRITE)?;
    Pool::format(&Map::of(mapping), new).map_err(std::io::Error::other)
}

/// Writes down which file the pool is, so that a copy can be told from it.
fn write_home(file: &File, front: u64) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let facts = file.metadata()?;
    let page = PAGE_BYTES as usize;
    let mapping = map_file(file.as_fd(), front, page, Protection::READ_WRITE)?;
    crate::open::home_of(facts.dev(), facts.ino())
        .map_err(std::io::Error::other)?
        .write(&Map::of(mapping))
        .map_err(|_| std::io::ErrorKind::InvalidInput.into())
}

/// Writes zeros into the pages that the first segments will get: they are backed already, and the
/// kernel would clear each at its first touch.
fn touch(file: &File, offset: u64, bytes: u64) -> std::io::Result<()> {
    const PORTION: u64 = 4 << 20;
    for at in (0..bytes).step_by(PORTION as usize) {
        let length = PORTION.min(bytes - at) as usize;
        let mapping = map_file(file.as_fd(), offset + at, length, Protection::READ_WRITE)?;
        Map::of(mapping).zero(0, length).map_err(|_| std::io::ErrorKind::InvalidInput)?;
    }
    Ok(())
}

/// A file that has no name yet: nobody opens it half made, and it is gone if this process dies.
struct Draft {
    file: File,
    /// Its temporary name, where the file system has no files without.
    name: Option<PathBuf>,
}

impl Draft {
    fn new(place: &Path) -> std::io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        let directory = place.parent().unwrap_or(Path::new("."));
        match options.clone().custom_flags(libc::O_TMPFILE).open(directory) {
            Ok(file) => return Ok(Self { file, name: None }),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
            }
            Err(error) => return Err(error),
        }
        let name = place.with_file_name(format!(".draft-{}", uuid::Uuid::new_v4()));
        let file = options.create_new(true).open(&name)?;
        Ok(Self { file, name: Some(name) })
    }

    /// Gives it its name. A link, unlike a rename, does not replace a pool that somebody else made meanwhile.
    fn publish(&self, place: &Path) -> Result<(), Errno> {
        let itself = || PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        let from = self.name.clone().unwrap_or_else(itself);
        rustix::fs::linkat(CWD, from, CWD, place, AtFlags::SYMLINK_FOLLOW)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = std::fs::remove_file(name);
        }
    }
}

/// Removes a pool's file. Processes that have it mapped keep what they have.
///
/// # Errors
/// Says why not.
pub fn remove(name: &str) -> Result<PathBuf, CreateError> {
    let places = match name.contains('/') {
        true => vec![PathBuf::from(name)],
        false => [false, true].map(|huge| Local::place_of(name, huge)).to_vec(),
    };
    for place in places {
        match std::fs::remove_file(&place) {
            Ok(()) => return Ok(place),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(CreateError::Failed {
                    name: name.to_owned(),
                    place,
                    tried: "remove",
                    error,
                });
            }
        }
    }
    Err(FindError::Unknown { name: name.to_owned() }.into())
}
