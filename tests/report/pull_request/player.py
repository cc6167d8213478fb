"""Plays GitHub's actions and GitLab's jobs as runners do: expressions, environment, shell and conditions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.project import ROOT
from tools.workflows import load

ACTIONS = ROOT / ".github" / "actions"
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
# Stands for a runner's Python: its environments have this repository's packages, and it installs nothing.
PYTHON = r"""#!/bin/sh
echo "${{GITHUB_TOKEN:+token: }}${{GITLAB_TOKEN:+token: }}$0 $*" >> "$RUNNER_TEMP/calls"
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; exit;;
  "-m pip "*|"-m warpwatch setup"|*/tools/install.py\ *) echo "$*" >> "$RUNNER_TEMP/pip"; exit;;
esac
exec "{python}" "$@"
"""


@dataclass(kw_only=True)
class Machine:
    """A machine that runs jobs. ``variables``: of its environment. ``output``: of the shells that ran."""

    folder: Path
    variables: dict[str, str]
    output: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.temp.mkdir(parents=True, exist_ok=True)
        self.bin.mkdir(parents=True, exist_ok=True)
        for name in ("python", "python3", "sudo"):
            (self.bin / name).write_text(PYTHON.format(python=sys.executable) if name != "sudo" else "#!/bin/sh\n")
            (self.bin / name).chmod(0o755)

    @property
    def temp(self) -> Path:
        return self.folder / "runner-temp"

    @property
    def bin(self) -> Path:
        return self.folder / "runner-bin"

    @property
    def text(self) -> str:
        return "\n".join(self.output)

    def shell(self, script: str, checkout: Path, own: Mapping[str, str]) -> bool:
        """Run a script with more variables; tells whether it went well."""
        hosts = ("PYTEST", "GITHUB", "GITLAB", "CI")
        known = {name: value for name, value in os.environ.items() if not name.startswith(hosts)}
        temp = str(self.temp)
        environment = known | {"PATH": f"{self.bin}:{os.environ['PATH']}", "RUNNER_TEMP": temp, "TMPDIR": temp}
        environment |= {**self.variables, **own}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        self.output += [done.stdout, done.stderr]
        return done.returncode == 0


@dataclass(kw_only=True)
class Runner(Machine):
    """A runner of GitHub. ``context``: what expressions mean. ``artifacts``: what was uploaded, by name."""

    context: dict[str, str]
    artifacts: Path

    def __post_init__(self) -> None:
        super().__post_init__()
        files = {"GITHUB_OUTPUT": str(self.temp / "output"), "GITHUB_STEP_SUMMARY": str(self.temp / "summary")}
        self.variables = {"GITHUB_ACTIONS": "true", **files, **self.variables}

    def play(self, action: str, checkout: Path, **inputs: str) -> bool:
        """Run the steps of one of this repository's actions in a checkout; tells whether all went well."""
        document = load(ACTIONS / action / "action.yml")
        given = {name: str(each.get("default", "")) for name, each in document["inputs"].items()} | inputs
        known = self.context | {f"inputs.{name}": self.expand(value, {}) for name, value in given.items()}
        known |= {"github.action_path": str(ACTIONS / action), "runner.temp": str(self.temp)}
        good = True
        for step in document["runs"]["steps"]:
            if applies(str(step.get("if", "success()")), good, known):
                good &= self.step(step, checkout, known) or bool(step.get("continue-on-error"))
        return good

    def expand(self, text: str, known: Mapping[str, str]) -> str:
        """Put in what the expressions of a text mean. Raises KeyError for one that this runner does not know."""
        return EXPRESSION.sub(lambda found: {**self.context, **known}[found[1]], text)

    def step(self, step: Mapping[str, Any], checkout: Path, known: Mapping[str, str]) -> bool:
        uses = str(step.get("uses", ""))
        options = {name: self.expand(str(value), known) for name, value in step.get("with", {}).items()}
        if uses.startswith("actions/upload-artifact@"):
            return self.upload(options, checkout)
        if uses.startswith("actions/download-artifact@"):
            return self.download(options)
        if uses:
            assert uses.partition("@")[0] in ("actions/setup-python", "actions/cache"), uses
            return True
        assert step["shell"] == "bash"
        own = {name: self.expand(str(value), known) for name, value in step.get("env", {}).items()}
        assert "${{" not in step["run"], "an expression in a script is a way in for whoever names a branch"
        return self.shell(step["run"], checkout, own)

    def upload(self, options: Mapping[str, str], checkout: Path) -> bool:
        files = [path for path in (checkout / options["path"]).rglob("*") if path.is_file()]
        assert files or options["if-no-files-found"] == "error"
        for path in files:
            copy = self.artifacts / options["name"] / path.relative_to(checkout / options["path"])
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
        return bool(files)

    def download(self, options: Mapping[str, str]) -> bool:
        found = [path for path in self.artifacts.glob(f"{options['pattern']}/**/*") if path.is_file()]
        for path in found:
            copy = Path(options["path"]) / path.relative_to(self.artifacts)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
        return bool(found)


def applies(condition: str, good: bool, known: Mapping[str, str]) -> bool:
    """Say whether a step with this condition runs."""
    plain = EXPRESSION.sub(lambda found: found[1], condition)
    if found := re.fullmatch(r"(inputs\.\w+) != ''", plain):
        return good and known[found[1]] != ""
    return {"success()": good, "!cancelled()": True}[plain]


TERM = re.compile(r"""\$(\w+)(?: == (?:\$(\w+)|"([^"]*)"))?""")


@dataclass(kw_only=True)
class GitLabRunner(Machine):
    """A runner of GitLab, which plays the jobs of a file."""

    def jobs(self, document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the jobs that a pipeline with this runner's variables has, with what they extend."""
        jobs = {name: inherited(document, name) for name in document if not name.startswith(".")}
        return {name: job for name, job in jobs.items() if any(self.holds(rule["if"]) for rule in job["rules"])}

    def holds(self, condition: str) -> bool:
        """Evaluate the condition of a rule: comparisons with `==`, joined by `&&`."""
        return all(self.term(term) for term in condition.split(" && "))

    def term(self, text: str) -> bool:
        found = TERM.fullmatch(text)
        assert found, text
        name, other, literal = found.groups()
        value = self.variables.get(name)
        if other is None and literal is None:
            return bool(value)
        return value == (self.variables.get(other) if other else literal)

    def play(self, job: Mapping[str, Any], checkout: Path) -> bool:
        """Run a job in a checkout, as GitLab does: its lines are one script, its variables below the project's."""
        own = {name: re.sub(r"\$(\w+)", lambda found: self.variables[found[1]], str(value))
               for name, value in job.get("variables", {}).items() if name not in self.variables}  # fmt: skip
        return self.shell("\n".join(job["script"]), checkout, own)


def inherited(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a job with what it extends: mappings are merged, and all else is replaced."""
    job = dict(document[name])
    above = inherited(document, job.pop("extends")) if "extends" in job else {}
    variables = {**above.get("variables", {}), **job.get("variables", {})}
    return {**above, **job, "variables": variables}
