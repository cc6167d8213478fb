"""Reads workflows and actions of GitHub, and jobs of GitLab, and checks their shell: ``python -m tools.workflows``."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".github" / "workflows"
TEMPLATE = ROOT / "warpwatch" / "templates" / "gitlab-kernels.yml.txt"
ACTIONS = ROOT / ".github" / "actions"
SHELL = ("bash", "-e", "-o", "pipefail")  # as a runner calls it for `shell: bash`, and stricter than its default


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a job: its name or action, the condition under which it runs, and its shell script, if any."""

    name: str
    condition: str
    script: str


def load(path: Path) -> dict[str, Any]:
    """Read a workflow."""
    return dict(YAML(typ="safe", pure=True).load(path))


def steps(job: dict[str, Any]) -> list[Step]:
    """List the steps of a job in their order."""
    return [
        Step(
            name=str(step.get("name") or step.get("uses") or step.get("run")),
            condition=str(step.get("if", "success()")),
            script=str(step.get("run", "")),
        )
        for step in job["steps"]
    ]


def scripts() -> Iterator[tuple[str, str]]:
    """Yield every shell script of workflows, actions and jobs of GitLab, after its file, job and step."""
    for path in sorted(FOLDER.glob("*.yml")):
        for name, job in load(path)["jobs"].items():
            for step in steps(job):
                if step.script:
                    yield f"{path.relative_to(ROOT)}: {name}: {step.name}", step.script
    for path in sorted(ACTIONS.glob("*/action.yml")):
        for step in steps(load(path)["runs"]):
            if step.script:
                yield f"{path.relative_to(ROOT)}: {step.name}", step.script
    for path in sorted(ACTIONS.glob("*/*.sh")):
        yield str(path.relative_to(ROOT)), path.read_text()
    for name, job in load(TEMPLATE).items():
        if lines := job.get("script"):
            yield f"{TEMPLATE.relative_to(ROOT)}: {name}", "\n".join(lines)


def check_script(source: str, script: str) -> str:
    """Return the findings of ShellCheck, or an empty text. Expressions of GitHub are replaced by a plain word."""
    plain = re.sub(r"\$\{\{.*?\}\}", "expression", script, flags=re.DOTALL)
    program = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:/usr/bin") or "shellcheck"
    done = subprocess.run(
        [program, "--shell=bash", "--severity=style", "-"], input=plain, capture_output=True, text=True, check=False
    )
    return f"{source}\n{done.stdout}{done.stderr}" if done.returncode else ""


def main() -> int:
    found = [text for source, script in scripts() if (text := check_script(source, script))]
    print("\n".join(found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
