//! Content that is written once: a named object of the pool.

use std::ffi::CString;
use std::ptr::{NonNull, drop_in_place};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iceoryx2_bb_elementary_traits::testing::abandonable::Abandonable;
use iceoryx2_cal::named_concept::*;
use iceoryx2_cal::static_storage::{
    StaticStorage, StaticStorageBuilder, StaticStorageConfiguration, StaticStorageCreateError,
    StaticStorageLocked, StaticStorageOpenError, StaticStorageReadError, StaticStorageUnlockError,
    StaticStorageView,
};

pub use crate::naming::Configuration;
use crate::naming::{self, name_parts, object_name};
use crate::object::{Header, Object, Opening, Refused};

const MODE: u32 = 0o600;

/// A new object has one page: most contents fit, and it need not grow.
const PAGE: usize = 4096;

/// The object's bytes; the content follows.
#[repr(C)]
struct Start {
    header: Header,
    bytes: u64,
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            prefix: Storage::default_prefix(),
            suffix: <Storage as StaticStorage>::default_suffix(),
            path: Storage::default_path_hint(),
        }
    }
}

impl NamedConceptConfiguration for Configuration {
    name_parts!();
}

impl StaticStorageConfiguration for Configuration {}

/// The name of an object, which its owner removes.
#[derive(Debug)]
struct Owned {
    name: FileName,
    object: CString,
    has_ownership: AtomicBool,
}

impl Drop for Owned {
    fn drop(&mut self) {
        if self.has_ownership.load(Ordering::Relaxed) {
            // If it cannot be removed, it was; the owner has nobody to tell of another error.
            let _ = naming::remove(&self.object);
        }
    }
}

impl Owned {
    /// Drops what `this` is a part of, and leaves the object.
    ///
    /// # Safety
    /// As [`Abandonable::abandon_in_place`].
    unsafe fn abandon<T>(this: NonNull<T>, owned: fn(&T) -> &Self) {
        // SAFETY: by this function's contract it is whole, and not used after this.
        unsafe {
            owned(this.as_ref()).has_ownership.store(false, Ordering::Relaxed);
            drop_in_place(this.as_ptr());
        }
    }
}

/// What was written, as it was when the storage was opened: it never changes.
#[derive(Debug)]
pub struct View {
    content: Vec<u8>,
    /// Attached as long as it is used, so that it is not taken for left over.
    _object: Object,
}

impl Abandonable for View {
    unsafe fn abandon_in_place(this: NonNull<Self>) {
        // SAFETY: a whole view, which is not used after this.
        unsafe { drop_in_place(this.as_ptr()) };
    }
}

impl StaticStorageView for View {
    fn len(&self) -> u64 {
        self.content.len() as u64
    }

    fn is_empty(&self) -> bool {
        self.content.is_empty()
    }

    fn read(&self, content: &mut [u8]) -> Result<(), StaticStorageReadError> {
        let place = content.get_mut(..self.content.len());
        place.ok_or(StaticStorageReadError::BufferTooSmall)?.copy_from_slice(&self.content);
        Ok(())
    }
}

/// Content in the pool.
#[derive(Debug)]
pub struct Storage {
    owned: Owned,
    view: View,
}

impl Abandonable for Storage {
    unsafe fn abandon_in_place(this: NonNull<Self>) {
        // SAFETY: by this function's own contract.
        unsafe { Owned::abandon(this, |storage| &storage.owned) };
    }
}

impl NamedConcept for Storage {
    fn name(&self) -> &FileName {
        &self.owned.name
    }
}

impl NamedConceptMgmt for Storage {
    type Configuration = Configuration;

    unsafe fn remove_cfg(
        name: &FileName,
        config: &Configuration,
    ) -> Result<bool, NamedConceptRemoveError> {
        naming::remove(&object_name(config, name))
    }

    fn does_exist_cfg(
        name: &FileName,
        config: &Configuration,
    ) -> Result<bool, NamedConceptDoesExistError> {
        naming::does_exist(&object_name(config, name))
    }

    fn list_cfg(config: &Configuration) -> Result<Vec<FileName>, NamedConceptListError> {
        naming::list(config)
    }

    fn remove_path_hint(_: &Path) -> Result<(), NamedConceptPathHintRemoveError> {
        Ok(())
    }
}

impl StaticStorageView for Storage {
    fn len(&self) -> u64 {
        self.view.len()
    }

    fn is_empty(&self) -> bool {
        self.view.is_empty()
    }

    fn read(&self, content: &mut [u8]) -> Result<(), StaticStorageReadError> {
        self.view.read(content)
    }
}

impl StaticStorage for Storage {
    type Builder = Builder;
    type Locked = Locked;
    type View = View;

    fn view(&self) -> &View {
        &self.view
    }

