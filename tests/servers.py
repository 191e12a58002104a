"""Real servers on loopback: S3 by moto, Google Cloud Storage, and HTTP with ranges and faults."""

import hashlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from urllib.request import Request, urlopen


@dataclass
class Site:
    """Files by name, and faults of the answers."""

    files: dict[str, bytes] = field(default_factory=dict)
    url: str = ""
    ranges: bool = True
    cut_after: dict[str, int] = field(default_factory=dict)  # bytes of each answer
    busy: Counter[str] = field(default_factory=Counter)  # answers with 503 that are left
    refused: dict[str, int] = field(default_factory=dict)  # status of every answer
    slow_seconds: dict[str, float] = field(default_factory=dict)  # pause per 1,000 bytes
    swap: dict[str, bytes] = field(default_factory=dict)  # content after the first range
    requests: list[tuple[str, str, str]] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    site: Site
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        site, name = self.site, self.path.lstrip("/").partition("?")[0]
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        site.requests.append((self.command, name, self.headers.get("Range", "")))
        if site.busy[name] > 0:
            site.busy[name] -= 1
            self.send_error(503)
            return
        if name in site.refused:
            self.send_error(site.refused[name])
            return
        if f"{name}/" in site.files:  # a folder, as Apache, nginx and Python's server answer
            self.send_response(301)
            self.send_header("Location", f"/{name}/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if name not in site.files:
            self.send_error(404)
            return
        content = site.files[name]
        start, end = 0, len(content)
        if wanted and site.ranges:
            start, end = int(wanted[1]), min(int(wanted[2]) + 1, end)
        self.send_response(206 if wanted and site.ranges else 200)
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("Accept-Ranges", "bytes" if site.ranges else "none")
        self.send_header("Content-Length", str(end - start))
        if wanted and site.ranges:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
        self.end_headers()
        if body:
            self._send(name, content[start:end])

    def _send(self, name: str, content: bytes) -> None:
        cut, pause = self.site.cut_after.get(name), self.site.slow_seconds.get(name)
        try:
            for start in range(0, len(content), 1000):
                if cut is not None and start >= cut:
                    self.close_connection = True
                    self.connection.close()
                    return
                self.wfile.write(content[start : start + 1000])
                if pause:
                    self.wfile.flush()
                    time.sleep(pause)
        except OSError:
            return
        if name in self.site.swap:
            self.site.files[name] = self.site.swap.pop(name)


@contextmanager
def web_site() -> Iterator[Site]:
    """An HTTP server; its files and faults may be changed at any time."""
    site = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("SiteHandler", (Handler,), {"site": site}))
    server.daemon_threads = True
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def bucket(name: str, files: dict[str, Path]) -> Iterator[tuple[dict[str, str], object]]:
    """An S3 server with a bucket of these files; -> variables that lead to it, and its client."""
    import boto3
    import s3fs
    from moto.server import ThreadedMotoServer

    s3fs.S3FileSystem.clear_instance_cache()  # else it asks the server of an earlier test

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    variables = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1",
    }  # fmt: skip
    client = boto3.client(
        "s3", endpoint_url=variables["AWS_ENDPOINT_URL"], region_name="us-east-1",
        aws_access_key_id="test", aws_secret_access_key="test",
    )  # fmt: skip
    # Buckets are those of this process: an earlier test may have left some.
    reset = Request(f"{variables['AWS_ENDPOINT_URL']}/moto-api/reset", method="POST")
    urlopen(reset).close()
    try:
        client.create_bucket(Bucket=name)
        for key, file in files.items():
            client.put_object(Bucket=name, Key=key, Body=file.read_bytes())
        yield variables, client
    finally:
        server.stop()


@dataclass
class Objects:
    """Objects by name of one bucket of Google Cloud Storage, and requests that fail."""

    files: dict[str, bytes] = field(default_factory=dict)
    busy: int = 0  # answers with 503 that are left
    refused: int | None = None  # status of every answer
    requests: list[str] = field(default_factory=list)


class GoogleHandler(BaseHTTPRequestHandler):
    """The calls of the JSON API that list, describe and download objects."""

    bucket: str
    objects: Objects
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        self.objects.requests.append(self.path)
        place = f"/storage/v1/b/{self.bucket}/o"
        path = address.path.removeprefix("/download")
        query = parse_qs(address.query)
        name = unquote(path.removeprefix(f"{place}/"))
        if self.objects.refused:
            self._send(self.objects.refused, b'{"error": {"message": "No access."}}')
        elif self.objects.busy:
            self.objects.busy -= 1
            self._send(503, b"{}")
        elif path == place:
            self._send(200, json.dumps(self._listing(query)).encode())
        elif not path.startswith(place) or name not in self.objects.files:
            self._send(404, b'{"error": {"code": 404, "message": "Not Found"}}')
        elif "alt" in query or address.path.startswith("/download"):
            content = self.objects.files[name]
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            part = content[int(wanted[1]) : int(wanted[2]) + 1] if wanted else content
            self._send(206 if wanted else 200, part, "application/octet-stream")
        else:
            self._send(200, json.dumps(self._about(name)).encode())

    def _listing(self, query: dict[str, list[str]]) -> dict[str, object]:
        prefix, between = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        names = [name for name in sorted(self.objects.files) if name.startswith(prefix)]
        folders = {
            prefix + name[len(prefix) :].split(between)[0] + between
            for name in names
            if between and between in name[len(prefix) :]
        }
        items = [name for name in names if not any(name.startswith(one) for one in folders)]
        return {"items": [self._about(name) for name in items], "prefixes": sorted(folders)}

    def _about(self, name: str) -> dict[str, object]:
        content = self.objects.files[name]
        return {
            "kind": "storage#object", "name": name, "bucket": self.bucket,
            "size": str(len(content)), "etag": hashlib.sha1(content).hexdigest(),
            "generation": "1", "updated": "2024-01-01T00:00:00.000Z",
        }  # fmt: skip

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def google_bucket(name: str, files: dict[str, bytes]) -> Iterator[tuple[str, Objects]]:
    """A server with a bucket of these objects; -> its address for STORAGE_EMULATOR_HOST."""
    objects = Objects(files)
    handler = type("BucketHandler", (GoogleHandler,), {"bucket": name, "objects": objects})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", objects
    finally:
        server.shutdown()
        server.server_close()
