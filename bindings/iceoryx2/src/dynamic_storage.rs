//! Memory for a value that processes share: a named object of the pool. iceoryx2's shared memory,
//! its connections and its events lie in such.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, drop_in_place};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iceoryx2_bb_elementary_traits::testing::abandonable::Abandonable;
use iceoryx2_bb_elementary_traits::zero_copy_send::ZeroCopySend;
use iceoryx2_bb_memory::bump_allocator::BumpAllocator;
use iceoryx2_bb_posix::file::AccessMode;
use iceoryx2_cal::dynamic_storage::dynamic_storage_configuration::DynamicStorageConfiguration;
use iceoryx2_cal::dynamic_storage::{
    DynamicStorage, DynamicStorageBuilder, DynamicStorageCreateError, DynamicStorageOpenError,
    DynamicStorageOpenOrCreateError, Initializer,
};
use iceoryx2_cal::named_concept::*;

use crate::naming::{self, name_parts, object_name};
use crate::object::{Header, Object, Refused};
use crate::pool::Errno;

const OWNER_ONLY: u32 = 0o600;
const EVERYBODY: u32 = 0o666;

/// What a value has to be.
pub trait Shared: Send + Sync + Debug + ZeroCopySend + 'static {}
impl<T: Send + Sync + Debug + ZeroCopySend + 'static> Shared for T {}

/// Which storage: by path, prefix, suffix and the value's type.
#[derive(Debug)]
pub struct Configuration<T> {
    names: naming::Configuration,
    type_name: String,
    _value: PhantomData<fn() -> T>,
}

impl<T> Clone for Configuration<T> {
    fn clone(&self) -> Self {
        let (names, type_name) = (self.names.clone(), self.type_name.clone());
        Self { names, type_name, _value: PhantomData }
    }
}

impl<T: Shared> Default for Configuration<T> {
    fn default() -> Self {
        let names = naming::Configuration {
            prefix: Storage::<T>::default_prefix(),
            suffix: <Storage<T> as DynamicStorage<T>>::default_suffix(),
            path: Storage::<T>::default_path_hint(),
        };
        let type_name = std::any::type_name::<T>().to_owned();
        Self { names, type_name, _value: PhantomData }
    }
}

impl<T: Shared> DynamicStorageConfiguration for Configuration<T> {
    fn type_name(&self) -> &str {
        &self.type_name
    }
}

impl<T: Shared> NamedConceptConfiguration for Configuration<T> {
    name_parts!(names);

    fn path_for(&self, value: &FileName) -> FilePath {
        self.path_for_with_type(value)
    }

    fn extract_name_from_file(&self, value: &FileName) -> Option<FileName> {
        self.extract_name_from_file_with_type(value)
    }
}

/// The object's bytes; what the initializer takes for itself follows.
#[repr(C)]
struct Data<T> {
    header: Header,
    value: MaybeUninit<T>,
}

/// A value in the pool.
#[derive(Debug)]
pub struct Storage<T: Shared> {
    object: Object,
    name: FileName,
    config: Configuration<T>,
    has_ownership: AtomicBool,
}

impl<T: Shared> Storage<T> {
    fn data(&self) -> NonNull<Data<T>> {
        self.object.base().cast()
    }
}

impl<T: Shared> Abandonable for Storage<T> {
    unsafe fn abandon_in_place(mut this: NonNull<Self>) {
        // SAFETY: a whole storage, which is not used after this.
        let this = unsafe { this.as_mut() };
        this.has_ownership.store(false, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { drop_in_place(this) };
    }
}

impl<T: Shared> Drop for Storage<T> {
    fn drop(&mut self) {
        if self.has_ownership() {
            // SAFETY: the value was initialized, and its owner is the last that uses it, as
            // iceoryx2 promises.
            unsafe { (*self.data().as_ptr()).value.assume_init_drop() };
            // If it cannot be removed, it was; the owner has nobody to tell of another error.
            let _ = naming::remove(&object_name(&self.config, &self.name));
        }
    }
}

impl<T: Shared> NamedConcept for Storage<T> {
    fn name(&self) -> &FileName {
        &self.name
    }
}

impl<T: Shared> NamedConceptMgmt for Storage<T> {
    type Configuration = Configuration<T>;

    unsafe fn remove_cfg(
        name: &FileName,
        config: &Self::Configuration,
    ) -> Result<bool, NamedConceptRemoveError> {
        naming::remove(&object_name(config, name))
    }

    fn does_exist_cfg(
        name: &FileName,
        config: &Self::Configuration,
    ) -> Result<bool, NamedConceptDoesExistError> {
        match naming::does_exist(&object_name(config, name)) {
            // As with POSIX shared memory: it has its name.
            Err(NamedConceptDoesExistError::UnderlyingResourcesBeingSetUp) => Ok(true),
            result => result,
        }
    }

    fn list_cfg(config: &Self::Configuration) -> Result<Vec<FileName>, NamedConceptListError> {
        naming::list(config)
    }

    fn remove_path_hint(_: &Path) -> Result<(), NamedConceptPathHintRemoveError> {
        Ok(())
    }
}

impl<T: Shared> DynamicStorage<T> for Storage<T> {
    type Builder<'builder> = Builder<'builder, T>;

    fn does_support_persistency() -> bool {
        true
    }

