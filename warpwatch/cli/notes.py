"""Writes what jobs found out as the one note of each open merge request at GitLab: ``warpwatch notes``.

A schedule of the protected default branch calls it, where alone the token is: no pipeline of a merge request has it.
``python -m warpwatch.cli.notes`` is the same command, and needs no package but msgspec.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warpwatch.cli.comment import read
from warpwatch.report.pull_request.code_host import Comment, Refused
from warpwatch.report.pull_request.comment import About, comment, marker
from warpwatch.report.pull_request.gitlab import ENDED, GitLab, Job, MergeRequest, Pipeline
from warpwatch.report.pull_request.result import NAME, Result, one_line

JOBS, RESULTS = "kernels", "warpwatch-results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    own = os.environ.get("CI_PROJECT_ID", "")
    parser.add_argument("--repository", default=own, metavar="PROJECT", help="its number or path ($CI_PROJECT_ID)")
    parser.add_argument("--title", default="kernels", help="tells this note from other ones (kernels)")
    parser.add_argument("--jobs", default=JOBS, metavar="PREFIX", help=f"names of its jobs begin with it ({JOBS})")
    parser.add_argument("--results", default=RESULTS, metavar="FOLDER", help=f"where these left results ({RESULTS})")
    parser.add_argument("--dry-run", action="store_true", help="print the notes, and write none")


def run(*, repository: str, title: str, jobs: str, results: str, dry_run: bool) -> int:
    """Write or update the note of each open merge request; returns 1 where one could not be written."""
    status, request = 0, None
    try:
        host = GitLab.of_environment(repository)
        notes = _Notes(host, host.login(), marker(title), jobs, f"{results}/{NAME}", dry_run)
        for request in host.open_merge_requests():
            try:
                outcome = notes.write(request)
            except Refused as error:
                outcome, status = f"error: no note was written: {error}", 1
            print(f"!{request.iid}: {outcome}", flush=True)
        if not request:
            print(f"{repository} has no open merge request: no note was written")
    except Refused as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return status


@dataclass(frozen=True)
class _Notes:
    """Notes of a marker and an author. ``prefix``, ``path``: of the jobs' names, and of the result that they leave."""

    host: GitLab
    author: str
    marker: str
    prefix: str
    path: str
    dry_run: bool

    def write(self, request: MergeRequest) -> str:
        """Write the note of a merge request, if its jobs have ended, and say what became of it. Raises Refused."""
        pipeline = request.pipeline
        if pipeline is None:
            return "its newest commit has no pipeline yet"
        try:
            jobs = [job for job in self.host.jobs(pipeline) if job.name.startswith(self.prefix)]
        except Refused as error:
            if pipeline.project_id == request.project_id or error.status not in (403, 404):
                raise
            return f"the token may not see its pipeline, which a fork ran: {pipeline.web_url}"
        if running := sum(job.status not in ENDED for job in jobs):
            return f"{running} of its {len(jobs)} jobs have not ended"
        earlier = self.host.find_comment(request.iid, self.marker, self.author)
        if not jobs and not earlier:
            return f"its pipeline has no job whose name begins with {self.prefix}"
        return self._put(request.iid, pipeline, jobs, earlier)

    def _put(self, number: int, pipeline: Pipeline, jobs: Sequence[Job], earlier: Comment | None) -> str:
        """Write the note of ended jobs, and say what became of it. Raises Refused."""
        known, unreadable = self._results(pipeline, jobs)
        if earlier and not known and not unreadable and pipeline.web_url in earlier.body:
            return "unchanged: its results are no longer kept"
        ended = next((job.status for job in jobs if job.status != "success"), "success")
        about = About(
            marker=self.marker, commit=pipeline.sha, run_url=pipeline.web_url, conclusion=ended, unreadable=unreadable
        )
        body = comment(known, about)
        if earlier and earlier.body.strip() == body.strip():
            return "unchanged"
        if self.dry_run:
            return f"would be {'updated' if earlier else 'written'}\n{body}"
        self.host.put_comment(number, body, earlier)
        return "updated" if earlier else "written"

    def _results(self, pipeline: Pipeline, jobs: Sequence[Job]) -> tuple[list[Result], list[str]]:
        """Fetch the results of jobs and read them, or say why that is not possible. Raises Refused."""
        missing = []
        with tempfile.TemporaryDirectory() as folder:
            for job in jobs:
                if content := self.host.artifact(pipeline, job, self.path):
                    (place := Path(folder, str(job.id))).mkdir()
                    (place / NAME).write_bytes(content)
                elif job.status == "success":
                    missing.append(one_line(f"{job.name} left no {self.path}, or it is no longer kept"))
            known, unreadable = read(Path(folder))
        return known, [*unreadable, *missing] if known else unreadable


def main() -> int:
    parser = argparse.ArgumentParser(prog="warpwatch notes")
    add_arguments(parser)
    return run(**vars(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
