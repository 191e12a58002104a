"""A server on loopback that speaks the part of the Hugging Face Hub's API that reads data sets."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class DataSetRepository:
    """Files of one data set, and requests that fail."""

    name: str  # owner/name
    files: dict[str, bytes] = field(default_factory=dict)
    changed_at: dict[str, str] = field(default_factory=dict)  # else 2024
    busy: int = 0  # answers with 500 that are left
    requests: list[str] = field(default_factory=list)

    def about(self, path: str) -> dict[str, object]:
        """A file as the API describes it."""
        content = self.files[path]
        date = self.changed_at.get(path, "2024-01-01T00:00:00.000Z")
        commit = {"id": "c" * 40, "title": "upload", "date": date}
        return {
            "type": "file", "path": path, "size": len(content),
            "oid": hashlib.sha1(content).hexdigest(), "lastCommit": commit,
        }  # fmt: skip

    def below(self, folder: str, *, recursive: bool) -> list[dict[str, object]]:
        """Entries of a folder, those in its folders too when `recursive`."""
        prefix = f"{folder}/" if folder else ""
        entries, folders = [], set()
        for path in sorted(self.files):
            if not path.startswith(prefix):
                continue
            *parents, _ = path.removeprefix(prefix).split("/")
            if recursive or not parents:
                entries.append(self.about(path))
            depths = range(1, len(parents) + 1 if recursive else min(len(parents), 1) + 1)
            folders |= {prefix + "/".join(parents[:depth]) for depth in depths}
        return [
            *({"type": "directory", "path": path, "oid": "d" * 40, "size": 0} for path in folders),
            *entries,
        ]


class HubHandler(BaseHTTPRequestHandler):
    """Describes the repository, lists trees, describes paths, and sends files in ranges."""

    repository: DataSetRepository
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer({})

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_json = "json" in self.headers.get("Content-Type", "")
        self._answer(json.loads(body) if is_json else parse_qs(body.decode()))

    def _answer(self, body: dict[str, object]) -> None:
        found, address = self.repository, urlsplit(self.path)
        found.requests.append(f"{self.command} {self.path}")
        path, api = unquote(address.path), f"/api/datasets/{found.name}"
        inside = re.fullmatch(
            rf"(?:{api}/(tree|revision|paths-info)/|/datasets/{found.name}/(resolve)/)"
            r"main/?(.*)",
            path,
        )
        if found.busy:
            found.busy -= 1
            self._send(500, b"{}")
        elif path == api or (inside and inside[1] == "revision"):
            about = {"id": found.name, "sha": "c" * 40, "private": False, "downloads": 0,
                     "likes": 0, "tags": [], "siblings": []}  # fmt: skip
            self._send_json(about)
        elif inside and inside[1] == "tree":
            recursive = parse_qs(address.query).get("recursive", [""])[0].lower() in ("1", "true")
            entries = found.below(inside[3], recursive=recursive)
            if entries or not inside[3]:
                self._send_json(entries)
            else:
                self._missing("EntryNotFound")
        elif inside and inside[1] == "paths-info":
            wanted = body["paths"]
            names = [wanted] if isinstance(wanted, str) else wanted
            self._send_json([found.about(name) for name in names if name in found.files])
        elif inside and inside[3] in found.files:
            content = found.files[inside[3]]
            span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            part = content[int(span[1]) : int(span[2]) + 1] if span else content
            self._send(206 if span else 200, part, "application/octet-stream")
        else:
            self._missing("EntryNotFound" if inside else "RepoNotFound")

    def _missing(self, code: str) -> None:
        self._send(404, b'{"error": "not found"}', headers={"X-Error-Code": code})

    def _send_json(self, content: object) -> None:
        self._send(200, json.dumps(content).encode())

    def _send(
        self,
        status: int,
        body: bytes,
        kind: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def hub(name: str, files: dict[str, bytes]) -> Iterator[tuple[str, DataSetRepository]]:
    """A hub with one data set; -> its address for HF_ENDPOINT."""
    repository = DataSetRepository(name, files)
    handler = type("RepositoryHandler", (HubHandler,), {"repository": repository})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", repository
    finally:
        server.shutdown()
        server.server_close()
