//! Programs that cannot be run, or not on a pool.

use super::row::{Mistake, Place};

fn program(place: &Place, bytes: &[u8], mode: u32) {
    super::row::pool(place);
    let made = place.installed().program("program", bytes, mode);
    std::fs::rename(made, place.path("program")).unwrap();
}

fn dynamic() -> Vec<u8> {
    std::fs::read("/bin/true").unwrap()
}

/// An ELF file that names this dynamic linker, or none.
fn elf(linker: Option<&str>) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    bytes[16] = 2;
    bytes[18] = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    let Some(linker) = linker else { return bytes };
    // One program header, behind the header of the file: PT_INTERP, and what it names behind that.
    bytes[32] = 64;
    bytes[54] = 56;
    bytes[56] = 1;
    let mut header = [0u8; 56];
    header[0] = 3;
    header[8] = 120;
    header[32] = linker.len() as u8 + 1;
    bytes.extend(header);
    bytes.extend(linker.bytes());
    bytes.push(0);
    bytes
}

pub const ROWS: &[Mistake] = &[
    Mistake {
        what: "a program that is not in PATH",
        setup: |place| program(place, b"", 0o644),
        line: "run --pool {pool} -- mistakes-no-such-program",
        code: 127,
        says: &["there is no such program in PATH"],
        proposes: "vshmem run -- ./mistakes-no-such-program",
    },
    Mistake {
        what: "a path to no program",
        setup: |place| program(place, b"", 0o644),
        line: "run --pool {pool} -- {dir}/nothing",
        code: 127,
        says: &["{dir}/nothing: cannot run it: No such file or directory"],
        proposes: "vshmem run -- CMD",
    },
    Mistake {
        what: "a directory",
        setup: |place| program(place, b"", 0o644),
        line: "run --pool {pool} -- {dir}",
        code: 126,
        says: &["it is a directory"],
        proposes: "vshmem run -- {dir}/CMD",
    },
    Mistake {
        what: "a file that is not executable",
        setup: |place| program(place, &dynamic(), 0o644),
        line: "run --pool {pool} -- {dir}/program",
        code: 126,
        says: &["cannot run it: Permission denied"],
        proposes: "chmod +x {dir}/program",
    },
    Mistake {
        what: "a static program",
        setup: |place| program(place, &elf(None), 0o755),
        line: "run --pool {pool} -- {dir}/program",
        code: 126,
        says: &["statically linked", "kernel's own IPC"],
        proposes: "man 3 libvshmem",
    },
    Mistake {
        what: "a script of a static interpreter",
        setup: |place| {
            program(place, &elf(None), 0o755);
            let line = format!("#!{} -x\n", place.path("program").display());
            let script = place.installed().program("script", line.as_bytes(), 0o755);
            std::fs::rename(script, place.path("script")).unwrap();
        },
        line: "run --pool {pool} -- {dir}/script",
        code: 126,
        says: &["{dir}/program is statically linked"],
        proposes: "man 3 libvshmem",
    },
    Mistake {
        what: "a setuid program",
        setup: |place| program(place, &dynamic(), 0o4755),
        line: "run --pool {pool} -- {dir}/program",
        code: 126,
        says: &["is setuid"],
        proposes: "install -m 755 {dir}/program ./program",
    },
    Mistake {
        what: "a setuid program in the directory that a copy would go to",
        setup: |place| {
            program(place, &dynamic(), 0o4755);
            let script = "cd \"$0\" && exec \"$@\"";
            place.under(&["sh", "-c", script, &place.path("").display().to_string()]);
        },
        line: "run --pool {pool} -- ./program",
        code: 126,
        says: &["is setuid"],
        proposes: "install -m 755 ./program ./program.copy1",
    },
    Mistake {
        what: "a script without its interpreter",
        setup: |place| program(place, b"#!/no/such/interpreter\n", 0o755),
        line: "run --pool {pool} -- {dir}/program",
        code: 126,
        says: &["{dir}/program: its first line names the interpreter /no/such/interpreter"],
        proposes: "head -n 1 {dir}/program",
    },
    Mistake {
        what: "a 32-bit program",
        setup: |place| {
            let mut bytes = elf(None);
            bytes[4] = 1;
            program(place, &bytes, 0o755);
        },
        line: "run --pool {pool} -- {dir}/program",
        code: 126,
        says: &["another kind of CPU"],
        proposes: "file -L {dir}/program",
    },
    Mistake {
        what: "a program for musl",
        setup: |place| program(place, &elf(Some("/lib/ld-musl-x86_64.so.1")), 0o755),
        line: "run --pool {pool} -- {dir}/program",
        code: 126,
        says: &["ld-musl-x86_64.so.1", "for glibc"],
        proposes: "man 3 libvshmem",
    },
    Mistake {
        what: "a damaged program",
        setup: |place| program(place, b"\x7fELF", 0o755),
        line: "run --pool {pool} -- {dir}/program",
        code: 126,
        says: &["damaged"],
        proposes: "file -L {dir}/program",
    },
    Mistake {
        what: "no library beside the command",
        setup: |place| {
            let library = place.installed().path().join("libvshmem_preload.so");
            std::fs::remove_file(library).unwrap();
        },
        line: "run -- true",
        code: 1,
        says: &["libvshmem_preload.so is not installed"],
        proposes: "apt-get install --reinstall vshmem",
    },
];
