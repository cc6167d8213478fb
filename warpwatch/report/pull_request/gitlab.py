"""Merge requests, their pipelines and their notes at GitLab.

https://docs.gitlab.com/api/notes/, https://docs.gitlab.com/api/merge_requests/, https://docs.gitlab.com/api/jobs/,
https://docs.gitlab.com/api/job_artifacts/
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar

import msgspec

from warpwatch.report.pull_request.code_host import Comment, Host, Refused

ENDED = ("success", "failed", "canceled", "skipped", "manual")  # statuses of a job that does not go on by itself


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Note(msgspec.Struct):
    id: int
    body: str = ""
    author: _User = _User()


class Job(msgspec.Struct):
    """Job of a pipeline."""

    id: int
    name: str
    status: str


class Pipeline(msgspec.Struct):
    """Pipeline, in the project that ran it: of a merge request from a fork, mostly the fork."""

    id: int
    project_id: int
    sha: str
    ref: str = ""
    web_url: str = ""


class MergeRequest(msgspec.Struct):
    """Merge request of the project ``project_id``. ``sha``: its newest commit.

    ``head_pipeline``: its newest pipeline, which a list leaves out.
    """

    iid: int
    project_id: int
    sha: str | None = None
    head_pipeline: Pipeline | None = None

    @property
    def pipeline(self) -> Pipeline | None:
        """The pipeline of the newest commit, or of what merging it would give; None where there is none yet."""
        newest, merged = self.head_pipeline, f"refs/merge-requests/{self.iid}/merge"
        return newest if newest and (newest.sha == self.sha or newest.ref == merged) else None


@dataclass(frozen=True, kw_only=True)
class GitLab(Host):
    """A project at GitLab."""

    TOKEN: ClassVar[str] = "GITLAB_TOKEN"
    API: ClassVar[str] = "CI_API_V4_URL"
    DEFAULT: ClassVar[str] = "https://gitlab.com/api/v4"
    NAME: ClassVar[str] = r"\d+|\w[\w.-]*(/\w[\w.-]*)+"
    FORM: ClassVar[str] = "a project's number, or GROUP/NAME"
    CURES: ClassVar[Mapping[int, str]] = {
        HTTPStatus.UNAUTHORIZED: "the token is not valid, or has expired: give GITLAB_TOKEN a project access token",
        HTTPStatus.FORBIDDEN: "the token may not do this: it needs the scope `api` and the role Reporter",
        HTTPStatus.NOT_FOUND: "there is no such project or merge request, or the token may not see it",
    }

    @property
    def place(self) -> str:
        return f"projects/{urllib.parse.quote(self.repository, safe='')}"

    def login(self) -> str:
        """Return whose token it is. Raises Refused."""
        return self.ask("GET", "user", _User).username

    def open_merge_requests(self) -> Iterator[MergeRequest]:
        """Yield the open merge requests, each as it is now. Raises Refused."""
        for each in self.pages(f"{self.place}/merge_requests?state=opened&", MergeRequest):
            yield self.ask("GET", f"{self.place}/merge_requests/{each.iid}", MergeRequest)

    def jobs(self, pipeline: Pipeline) -> Iterator[Job]:
        """Yield a pipeline's jobs, of those that were run again the last. Raises Refused."""
        return self.pages(f"projects/{pipeline.project_id}/pipelines/{pipeline.id}/jobs?", Job)

    def artifact(self, pipeline: Pipeline, job: Job, path: str) -> bytes | None:
        """Return a file that a job left; None where it left none, or no longer has it. Raises Refused."""
        try:
            return self.ask("GET", f"projects/{pipeline.project_id}/jobs/{job.id}/artifacts/{path}", bytes)
        except Refused as refusal:
            if refusal.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def comments(self, number: int) -> Iterator[Comment]:
        """Yield the notes of a merge request. Raises Refused."""
        for each in self.pages(f"{self.place}/merge_requests/{number}/notes?", _Note):
            yield Comment(id=each.id, body=each.body, author=each.author.username)

    def put_comment(self, number: int, body: str, earlier: Comment | None) -> None:
        """Write a note, or another body of an earlier one. Raises Refused."""
        path = f"{self.place}/merge_requests/{number}/notes"
        method, path = ("PUT", f"{path}/{earlier.id}") if earlier else ("POST", path)
        self.ask(method, path, Any, {"body": body})
