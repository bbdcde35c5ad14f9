"""What stands between the network and the routes: sizes, keys, headers, logs, metrics. Plain ASGI."""

import asyncio
import hmac
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_TO_ALL = frozenset({"/", "/docs", "/openapi.json", "/health/live", "/health/ready"})
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}


class Metrics:
    """What an operator wants to know; nothing of what users write."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        common: dict[str, Any] = {"registry": self.registry, "namespace": "bytenet"}
        self.requests = Counter("requests", "Requests by route and status", ["route", "status"], **common)
        self.seconds = Histogram(
            "request_seconds", "From a request to the end of its answer", ["route"],
            buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100), **common,
        )  # fmt: skip
        self.symbols = Counter("written_symbols", "Symbols written, of the best hypotheses", **common)
        self.on_the_way = Gauge("requests_on_the_way", "Requests waiting or being worked on", **common)
        self.rows = Gauge("batch_rows", "Rows in the running batches", **common)


class BodyError(Exception):
    """A request's body is too large or too slow."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Gate:
    """The outermost layer."""

    def __init__(
        self, app: App, metrics: Metrics, *, keys: Iterable[str], body_bytes: int, body_seconds: float, page_policy: str
    ) -> None:
        self.app, self.metrics, self.page_policy = app, metrics, page_policy
        self.keys = [key.encode() for key in keys]
        self.body_bytes, self.body_seconds = body_bytes, body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 0
        about: dict[str, Any] = {}
        scope.setdefault("state", {})["about"] = about

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *self._headers(scope["path"])]
            await send(message)

        try:
            await self._pass(scope, receive, answer)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            seconds = time.perf_counter() - begin
            self.metrics.requests.labels(route, status or "gone").inc()
            self.metrics.seconds.labels(route).observe(seconds)
            if route not in ("/health/live", "/health/ready", "/metrics"):
                _log(method=scope["method"], route=route, status=status, milliseconds=round(1000 * seconds), **about)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1").lower(): value for name, value in scope["headers"]}
        length = headers.get("content-length", b"0")
        if not length.isdigit() or int(length) > self.body_bytes:
            await refuse(send, 413, f"a request may have at most {self.body_bytes:,} bytes")
            return
        try:
            body = await asyncio.wait_for(self._read(receive), self.body_seconds)
        except BodyError as error:
            await refuse(send, error.status, str(error))
            return
        except TimeoutError:
            await refuse(send, 408, f"the request did not arrive within {self.body_seconds:g} s")
            return
        if body is None:  # gone before all of it arrived
            return
        if self.keys and scope["path"] not in OPEN_TO_ALL and not self._has_key(headers, body):
            await refuse(send, 401, "this service needs an API key")
            return
        read = False

        async def replay() -> Message:
            nonlocal read
            if read:
                return await receive()
            read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replay, send)

    async def _read(self, receive: Receive) -> bytes | None:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self.body_bytes:
                raise BodyError(413, f"a request may have at most {self.body_bytes:,} bytes")
            if not message.get("more_body"):
                return bytes(body)

    def _has_key(self, headers: dict[str, bytes], body: bytes) -> bool:
        given = [headers.get("x-api-key", b""), headers.get("authorization", b"").removeprefix(b"Bearer ")]
        given.append(key_in_body(headers.get("content-type", b""), body))
        equal = [hmac.compare_digest(key, found) for key in self.keys for found in given]  # all: the time says nothing
        return any(equal)

    def _headers(self, path: str) -> list[tuple[bytes, bytes]]:
        policy = self.page_policy if path in ("/", "/docs") else "default-src 'none'; frame-ancestors 'none'"
        headers = HEADERS | {"content-security-policy": policy}
        return [(name.encode(), value.encode()) for name, value in headers.items()]


def key_in_body(kind: bytes, body: bytes) -> bytes:
    """LibreTranslate's clients send their key beside the text."""
    try:
        if kind.startswith(b"application/x-www-form-urlencoded"):
            return parse_qs(body.decode("utf-8")).get("api_key", [""])[0].encode()
        found = json.loads(body) if body else None
    except (ValueError, RecursionError):
        return b""
    key = found.get("api_key") if isinstance(found, dict) else None
    return key.encode("utf-8", "replace") if isinstance(key, str) else b""


async def refuse(send: Send, status: int, message: str) -> None:
    body = json.dumps({"error": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _log(**fields: Any) -> None:
    print(json.dumps({"time": round(time.time(), 3), **fields}), file=sys.stderr, flush=True)
