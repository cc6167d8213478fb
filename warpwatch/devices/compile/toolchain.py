"""Toolchains that a command line names: another nvcc, other flags, another architecture.

An nvcc that is named by its version is fetched from PyPI into the cache by pip, or uv, which check the hashes of the
index. It never comes into the environment that Warpwatch runs in.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from warpwatch.catalogue.launches import Capability, read_capability
from warpwatch.devices.compile.compiler import ENGINE, CompileError, Target, architectures, nvcc, private_folder

PYPROJECT = ENGINE / "pyproject.toml"  # of a checkout
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
VERSION = re.compile(r"(\d+\.\d+)(\.\d+)?")
ARCH = re.compile(r"--?(?:arch|gpu-architecture)(?:=(.*))?")
FORM = "write it as nvcc calls it: nvcc=13.2, nvcc=/usr/local/cuda-12.9, or nvcc for the one that is here, then flags"
USUAL = Path("/usr/local")  # where toolkits are installed, in folders such as cuda-12.9
FIRST_WHOLE = 13  # major version of the oldest toolkit of which PyPI has all that nvcc needs
OLDEST = "PyPI has whole ones from 13.0 on; of an older toolkit give the folder, as nvcc=/usr/local/cuda-12.9"


class BadToolchain(CompileError):
    """Raised for a toolchain that cannot be used; the message begins with its text."""


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """Compiler, architecture and flags of one side, besides what declarations say.

    ``text``: as it was named. ``program``: nvcc, or empty for the one that is found here. ``arch``: in place of the
    device's, or empty. ``flags``: come after those of a declaration, and nvcc takes the last of two that differ.
    """

    text: str = ""
    program: str = ""
    arch: str = ""
    flags: tuple[str, ...] = ()

    def target(self, base: Target) -> Target:
        """Return what to compile for, where it would be ``base`` without this toolchain."""
        return Target(self.arch or base.arch, self.program or base.program, (*base.flags, *self.flags))

    @property
    def title(self) -> str:
        """Name of the toolchain, such as ``nvcc 13.2.86 -arch=sm_90a``. Raises NoCompiler."""
        compiler = nvcc(self.program)
        release = re.search(r"\bV(\d+(?:\.\d+)+)", compiler.banner)
        arch = [f"-arch={self.arch}"] if self.arch else []
        return shlex.join(["nvcc", release[1] if release else compiler.version, *arch, *self.flags])

    def runs_on(self, device: Capability) -> bool:
        """Tell whether a GPU of a capability runs code of this toolchain's architecture."""
        known = read_capability(self.arch) if self.arch else device
        is_own = known == device or (not self.arch.endswith("a") and known is not None and known.minor < device.minor)
        return known is not None and known.major == device.major and is_own


INSTALLED = Toolchain()


def read_toolchain(text: str, say: Callable[[str], object]) -> Toolchain:
    """Return the toolchain that a text names, such as ``nvcc=13.2 -arch=sm_90a -use_fast_math``; fetch its nvcc.

    ``say``: is told what takes long. Raises BadToolchain.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadToolchain(f"{text!r} is not a toolchain: {error}") from None
    named = words.pop(0) if words and not words[0].startswith("-") else "nvcc"
    program, _, value = named.partition("=")
    if program != "nvcc" or not text.strip() or (value == "" and "=" in named):
        raise BadToolchain(f"{text!r} is not a toolchain: {FORM}")
    try:
        found = _find(value, say) if value else ""
        arch, flags = _split(words)
        if arch and read_capability(arch) not in (known := architectures(found)):
            listed = ", ".join(capability.arch for capability in known)
            raise BadToolchain(f"nvcc {nvcc(found).version} does not compile for {arch}; it knows {listed}")
        if not nvcc(found).is_nvidias:
            raise BadToolchain(f"{found} is not NVIDIA's nvcc")
    except (CompileError, OSError, subprocess.CalledProcessError) as error:
        raise BadToolchain(f"{text!r} cannot be used: {error}") from None
    return Toolchain(text=text, program=found, arch=arch, flags=flags)


def of_release(release: str, say: Callable[[str], object]) -> Toolchain:
    """Return the toolchain of a toolkit, such as 12.9: that of its usual folder, else of PyPI. Raises BadToolchain."""
    folder = USUAL / f"cuda-{release}"
    is_there = (folder / "bin" / "nvcc").is_file()
    if not is_there and int(release.partition(".")[0]) < FIRST_WHOLE:  # PyPI would be asked in vain by each run
        raise BadToolchain(f"there is no nvcc in {folder}: {OLDEST}")
    found = read_toolchain(f"nvcc={folder if is_there else release}", say)
    if (version := nvcc(found.program).version) != release:
        raise BadToolchain(f"{found.program} is of CUDA {version}")
    return found


def _split(words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the architecture that flags name, if any, and the other flags."""
    arch, flags, rest = "", list[str](), iter(words)
    for word in rest:
        if match := ARCH.fullmatch(word):
            arch = match[1] if match[1] is not None else next(rest, "")
            if not read_capability(arch):
                raise BadToolchain(f"{word} {arch}".strip() + " names no architecture of machine code, such as sm_90a")
        else:
            flags.append(word)
    return arch, tuple(flags)


