"""Installs the packages of this repository into the environment of its Python: ``.venv/bin/python tools/install.py``.

``--engine PACKAGE...`` installs Warpwatch itself there, and these packages, for a repository that uses it: the action
in .github/actions/warpwatch calls it so.

pip alone is not enough: PyCUDA has no wheel, and its build wants nvcc, CUDA's headers, a libcuda to link with
and libcurand. Here nvcc and the headers come from PyPI where the machine has none, the libcuda is a stub
that only the linker uses (when kernels run, the driver's own is loaded), and cuRAND is left out.
It uses the standard library alone, because nothing else is installed yet.
"""

# ruff: noqa: E402
from __future__ import annotations

import sys

del sys.path[0]  # this folder, whose `copy` would hide the standard library's

import importlib.metadata
import re
import shutil
import subprocess
import sysconfig
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHEELS = Path.home() / ".cache" / "warpwatch-wheels"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


def main() -> None:
    if sys.argv[1:2] == ["--engine"]:
        install_engine(sys.argv[2:])
        return
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, groups = document["project"], document["dependency-groups"]
    ordinary = [name for name in project["dependencies"] if not name.startswith("pycuda")]
    (pycuda,) = (name for name in project["dependencies"] if name.startswith("pycuda"))
    say("installing Python packages")
    run([*PIP, "install", *ordinary, *groups["dev"]])  # by name: an old pip knows no groups
    beside = Path(sys.prefix, "plugins")  # not in the environment, where pytest would load them
    run([*PIP, "install", "--upgrade", "--no-deps", "--target", str(beside), *groups["plugins"]])
    if not find_nvcc():
        say("no nvcc on this machine: installing it from PyPI")
        run([*PIP, "install", *project["optional-dependencies"]["nvcc"]])
    install_pycuda(pycuda)
    run([*PIP, "install", *needs("pycuda")])


def install_engine(packages: list[str]) -> None:
    """Install Warpwatch as a package, with what its reports and differences need, and the user's own packages.

    The wheel of PyCUDA is kept in WHEELS, so that only the first job builds it.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ordinary = [name for name in project["dependencies"] if not name.startswith("pycuda")]
    (pycuda,) = (name for name in project["dependencies"] if name.startswith("pycuda"))
    extras = [name for extra in ("report", "disassembly") for name in project["optional-dependencies"][extra]]
    say("installing Warpwatch")
    run([*PIP, "install", *ordinary, *extras, *packages])
    if not find_nvcc():
        say("no nvcc on this machine: installing it from PyPI")
        run([*PIP, "install", *project["optional-dependencies"]["nvcc"]])
    WHEELS.mkdir(parents=True, exist_ok=True)
    kept = [*PIP, "install", "--no-deps", "--no-index", "--find-links", str(WHEELS), pycuda]
    if subprocess.run(kept, capture_output=True, check=False).returncode:
        install_pycuda(pycuda, WHEELS)
    run([*PIP, "install", *needs("pycuda")])
    with tempfile.TemporaryDirectory() as name:
        source = Path(name, "warpwatch")  # a copy, because setuptools builds in the folder of the source
        left_out = shutil.ignore_patterns(".*", "build", "bench", "tests", "__pycache__", "*.egg-info")
        shutil.copytree(ROOT, source, ignore=left_out)
        run([*PIP, "install", "--no-deps", str(source)])


def install_pycuda(requirement: str, wheels: Path | None = None) -> None:
    """Build PyCUDA from its source against this machine's headers, unless it is there already.

    ``wheels``: a folder in which its wheel is kept, if there is one.
    """
    try:
        importlib.metadata.version("pycuda")
        return
    except importlib.metadata.PackageNotFoundError:
        pass
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        sys.exit("PyCUDA cannot be built without Python's headers: apt install python3-dev")
    say("building PyCUDA (about two minutes, once)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run([*PIP, "download", "--no-deps", "--no-binary", "pycuda", requirement, "--dest", name])
        (archive,) = folder.glob("pycuda-*.tar.gz")
        shutil.unpack_archive(archive, folder)
        (source,) = (path for path in folder.glob("pycuda-*") if path.is_dir())
        include = cuda_root() / "include"
        make_stub(include, folder)
        settings = {"CUDA_INC_DIR": [str(include)], "CUDADRV_LIB_DIR": [name], "CUDA_ENABLE_CURAND": False}
        settings["CXXFLAGS"] = ["-O1", "-g0"]  # it hands calls on, and Python's own flags take half as long again
        (source / "siteconf.py").write_text("".join(f"{key} = {value!r}\n" for key, value in settings.items()))
        if wheels:
            run([*PIP, "wheel", "--no-deps", "--wheel-dir", str(wheels), str(source)])
            run([*PIP, "install", "--no-deps", "--no-index", "--find-links", str(wheels), requirement])
        else:
            run([*PIP, "install", "--no-deps", str(source)])


def needs(package: str) -> list[str]:
    """Names of the packages that an installed package depends on, without its extras."""
    return [each for each in importlib.metadata.requires(package) or () if "extra ==" not in each]


def find_nvcc() -> str:
    """Return the nvcc that warpwatch finds, or an empty text."""
    code = "from warpwatch.devices.compile.compiler import nvcc; print(nvcc().program)"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip()


def cuda_root() -> Path:
    """Return CUDA's folder, which nvcc prints. nvcc on the PATH may be a wrapper script in another folder."""
    dry = subprocess.run([find_nvcc(), "--dryrun", "none.cu"], capture_output=True, text=True, check=False)
    top = re.search(r"^#\$ TOP=(.+)$", dry.stdout + dry.stderr, re.MULTILINE)
    if not top:
        sys.exit("nvcc --dryrun does not say where CUDA is installed; is it a whole toolkit?")
    return Path(top[1]).resolve()


def make_stub(include: Path, folder: Path) -> None:
    """Make a libcuda.so that defines every driver function for the linker, under the driver's own SONAME.

    The functions are needed because a linker drops a library that resolves nothing. PyCUDA could then not be imported
    even where a driver is installed.
    """
    headers = "#include <cuda.h>\n#include <cudaProfiler.h>\n"
    command = ["g++", "-E", "-P", "-x", "c++", f"-I{include}", "-"]
    text = subprocess.run(command, input=headers, capture_output=True, text=True, check=True).stdout
    names = sorted(set(re.findall(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(", text)))
    stub = "".join(f'extern "C" int {name}() {{ return 999; }}\n' for name in names)
    command = ["g++", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-x", "c++", "-"]
    subprocess.run([*command, "-o", str(folder / "libcuda.so")], input=stub, text=True, check=True)


def run(command: list[str]) -> None:
    done = subprocess.run(command, check=False)
    if done.returncode:
        sys.exit(f"failed: {' '.join(command)}")


def say(what: str) -> None:
    print(f"set-up: {what}", flush=True)


if __name__ == "__main__":
    main()
