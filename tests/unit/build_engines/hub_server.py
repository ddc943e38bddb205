"""A small Hugging Face hub on a local port: one repository, or one refusal for everything."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["COMMIT", "HubServer", "serve_hub"]

COMMIT = "c0ffee" + "0" * 34


class HubServer(ThreadingHTTPServer):
    """``files`` of the one repository; ``refusal`` answers everything when it is set."""

    daemon_threads = True

    def __init__(self, files: Mapping[str, bytes], refusal: tuple[int, str] | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.refusal = refusal
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: HubServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.server.refusal:
            status, code = self.server.refusal
            self._answer(status, b"{}", {"X-Error-Code": code} if code else {})
        elif self.path.startswith("/api/models/"):
            siblings = [{"rfilename": name} for name in self.server.files]
            self._answer(200, json.dumps({"id": "owner/model", "sha": COMMIT, "siblings": siblings}).encode(), {})
        else:
            self._file(self.path.rsplit(f"/resolve/{COMMIT}/", 1)[-1])

    do_HEAD = do_GET

    def _file(self, name: str) -> None:
        content = self.server.files.get(name)
        if content is None:
            self._answer(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        tag = hashlib.sha256(content).hexdigest()
        self._answer(200, content, {"X-Repo-Commit": COMMIT, "ETag": f'"{tag}"'})

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@contextmanager
def serve_hub(files: Mapping[str, bytes], refusal: tuple[int, str] | None = None) -> Iterator[HubServer]:
    server = HubServer(files, refusal)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
