//! Sizes of huge pages, as words of the command line.

use clap::ValueEnum;
use vshmem_plan::HugePage as Size;

/// Sizes of huge pages.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum HugePage {
    /// 2 MiB.
    #[value(name = "2M")]
    Large,
    /// 1 GiB.
    #[value(name = "1G")]
    Giant,
}

impl HugePage {
    /// The size that is meant.
    pub fn size(self) -> Size {
        match self {
            Self::Large => Size::Mega2,
            Self::Giant => Size::Giga1,
        }
    }
}
