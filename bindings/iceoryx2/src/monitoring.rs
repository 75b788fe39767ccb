//! Whether a process lives: a named object of the pool that holds its client number. The pool knows
//! which clients live, in whatever guest.

use std::ffi::CString;
use std::ptr::{NonNull, drop_in_place};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use iceoryx2_bb_elementary_traits::testing::abandonable::Abandonable;
use iceoryx2_cal::monitoring::{
    Monitoring, MonitoringBuilder, MonitoringCleaner, MonitoringCreateCleanerError,
    MonitoringCreateMonitorError, MonitoringCreateTokenError, MonitoringMonitor,
    MonitoringStateError, MonitoringToken, State,
};
use iceoryx2_cal::named_concept::*;

use crate::naming::{self, name_parts, object_name};
use crate::object::{Header, Object, Opening, Refused, claim};
use crate::pool::{NOBODY, is_alive};

const MODE: u32 = 0o600;

/// The object's bytes. The header's owner is the process that is looked after.
#[repr(C)]
struct Word {
    header: Header,
    /// The client that removes what the owner has left; 0: none.
    cleaner: AtomicU64,
}

/// Liveness by clients of the pool.
#[derive(Debug)]
pub struct ClientMonitoring {}

/// Which token.
#[derive(Debug, Clone)]
pub struct Configuration {
    names: naming::Configuration,
}

impl Default for Configuration {
    fn default() -> Self {
        let names = naming::Configuration {
            prefix: ClientMonitoring::default_prefix(),
            suffix: <ClientMonitoring as Monitoring>::default_suffix(),
            path: ClientMonitoring::default_path_hint(),
        };
        Self { names }
    }
}

impl NamedConceptConfiguration for Configuration {
    name_parts!(names);
}

impl NamedConceptMgmt for ClientMonitoring {
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
        match naming::does_exist(&object_name(config, name)) {
            Err(NamedConceptDoesExistError::UnderlyingResourcesBeingSetUp) => Ok(true),
            result => result,
        }
    }

    fn list_cfg(config: &Configuration) -> Result<Vec<FileName>, NamedConceptListError> {
        naming::list(config)
    }

    fn remove_path_hint(_: &Path) -> Result<(), NamedConceptPathHintRemoveError> {
        Ok(())
    }
}

impl Monitoring for ClientMonitoring {
    type Token = Token;
    type Monitor = Monitor;
    type Cleaner = Cleaner;
    type Builder = Builder;
}

/// A token's object, attached.
#[derive(Debug)]
struct Attached {
    object: Object,
    name: FileName,
    object_name: CString,
}

impl Attached {
    fn word(&self) -> &Word {
        // SAFETY: it was made or found to be so long, and is attached as long as `self` lives; all
        // of it is atomic, and any bytes are such numbers.
        unsafe { self.object.base().cast::<Word>().as_ref() }
    }

    fn owner_lives(&self) -> bool {
        is_alive(self.object.owner())
    }

    fn remove(&self) {
        // If it cannot be removed, it was; its owner has nobody to tell of another error.
        let _ = naming::remove(&self.object_name);
    }
}

/// A process that is looked after: alive until this is dropped, or the process ends.
#[derive(Debug)]
pub struct Token {
    attached: Attached,
}

impl MonitoringToken for Token {}

impl NamedConcept for Token {
    fn name(&self) -> &FileName {
        &self.attached.name
    }
}

impl Abandonable for Token {
    unsafe fn abandon_in_place(mut this: NonNull<Self>) {
        // SAFETY: a whole token, which is not used after this.
        let this = unsafe { this.as_mut() };
        this.attached.word().header.owner.store(NOBODY, Ordering::SeqCst);
        // SAFETY: as above; the token itself, which would remove the object, is not dropped.
        unsafe { drop_in_place(&mut this.attached) };
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.attached.remove();
    }
}

/// Looks after a process.
#[derive(Debug)]
pub struct Monitor {
    name: FileName,
    config: Configuration,
}

impl NamedConcept for Monitor {
    fn name(&self) -> &FileName {
        &self.name
    }
}

