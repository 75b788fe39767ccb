//! Where a guest lives: in processes of its own, or as a domain of a machine that is a guest
//! itself.

use std::io::PipeWriter;
use std::sync::Arc;

use crate::error::Result;
use crate::machine::Plan;
use crate::transport::mux::Mux;

/// The place of one guest, through all its lives.
pub(super) trait Site: Send + Sync {
    /// Starts the guest. Its console goes to `screen`, which is closed when it ends. `unwanted`
    /// says whether the guest has been killed before it came to life.
    fn start(
        &self,
        plan: &Plan<'_>,
        screen: PipeWriter,
        unwanted: &dyn Fn() -> bool,
    ) -> Result<Box<dyn Life>>;

    /// Kills the whole guest. It may take its time to go.
    fn kill(&self);

    /// Stops the guest, or lets it go on.
    fn pause(&self, pause: bool) -> Result<()>;

    /// Makes sure that nothing of a guest that has ended is left.
    fn clear(&self);
}

/// A guest from its start to its end.
pub(super) trait Life {
    /// The way to its agent, if that is a serial port.
    fn port(&self) -> Option<Arc<Mux>>;

    /// It has booted.
    fn has_booted(&mut self) {}

    /// Waits for its end; says how it came.
    fn wait(&mut self) -> String;
}