    fn release_ownership(&self) {
        self.owned.has_ownership.store(false, Ordering::Relaxed);
    }

    fn acquire_ownership(&self) {
        self.owned.has_ownership.store(true, Ordering::Relaxed);
    }
}

/// A name that is taken and has no content yet.
#[derive(Debug)]
pub struct Locked {
    owned: Owned,
    opening: Opening,
}

impl Abandonable for Locked {
    unsafe fn abandon_in_place(this: NonNull<Self>) {
        // SAFETY: by this function's own contract.
        unsafe { Owned::abandon(this, |locked| &locked.owned) };
    }
}

impl NamedConcept for Locked {
    fn name(&self) -> &FileName {
        &self.owned.name
    }
}

impl StaticStorageLocked<Storage> for Locked {
    fn unlock(self, contents: &[u8]) -> Result<Storage, StaticStorageUnlockError> {
        let refused = |errno| match errno {
            libc::ENOSPC | libc::ENOMEM => StaticStorageUnlockError::NoSpaceLeft,
            _ => StaticStorageUnlockError::InternalError,
        };
        let bytes = size_of::<Start>() + contents.len();
        if bytes > PAGE {
            self.opening.grow(bytes as u64).map_err(refused)?;
        }
        let object = self.opening.attach().map_err(refused)?;
        if object.bytes() < bytes {
            return Err(StaticStorageUnlockError::InternalError);
        }
        let start = object.base().cast::<Start>();
        // SAFETY: the object is so long, and nobody reads what is not ready.
        unsafe {
            (&raw mut (*start.as_ptr()).bytes).write(contents.len() as u64);
            let place = start.add(1).cast::<u8>();
            place.copy_from_nonoverlapping(NonNull::from(contents).cast(), contents.len());
        }
        object.make_ready();
        Ok(Storage {
            owned: self.owned,
            view: View { content: contents.to_vec(), _object: object },
        })
    }
}

/// Makes or opens a storage.
#[derive(Debug)]
pub struct Builder {
    name: FileName,
    config: Configuration,
    has_ownership: bool,
}

impl NamedConceptBuilder<Storage> for Builder {
    fn new(name: &FileName) -> Self {
        Self { name: *name, config: Configuration::default(), has_ownership: true }
    }

    fn config(mut self, config: &Configuration) -> Self {
        self.config = config.clone();
        self
    }
}

impl Builder {
    fn owned(&self, has_ownership: bool) -> Owned {
        let object = object_name(&self.config, &self.name);
        Owned { name: self.name, object, has_ownership: AtomicBool::new(has_ownership) }
    }
}

impl StaticStorageBuilder<Storage> for Builder {
    fn has_ownership(mut self, value: bool) -> Self {
        self.has_ownership = value;
        self
    }

    fn create_locked(self) -> Result<Locked, StaticStorageCreateError> {
        let name = object_name(&self.config, &self.name);
        let (opening, _) = Object::make(&name, MODE, PAGE).map_err(|errno| match errno {
            libc::EEXIST => StaticStorageCreateError::AlreadyExists,
            libc::EACCES => StaticStorageCreateError::InsufficientPermissions,
            _ => StaticStorageCreateError::InternalError,
        })?;
        Ok(Locked { owned: self.owned(self.has_ownership), opening })
    }

    fn open(self, timeout: Duration) -> Result<Storage, StaticStorageOpenError> {
        let found = Object::open(&object_name(&self.config, &self.name), timeout);
        let object = found.map_err(|refused| match refused {
            Refused::Missing => StaticStorageOpenError::DoesNotExist,
            Refused::Unready => StaticStorageOpenError::InitializationNotYetFinalized,
            Refused::Pool(libc::EACCES) => StaticStorageOpenError::InsufficientPermissions,
            Refused::Version | Refused::Pool(_) => StaticStorageOpenError::InternalError,
        })?;
        let content = content_of(&object).ok_or(StaticStorageOpenError::Read)?;
        Ok(Storage { owned: self.owned(false), view: View { content, _object: object } })
    }
}

/// What lies in an object that is ready. `None`: its length is not one of such an object.
fn content_of(object: &Object) -> Option<Vec<u8>> {
    let room = object.bytes().checked_sub(size_of::<Start>())?;
    let start = object.base().cast::<Start>();
    // SAFETY: the object is longer than its start, and ready: it does not change any more.
    let bytes = unsafe { (&raw const (*start.as_ptr()).bytes).read() };
    let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= room)?;
    let mut content = vec![0; bytes];
    // SAFETY: so many bytes lie behind the start, and the place has room for them.
    unsafe {
        start.add(1).cast::<u8>().as_ptr().copy_to_nonoverlapping(content.as_mut_ptr(), bytes)
    };
    Some(content)
}