def _find(value: str, say: Callable[[str], object]) -> str:
    """Return the path of nvcc: a file, that of a toolkit's folder, or of a version that is fetched."""
    if version := VERSION.fullmatch(value):
        return str(_fetch(value, version[1], say))
    path = Path(value).expanduser().absolute()
    if program := next((each for each in (path, path / "bin" / "nvcc") if each.is_file()), None):
        return str(program)
    raise BadToolchain(f"there is no nvcc in {path}: give a version, an nvcc, or a toolkit's folder that has bin/nvcc")


def _fetch(version: str, release: str, say: Callable[[str], object]) -> Path:
    """Return nvcc of a version, which the cache keeps; the rest of its toolkit is the newest of that release.

    Whole or not at all: another process may fetch the same.
    """
    folder = private_folder("toolchains") / f"nvcc-{version}"
    if not folder.exists():
        say(f"fetching nvcc {version} from PyPI, once, into {folder}")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as temporary:
            whole = Path(temporary, "whole")
            _install(whole, version, release)
            try:
                whole.rename(folder)
            except OSError:  # another process was quicker
                if not folder.exists():
                    raise
    if program := next(folder.glob("nvidia/*/bin/nvcc"), None):
        return program
    raise BadToolchain(f"{folder} holds no nvcc: remove it; {OLDEST}")


def _install(folder: Path, version: str, release: str) -> None:
    """Install nvcc and what it needs into a folder of its own, by the user's own index of packages."""
    names = [re.split(r"[^\w-]", requirement)[0] for requirement in requirements_of("nvcc")]
    wanted = [f"{name}=={version if name == 'nvidia-cuda-nvcc' else release}" for name in names]
    wanted = [each if each.count(".") > 1 else f"{each}.*" for each in wanted]
    uv = shutil.which("uv")
    if importlib.util.find_spec("pip") is None and uv is None:
        raise BadToolchain(f"there is neither pip nor uv, which fetch nvcc: {sys.executable} -m ensurepip")
    command = [*PIP, "install"] if importlib.util.find_spec("pip") else [str(uv), "pip", "install"]
    command += ["--quiet", "--no-deps", "--only-binary=:all:", "--target", str(folder), *wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()[-1]
        raise BadToolchain(f"nvcc {version} cannot be fetched ({last}): {OLDEST}")


def requirements_of(extra: str) -> list[str]:
    """Return what an extra of Warpwatch installs, by its metadata or, in a checkout, by pyproject.toml."""
    try:
        lines = metadata.requires("warpwatch") or []
    except metadata.PackageNotFoundError:
        document = tomllib.loads(PYPROJECT.read_text())
        return list(document["project"]["optional-dependencies"][extra])
    own = (line.partition(";") for line in lines)
    return [name.strip() for name, _, marker in own if re.search(rf"\bextra == ['\"]{extra}['\"]", marker)]
