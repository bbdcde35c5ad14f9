"""A server on this machine in the place of the public ones, with their bad habits on demand."""

import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class PublicServer:
    """Serves `files` by path; keeps what was asked for in `requests`, as (path, first byte)."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, int]] = []
        self.knows_ranges = True
        self.drops: list[int] = []
        """For each answer to come: after how many bytes the connection drops."""
        self.codes: list[int] = []
        """For each answer to come: an error instead."""
        self.shift = 0
        """How many bytes too early a range begins."""
        self.home = ""

    @contextmanager
    def running(self) -> Iterator["PublicServer"]:
        handler = type("Handler", (_Handler,), {"public": self})
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            self.home = f"http://127.0.0.1:{server.server_address[1]}"
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()


class _Handler(BaseHTTPRequestHandler):
    public: PublicServer

    def do_GET(self) -> None:
        public, first = self.public, 0
        asked = self.headers.get("Range")
        if asked and public.knows_ranges:
            first = int(asked.removeprefix("bytes=").removesuffix("-"))
        public.requests.append((self.path, first))
        content = public.files.get(self.path)
        if public.codes:
            return self.send_error(public.codes.pop(0))
        if content is None:
            return self.send_error(404)
        if asked and public.knows_ranges and first >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        first = max(0, first - public.shift)
        self.send_response(206 if asked and public.knows_ranges else 200)
        if asked and public.knows_ranges:
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - first))
        self.end_headers()
        last = first + public.drops.pop(0) if public.drops else len(content)
        self.wfile.write(content[first:last])
        return None

    def log_message(self, *_: object) -> None:
        """Nothing: the tests' own output is enough."""


def zip_of(files: Mapping[str, bytes | str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def tar_of(files: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content.encode())
            archive.addfile(member, io.BytesIO(content.encode()))
    return packed.getvalue()
