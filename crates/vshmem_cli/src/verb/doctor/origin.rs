//! Where this command comes from: what helps depends on it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where this command comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A build in vshmem's sources.
    Tree(PathBuf),
    /// A guest of the lab, whose files are the host's.
    LabGuest,
    /// Debian's package.
    Package,
    /// `make install` or the archive for other distributions, below this directory.
    Prefix(PathBuf),
}

/// The command as the package installs it.
const INSTALLED: &str = "/usr/bin/vshmem";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// A lab gives its guests what its host has, and only the host's doctor knows how that came there.
const ON_THE_HOST: &str =
    "on the host: what `vshmem doctor` says there, then `vshmem lab down` and `vshmem lab up`";

impl Origin {
    /// Of this process.
    pub fn find() -> Self {
        if crate::launch::in_lab_guest() {
            return Self::LabGuest;
        }
        let command = std::env::current_exe().and_then(|path| path.canonicalize());
        let command = command.unwrap_or_else(|_| INSTALLED.into());
        let has_package = command == Path::new(INSTALLED) && is_of_a_package(INSTALLED);
        Self::of(&command, has_package)
    }

    /// Of a command at a place: a build leaves it two directories below the sources.
    fn of(command: &Path, has_package: bool) -> Self {
        let sources = command.ancestors().skip(2).take(3);
        let mut trees = sources.filter(|path| path.join("kernel/ivshmem/Makefile").is_file());
        match trees.next() {
            Some(tree) => Self::Tree(tree.to_owned()),
            None if has_package && command == Path::new(INSTALLED) => Self::Package,
            None => Self::Prefix(command.ancestors().nth(2).unwrap_or(command).to_owned()),
        }
    }

    /// How the preload library comes to where it is looked for.
    pub fn library(&self) -> String {
        match self {
            Self::Tree(tree) => format!("`make -C {} build`", tree.display()),
            Self::LabGuest => ON_THE_HOST.to_owned(),
            Self::Package => format!(
                "in the directory with vshmem's packages: `apt-get install --reinstall ./vshmem_{VERSION}_*.deb`"
            ),
            Self::Prefix(prefix) => format!(
                "in vshmem's sources: `make build && make install PREFIX={}`",
                prefix.display()
            ),
        }
    }

    /// How the driver for ivshmem devices comes into this guest.
    pub fn driver(&self) -> String {
        match self {
            Self::Tree(tree) => {
                let path = tree.join("kernel/ivshmem");
                let path = path.display();
                format!("`make -C {path} module && insmod {path}/build/module/vshmem.ko`")
            }
            Self::LabGuest => "on the host, in vshmem's sources: `make -C kernel/ivshmem module`, then `vshmem lab down` and `vshmem lab up`".to_owned(),
            _ if is_built() => "`modprobe vshmem`".to_owned(),
            Self::Package => format!(
                "in the directory with vshmem's packages: `apt-get install linux-headers-$(uname -r) ./vshmem-dkms_{VERSION}_all.deb && modprobe vshmem`"
            ),
            Self::Prefix(prefix) => format!(
                "with DKMS and the kernel's headers: `dkms add {}/src/vshmem-{VERSION} && dkms install vshmem/{VERSION} && modprobe vshmem`",
                prefix.display()
            ),
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
            Self::LabGuest => ON_THE_HOST.to_owned(),
            Self::Package => format!(
                "in the directory with vshmem's packages: `apt-get install ./libvshmem0_{VERSION}_*.deb ./vshmem-openmpi_{VERSION}_*.deb`"
            ),
            Self::Prefix(prefix) => format!(
                "in vshmem's sources: `apt-get install libopenmpi-dev && make build && make install PREFIX={}`",
                prefix.display()
            ),
        }
    }
}

/// Whether a package of Debian's has brought this file: only its own tools may read its database.
fn is_of_a_package(file: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--search", file]).stdin(Stdio::null()).stdout(Stdio::null());
    query.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Whether DKMS has built the driver for the kernel that runs.
fn is_built() -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy().into_owned();
    let modules = Path::new("/lib/modules").join(release).join("updates/dkms");
    let names = std::fs::read_dir(modules).into_iter().flatten().flatten();
    let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.any(|name| name.starts_with("vshmem.ko"))
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
            let origin = Origin::of(&tree.join(build), true);
            assert_eq!(origin, Origin::Tree(tree.to_owned()), "{build}");
        }
        let installed = |path, has_package| Origin::of(Path::new(path), has_package);
        assert_eq!(installed("/usr/bin/vshmem", true), Origin::Package);
        assert_eq!(installed("/usr/bin/vshmem", false), Origin::Prefix("/usr".into()));
        assert_eq!(installed("/usr/local/bin/vshmem", true), Origin::Prefix("/usr/local".into()));
    }

    #[test]
    fn what_helps_is_a_command_everywhere() {
        let prefix = Origin::Prefix("/usr/local".into());
        for origin in [Origin::Tree("/src".into()), Origin::LabGuest, Origin::Package, prefix] {
            let helps =
                [origin.library(), origin.driver(), origin.lab_driver(), origin.components()];
            for help in helps {
                assert!(help.matches('`').count() >= 2, "{help}");
            }
        }
    }

    /// Its host may have packages and no sources.
    #[test]
    fn a_guest_of_the_lab_is_sent_to_its_hosts_doctor() {
        for help in [Origin::LabGuest.library(), Origin::LabGuest.components()] {
            assert!(help.contains("`vshmem doctor`") && !help.contains("make build"), "{help}");
        }
    }

    #[test]
    fn files_of_packages_are_known_to_the_package_manager() {
        if Command::new("dpkg-query").arg("--version").output().is_ok() {
            assert!(is_of_a_package("/usr/bin/dpkg-query"));
        }
        assert!(!is_of_a_package("/nonexistent"));
    }

    /// No repository has these packages: apt takes their files.
    #[test]
    fn an_installed_guest_is_sent_to_what_was_installed_with_it_and_not_to_sources() {
        // Neither has what these depend on.
        let components = Origin::Package.components();
        assert!(
            [" ./vshmem-openmpi_", " ./libvshmem0_"].iter().all(|file| components.contains(file)),
            "{components}"
        );
        if is_built() {
            return;
        }
        let driver = Origin::Package.driver();
        assert!(
            driver.contains(" ./vshmem-dkms_") && driver.contains("linux-headers-"),
            "{driver}"
        );
        let driver = Origin::Prefix("/opt/vshmem".into()).driver();
        assert!(driver.contains("`dkms add /opt/vshmem/src/vshmem-"), "{driver}");
    }
}
