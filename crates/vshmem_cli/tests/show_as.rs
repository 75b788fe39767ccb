//! `vshmem pool show --as`: what it prints is taken by those it is for.

mod rig;

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use rig::{Name, expect, refusal};

fn shown(words: &[&str]) -> String {
    let output = expect(0, &[&["pool", "show"], words].concat());
    String::from_utf8(output.stdout).unwrap()
}

fn labelled(test: &str) -> Name {
    let name = Name::new(test);
    expect(0, &["pool", "create", &name.0, "--size", "8M", "--dax"]);
    name
}

fn is_installed(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        println!("SKIPPED: {tool} is not installed");
    }
    found
}

/// Has QEMU make the machine, and end before it runs.
fn qemu_takes(arguments: &str) {
    let mut qemu = Command::new("qemu-system-x86_64")
        .args(["-machine", "q35", "-accel", "tcg,thread=multi", "-smp", "1,maxcpus=2", "-m", "64"])
        .args(["-nodefaults", "-display", "none", "-S", "-monitor", "stdio"])
        .args(arguments.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    qemu.stdin.take().unwrap().write_all(b"info pci\ninfo memory-devices\nquit\n").unwrap();
    let output = qemu.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {said}");
    let seen = String::from_utf8_lossy(&output.stdout);
    assert!(seen.contains("1af4:1110") || seen.contains("nvdimm"), "{arguments}: {seen}");
}

#[test]
fn qemu_takes_the_arguments() {
    if !is_installed("qemu-system-x86_64") {
        return;
    }
    let plain = Name::with_pool("qemu");
    qemu_takes(&shown(&[&plain.0, "--as", "qemu"]));
    let dax = labelled("qemudax");
    let arguments = shown(&[&dax.0, "--as", "qemu"]);
    assert!(arguments.contains("-device nvdimm"), "{arguments}");
    qemu_takes(&arguments);
}

#[test]
fn qemu_is_told_what_an_emulated_guest_needs() {
    let name = Name::with_pool("onecpu");
    let said = expect(0, &["pool", "show", &name.0, "--as", "qemu"]).stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("-smp 1,maxcpus=2"), "{said}");
}

/// The line `args:` of a Proxmox VE guest is handed to QEMU as it is (qm.conf(5)).
#[test]
fn qemu_takes_the_arguments_of_proxmox() {
    if !is_installed("qemu-system-x86_64") {
        return;
    }
    let plain = Name::with_pool("proxmox");
    let line = shown(&[&plain.0, "--as", "proxmox"]);
    qemu_takes(line.strip_prefix("args: ").unwrap());
}

#[test]
fn each_device_has_its_arguments() {
    let name = Name::with_pool("devices");
    let path = name.path();
    let plain = shown(&[&name.0, "--as", "qemu"]);
    assert!(plain.contains(&format!("mem-path={},size=8388608", path.display())), "{plain}");
    assert_eq!(plain, shown(&[&name.0, "--as", "qemu", "--device", "plain"]));
    let words = ["pool", "show", &name.0, "--as", "qemu", "--device", "doorbell"];
    let output = expect(0, &words);
    let doorbell = String::from_utf8_lossy(&output.stdout);
    let socket = format!("path=/run/vshmem/serve/{}.sock", name.0);
    assert!(doorbell.contains(&socket) && doorbell.contains("vectors=1"), "{doorbell}");
    assert!(rig::complaint(&output).contains("has no server yet"));
    refusal(
        &["pool", "show", &name.0, "--as", "qemu", "--device", "dax"],
        &["has no label", "--dax"],
    );
    let dax = labelled("devicesdax");
    for device in ["plain", "doorbell"] {
        let words = ["pool", "show", &dax.0, "--as", "qemu", "--device", device];
        refusal(&words, &["made with --dax", "--device dax"]);
    }
}

#[test]
fn what_a_hypervisor_could_not_use_is_refused() {
    let odd = Name::new("odd");
    expect(0, &["pool", "create", &odd.0, "--size", "9M"]);
    refusal(&["pool", "show", &odd.0, "--as", "qemu"], &["power of two", "--size 16M"]);
    refusal(&["pool", "show", &odd.0, "--as", "libvirt"], &["power of two", "--size 16M"]);
    refusal(&["pool", "show", &odd.0, "--as", "xl"], &["Xen"]);
    expect(2, &["pool", "show", &odd.0, "--as", "qemu", "--device", "pcmcia"]);
    expect(2, &["pool", "show", &odd.0, "--as", "qemu", "--json"]);
}

