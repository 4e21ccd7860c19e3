"""A forge on this machine with the shapes of GitCode, Gitee and GitHub (pulls) and of GitLab (merge requests)."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


class Forge:
    """What the forge has, what it was asked, and what it is told to do wrong."""

    def __init__(self, token: str, header: str) -> None:
        self.token, self.header = token, header
        self.reviews: list[dict[str, Any]] = []
        self.requests: list[tuple[str, str, dict[str, str], str]] = []
        self.faults: list[
            tuple[str, int, dict[str, str], bool]
        ] = []  # method, status, headers, carried out all the same
        self.lock = threading.Lock()
        forge = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *arguments: Any) -> None:
                pass

            def do_GET(self) -> None:
                forge.answer(self, "GET")

            def do_POST(self) -> None:
                forge.answer(self, "POST")

            def do_PATCH(self) -> None:
                forge.answer(self, "PATCH")

            def do_PUT(self) -> None:
                forge.answer(self, "PUT")

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/api/v5"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    # ---- answers

    def answer(self, handler: BaseHTTPRequestHandler, method: str) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        text = handler.rfile.read(length).decode() if length else ""
        with self.lock:
            self.requests.append((method, handler.path, dict(handler.headers.items()), text))
            name, _, value = self.header.partition(": ")
            if handler.headers.get(name) != value + self.token:
                return self.send(handler, 401, {"message": f"401 Unauthorized: {handler.headers.get(name)}"})
            fault = next((f for f in self.faults if f[0] == method), None)
            if fault:
                self.faults.remove(fault)
                if fault[3]:
                    self.act(method, handler.path, text)
                return self.send(handler, fault[1], {"message": "as told"}, fault[2])
            self.send(handler, *self.act(method, handler.path, text))

    def act(self, method: str, path: str, text: str) -> tuple[int, Any]:
        parts = urlsplit(path)
        query = {k: v[0] for k, v in parse_qs(parts.query).items()}
        body = json.loads(text) if text else {}
        if "/projects/" in parts.path:
            return self.merge_requests(method, unquote(parts.path), query, body)
        return self.pulls(method, parts.path, query, body)

    def pulls(self, method: str, path: str, query: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        found = re.search(r"/repos/([^/]+/[^/]+)/pulls(?:/(\d+))?$", path)
        if not found:
            return 404, {"message": "404 Not Found"}
        if method == "GET":
            page = [r for r in self.reviews if r["base"]["ref"] == query["base"]]
            return 200, page if query.get("page", "1") == "1" else []
        if method == "PATCH":
            item = next(r for r in self.reviews if r["number"] == int(found[2]))
            item.update({k: body[k] for k in ("title", "body") if k in body})
            return 200, item
        owner, _, branch = body["head"].partition(":")
        if any(r["head"]["ref"] == branch and r["base"]["ref"] == body["base"] for r in self.reviews):
            return 422, {"message": "a pull request already exists"}
        fork = body.get("fork_path", f"{owner}/{found[1].split('/')[1]}")
        item = {
            "number": 100 + len(self.reviews),
            "html_url": f"https://forge.example/{found[1]}/pulls/{100 + len(self.reviews)}",
            "title": body["title"],
            "body": body["body"],
            "head": {"ref": branch, "label": body["head"], "repo": {"full_name": fork}},
            "base": {"ref": body["base"]},
        }
        self.reviews.append(item)
        return 201, item

    def merge_requests(self, method: str, path: str, query: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        if method == "GET" and "merge_requests" not in path:
            return 200, {"id": 4711}
        if method == "GET":
            wanted = [
                r
                for r in self.reviews
                if r["source_branch"] == query["source_branch"] and r["target_branch"] == query["target_branch"]
            ]
            return 200, wanted if query.get("page", "1") == "1" else []
        if method == "PUT":
            item = next(r for r in self.reviews if r["iid"] == int(path.rsplit("/", 1)[1]))
            item.update({k: body[k] for k in ("title", "description") if k in body})
            return 200, item
        assert body["target_project_id"] == 4711
        number = 7 + len(self.reviews)
        item = {"iid": number, "web_url": f"https://forge.example/merge_requests/{number}", **body}
        self.reviews.append(item)
        return 201, item

    def send(
        self, handler: BaseHTTPRequestHandler, status: int, answer: Any, headers: dict[str, str] | None = None
    ) -> None:
        data = json.dumps(answer).encode()
        handler.send_response(status)
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def bodies(self) -> list[str]:
        return [r.get("body", r.get("description", "")) for r in self.reviews]
