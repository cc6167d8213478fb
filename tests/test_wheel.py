"""The wheel: what it holds, and that a repository of three files is served by it on the software device."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass, replace
from email.parser import HeaderParser
from pathlib import Path

import pytest

from softcuda import cache_folder
from tests.checkout import without_rights
from tests.project import ROOT
from warpwatch import __version__

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")

SETTINGS = """
[tool.warpwatch]
kernels = "mine"

[tool.pytest.ini_options]
addopts = ["--device=software", "--benchmark-max-time=0.01", "--benchmark-min-rounds=2", "-p", "no:hypothesispytest"]
filterwarnings = ["error"]
"""
DECLARATION = """
import warpwatch as ww

DOUBLE = ww.Family(
    "double",
    sizes=("n",),
    dtypes=("float32",),
    arrays=lambda n: {"A": ww.In(n), "B": ww.Out(n)},
    reference=lambda A: 2 * A,
    work=lambda n: ww.Work(n, 8 * n),
    tests=((33,), (1000,)),
    benchmarks=((4096,),),
    variants=(ww.kernel("naive", "one thread an element", configurations=(256,), x=0, y=None),),
)
"""
KERNEL = """
extern "C" __global__ void double_naive(const scalar_t* a, scalar_t* b, int n)
{
    const int i = blockIdx.x * BLOCK_X + threadIdx.x;
    if (i < n)
        b[i] = 2 * a[i];
}
"""
CASE = "double-naive-256-4096-float32"


@dataclass(frozen=True, kw_only=True)
class User:
    """A repository of kernels, and an environment in which the wheel is installed and nothing can be changed."""

    folder: Path
    bin: Path
    packages: Path
    cache: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in the repository."""
        kept = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "TMPDIR")
        own = {name: os.environ[name] for name in kept if name in os.environ}
        environment = own | {"XDG_CACHE_HOME": str(self.cache)}
        program = without_rights([str(self.bin / command[0]), *command[1:]])
        return subprocess.run(
            program, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=200
        )

    def python(self, *command: str) -> subprocess.CompletedProcess[str]:
        return self.run("python", *command)

    def has_example(self, name: str, folder: Path) -> User:
        """Return the user of the same environment with a copy of an example, whose kernels are kept for later runs."""
        shutil.copytree(ROOT / "examples" / name, folder, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
        return replace(self, folder=folder, cache=cache_folder().parent)

    def git(self, *command: str) -> None:
        who = ("-c", "user.name=A tester", "-c", "user.email=tester@example.org")
        subprocess.run(["git", *who, *command], cwd=self.folder, check=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made of the sdist of a copy: what a build leaves behind does not come into the checkout."""
    copy = tmp_path_factory.mktemp("source")
    ignored = shutil.ignore_patterns("__pycache__", "baselines", "recordings", ".*")
    for path in ROOT.iterdir():
        if path.is_dir() and not path.name.startswith("."):
            shutil.copytree(path, copy / path.name, ignore=ignored)
        elif path.is_file():
            shutil.copy(path, copy)
    code = "from setuptools import build_meta; build_meta.build_sdist('made')"
    subprocess.run([sys.executable, "-c", code], cwd=copy, check=True, capture_output=True)
    (sdist,) = (copy / "made").iterdir()
    options = ("--no-deps", "--no-build-isolation", "--check-build-dependencies")
    pip("wheel", str(sdist), *options, "-w", str(copy / "made"))
    (made,) = (copy / "made").glob("*.whl")
    return made


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def user(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A fresh environment with the wheel; what it depends on is taken from this one, where PyCUDA is built already."""
    top = tmp_path_factory.mktemp("user")
    venv.create(top / "venv", with_pip=False)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(top / "venv")}))
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    pip("--python", str(top / "venv" / "bin" / "python"), "install", "--no-deps", "--no-index", str(wheel))
    folder = top / "repository"
    (folder / "mine").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(SETTINGS)
    (folder / "mine" / "__init__.py").write_text(DECLARATION)
    (folder / "mine" / "naive.cu").write_text(KERNEL)
    for path in ("correctness/test_kernels.py", "bench/bench_kernels.py"):  # the suite's own, for other kernels
        (folder / path).parent.mkdir()
        shutil.copy(ROOT / path, folder / path)
    (folder / ".gitignore").write_text("__pycache__/\n.benchmarks/\n.pytest_cache/\n")
    for each in (packages, *packages.rglob("*")):
        each.chmod(each.stat().st_mode & ~0o222)
    (top / "cache" / "softcuda").mkdir(parents=True)
    for library in cache_folder().glob("libcuda-*"):  # named by the sources' text: of others it is built anew
        shutil.copy(library, top / "cache" / "softcuda")
    made = User(folder=folder, bin=top / "venv" / "bin", packages=packages, cache=top / "cache")
    made.git("init", "-q")
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "A kernel")
    return made


# What it holds


@pytest.mark.slow
def test_it_holds_the_engine_and_the_software_device_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    info = f"warpwatch-{__version__}.dist-info"
    assert {name.partition("/")[0] for name in names} == {"warpwatch", "softcuda", info}
    of_git = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "warpwatch", "softcuda"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    tracked = {name for name in of_git if (ROOT / name).exists()}
    assert {name for name in names if not name.startswith(info)} == tracked


