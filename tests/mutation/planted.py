"""Plants faults in the engine and asks which tests notice: ``python -m tests.mutation.planted``.

planted/*.toml lists the faults, each a change of one place in a file of warpwatch/ or softcuda/, with the tests that
may notice it. Each is planted in a copy of the checkout, whose tests then run until one fails: those of `make test` or,
with ``--all``, those of `make test-all`. The exit status is 1 where fewer than 95 % of the faults are noticed, and 2
where an entry cannot be used: its fault does not apply, or its tests are not there, choose none or fail without it.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue

from tests.checkout import COMMIT
from tests.mutation.mistakes import BadList, Mistake, change, read_mistakes
from tests.project import ROOT

FOLDER = Path(__file__).resolve().parent / "planted"
NEEDED = 0.95  # share of the faults that must be noticed
SOURCES = (".py", ".cpp", ".h")
SECONDS = 900  # that the tests of one fault may take
PYTEST = ("-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", "--no-header", "--tb=no")
LIMIT = ("-o", "faulthandler_timeout=120", "-o", "faulthandler_exit_on_timeout=true")  # a test that hangs has noticed
# Statuses of pytest that say of no test that it failed: interrupted, an error of its own, wrong usage, no test chosen.
NO_ANSWER = (2, 3, 4, 5)


@dataclass(frozen=True)
class Verdict:
    """Result of the tests of one fault. ``test``: the one that failed, if any."""

    fault: Mistake
    test: str
    seconds: float

    @property
    def line(self) -> str:
        by = f"[{self.test}]" if self.test else f"by {self.fault.tests}"
        return f"{'noticed' if self.test else 'SURVIVED':<10} {self.fault.name}  {by} {self.seconds:.1f} s"


@dataclass(frozen=True)
class Checkouts:
    """Copies of the checkout, one for each fault that is planted at the same time."""

    everything: bool  # whether tests run that `make test` leaves out
    free: SimpleQueue[Path]

    @contextmanager
    def lent(self) -> Iterator[Path]:
        """Lend a copy, which must be left as it was."""
        root = self.free.get()
        try:
            yield root
        finally:
            self.free.put(root)

    def failure(self, root: Path, tests: str) -> str:
        """Return the name of the first test that fails, or nothing. Raises BadList where no test says anything."""
        chosen = [] if self.everything else ["-m", "not slow"]
        command = [sys.executable, *PYTEST, *LIMIT, *chosen, *tests.split()]
        try:
            done = subprocess.run(
                command, cwd=root, env=environment(), capture_output=True, text=True, check=False, timeout=SECONDS,
                errors="replace",
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"no end within {SECONDS} s"
        if done.returncode == 0:
            return ""
        output = done.stdout + done.stderr
        named = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        if "softcuda does not build" in output:
            raise BadList(f"softcuda does not build\n{output[-2000:]}")
        if done.returncode in NO_ANSWER and not (named and done.returncode == 2):
            raise BadList(f"pytest {tests} says nothing (exit status {done.returncode})\n{output[-2000:]}")
        return named[1] if named else f"exit status {done.returncode}"

    def check_without_fault(self, tests: str) -> None:
        """Raise BadList if a test fails though nothing is planted: it would be said to notice every fault."""
        with self.lent() as root:
            if test := self.failure(root, tests):
                raise BadList(f"{test} fails without any fault")

    def attempt(self, fault: Mistake) -> Verdict:
        """Plant one fault in a copy, run its tests and take it out again. Raises BadList."""
        with self.lent() as root:
            path = root / fault.file
            text = path.read_text()
            path.write_text(changed_text(text, fault))
            begin = time.monotonic()
            try:
                test = self.failure(root, fault.tests)
            except BadList as error:
                raise BadList(f"{fault.name}: {error}") from None
            finally:
                path.write_text(text)
            return Verdict(fault, test, time.monotonic() - begin)


def environment() -> dict[str, str]:
    """Return the environment of tests in a copy: this Python's packages, and none of the checkout's own modules."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    paths = [os.path.abspath(path) for path in own.pop("PYTHONPATH", "").split(os.pathsep) if path]
    paths = [path for path in paths if Path(path) != ROOT]
    return own | ({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})


def copy_checkout(to: Path) -> Path:
    """Copy the files that git knows or would add, and link the environment where there is one."""
    to.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=to, check=True)
    kept = [] if (ROOT / ".git").exists() else [f"--git-dir={to / '.git'}", f"--work-tree={ROOT}"]
    command = ["git", *kept, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name, follow_symlinks=False)
    if (ROOT / ".venv").exists() and not (to / ".venv").is_symlink():
        (to / ".venv").symlink_to((ROOT / ".venv").resolve())
    for arguments in (("add", "-A"), COMMIT):
        subprocess.run(["git", *arguments], cwd=to, check=True)
    return to