/// None of these monitors can be had here: what is compared is what their documents say, which each
/// module names.
#[test]
fn monitors_that_are_not_here_get_what_their_documents_say() {
    let plain = Name::with_pool("monitors");
    let dax = labelled("monitorsdax");
    let (path, bytes) = (plain.path().display().to_string(), 8 << 20);
    let memory = dax.path().display().to_string();
    // Its API refuses ids with anything but letters, digits and underscores.
    let id = format!("vshmem_{}", dax.0.replace('-', "_"));
    assert_eq!(
        shown(&[&plain.0, "--as", "cloud-hypervisor"]),
        format!("--ivshmem path={path},size={bytes}\n")
    );
    assert_eq!(shown(&[&dax.0, "--as", "cloud-hypervisor"]), format!("--pmem file={memory}\n"));
    assert_eq!(shown(&[&dax.0, "--as", "crosvm"]), format!("--pmem {memory}\n"));
    let firecracker: serde_json::Value =
        serde_json::from_str(&shown(&[&dax.0, "--as", "firecracker"])).unwrap();
    let device = serde_json::json!({
        "id": id, "path_on_host": memory, "root_device": false, "read_only": false,
    });
    assert_eq!(firecracker, serde_json::json!({ "pmem": [device] }));
    let proxmox = shown(&[&plain.0, "--as", "proxmox"]);
    assert!(proxmox.starts_with("args: -object memory-backend-file,"), "{proxmox}");
    assert_eq!(proxmox.lines().count(), 1, "{proxmox}");
    for form in ["firecracker", "crosvm"] {
        refusal(&["pool", "show", &plain.0, "--as", form], &["has no label", "--dax"]);
    }
    expect(2, &["pool", "show", &dax.0, "--as", "crosvm", "--device", "plain"]);
    expect(2, &["pool", "show", &plain.0, "--as", "cloud-hypervisor", "--device", "doorbell"]);
}

#[test]
fn libvirt_takes_the_elements_in_a_domain() {
    if !is_installed("virt-xml-validate") || !is_installed("xmllint") {
        return;
    }
    let plain = Name::with_pool("libvirt");
    let dax = labelled("libvirtdax");
    let elements = [
        shown(&[&plain.0, "--as", "libvirt", "--device", "plain"]),
        shown(&[&plain.0, "--as", "libvirt", "--device", "doorbell"]),
        shown(&[&dax.0, "--as", "libvirt"]),
    ];
    for element in &elements {
        let (valid, said) = validate(element);
        assert!(valid, "{element}: {said}");
    }
    let (valid, _) = validate("<shmem name='x'><model type='ivshmem-odd'/></shmem>");
    assert!(!valid, "the schema is not looked at");
}

fn validate(element: &str) -> (bool, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let domain = format!(
        "<domain type='qemu'>
  <name>guest</name>
  <maxMemory slots='4' unit='GiB'>64</maxMemory>
  <memory unit='MiB'>512</memory>
  <vcpu current='1'>2</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <cpu><numa><cell id='0' cpus='0-1' memory='512' unit='MiB'/></numa></cpu>
  <devices>
{element}  </devices>
</domain>
"
    );
    std::fs::write(file.path(), domain).unwrap();
    let output = Command::new("virt-xml-validate").arg(file.path()).arg("domain").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said.into_owned())
}

/// The options of docker-run(1) and podman-run(1), and the CDI's SPEC.md. `tests/containers` has
/// Podman take them.
#[test]
fn containers_are_given_the_file() {
    let pool = Name::with_pool("containers");
    let path = pool.path().display().to_string();
    let line = format!("--mount type=bind,src={path},dst={path} --env VSHMEM_POOL={}\n", pool.0);
    let words = ["pool", "show", &pool.0, "--as", "podman"];
    let output = expect(0, &words);
    assert_eq!(String::from_utf8_lossy(&output.stdout), line);
    let said = rig::complaint(&output);
    let keep = format!("vshmem agent --keep --pool {path}");
    assert!(said.contains(&keep) && said.contains("--mode 0666"), "{said}");
    assert_eq!(shown(&[&pool.0, "--as", "docker"]), line);
    let file: serde_json::Value = serde_json::from_str(&shown(&[&pool.0, "--as", "cdi"])).unwrap();
    assert_eq!((&file["kind"], &file["cdiVersion"]), (&"vshmem.io/pool".into(), &"0.3.0".into()));
    let device = &file["devices"][0];
    assert_eq!(device["name"], pool.0.as_str());
    let edits = &device["containerEdits"];
    assert_eq!(edits["mounts"][0]["hostPath"], path.as_str());
    assert_eq!(edits["hooks"][0]["hookName"], "createRuntime");
    let hook: Vec<&str> =
        edits["hooks"][0]["args"].as_array().unwrap().iter().filter_map(|a| a.as_str()).collect();
    // A file of another owner was made there after the pool was removed: it is refused.
    let owner = std::fs::metadata(pool.path()).unwrap().uid();
    assert_eq!(hook.join(" "), format!("{keep} --owner {owner}"));
    assert_eq!(edits["hooks"][0]["timeout"], 30);
    // Not tried on a cluster: kubernetes.io/docs/concepts/storage/volumes#hostpath.
    let template = shown(&[&pool.0, "--as", "kubernetes"]);
    let volume = format!("hostPath:\n      path: {path}\n      type: File\n");
    assert!(template.contains(&volume) && template.contains("mountPath: "), "{template}");
    expect(2, &["pool", "show", &pool.0, "--as", "podman", "--device", "plain"]);
    // These are pasted into shells and into templates.
    let directory = tempfile::tempdir().unwrap();
    for name in ["a;b", "a$(b)", "a\nb", "a#b"] {
        let odd = directory.path().join(name);
        std::fs::copy(pool.path(), &odd).unwrap();
        for form in ["docker", "cdi", "kubernetes"] {
            refusal(&["pool", "show", odd.to_str().unwrap(), "--as", form], &["a path with other"]);
        }
    }
    refusal(&["pool", "show", "clitest-nowhere", "--as", "cdi"], &["there is none of that name"]);
}