    fn has_ownership(&self) -> bool {
        self.has_ownership.load(Ordering::Relaxed)
    }

    fn release_ownership(&self) {
        self.has_ownership.store(false, Ordering::Relaxed);
    }

    fn acquire_ownership(&self) {
        self.has_ownership.store(true, Ordering::Relaxed);
    }

    fn get(&self) -> &T {
        // SAFETY: the object is long enough and ready, so its value was initialized; it is attached
        // as long as `self` lives.
        unsafe { (*self.data().as_ptr()).value.assume_init_ref() }
    }

    unsafe fn __internal_set_type_name_in_config(
        config: &mut Self::Configuration,
        type_name: &str,
    ) {
        config.type_name = type_name.to_owned();
    }
}

/// Makes or opens a storage.
#[derive(Debug)]
pub struct Builder<'builder, T: Shared> {
    name: FileName,
    config: Configuration<T>,
    supplementary: usize,
    mode: u32,
    has_ownership: bool,
    timeout: Duration,
    initializer: Initializer<'builder, T>,
}

impl<T: Shared> NamedConceptBuilder<Storage<T>> for Builder<'_, T> {
    fn new(name: &FileName) -> Self {
        Self {
            name: *name,
            config: Configuration::default(),
            supplementary: 0,
            mode: OWNER_ONLY,
            has_ownership: true,
            timeout: Duration::ZERO,
            initializer: Initializer::new(|_, _| false),
        }
    }

    fn config(mut self, config: &Configuration<T>) -> Self {
        self.config = config.clone();
        self
    }
}

fn create_error(errno: Errno) -> DynamicStorageCreateError {
    match errno {
        libc::EEXIST => DynamicStorageCreateError::AlreadyExists,
        libc::EACCES => DynamicStorageCreateError::InsufficientPermissions,
        _ => DynamicStorageCreateError::InternalError,
    }
}

impl<T: Shared> Builder<'_, T> {
    fn storage(&self, object: Object, has_ownership: bool) -> Storage<T> {
        let (name, config) = (self.name, self.config.clone());
        Storage { object, name, config, has_ownership: AtomicBool::new(has_ownership) }
    }

    fn make(&mut self) -> Result<Storage<T>, DynamicStorageCreateError> {
        let name = object_name(&self.config, &self.name);
        let bytes = size_of::<Data<T>>() + self.supplementary;
        let (_opening, object) = Object::make(&name, self.mode, bytes).map_err(create_error)?;
        let rest = object.bytes() - size_of::<Data<T>>();
        let data = object.base().cast::<Data<T>>();
        // SAFETY: the object has as many bytes as the data, and `rest` behind it; nobody else uses
        // what is not ready.
        let (value, rest_at) = unsafe { (&mut (*data.as_ptr()).value, data.add(1).cast::<u8>()) };
        if !self.initializer.call(value, &mut BumpAllocator::new(rest_at, rest)) {
            let _ = naming::remove(&name);
            return Err(DynamicStorageCreateError::InitializationFailed);
        }
        object.make_ready();
        Ok(self.storage(object, self.has_ownership))
    }

    fn find(&self) -> Result<Storage<T>, DynamicStorageOpenError> {
        let found = Object::open(&object_name(&self.config, &self.name), self.timeout);
        let object = found.map_err(|refused| match refused {
            Refused::Missing => DynamicStorageOpenError::DoesNotExist,
            Refused::Unready => DynamicStorageOpenError::InitializationNotYetFinalized,
            Refused::Version => DynamicStorageOpenError::VersionMismatch,
            Refused::Pool(_) => DynamicStorageOpenError::InternalError,
        })?;
        if object.bytes() < size_of::<Data<T>>() {
            return Err(DynamicStorageOpenError::InternalError);
        }
        Ok(self.storage(object, false))
    }
}

impl<'builder, T: Shared> DynamicStorageBuilder<'builder, T, Storage<T>> for Builder<'builder, T> {
    fn has_ownership(mut self, value: bool) -> Self {
        self.has_ownership = value;
        self
    }

    fn enable_global_access(mut self, value: bool) -> Self {
        self.mode = if value { EVERYBODY } else { OWNER_ONLY };
        self
    }

    fn supplementary_size(mut self, value: usize) -> Self {
        self.supplementary = value;
        self
    }

    fn timeout(mut self, value: Duration) -> Self {
        self.timeout = value;
        self
    }

    fn initializer<F: FnMut(&mut MaybeUninit<T>, &mut BumpAllocator) -> bool + 'builder>(
        mut self,
        value: F,
    ) -> Self {
        self.initializer = Initializer::new(value);
        self
    }

    fn create(mut self) -> Result<Storage<T>, DynamicStorageCreateError> {
        self.make()
    }

    /// Whatever the access mode is: a process has the whole pool mapped for writing.
    fn open(self, _: AccessMode) -> Result<Storage<T>, DynamicStorageOpenError> {
        self.find()
    }

    fn open_or_create(mut self) -> Result<Storage<T>, DynamicStorageOpenOrCreateError> {
        loop {
            match self.find() {
                Err(DynamicStorageOpenError::DoesNotExist) => match self.make() {
                    Err(DynamicStorageCreateError::AlreadyExists) => {}
                    result => return Ok(result?),
                },
                result => return Ok(result?),
            }
        }
    }
}
