//! Where this command comes from: what helps depends on it.

use std::path::{Path, PathBuf};

/// Where this command comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A build in vshmem's sources.
    Tree(PathBuf),
    /// A guest of the lab, whose files are the host's.
    LabGuest,
    /// A package, or `make install`.
    Installed,
}

impl Origin {
    /// Of this process.
    pub fn find() -> Self {
        if vshmem_lab::in_guest() {
            return Self::LabGuest;
        }
        let command = std::env::current_exe().and_then(|path| path.canonicalize());
        command.map_or(Self::Installed, |command| Self::of(&command))
    }

    /// Of a command at a place: a build leaves it two directories below the sources.
    fn of(command: &Path) -> Self {
        let sources = command.ancestors().skip(2).take(3);
        let mut trees = sources.filter(|place| place.join("kernel/ivshmem/Makefile").is_file());
        trees.next().map_or(Self::Installed, |tree| Self::Tree(tree.to_owned()))
    }

    /// How the preload library comes to where it is looked for.
    pub fn library(&self) -> String {
        match self {
            Self::Tree(tree) => format!("`make -C {} build`", tree.display()),
            Self::LabGuest => "on the host, in vshmem's sources: `make build`, then `vshmem lab down` and `vshmem lab up`".to_owned(),
            Self::Installed => {
                "`apt-get install --reinstall vshmem`; without packages, in vshmem's sources: `make build && make install`".to_owned()
            }
        }
    }

    /// How the driver for ivshmem devices comes into this guest.
    pub fn driver(&self) -> String {
        match self {
            Self::Tree(tree) => {
                let place = tree.join("kernel/ivshmem");
                let place = place.display();
                format!("`make -C {place} module && insmod {place}/build/module/vshmem.ko`")
            }
            Self::LabGuest => "on the host, in vshmem's sources: `make -C kernel/ivshmem module`, then `vshmem lab down` and `vshmem lab up`".to_owned(),
            Self::Installed => {
                "`apt-get install vshmem-dkms && modprobe vshmem`; without packages, in vshmem's sources: `make -C kernel/ivshmem module && insmod kernel/ivshmem/build/module/vshmem.ko`".to_owned()
            }
        }
    }

    /// How the driver comes to where the lab takes it from.
    pub fn lab_driver(&self) -> String {
        let sources = match self {
            Self::Tree(tree) => tree.display().to_string(),
            _ => ".".to_owned(),
        };
        format!(
            "in vshmem's sources: `apt-get install linux-headers-amd64 && make -C {sources}/kernel/ivshmem module`, then `vshmem lab up --guest qemu --driver {sources}/kernel/ivshmem/build/module/vshmem.ko`"
        )
    }

    /// How Open MPI's components come to where they are looked for.
    pub fn components(&self) -> String {
        match self {
            Self::Tree(tree) => {
                format!("`apt-get install libopenmpi-dev && make -C {} build`", tree.display())
            }
            Self::LabGuest => "on the host, in vshmem's sources: `apt-get install libopenmpi-dev && make build`, then `vshmem lab down` and `vshmem lab up`".to_owned(),
            Self::Installed => "`apt-get install vshmem-openmpi`".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_told_from_an_installation() {
        let root = tempfile::tempdir().expect("a directory");
        let tree = root.path();
        std::fs::create_dir_all(tree.join("kernel/ivshmem")).expect("a directory");
        std::fs::write(tree.join("kernel/ivshmem/Makefile"), "").expect("a file");
        for build in ["target/release/vshmem", "target/x86_64-unknown-linux-gnu/release/vshmem"] {
            assert_eq!(Origin::of(&tree.join(build)), Origin::Tree(tree.to_owned()), "{build}");
        }
        assert_eq!(Origin::of(Path::new("/usr/bin/vshmem")), Origin::Installed);
        assert_eq!(Origin::of(Path::new("/usr/local/bin/vshmem")), Origin::Installed);
    }

    #[test]
    fn what_helps_is_a_command_everywhere() {
        for origin in [Origin::Tree("/src".into()), Origin::LabGuest, Origin::Installed] {
            let helps =
                [origin.library(), origin.driver(), origin.lab_driver(), origin.components()];
            for help in helps {
                assert!(help.matches('`').count() >= 2, "{help}");
            }
        }
        assert!(Origin::Installed.driver().contains("vshmem-dkms"));
    }
}
