"""Stands in for the interfaces of GitHub and GitLab, on the loopback address."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

BOT = "github-actions[bot]"
TOKEN = "a-token-of-the-job"  # of nothing
PROJECT_BOT = "project_7_bot"  # who writes with the token of a project
PAGE = 100
H = TypeVar("H", bound="Asked")


@dataclass
class Asked:
    """Requests that a stand-in has received.

    ``refusals``: answers that it gives before any other, in turn: a status, a message and more headers.
    """

    url: str = ""
    refusals: list[tuple[int, str, dict[str, str]]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    def answer(self, method: str, path: str, query: dict[str, list[str]], content: Any) -> tuple[int, Any]:
        """Answer a call as the host documents it: a status, and JSON or the bytes of a file."""
        raise NotImplementedError


@dataclass
class StandIn(Asked):
    """GitHub, with pull requests and comments."""

    pulls: list[dict[str, Any]] = field(default_factory=list)
    comments: list[dict[str, Any]] = field(default_factory=list)
    opened: list[dict[str, str]] = field(default_factory=list)

    def add_pull(self, number: int, head: str, sha: str) -> None:
        owner, _, branch = head.partition(":")
        self.pulls.append({"number": number, "head": {"label": head, "ref": branch, "user": owner, "sha": sha}})

    def add_comment(self, body: str, login: str) -> None:
        self.comments.append({"id": 1000 + len(self.comments), "body": body, "user": {"login": login}})

    def bodies(self, login: str = BOT) -> list[str]:
        return [str(comment["body"]) for comment in self.comments if comment["user"]["login"] == login]

    def answer(self, method: str, path: str, query: dict[str, list[str]], content: Any) -> tuple[int, Any]:
        if method == "GET" and path == "/repos/them/theirs/pulls":
            return 200, [pull for pull in self.pulls if pull["head"]["label"] == query["head"][0]]
        if method == "GET" and re.fullmatch(r"/repos/them/theirs/issues/\d+/comments", path):
            return 200, page_of(self.comments, query)
        if method == "POST" and re.fullmatch(r"/repos/them/theirs/issues/\d+/comments", path):
            self.add_comment(content["body"], BOT)
            return 201, self.comments[-1]
        if method == "PATCH" and (found := re.fullmatch(r"/repos/them/theirs/issues/comments/(\d+)", path)):
            (comment,) = (each for each in self.comments if each["id"] == int(found[1]))
            comment["body"] = content["body"]
            return 200, comment
        if method == "POST" and path == "/repos/them/theirs/pulls":
            self.opened.append(content)
            return 201, {"number": 40 + len(self.opened)}
        return 404, {"message": "Not Found"}


@dataclass
class GitLabStandIn(Asked):
    """GitLab, with the project 7: its merge requests by number, the notes of each, and jobs of pipelines by project.

    ``artifacts``: files that jobs left, by job and path. ``moved``: where each of them lies instead, if it does.
    """

    requests: dict[int, dict[str, Any]] = field(default_factory=dict)
    notes: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    jobs: dict[tuple[int, int], list[dict[str, Any]]] = field(default_factory=dict)
    artifacts: dict[tuple[int, str], bytes] = field(default_factory=dict)
    moved: str = ""

    def open(self, iid: int, sha: str, *, project: int = 7, pipeline: int = 50, ran: str = "", ref: str = "") -> None:
        """Open a merge request whose pipeline ran in a project. ``ran``: the commit of that, where it is another."""
        address = f"https://gitlab/{project}/-/pipelines/{pipeline}"
        head = {"id": pipeline, "project_id": project, "sha": ran or sha, "ref": ref or "faster", "web_url": address}
        self.requests[iid] = {"iid": iid, "project_id": 7, "sha": sha, "head_pipeline": head}
        self.notes.setdefault(iid, [])

    def ended(self, job: int, *, project: int = 7, pipeline: int = 50, name: str = "kernels", status: str = "success",
              **files: bytes) -> None:  # fmt: skip
        """End a job, which left a result of that content."""
        self.jobs.setdefault((project, pipeline), []).append({"id": job, "name": name, "status": status})
        for content in files.values():
            self.artifacts[job, "warpwatch-results/warpwatch-result.json"] = content

    def add_note(self, iid: int, body: str, username: str) -> None:
        self.notes[iid].append({"id": 900 + len(self.notes[iid]), "body": body, "author": {"username": username}})

    def bodies(self, iid: int, username: str = PROJECT_BOT) -> list[str]:
        return [str(note["body"]) for note in self.notes[iid] if note["author"]["username"] == username]

    def answer(self, method: str, path: str, query: dict[str, list[str]], content: Any) -> tuple[int, Any]:
        found = re.fullmatch(r"/(?:projects/(\d+)/)?(\w+)(?:/(\d+))?(?:/(\w+))?(?:/(\S+))?", path)
        project, what, number, part, rest = found.groups() if found else ("", "", "", "", "")
        status, said = 404, {"message": "404 Not Found"}  # type: tuple[int, Any]
        match method, project, what, part:
            case "GET", None, "user", None:
                status, said = 200, {"username": PROJECT_BOT}
            case "GET", "7", "merge_requests", None if number:
                status, said = 200, self.requests[int(number)]
            case "GET", "7", "merge_requests", None if query["state"] == ["opened"]:
                listed = [{**each, "head_pipeline": None} for each in self.requests.values()]
                status, said = 200, page_of(listed, query)
            case "GET", "7", "merge_requests", "notes":
                status, said = 200, page_of(self.notes[int(number)], query)
            case "POST", "7", "merge_requests", "notes":
                self.add_note(int(number), content["body"].rstrip(), PROJECT_BOT)
                status, said = 201, self.notes[int(number)][-1]
            case "PUT", "7", "merge_requests", "notes":
                (said,) = (each for each in self.notes[int(number)] if each["id"] == int(rest))
                status, said["body"] = 200, content["body"].rstrip()
            case "GET", _, "pipelines", "jobs" if (int(project), int(number)) in self.jobs:
                status, said = 200, page_of(self.jobs[int(project), int(number)], query)
            case "GET", _, "jobs", "artifacts" if self.moved:
                status, said = 302, f"{self.moved}/{number}"
            case "GET", _, "jobs", "artifacts" if (int(number), rest) in self.artifacts:
                status, said = 200, self.artifacts[int(number), rest]
        return status, said


def page_of(entries: list[dict[str, Any]], query: dict[str, list[str]]) -> list[dict[str, Any]]:
    page = int(query.get("page", ["1"])[0])
    return entries[(page - 1) * PAGE : page * PAGE]


def handler(host: Asked) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            parts = urlsplit(self.path)
            host.asked.append(f"{self.command} {parts.path}")
            host.tokens.append(self.headers.get("Authorization", ""))
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers: dict[str, str] = {}
            if host.refusals:
                status, message, headers = host.refusals.pop(0)
                said: Any = {"message": message}
            elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
                status, said = 401, {"message": "Bad credentials"}
            else:
                given = json.loads(content) if content else None
                status, said = host.answer(self.command, parts.path, parse_qs(parts.query), given)
                headers = {"Location": said} if status == 302 else {}
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            body = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_PUT = respond  # noqa: N815  # the names that http.server calls

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    return Handler


@contextlib.contextmanager
def serve(host: H) -> Iterator[H]:
    """Run a stand-in until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(host))
    host.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield host
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
