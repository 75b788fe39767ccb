//! How a pool that is asked for lies in its file.

use vshmem_link::DAX_FRONT;
use vshmem_wire::{Geometry, Layout, NODE_RANGES, NodeRange, PAGE_BYTES};

use super::nodes::{Part, Placement, cut, parts};
use super::request::{CreateError, CreateRequest, layout_of};

/// A valid plan of a pool in a file.
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
    /// The ranges of data pages that lie on one node each.
    pub node_ranges: [NodeRange; NODE_RANGES],
}

impl Plan {
    /// The plan for a request.
    pub fn of(request: &CreateRequest) -> Result<Self, CreateError> {
        let (geometry, layout) = layout_of(request)?;
        let front = if request.dax { DAX_FRONT } else { 0 };
        let total = file_bytes(request, front + layout.total_bytes.max(request.bytes));
        let backed = if request.backed { total } else { front + layout.data.offset() };
        // Huge pages are few, and cleared when they are backed.
        let touched = if request.huge_page.is_some() { 0 } else { request.prepare };
        let node_ranges = node_ranges(request, front, &layout)?;
        Ok(Self { geometry, layout, front, total, backed, touched, node_ranges })
    }

    /// The parts of the file that are to lie on nodes.
    pub fn parts(&self, request: &CreateRequest) -> Vec<Part> {
        let Some(placement) = &request.placement else { return Vec::new() };
        let used = self.node_ranges.iter().position(|range| range.pages == 0);
        let ranges = &self.node_ranges[..used.unwrap_or(NODE_RANGES)];
        let page = request.huge_page.unwrap_or(PAGE_BYTES);
        parts(placement, ranges, self.front + self.layout.data.offset(), self.total, page)
    }
}

/// The ranges of data pages that are asked for, if any.
fn node_ranges(
    request: &CreateRequest,
    front: u64,
    layout: &Layout,
) -> Result<[NodeRange; NODE_RANGES], CreateError> {
    const LARGE_PAGE: u64 = 2 << 20;
    let mut ranges = [NodeRange::NONE; NODE_RANGES];
    let Some(Placement::RangeEach(nodes)) = &request.placement else { return Ok(ranges) };
    let unit = match request.huge_page {
        Some(page) => page,
        // Where segments begin on a large page, ranges do.
        None if layout.data.offset().is_multiple_of(LARGE_PAGE) => LARGE_PAGE,
        None => PAGE_BYTES,
    };
    let cut = cut(nodes, front, layout, unit).ok_or_else(|| CreateError::Cut {
        name: request.name.clone(),
        nodes: nodes.clone(),
        unit,
    })?;
    for (range, cut) in ranges.iter_mut().zip(cut) {
        *range = cut;
    }
    Ok(ranges)
}

/// Bytes of the file behind a pool. As many as were asked for, even if the layout leaves some at
/// the end unused: a PCI device can only show a power of two.
fn file_bytes(request: &CreateRequest, least: u64) -> u64 {
    let page = request.huge_page.unwrap_or(PAGE_BYTES);
    // Device-dax maps large pages only.
    least.next_multiple_of(if request.dax { page.max(DAX_FRONT) } else { page })
}
