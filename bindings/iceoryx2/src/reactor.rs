//! Waits at file descriptors, as iceoryx2's reactor does, after listeners' descriptors were brought
//! up to date.

use std::fmt::Debug;
use std::time::Duration;

use iceoryx2_bb_posix::file_descriptor::FileDescriptor;
use iceoryx2_bb_posix::file_descriptor_set::SynchronousMultiplexing;
use iceoryx2_cal::reactor::{
    Reactor, ReactorAttachError, ReactorBuilder, ReactorCreateError, ReactorWaitError, recommended,
};

use crate::readiness::show_all;

type Inner = recommended::Ipc;

/// A reactor for listeners of a pool and whatever else has a descriptor.
#[derive(Debug)]
pub struct PoolReactor {
    inner: Inner,
}

impl Reactor for PoolReactor {
    type Guard<'reactor, 'attachment> = <Inner as Reactor>::Guard<'reactor, 'attachment>;
    type Builder = Builder;

    fn capacity(&self) -> usize {
        <Inner as Reactor>::capacity(&self.inner)
    }

    fn len(&self) -> usize {
        Reactor::len(&self.inner)
    }

    fn is_empty(&self) -> bool {
        Reactor::is_empty(&self.inner)
    }

    fn attach<'reactor, 'attachment, F: SynchronousMultiplexing + Debug + ?Sized>(
        &'reactor self,
        value: &'attachment F,
    ) -> Result<Self::Guard<'reactor, 'attachment>, ReactorAttachError> {
        Reactor::attach(&self.inner, value)
    }

    fn try_wait<F: FnMut(&FileDescriptor)>(&self, call: F) -> Result<usize, ReactorWaitError> {
        show_all();
        Reactor::try_wait(&self.inner, call)
    }

    fn timed_wait<F: FnMut(&FileDescriptor)>(
        &self,
        call: F,
        timeout: Duration,
    ) -> Result<usize, ReactorWaitError> {
        show_all();
        Reactor::timed_wait(&self.inner, call, timeout)
    }

    fn blocking_wait<F: FnMut(&FileDescriptor)>(&self, call: F) -> Result<usize, ReactorWaitError> {
        show_all();
        Reactor::blocking_wait(&self.inner, call)
    }
}

/// Makes one.
#[derive(Debug)]
pub struct Builder {}

impl ReactorBuilder<PoolReactor> for Builder {
    fn new() -> Self {
        Self {}
    }

    fn create(self) -> Result<PoolReactor, ReactorCreateError> {
        let inner = <Inner as Reactor>::Builder::new();
        ReactorBuilder::create(inner).map(|inner| PoolReactor { inner })
    }
}
