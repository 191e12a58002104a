"""Real servers on loopback: S3 by moto, and HTTP with ranges, both with faults on demand."""

import hashlib
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class Site:
    """Files by name, and what goes wrong when they are requested."""

    files: dict[str, bytes] = field(default_factory=dict)
    url: str = ""
    ranges: bool = True
    cut_after: dict[str, int] = field(default_factory=dict)  # bytes of each answer
    busy: Counter[str] = field(default_factory=Counter)  # answers with 503 that are left
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
    from moto.server import ThreadedMotoServer

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
    try:
        client.create_bucket(Bucket=name)
        for key, file in files.items():
            client.put_object(Bucket=name, Key=key, Body=file.read_bytes())
        yield variables, client
    finally:
        server.stop()
