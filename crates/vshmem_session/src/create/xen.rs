//! Making and removing pools for Xen guests, in dom0.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use vshmem_ipc::{NewPool, Pool};
use vshmem_link::{Link, PoolDomain, XenAdmission, XenError, XenMember, XenWanted};
use vshmem_mem::{Map, Protection};
use vshmem_wire::{Layout, NODE_RANGES, NodeRange, PAGE_BYTES};

use super::request::{CreateError, CreateRequest, layout_of};

/// A pool that was made in a domain of its own.
#[derive(Debug)]
pub struct XenPool {
    /// Its place in dom0.
    pub path: PathBuf,
    /// Its domid.
    pub domid: u16,
    /// Members at most.
    pub slots: u32,
    /// Guests that are members from the start.
    pub members: Vec<XenMember>,
    /// Why others that should be are none.
    pub refused: Vec<XenError>,
}

/// Makes a pool for Xen guests. `slots` members at most, dom0 among them; `None`: some, as many as
/// there is room for.
///
/// # Errors
/// Says what failed; nothing is left behind.
pub fn create_xen(
    request: &CreateRequest,
    slots: Option<u32>,
    admission: XenAdmission,
) -> Result<XenPool, CreateError> {
    let name = &request.name;
    let (geometry, layout) = layout_of(request)?;
    let bytes = request.bytes.max(layout.total_bytes).next_multiple_of(PAGE_BYTES);
    let pages = u32::try_from(bytes / PAGE_BYTES).unwrap_or(u32::MAX);
    let xen = |error| CreateError::Xen { name: name.clone(), error };
    let uuid = *uuid::Uuid::new_v4().as_bytes();
    let mut domain = PoolDomain::create(&XenWanted {
        name: name.clone(),
        pages,
        slots,
        mode: request.mode,
        group: request.group.unwrap_or_else(|| rustix::process::getegid().as_raw()),
        admission,
        uuid,
    })
    .map_err(xen)?;
    let new = NewPool {
        name: name.clone(),
        uuid,
        geometry,
        owner_uid: rustix::process::geteuid().as_raw(),
        mode: request.mode,
        created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        evict_after: request.evict_after,
        prepare: request.prepare,
        backed: true,
        node_ranges: [NodeRange::NONE; NODE_RANGES],
        signing_key: uuid::Uuid::new_v4().as_u128(),
    };
    let made = domain.link().and_then(|link| {
        lay_out(link.as_ref(), &layout, &new)
            .map_err(|errno| XenError::Failed { tried: "write the pool's tables", errno })?;
        Ok(link.path().to_owned())
    });
    let announced = made.and_then(|path| Ok((path, domain.announce()?)));
    match announced {
        Ok((path, (members, refused))) => Ok(XenPool {
            path,
            domid: domain.domid(),
            slots: domain.room().slots,
            members,
            refused,
        }),
        Err(error) => {
            let _ = domain.destroy();
            Err(xen(error))
        }
    }
}

/// Clears the memory, which may have been another domain's, and writes the tables.
fn lay_out(link: &dyn Link, layout: &Layout, new: &NewPool) -> Result<(), rustix::io::Errno> {
    const PORTION: u64 = 4 << 20;
    for at in (0..link.bytes()).step_by(PORTION as usize) {
        link.back(at, PORTION.min(link.bytes() - at), true)?;
    }
    let bytes = layout.data.offset() as usize;
    let mapping = link.map(0, bytes, Protection::READ_WRITE)?;
    Pool::format(&Map::of(mapping), new).map_err(|_| rustix::io::Errno::INVAL)
}

/// The pool in a domain of its own, where there is one of that name and this is dom0's root. It has
/// been retired: [`PoolDomain::destroy`] follows when its server has ended.
///
/// # Errors
/// Says why not.
pub fn retire_xen(name: &str) -> Result<Option<PoolDomain>, CreateError> {
    let xen = |error| CreateError::Xen { name: name.to_owned(), error };
    if !PoolDomain::is_dom0() || !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let Some(mut pool) = PoolDomain::open(name).map_err(xen)? else { return Ok(None) };
    pool.retire().map_err(xen)?;
    Ok(Some(pool))
}

/// Its end. Returns its domain, and how many grants are still mapped somewhere.
///
/// # Errors
/// Says why not.
pub fn destroy_xen(name: &str, pool: PoolDomain) -> Result<(u16, u32), CreateError> {
    let domid = pool.domid();
    let mapped =
        pool.destroy().map_err(|error| CreateError::Xen { name: name.to_owned(), error })?;
    Ok((domid, mapped))
}
