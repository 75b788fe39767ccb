//! Where upper and bottom half meet: finding a pool by name, opening it over its link, joining it,
//! making and removing one.

mod create;
mod find;
mod open;

pub use create::{CreateError, CreateRequest, create, remove};
pub use find::{FindError, Listing, PRIVATE_PREFIX, find, identify, list};
pub use open::{Session, SessionError, is_gone, open_pool, this_process};
