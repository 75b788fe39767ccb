"""Builds the wheel of the package vshmem: one binary for CPython 3.9 and later.

    python3 python/build_wheel.py --library target/release/libvshmem.a --out build/wheel

The extension module and the agent are C, linked with the static library. With PyPI's `ziglang` they
are linked for an old glibc (manylinux_2_28); without it by `cc`, for this machine's. Only the
standard library is imported.
"""
import argparse
import base64
import hashlib
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
MODULE = "_vshmem.abi3.so"
# Rust's standard library calls getrandom and statx.
OLDEST_GLIBC = "2.28"
LOAD = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("vshmem._vshmem", sys.argv[1])
spec.loader.exec_module(importlib.util.module_from_spec(spec))
"""
# The same time in every build: the same bytes.
TIME = (2020, 1, 1, 0, 0, 0)


def version():
    """That of the workspace."""
    text = (ROOT / "Cargo.toml").read_text()
    return re.search(r'^version = "(.*)"', text, re.MULTILINE).group(1)


def has_zig():
    found = subprocess.run([sys.executable, "-m", "ziglang", "version"], capture_output=True)
    return found.returncode == 0


def compiler(glibc):
    """The command that compiles and links, and the libraries that Rust's code needs."""
    if glibc:
        target = f"{platform.machine()}-linux-gnu.{glibc}"
        return [sys.executable, "-m", "ziglang", "cc", "-target", target], ["-lunwind"]
    return shlex.split(os.environ.get("CC", "cc")), ["-lgcc_s"]


def link(command, libraries, sources, library, target, *more):
    includes = [f"-I{ROOT / 'crates/vshmem_capi/include'}", f"-I{sysconfig.get_path('include')}"]
    warnings = ["-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        [*command, "-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", *warnings, *includes, *more]
        + [*map(str, sources), str(library), "-Wl,--gc-sections", "-s", "-o", str(target)]
        + ["-lpthread", "-ldl", "-lm", *libraries],
        check=True,
    )


def build(folder, library, glibc, flags):
    """Both binaries, in a folder."""
    command, libraries = compiler(glibc)
    sources = sorted(HERE.glob("src/*.c"))
    agent = HERE / "src/agent.c"
    exports = folder / "exports.map"
    exports.write_text("{ global: PyInit__vshmem; local: *; };\n")
    script = f"-Wl,--version-script={exports}"
    of_module = [source for source in sources if source != agent]
    flags = ["-shared", script, f'-DVSHMEM_VERSION="{version()}"', *flags]
    link(command, libraries, of_module, library, folder / MODULE, *flags)
    link(command, libraries, [agent], library, folder / "vshmem")
    # A module may lack symbols that its interpreter has: only loading it says whether all are there.
    subprocess.run([sys.executable, "-W", "error", "-c", LOAD, str(folder / MODULE)], check=True)


def newest_glibc(path):
    """The newest version of glibc's symbols that a binary asks for."""
    found = re.findall(rb"GLIBC_(\d+)\.(\d+)", path.read_bytes())
    return max((int(major), int(minor)) for major, minor in found)


def platform_tag(folder):
    newest = max(newest_glibc(folder / name) for name in (MODULE, "vshmem"))
    newest = max(newest, (2, 28))
    return f"manylinux_{newest[0]}_{newest[1]}_{platform.machine()}"


def metadata():
    readme = (HERE / "README.md").read_text()
    return (
        f"Metadata-Version: 2.1\nName: vshmem\nVersion: {version()}\n"
        "Summary: Shared memory, locks and queues between processes, containers and virtual machines of a host\n"
        "License: Apache-2.0 OR MIT\nRequires-Python: >=3.9\n"
        "Provides-Extra: numpy\nRequires-Dist: numpy; extra == 'numpy'\n"
        "Classifier: Operating System :: POSIX :: Linux\nClassifier: Typing :: Typed\n"
        f"Description-Content-Type: text/markdown\n\n{readme}"
    )


class Wheel:
    """A wheel's archive, and the record of what is in it."""

    def __init__(self, path):
        self.archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record = []

    def add(self, name, data, mode=0o644):
        entry = zipfile.ZipInfo(name, TIME)
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.archive.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}\n")

    def close(self, info):
        self.record.append(f"{info}/RECORD,,\n")
        record = zipfile.ZipInfo(f"{info}/RECORD", TIME)
        record.external_attr = 0o100644 << 16
        self.archive.writestr(record, "".join(self.record))
        self.archive.close()


def pack(folder, out):
    tag = platform_tag(folder)
    info = f"vshmem-{version()}.dist-info"
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"vshmem-{version()}-cp39-abi3-{tag}.whl"
    for old in out.glob("vshmem-*.whl"):
        old.unlink()
    wheel = Wheel(path)
    for source in sorted(HERE.glob("vshmem/*.py*")):
        if source.suffix in (".py", ".pyi"):
            wheel.add(f"vshmem/{source.name}", source.read_bytes())
    wheel.add("vshmem/py.typed", b"")
    wheel.add(f"vshmem/{MODULE}", (folder / MODULE).read_bytes(), 0o755)
    wheel.add("vshmem/vshmem", (folder / "vshmem").read_bytes(), 0o755)
    wheel.add(f"{info}/METADATA", metadata().encode())
    wheel.add(
        f"{info}/WHEEL",
        f"Wheel-Version: 1.0\nGenerator: vshmem\nRoot-Is-Purelib: false\nTag: cp39-abi3-{tag}\n".encode(),
    )
    for licence in sorted(ROOT.glob("LICENSE-*")):
        wheel.add(f"{info}/licenses/{licence.name}", licence.read_bytes())
    wheel.close(info)
    return path


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--library", type=pathlib.Path, default=ROOT / "target/release/libvshmem.a")
    words.add_argument("--out", type=pathlib.Path, default=ROOT / "build/wheel")
    words.add_argument("--flag", action="append", default=[], help="one more for the compiler")
    words.add_argument("--into", type=pathlib.Path, help="leave both binaries there, and no wheel")
    given = words.parse_args()
    glibc = OLDEST_GLIBC if has_zig() else None
    if not glibc:
        print("no ziglang (python3 -m pip install ziglang): a wheel for this machine's glibc alone")
    if given.into:
        build(given.into.resolve(), given.library.resolve(), glibc, given.flag)
        return
    with tempfile.TemporaryDirectory() as folder:
        build(pathlib.Path(folder), given.library.resolve(), glibc, given.flag)
        print(pack(pathlib.Path(folder), given.out))


if __name__ == "__main__":
    main()