impl MonitoringMonitor for Monitor {
    fn state(&self) -> Result<State, MonitoringStateError> {
        match find(&self.name, &self.config) {
            Ok(attached) if attached.owner_lives() => Ok(State::Alive),
            Ok(_) => Ok(State::Dead),
            Err(Refused::Missing | Refused::Unready) => Ok(State::DoesNotExist),
            Err(Refused::Pool(libc::EACCES)) => Err(MonitoringStateError::InsufficientPermissions),
            Err(Refused::Version | Refused::Pool(_)) => Err(MonitoringStateError::InternalError),
        }
    }
}

/// The only process that removes what a dead one has left.
#[derive(Debug)]
pub struct Cleaner {
    attached: Attached,
}

impl Cleaner {
    fn give_up(&self) {
        self.attached.word().cleaner.store(0, Ordering::SeqCst);
    }
}

impl MonitoringCleaner for Cleaner {
    fn relinquish(self) {
        self.abandon();
    }
}

impl NamedConcept for Cleaner {
    fn name(&self) -> &FileName {
        &self.attached.name
    }
}

impl Abandonable for Cleaner {
    unsafe fn abandon_in_place(mut this: NonNull<Self>) {
        // SAFETY: a whole cleaner, which is not used after this.
        let this = unsafe { this.as_mut() };
        this.give_up();
        // SAFETY: as above; the cleaner itself, which would remove the object, is not dropped.
        unsafe { drop_in_place(&mut this.attached) };
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        self.attached.remove();
    }
}

/// Makes tokens, monitors and cleaners.
#[derive(Debug)]
pub struct Builder {
    name: FileName,
    config: Configuration,
}

impl NamedConceptBuilder<ClientMonitoring> for Builder {
    fn new(name: &FileName) -> Self {
        Self { name: *name, config: Configuration::default() }
    }

    fn config(mut self, config: &Configuration) -> Self {
        self.config = config.clone();
        self
    }
}

fn find(name: &FileName, config: &Configuration) -> Result<Attached, Refused> {
    let object_name = object_name(config, name);
    let object = Object::open(&object_name, Duration::ZERO)?;
    if object.bytes() < size_of::<Word>() {
        return Err(Refused::Pool(libc::EINVAL));
    }
    Ok(Attached { object, name: *name, object_name })
}

impl MonitoringBuilder<ClientMonitoring> for Builder {
    fn token(self) -> Result<Token, MonitoringCreateTokenError> {
        let object_name = object_name(&self.config, &self.name);
        let made = Object::make(&object_name, MODE, size_of::<Word>());
        let (_opening, object) = made.map_err(|errno| match errno {
            libc::EEXIST => MonitoringCreateTokenError::AlreadyExists,
            libc::EACCES => MonitoringCreateTokenError::InsufficientPermissions,
            _ => MonitoringCreateTokenError::InternalError,
        })?;
        object.make_ready();
        Ok(Token { attached: Attached { object, name: self.name, object_name } })
    }

    fn monitor(self) -> Result<Monitor, MonitoringCreateMonitorError> {
        Ok(Monitor { name: self.name, config: self.config })
    }

    fn cleaner(self) -> Result<Cleaner, MonitoringCreateCleanerError> {
        use MonitoringCreateCleanerError as Error;
        let attached = find(&self.name, &self.config).map_err(|refused| match refused {
            Refused::Missing => Error::DoesNotExist,
            Refused::Unready => Error::InstanceStillAlive,
            Refused::Version | Refused::Pool(_) => Error::InternalError,
        })?;
        if attached.owner_lives() {
            return Err(Error::InstanceStillAlive);
        }
        let word = &attached.word().cleaner;
        let other = word.load(Ordering::SeqCst);
        let is_taken = other != 0 && is_alive(other);
        if is_taken || !claim(word, other).map_err(|_| Error::InternalError)? {
            return Err(Error::AlreadyOwnedByAnotherInstance);
        }
        // A cleaner that has just finished has removed the name, and left its number.
        let opening = Opening::of(&attached.object_name);
        if !opening.is_ok_and(|opening| opening.is_of(&attached.object)) {
            return Err(Error::DoesNotExist);
        }
        Ok(Cleaner { attached })
    }
}
