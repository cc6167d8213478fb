"""Builds PyCUDA for this Python, also without a CUDA toolkit: ``warpwatch setup``.

pip alone is not enough: PyCUDA has no wheel, and its build wants nvcc, CUDA's headers, a libcuda to link with and
libcurand. Here nvcc and the headers come from PyPI where the machine has none, the libcuda is a stub that only the
linker uses (when kernels run, the driver's own is loaded), and cuRAND is left out.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib import metadata
from pathlib import Path

from warpwatch.devices.compile.compiler import NoCompiler, nvcc
from warpwatch.devices.compile.toolchain import PIP as PIP_PROGRAM
from warpwatch.devices.compile.toolchain import requirements_of

PIP = [*PIP_PROGRAM, "--quiet"]
# What PyCUDA's build wants, and pybind11, which lets setuptools compile four files at once; each takes up to half a
# gigabyte.
TOOLS = ("setuptools", "wheel", "numpy", "pybind11")
IN_PARALLEL = "from pybind11.setup_helpers import ParallelCompile; ParallelCompile(max=4).install()"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="keep PyCUDA's wheel here for the next time")


def run(*, wheels: Path | None) -> int:
    """Install nvcc, unless the machine has one, and PyCUDA; returns the exit status.

    ``wheels``: a folder from which PyCUDA's wheel is taken if it is there, and in which it is kept.
    """
    if importlib.util.find_spec("pip") is None:
        return _refuse(f"{sys.prefix} has no pip, which builds PyCUDA: {sys.executable} -m ensurepip")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return _refuse("PyCUDA cannot be built without Python's headers: apt install python3-dev")
    if not shutil.which("g++"):
        return _refuse("PyCUDA cannot be built without g++: apt install g++")
    try:
        install(wheels)
    except subprocess.CalledProcessError as error:
        return _refuse(f"failed with status {error.returncode}: {' '.join(map(str, error.cmd))}")
    return 0


def install(wheels: Path | None) -> None:
    """Install what ``run`` says. Raises CalledProcessError."""
    (pycuda,) = requirements_of("pycuda")
    if not find_nvcc():
        say("no nvcc on this machine: installing it from PyPI")
        subprocess.run([*PIP, "install", *requirements_of("nvcc")], check=True)
        importlib.invalidate_caches()
    with tempfile.TemporaryDirectory() as name:
        kept = wheels or Path(name, "wheels")
        kept.mkdir(parents=True, exist_ok=True)
        from_wheel = [*PIP, "install", "--only-binary", "pycuda", "--find-links", str(kept), pycuda]
        if subprocess.run(from_wheel, capture_output=True, check=False).returncode:
            say("building PyCUDA (about two minutes, once)")
            build_wheel(pycuda, Path(name), kept)
            subprocess.run(from_wheel, check=True)
    say(f"PyCUDA {metadata.version('pycuda')} is installed in {sys.prefix}")


def build_wheel(requirement: str, folder: Path, wheels: Path) -> None:
    """Build PyCUDA's wheel from its source against the headers of nvcc. Raises CalledProcessError.

    ``folder``: for what the build needs. ``wheels``: where the wheel is put.
    """
    tools = folder / "tools"
    # pip would make an environment with NumPy for each of its two calls.
    subprocess.run([*PIP, "install", "--no-user", "--target", str(tools), *TOOLS], check=True)
    found = os.pathsep.join(filter(None, [str(tools), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": found}
    from_source = ["--no-build-isolation", "--no-deps", "--no-binary", "pycuda"]
    subprocess.run([*PIP, "download", *from_source, requirement, "--dest", str(folder)], env=environment, check=True)
    (archive,) = folder.glob("pycuda-*.tar.gz")
    shutil.unpack_archive(archive, folder)
    (source,) = (path for path in folder.glob("pycuda-*") if path.is_dir())
    include = cuda_root() / "include"
    make_stub(include, folder)
    settings = {"CUDA_INC_DIR": [str(include)], "CUDADRV_LIB_DIR": [str(folder)], "CUDA_ENABLE_CURAND": False}
    settings["CXXFLAGS"] = ["-O1", "-g0"]  # it hands calls on, and Python's own flags take half as long again
    lines = [*(f"{key} = {value!r}" for key, value in settings.items()), f"exec({IN_PARALLEL!r}, {{}})"]
    (source / "siteconf.py").write_text("\n".join(lines))
    subprocess.run([*PIP, "wheel", *from_source, "--wheel-dir", str(wheels), str(source)], env=environment, check=True)


def find_nvcc() -> str:
    """Return the path of nvcc, or an empty text."""
    try:
        return nvcc().program
    except NoCompiler:
        return ""


def cuda_root() -> Path:
    """Return CUDA's folder, which nvcc prints. nvcc on the PATH may be a wrapper script in another folder."""
    dry = subprocess.run([find_nvcc(), "--dryrun", "none.cu"], capture_output=True, text=True, check=False)
    top = re.search(r"^#\$ TOP=(.+)$", dry.stdout + dry.stderr, re.MULTILINE)
    if not top:
        raise FileNotFoundError(f"{find_nvcc()} --dryrun does not say where CUDA is installed; is it a whole toolkit?")
    return Path(top[1]).resolve()


def make_stub(include: Path, folder: Path) -> None:
    """Make a libcuda.so that defines every driver function for the linker, under the driver's own SONAME.

    The functions are needed because a linker drops a library that resolves nothing. PyCUDA could then not be imported
    even where a driver is installed.
    """
    headers = "#include <cuda.h>\n#include <cudaProfiler.h>\n"
    command = ["g++", "-E", "-P", "-x", "c++", f"-I{include}", "-"]
    text = subprocess.run(command, input=headers, stdout=subprocess.PIPE, text=True, check=True).stdout
    names = sorted(set(re.findall(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(", text)))
    stub = "".join(f'extern "C" int {name}() {{ return 999; }}\n' for name in names)
    command = ["g++", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-x", "c++", "-"]
    subprocess.run([*command, "-o", str(folder / "libcuda.so")], input=stub, text=True, check=True)


def say(text: str) -> None:
    print(f"set-up: {text}", flush=True)


def _refuse(sentence: str) -> int:
    print(f"error: {sentence}", file=sys.stderr)
    return 2