def changed_text(text: str, fault: Mistake) -> str:
    """Return the text of a file with a fault in it. Raises BadList where it does not apply, or is no Python."""
    changed = change(text, fault).text
    if fault.file.endswith(".py"):
        try:
            compile(changed, fault.file, "exec")
        except SyntaxError as error:
            raise BadList(f"{fault.name}: the changed file is no Python: {error}") from None
    return changed


def read_faults() -> list[Mistake]:
    """Read the lists, each entry of which can be planted and names tests that exist. Raises BadList for all others."""
    faults, wrong = [], []
    for fault in read_mistakes(FOLDER):
        try:
            faults.append(located(fault))
            changed_text((ROOT / faults[-1].file).read_text(), faults[-1])
        except BadList as error:
            wrong.append(str(error))
        if missing := [name for name in fault.tests.split() or ["tests"] if not _is_there(name)]:
            wrong.append(f"{fault.name}: no tests are in {', '.join(missing)}")
    if wrong:
        raise BadList("\n".join(wrong))
    return faults


def located(fault: Mistake) -> Mistake:
    """Return a fault with the one file in which its text stands, where its ``file`` is a folder. Raises BadList."""
    if (ROOT / fault.file).is_file():
        return fault
    having = [path for path, text in texts(ROOT / fault.file).items() if in_words(fault.find) in text]
    if len(having) != 1:
        names = ", ".join(str(path.relative_to(ROOT)) for path in having) or f"no file of {fault.file}"
        raise BadList(f"{fault.name}: {fault.find!r} is in {names}")
    return replace(fault, file=str(having[0].relative_to(ROOT)))


@functools.cache
def texts(folder: Path) -> dict[Path, str]:
    """Return the texts of the source files of a folder, with one space in place of any white space."""
    return {path: in_words(path.read_text()) for path in sorted(folder.rglob("*")) if path.suffix in SOURCES}


def in_words(text: str) -> str:
    """Return a text with one space in place of any white space."""
    return " ".join(text.split())


def _is_there(tests: str) -> bool:
    path, _, name = tests.partition("::")
    function = name.partition("[")[0]
    if tests == "tests" or not (ROOT / path).exists():
        return False
    return not function or re.search(rf"^def {function}\(", (ROOT / path).read_text(), re.MULTILINE) is not None


def run_all(faults: Sequence[Mistake], jobs: int, everything: bool) -> tuple[list[Verdict], list[str]]:
    """Try all faults, ``jobs`` at a time, and print each as it is done; return also what is wrong with entries."""
    verdicts, errors = list[Verdict](), list[str]()
    with tempfile.TemporaryDirectory(prefix="warpwatch-planted-") as name, ThreadPoolExecutor(jobs) as pool:
        checkouts = Checkouts(everything, SimpleQueue())
        for copy in pool.map(copy_checkout, (Path(name, str(number)) for number in range(jobs))):
            checkouts.free.put(copy)
        try:
            checks = {tests: pool.submit(checkouts.check_without_fault, tests) for tests in {f.tests for f in faults}}
            errors += [str(error) for check in checks.values() if (error := check.exception())]
            sound = [fault for fault in faults if not checks[fault.tests].exception()]
            for done, future in enumerate(as_completed([pool.submit(checkouts.attempt, fault) for fault in sound]), 1):
                try:
                    verdicts.append(future.result())
                    print(f"{done:4} of {len(faults)}  {verdicts[-1].line}", flush=True)
                except BadList as error:
                    errors.append(str(error))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return verdicts, errors


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.planted", description=__doc__)
    parser.add_argument("--only", default="", metavar="PATTERN", help="faults whose name matches this expression")
    parser.add_argument("--all", action="store_true", help="run also the tests that `make test` leaves out")
    parser.add_argument("--list", action="store_true", help="check the lists and print them; plant nothing")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("-j", "--jobs", type=int, default=cores, metavar="N", help="faults at a time (all cores)")
    options = parser.parse_args(arguments)
    try:
        faults = [fault for fault in read_faults() if re.search(options.only, fault.name)]
        if not faults:
            raise BadList(f"--only {options.only!r} matches no fault of {FOLDER.relative_to(ROOT)}")
        if options.list:
            print("\n".join(f"{fault.name}  ({fault.tests})" for fault in faults))
            return 0
    except BadList as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    verdicts, errors = run_all(faults, min(options.jobs, len(faults)), options.all)
    survived = [verdict for verdict in verdicts if not verdict.test]
    noticed = len(verdicts) - len(survived)
    print("\n".join(verdict.line for verdict in survived))
    print(f"noticed {noticed} of {len(verdicts)} faults (at least {NEEDED:.0%})")
    for wrong in errors:
        print(f"error: {wrong}", file=sys.stderr)
    return 2 if errors else int(noticed < NEEDED * len(verdicts))


if __name__ == "__main__":
    sys.exit(main())
