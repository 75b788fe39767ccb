//! Names of limits: one for which there is no row in `Geometry::LIMITS` does not compile.

/// The name of a count of the geometry, as `--limit` takes it.
macro_rules! limit_name {
    ($count:ident) => {{
        const _: usize = std::mem::offset_of!(vshmem_wire::Geometry, $count);
        stringify!($count)
    }};
}
pub(crate) use limit_name;
