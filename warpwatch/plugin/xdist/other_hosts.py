"""Processes of xdist on other machines (``--tx ssh=host//chdir=FOLDER``), which run the tests of a checkout there.

xdist itself copies folders to such machines, pytest's own among them, and knows tests by their place in what it copied.
Unless it is told to do so (``--rsyncdir``), nothing is copied here: each process gets the names of the tests from the
first one, and finds them in the checkout in which it was started. That must be in the same state as the first
process's, because one run says of all its cases which commit they are.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from warpwatch.plugin.xdist.processes import hand, handed, is_part
from warpwatch.revision.commit import git
from warpwatch.revision.declared import BadRevision

SENT = "warpwatch_tests"  # handed to the others: the names of the tests, and the state of the first one's checkout
TESTS = pytest.StashKey[list[str]]()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[Any]) -> None:
    """Keep xdist from copying, and the names of tests from its own translation. Raises UsageError."""
    elsewhere = any(not spec.popen or spec.chdir for spec in specs)
    if not elsewhere or config.option.rsyncdir or config.getini("rsyncdirs"):
        return
    config.stash[TESTS] = [_in_checkout(config, test) for test in config.args]
    manager = config.pluginmanager.get_plugin("dsession").nodemanager  # type: ignore[union-attr]
    manager.roots = []
    given, words = config.invocation_params, [str(word) for word in config.invocation_params.args]
    for test in config.args:
        if test in words:
            words.remove(test)
    config.invocation_params = config.InvocationParams(args=_joined(words), plugins=given.plugins, dir=given.dir)


def _joined(options: Sequence[str]) -> list[str]:
    """Return options with their values in one word: xdist would take ``hello`` of ``-k hello`` for a folder."""
    joined: list[str] = []
    for word in options:
        if word.startswith("-") or not joined:
            joined.append(word)
        else:
            joined[-1] += f"={word}" if joined[-1].startswith("--") or not word else word
    return joined


def _in_checkout(config: pytest.Config, test: str) -> str:
    """Return a test's name with the path of its file from the root of the checkout."""
    path, *names = test.split("::")
    file = (config.invocation_params.dir / path).resolve()
    if not file.is_relative_to(config.rootpath.resolve()):
        raise pytest.UsageError(f"{test} lies outside {config.rootpath}: other machines have a checkout of that alone")
    return "::".join([file.relative_to(config.rootpath.resolve()).as_posix(), *names])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand a process the names of the tests, and the state of the checkout."""
    if TESTS in node.config.stash:
        hand(node, SENT, (node.config.stash[TESTS], state_of(node.config.rootpath)))


def take_over_tests(config: pytest.Config) -> None:
    """Run, in a process of xdist, the tests that the first one names."""
    if sent := handed(config, SENT):
        config.args = [str(config.rootpath / test) for test in sent[0]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """End a process of xdist whose checkout is in another state; an error would be an internal one there."""
    _, wanted = handed(session.config, SENT) or ((), "")
    root = session.config.rootpath
    if wanted and (here := state_of(root)) != wanted:
        session.shouldfail = (
            f"{platform.node()}: the checkout in {root} is {here or 'no git repository'}, and the first process's is "
            f"{wanted}: one run tests one state of the code; bring both to the same, or leave this host out"
        )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test that a process of xdist must not run: it ends only after its first one."""
    if is_part(item.config) and isinstance(item.session.shouldfail, str):
        raise pytest.fail.Exception(item.session.shouldfail, pytrace=False)


def state_of(root: Path) -> str:
    """Return the commit of a checkout and a digest of what was changed since; empty where git knows none."""
    try:
        head, changes, others = (
            git("a run on several hosts", root, *arguments)
            for arguments in (
                ("rev-parse", "--short=12", "HEAD"),
                ("diff", "HEAD", "--binary", "--no-ext-diff", "--no-color"),
                ("ls-files", "--others", "--exclude-standard", "-z"),
            )
        )
    except BadRevision:  # there is no git
        return ""
    if head.returncode:
        return ""
    added = [path for name in others.stdout.split(b"\0") if (path := root / os.fsdecode(name)).is_file()]
    if not changes.stdout and not added:
        return f"commit {head.stdout.decode().strip()}"
    digest = hashlib.sha256(changes.stdout)
    for path in added:
        with path.open("rb") as file:
            contents = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(os.fsencode(f"{path.relative_to(root)}\0{contents}"))
    return f"commit {head.stdout.decode().strip()} with changes {digest.hexdigest()[:8]}"