@pytest.mark.slow
def test_its_metadata_is_whole(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    info = f"warpwatch-{__version__}.dist-info"
    about = HeaderParser().parsestr(archive.read(f"{info}/METADATA").decode())
    assert about["Version"] == __version__
    assert about["License-Expression"] == "MIT"
    assert f"{info}/licenses/LICENSE" in archive.namelist()
    assert f"{info}/licenses/warpwatch/report/site/assets/uplot/LICENSE" in archive.namelist()
    extras = {"pycuda", "pictures", "report", "disassembly", "profile", "vendor", "nvcc", "watch", "remote", "launches"}
    assert set(about.get_all("Provides-Extra", [])) == extras
    assert {url.partition(",")[0] for url in about.get_all("Project-URL", [])} >= {"Homepage", "Issues", "Source"}
    assert "Framework :: Pytest" in about.get_all("Classifier", [])
    needed = {re.split(r"[^\w-]", line)[0] for line in about.get_all("Requires-Dist", []) if "extra ==" not in line}
    assert {"numpy", "scipy", "pytest", "argcomplete"} <= needed
    assert not {"hypothesis", "pycuda"} & needed  # pip cannot build PyCUDA everywhere: `warpwatch setup` does
    readme = str(about.get_payload())
    assert readme.startswith("# Warpwatch\n")
    assert not re.findall(r"\]\((?!https:)[^)]*", readme)  # a relative link leads nowhere on PyPI
    assert "blob/main/docs/trust.md#" in readme
    assert archive.read(f"{info}/entry_points.txt").decode().split() == [
        *("[console_scripts]", "warpwatch", "=", "warpwatch.__main__:command"),
        *("[pytest11]", "warpwatch.plugin", "=", "warpwatch.plugin"),
    ]


# A repository that uses it


@pytest.mark.slow
def test_it_is_the_wheel_that_is_used_and_what_it_needs_is_there(user: User) -> None:
    done = user.python("-c", "import warpwatch, softcuda; print(warpwatch.__file__, softcuda.__file__)")
    assert [Path(path).parent.parent for path in done.stdout.split()] == [user.packages] * 2
    code = "import sys; from importlib.metadata import version; print(version('warpwatch'), *sys.path, sep='\\n')"
    known = user.python("-c", code).stdout.splitlines()
    assert known[0] == __version__
    assert str(ROOT) not in known
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(user.bin / "python"), "check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not re.findall(r"^(?:warpwatch|pycuda) .*", done.stdout, re.MULTILINE)


@pytest.mark.slow
def test_the_command_lists_and_runs_its_cases(user: User) -> None:
    done = user.run("warpwatch", "list")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(CASE)
    done = user.run("warpwatch", "run", CASE, "--device", "software", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_its_kernels_are_tested_by_two_processes(user: User) -> None:
    done = user.python("-m", "pytest", "correctness/test_kernels.py", "-n2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


@pytest.mark.slow
def test_a_mistake_is_named_by_its_file_in_the_repository(user: User) -> None:
    source = user.folder / "mine" / "naive.cu"
    source.write_text(KERNEL.replace("i < n", "i <= n"))
    try:
        done = user.python("-m", "pytest", "correctness/test_kernels.py", "-k", "test_exact and 33")
    finally:
        source.write_text(KERNEL)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "out of bounds in double_naive" in done.stdout
    assert " mine/naive.cu:6" in done.stdout


@pytest.mark.slow
def test_they_are_timed_and_what_was_saved_could_be_a_baseline(user: User) -> None:
    done = user.python("-m", "pytest", "bench")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"\n{CASE} " in done.stdout
    runs = [str(path) for path in (user.folder / ".benchmarks" / "softcuda").iterdir()]
    done = user.run("warpwatch", "baseline", "promote", "--dry-run", *runs)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 runs become the baseline of softcuda" in done.stdout
    assert not (user.folder / "bench" / "baselines").exists()


@pytest.mark.slow
def test_they_are_compared_with_a_revision_which_has_no_engine(user: User) -> None:
    done = user.python("-m", "pytest", "bench", "--against", "HEAD")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 identical" in done.stdout


# The examples, which are such repositories too


@pytest.mark.slow
def test_every_kernel_of_the_examples_is_right(user: User, tmp_path: Path) -> None:
    done = user.has_example("cuda", tmp_path / "cuda").python("-m", "pytest", "tests", "-q", "--device=software")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d+ passed in", done.stdout, re.MULTILINE), done.stdout  # none is skipped


@pytest.mark.slow
def test_the_examples_of_calls_say_that_they_need_a_gpu(user: User, tmp_path: Path) -> None:
    done = user.has_example("calls", tmp_path / "calls").python("-m", "pytest", "tests", "-q", "--device=software")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^15 skipped in", done.stdout, re.MULTILINE), done.stdout
    said = re.findall(r"^(\d+) skipped: needs a GPU: (\w+) brings machine code", done.stdout, re.MULTILINE)
    assert sum(int(count) for count, _ in said) == 15
    assert {name for _, name in said} == {"torch", "triton", "cubin", "cupy"}
