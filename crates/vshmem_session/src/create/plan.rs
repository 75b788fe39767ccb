//! How a pool that is asked for lies in its file.

use vshmem_link::DAX_FRONT;
use vshmem_wire::{Geometry, Layout, PAGE_BYTES};

use super::request::{CreateError, CreateRequest, layout_of};

/// A pool that is valid, in a file.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Its counts.
    pub geometry: Geometry,
    /// Where its tables are.
    pub layout: Layout,
    /// Bytes in front of it: a label, or nothing.
    pub front: u64,
    /// Bytes of the whole file.
    pub total: u64,
    /// Bytes that memory has to stand behind from the start.
    pub backed: u64,
    /// Bytes for segments whose pages are to be touched.
    pub touched: u64,
}

impl Plan {
    /// That of a request.
    pub fn of(request: &CreateRequest) -> Result<Self, CreateError> {
        let (geometry, layout) = layout_of(request)?;
        let front = if request.dax { DAX_FRONT } else { 0 };
        let total = file_bytes(request, front + layout.total_bytes.max(request.bytes));
        let backed = if request.backed { total } else { front + layout.data.offset };
        // Huge pages are few, and cleared when they are backed.
        let touched = if request.huge_page.is_some() { 0 } else { request.prepare };
        Ok(Self { geometry, layout, front, total, backed, touched })
    }
}

/// Bytes of the file behind a pool. As many as were asked for, even if the layout leaves some at
/// the end unused: a PCI device can only show a power of two.
fn file_bytes(request: &CreateRequest, least: u64) -> u64 {
    let page = request.huge_page.unwrap_or(PAGE_BYTES);
    // Device-dax maps large pages only.
    least.next_multiple_of(if request.dax { page.max(DAX_FRONT) } else { page })
}
