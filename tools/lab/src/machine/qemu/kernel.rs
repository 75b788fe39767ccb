//! The kernel that QEMU guests boot: the distribution's own, with its modules.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Doing, Result};
use crate::host::tool;

/// Names another directory with `boot/vmlinuz-RELEASE` and `lib/modules/RELEASE`.
pub(crate) const VARIABLE: &str = "VSHMEM_LAB_KERNEL";

/// Where `scripts/setup` unpacks one, so that the machine's own boot loader does not learn of it.
const UNPACKED: &str = "/var/lib/vshmem/guest-kernel";

/// A kernel image and the modules that belong to it.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) release: String,
    pub(crate) image: PathBuf,
    modules: PathBuf,
    /// Path of each module below `modules`, by name; what it needs is in `needs`.
    files: HashMap<String, String>,
    needs: HashMap<String, Vec<String>>,
    builtin: Vec<String>,
}

impl Kernel {
    /// The newest one that has all modules of those names; rather than that, one of release
    /// `rather`. If there is none: what was found instead.
    pub(crate) fn find(wanted: &[&str], rather: Option<&str>) -> std::result::Result<Self, String> {
        let places = match std::env::var_os(VARIABLE) {
            Some(place) => vec![PathBuf::from(place)],
            None => vec![PathBuf::from(UNPACKED), PathBuf::from("/")],
        };
        let mut found: Vec<Kernel> = Vec::new();
        let mut lacking = Vec::new();
        for kernel in places.iter().flat_map(|place| kernels(place)) {
            let lacks: Vec<&str> =
                wanted.iter().copied().filter(|name| !kernel.has(name)).collect();
            if lacks.is_empty() {
                found.push(kernel);
            } else {
                lacking.push(format!("{} has no {}", kernel.release, lacks.join(", ")));
            }
        }
        let rank = |kernel: &Kernel| (Some(&*kernel.release) == rather, numbers(&kernel.release));
        found.sort_by_cached_key(rank);
        found.pop().ok_or_else(|| {
            let places: Vec<String> =
                places.iter().map(|place| place.join("boot").display().to_string()).collect();
            lacking.push(format!("no vmlinuz with modules in {}", places.join(" or ")));
            lacking.join("; ")
        })
    }

    fn has(&self, module: &str) -> bool {
        self.files.contains_key(module) || self.builtin.iter().any(|builtin| builtin == module)
    }

    /// Those modules and what they need, each after what it needs: name and contents.
    pub(crate) fn modules(&self, wanted: &[&str]) -> Result<Vec<(String, Vec<u8>)>> {
        let mut order = Vec::new();
        for name in wanted {
            self.visit(name, &mut order);
        }
        order.into_iter().map(|name| Ok((name.clone(), self.read(&self.files[&name])?))).collect()
    }

    fn visit(&self, name: &str, order: &mut Vec<String>) {
        if !self.files.contains_key(name) || order.iter().any(|known| known == name) {
            return;
        }
        for need in &self.needs[name] {
            self.visit(need, order);
        }
        order.push(name.to_owned());
    }

    fn read(&self, file: &str) -> Result<Vec<u8>> {
        let path = self.modules.join(file);
        let unpacker = match path.extension().and_then(|extension| extension.to_str()) {
            Some("xz") => "xz",
            Some("zst") => "zstd",
            Some("gz") => "gzip",
            _ => return fs::read(&path).doing(|| format!("read {path:?}")),
        };
        let program = tool::find(unpacker).unwrap_or_else(|| unpacker.into());
        tool::filter(Command::new(program).arg("-dc").arg(&path), b"")
    }
}

fn kernels(place: &Path) -> Vec<Kernel> {
    let Ok(entries) = fs::read_dir(place.join("boot")) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let release = entry.file_name().to_str()?.strip_prefix("vmlinuz-")?.to_owned();
            load(place, entry.path(), &release)
        })
        .collect()
}

fn load(place: &Path, image: PathBuf, release: &str) -> Option<Kernel> {
    let modules = ["lib/modules", "usr/lib/modules"]
        .map(|directory| place.join(directory).join(release))
        .into_iter()
        .find(|directory| directory.join("modules.dep").exists())?;
    let dependencies = fs::read_to_string(modules.join("modules.dep")).ok()?;
    let builtin = fs::read_to_string(modules.join("modules.builtin")).unwrap_or_default();
    let (mut files, mut needs) = (HashMap::new(), HashMap::new());
    for (file, rest) in dependencies.lines().filter_map(|line| line.split_once(':')) {
        files.insert(name(file), file.to_owned());
        needs.insert(name(file), rest.split_whitespace().map(name).collect());
    }
    Some(Kernel {
        release: release.to_owned(),
        image,
        modules,
        files,
        needs,
        builtin: builtin.lines().map(name).collect(),
    })
}

/// The kernel that a module was built for.
pub(crate) fn release_of(module: &[u8]) -> Option<&str> {
    const LABEL: &[u8] = b"\0vermagic=";
    let at = module.windows(LABEL.len()).position(|window| window == LABEL)? + LABEL.len();
    let release = module[at..].split(|byte| matches!(byte, b' ' | 0)).next()?;
    std::str::from_utf8(release).ok()
}

/// `kernel/drivers/char/hw_random/virtio-rng.ko.xz` is the module `virtio_rng`.
fn name(file: &str) -> String {
    let last = file.rsplit('/').next().unwrap_or(file);
    last.split('.').next().unwrap_or(last).replace('-', "_")
}

/// For ordering: 6.1.0-10 comes after 6.1.0-9.
fn numbers(release: &str) -> Vec<u64> {
    release.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> Kernel {
        let place = tempfile::tempdir().unwrap();
        let modules = place.path().join("lib/modules/6.1.0-9-amd64");
        fs::create_dir_all(&modules).unwrap();
        let dependencies = "kernel/net/9p.ko: kernel/net/9pnet.ko kernel/fs/netfs.ko\n\
                            kernel/net/9pnet.ko:\nkernel/fs/netfs.ko:\n\
                            kernel/v/virtio-rng.ko.xz: kernel/v/virtio.ko.xz\nkernel/v/virtio.ko.xz:\n";
        fs::write(modules.join("modules.dep"), dependencies).unwrap();
        fs::write(modules.join("modules.builtin"), "kernel/drivers/dax/dax.ko\n").unwrap();
        load(place.path(), place.path().join("boot/vmlinuz-6.1.0-9-amd64"), "6.1.0-9-amd64")
            .unwrap()
    }

    #[test]
    fn modules_come_after_what_they_need() {
        let mut order = Vec::new();
        for wanted in ["9p", "virtio_rng", "9p", "dax"] {
            kernel().visit(wanted, &mut order);
        }
        assert_eq!(order, ["9pnet", "netfs", "9p", "virtio", "virtio_rng"]);
    }

    #[test]
    fn built_in_counts_as_there() {
        assert!(kernel().has("dax") && kernel().has("virtio_rng") && !kernel().has("overlay"));
    }

    #[test]
    fn a_module_tells_its_kernel() {
        let module = b"ELF...license=GPL\0vermagic=6.1.0-9-amd64 SMP mod_unload \0name=vshmem\0";
        assert_eq!(release_of(module), Some("6.1.0-9-amd64"));
        assert_eq!(release_of(b"something else"), None);
    }

    #[test]
    fn releases_are_ordered_as_numbers() {
        assert!(numbers("6.1.0-10-amd64") > numbers("6.1.0-9-amd64"));
        assert!(numbers("6.12.3-amd64") > numbers("6.1.0-56-amd64"));
    }
}
