"""Stands in for the interface of a code host: pull requests and comments, on the loopback address."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

BOT = "github-actions[bot]"
TOKEN = "a-token-of-the-job"  # of nothing
PAGE = 100


@dataclass
class StandIn:
    """Holds what the host knows and was asked.

    ``refusals``: answers that it gives before any other, in turn: a status, a message and more headers.
    """

    url: str = ""
    pulls: list[dict[str, Any]] = field(default_factory=list)
    comments: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[tuple[int, str, dict[str, str]]] = field(default_factory=list)
    opened: list[dict[str, str]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    def add_pull(self, number: int, head: str, sha: str) -> None:
        owner, _, branch = head.partition(":")
        self.pulls.append({"number": number, "head": {"label": head, "ref": branch, "user": owner, "sha": sha}})

    def add_comment(self, body: str, login: str) -> None:
        self.comments.append({"id": 1000 + len(self.comments), "body": body, "user": {"login": login}})

    def bodies(self, login: str = BOT) -> list[str]:
        return [str(comment["body"]) for comment in self.comments if comment["user"]["login"] == login]


def answer(host: StandIn, method: str, path: str, query: dict[str, list[str]], content: Any) -> tuple[int, Any]:
    """Answer a call as GitHub documents it."""
    if method == "GET" and path == "/repos/them/theirs/pulls":
        return 200, [pull for pull in host.pulls if pull["head"]["label"] == query["head"][0]]
    if method == "GET" and re.fullmatch(r"/repos/them/theirs/issues/\d+/comments", path):
        page = int(query.get("page", ["1"])[0])
        return 200, host.comments[(page - 1) * PAGE : page * PAGE]
    if method == "POST" and re.fullmatch(r"/repos/them/theirs/issues/\d+/comments", path):
        host.add_comment(content["body"], BOT)
        return 201, host.comments[-1]
    if method == "PATCH" and (found := re.fullmatch(r"/repos/them/theirs/issues/comments/(\d+)", path)):
        (comment,) = (each for each in host.comments if each["id"] == int(found[1]))
        comment["body"] = content["body"]
        return 200, comment
    if method == "POST" and path == "/repos/them/theirs/pulls":
        host.opened.append(content)
        return 201, {"number": 40 + len(host.opened)}
    return 404, {"message": "Not Found"}


def handler(host: StandIn) -> type[BaseHTTPRequestHandler]:
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
                status, said = answer(host, self.command, parts.path, parse_qs(parts.query), given)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            body = json.dumps(said).encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = respond  # noqa: N815  # the names that http.server calls

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    return Handler


@contextlib.contextmanager
def serve() -> Iterator[StandIn]:
    """Run a stand-in until the block ends."""
    host = StandIn()
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
