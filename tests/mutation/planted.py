"""Plants faults in the engine and asks which tests notice: ``python -m tests.mutation.planted``.

planted/*.toml lists the faults, each a change of one place in a file of warpwatch/ or softcuda/, with the tests that
may notice it. Each is planted in a copy of the checkout, whose tests then run until one fails: those of `make test` or,
with ``--all``, those of `make test-all`. The exit status is 1 where fewer than 95 % of the faults are noticed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.checkout import COMMIT
from tests.mutation.mistakes import BadList, Mistake, change, read_mistakes
from tests.project import ROOT

FOLDER = Path(__file__).resolve().parent / "planted"
NEEDED = 0.95  # share of the faults that must be noticed
SOURCES = (".py", ".cpp", ".h")
SECONDS = 900  # that the tests of one fault may take
PYTEST = ("-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", "--no-header", "--tb=no")


@dataclass(frozen=True)
class Verdict:
    """Result of the tests of one fault. ``test``: the one that failed, if any. ``output``: what pytest printed."""

    fault: Mistake
    test: str
    seconds: float
    output: str

    @property
    def line(self) -> str:
        by = f"[{self.test}]" if self.test else f"by {self.fault.tests}"
        return f"{'noticed' if self.test else 'SURVIVED':<10} {self.fault.name}  {by} {self.seconds:.1f} s"


def copy_checkout(to: Path) -> None:
    """Copy the files that git knows or would add, and link the environment."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name, follow_symlinks=False)
    (to / ".venv").symlink_to(Path(sys.executable).parent.parent)
    for arguments in (("init", "-q"), ("add", "-A"), COMMIT):
        subprocess.run(["git", *arguments], cwd=to, check=True)


def run_tests(root: Path, tests: str, everything: bool) -> tuple[str, str]:
    """Run tests in a copy of the checkout until one fails; return the name of that one, and what pytest printed."""
    chosen = [] if everything else ["-m", "not slow"]
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, *PYTEST, *chosen, *tests.split()]
    try:
        done = subprocess.run(
            command, cwd=root, env=own, capture_output=True, text=True, check=False, timeout=SECONDS, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return f"no end within {SECONDS} s", ""
    if done.returncode == 0:
        return "", done.stdout
    named = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return named[1] if named else f"exit status {done.returncode}", done.stdout + done.stderr


def attempt(fault: Mistake, root: Path, everything: bool) -> Verdict:
    """Plant one fault in a copy of the checkout, run its tests and take it out again. Raises BadList."""
    path = root / fault.file
    text = path.read_text()
    path.write_text(change(text, fault).text)
    begin = time.monotonic()
    try:
        test, output = run_tests(root, fault.tests, everything)
    finally:
        path.write_text(text)
    return Verdict(fault, test, time.monotonic() - begin, output)


def check_without_fault(tests: str, root: Path, everything: bool) -> None:
    """Raise BadList if a test fails though nothing is planted: it would be said to notice every fault."""
    test, output = run_tests(root, tests, everything)
    if test:
        raise BadList(f"{test} fails without any fault\n{output[-2000:]}")


def read_faults() -> list[Mistake]:
    """Read the lists, each entry of which can be planted and names tests that exist. Raises BadList for all others."""
    faults, wrong = [], []
    for fault in read_mistakes(FOLDER):
        try:
            faults.append(located(fault))
            change((ROOT / faults[-1].file).read_text(), faults[-1])
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
    files = [path for path in sorted((ROOT / fault.file).rglob("*")) if path.suffix in SOURCES]
    having = [path for path in files if in_words(fault.find) in in_words(path.read_text())]
    if len(having) != 1:
        names = ", ".join(str(path.relative_to(ROOT)) for path in having) or f"no file of {fault.file}"
        raise BadList(f"{fault.name}: {fault.find!r} is in {names}")
    return replace(fault, file=str(having[0].relative_to(ROOT)))


def in_words(text: str) -> str:
    """Return a text with one space in place of any white space."""
    return " ".join(text.split())


def _is_there(tests: str) -> bool:
    return tests != "tests" and (ROOT / tests.partition("::")[0]).exists()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.planted", description=__doc__)
    parser.add_argument("--only", default="", metavar="PATTERN", help="faults whose name matches this expression")
    parser.add_argument("--all", action="store_true", help="run also the tests that `make test` leaves out")
    parser.add_argument("--list", action="store_true", help="check the lists and count them by room; plant nothing")
    options = parser.parse_args(arguments)
    try:
        faults = [fault for fault in read_faults() if re.search(options.only, fault.name)]
        if options.list:
            print("\n".join(f"{fault.name}  ({fault.tests})" for fault in faults))
            return 0
        verdicts: list[Verdict] = []
        with tempfile.TemporaryDirectory(prefix="warpwatch-planted-") as name:
            copy_checkout(Path(name))
            for fault in sorted(faults, key=lambda fault: fault.tests):
                if not verdicts or fault.tests != verdicts[-1].fault.tests:
                    check_without_fault(fault.tests, Path(name), options.all)
                verdicts.append(attempt(fault, Path(name), options.all))
                print(verdicts[-1].line, flush=True)
    except BadList as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    noticed = sum(bool(verdict.test) for verdict in verdicts)
    print(f"noticed {noticed} of {len(verdicts)} faults (at least {NEEDED:.0%})")
    return 0 if noticed >= NEEDED * len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
