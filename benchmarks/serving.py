"""The service under load, on the loopback address of this machine.

    python benchmarks/serving.py --model en-de --pairs data/newstest/2014.tsv [--seconds 60] [--clients 64]

1. the same requests one by one and from many clients at once: throughput of both
2. many clients for a while: failures, latencies, memory
3. more clients than the queue takes: some are put off with 429, none fails otherwise
4. a request of five characters alone, and beside clients that send 2,000 characters each
5. 10,000 hostile requests: the service still answers
6. SIGTERM under load: whoever's request was taken is answered; SIGKILL: a new one starts on the same port

Sources are those of the pairs' file; without one, strings of digits of mixed lengths.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from bytenet.data.pairs import read_tsv

READY_SECONDS = 60


@dataclass
class Server:
    """A service in a process of its own."""

    model: str
    most_requests: int
    beam: int | None = None
    port: int = 0
    process: "subprocess.Popen[bytes] | None" = None
    log: Path = field(default_factory=lambda: Path("serving.log"))

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        if not self.port:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.port = free.getsockname()[1]
        options = ["--model", self.model, "--text-model", "none", "--most-requests", str(self.most_requests)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "bytenet", "serve", *options, "--port", str(self.port)], stderr=log, stdout=log
            )
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.address}/health/ready").status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.05)
        sys.exit(f"the service is not ready after {READY_SECONDS} s; see {self.log}")

    def stop(self, how: int = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(how)
        self.process.wait(120)

    def megabytes(self) -> float:
        assert self.process is not None
        return psutil.Process(self.process.pid).memory_info().rss / 2**20


@dataclass
class Outcome:
    """What became of requests."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    characters: int = 0

    def quantile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


async def ask(client: httpx.AsyncClient, text: str, outcome: Outcome, beam: int | None) -> None:
    begin = time.perf_counter()
    try:
        answer = await client.post("/translate", json={"q": text, "beam": beam})
    except httpx.ConnectError:
        outcome.statuses["refused"] += 1
        return
    except httpx.HTTPError as error:
        outcome.statuses[type(error).__name__] += 1
        return
    outcome.statuses[str(answer.status_code)] += 1
    if answer.status_code == 200:
        outcome.seconds.append(time.perf_counter() - begin)
        outcome.characters += len(text)


async def load(server: Server, texts: list[str], clients: int, seconds: float | None) -> tuple[Outcome, float]:
    """All texts once, or round and round for so many seconds, from so many clients."""
    outcome, begin = Outcome(), time.perf_counter()
    source = itertools.cycle(texts) if seconds else iter(texts)

    async def one(client: httpx.AsyncClient) -> None:
        for text in source:
            if seconds and time.perf_counter() - begin > seconds:
                return
            await ask(client, text, outcome, server.beam)

    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=server.address, timeout=120, limits=limits) as client:
        await asyncio.gather(*(one(client) for _ in range(clients)))
    return outcome, time.perf_counter() - begin


def throughput(server: Server, texts: list[str], clients: int) -> dict[str, Any]:
    alone, alone_seconds = asyncio.run(load(server, texts, 1, None))
    together, together_seconds = asyncio.run(load(server, texts, clients, None))
    return {
        "requests": len(texts),
        "one_by_one_seconds": alone_seconds,
        "together_seconds": together_seconds,
        "times_as_fast": alone_seconds / together_seconds,
        "statuses": dict(alone.statuses + together.statuses),
    }


def for_a_while(server: Server, texts: list[str], clients: int, seconds: float) -> dict[str, Any]:
    asyncio.run(load(server, texts, clients, seconds / 6))  # what is kept for later is there by then
    before = server.megabytes()
    outcome, took = asyncio.run(load(server, texts, clients, seconds))
    return {
        "statuses": dict(outcome.statuses),
        "requests_per_second": len(outcome.seconds) / took,
        "source_characters_per_second": outcome.characters / took,
        "median_seconds": outcome.quantile(0.5),
        "seconds_of_99_percent": outcome.quantile(0.99),
        "megabytes_before": before,
        "megabytes_after": server.megabytes(),
    }


def beyond(server: Server, texts: list[str]) -> dict[str, Any]:
    crowd = 2 * server.most_requests
    outcome, _ = asyncio.run(load(server, list(itertools.islice(itertools.cycle(texts), crowd)), crowd, None))
    return {"clients": crowd, "most_requests": server.most_requests, "statuses": dict(outcome.statuses)}


def short_beside_long(server: Server, texts: list[str], clients: int = 8) -> dict[str, Any]:
    short = " ".join(texts)[:5]
    long = (" ".join(texts) + " ")[:2000].ljust(2000)

    async def measure() -> tuple[list[float], list[float]]:
        async with httpx.AsyncClient(base_url=server.address, timeout=300) as client:
            alone, beside, others = Outcome(), Outcome(), Outcome()
            for _ in range(20):
                await ask(client, short, alone, server.beam)

            async def keep_sending() -> None:
                while True:
                    await ask(client, long, others, server.beam)

            senders = [asyncio.create_task(keep_sending()) for _ in range(clients)]
            await asyncio.sleep(2)
            for _ in range(20):
                await ask(client, short, beside, server.beam)
                await asyncio.sleep(0.2)
            for sender in senders:
                sender.cancel()
            return alone.seconds, beside.seconds

    alone, beside = asyncio.run(measure())
    return {
        "long_clients": clients,
        "alone_median_ms": 1000 * statistics.median(alone),
        "beside_median_ms": 1000 * statistics.median(beside),
        "times": statistics.median(beside) / statistics.median(alone),
        "worst_times": max(beside) / statistics.median(alone),
    }


def hostile(server: Server, number: int) -> dict[str, Any]:
    """Broken JSON, wrong types, huge bodies, control characters, halves of characters, nonsense, hanging up."""
    rng, statuses = random.Random(0), Counter[str]()
    values: list[Any] = [None, 7, -1, 1e308, [], {}, "", "a", "\ud800", "\x00", "x" * 30_000, ["a"] * 200, True, [[]]]
    keys = [
        "q",
        "source",
        "target",
        "beam",
        "alternatives",
        "format",
        "prompt",
        "n",
        "max_tokens",
        "stop",
        "seed",
        "texts",
    ]
    paths = ["/translate", "/v1/completions", "/score", "/explain", "/detect", "/languages", "/nothing", "/"]
    with httpx.Client(base_url=server.address, timeout=60) as client:
        for i in range(number):
            path = rng.choice(paths)
            match i % 5:
                case 0:
                    body = json.dumps({key: rng.choice(values) for key in rng.sample(keys, 4)}).encode()
                case 1:
                    body = rng.randbytes(rng.randint(0, 300))
                case 2:
                    body = b"[" * rng.randint(1, 5000)
                case 3:
                    hang_up(server.port, path, rng)
                    continue
                case _:
                    body = b'{"q": "' + b"a" * rng.choice([10, 2_000_000 if i % 100 == 4 else 100]) + b'"}'
            kind = rng.choice(["application/json", "application/x-www-form-urlencoded", "text/plain", ""])
            try:
                answer = client.request(
                    rng.choice(["POST", "POST", "GET", "PUT"]), path, content=body, headers={"content-type": kind}
                )
                statuses[f"{answer.status_code // 100}xx"] += 1
            except httpx.HTTPError as error:
                statuses[type(error).__name__] += 1
        still = client.post("/translate", json={"q": "abc"}).status_code
    return {"requests": number, "statuses": dict(statuses), "answers_afterwards": still == 200}


def hang_up(port: int, path: str, rng: random.Random) -> None:
    request = (
        f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 60\r\n\r\n".encode()
    )
    whole = request + json.dumps({"q": "abcdefghij" * 4}).encode()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(whole[: rng.randint(1, len(whole))])


def endings(server: Server, texts: list[str], clients: int) -> dict[str, Any]:
    async def end_under_load() -> Outcome:
        outcome = Outcome()
        assert server.process is not None
        # a connection each: one that is kept open and idle may be closed while the next request is on its way
        async with httpx.AsyncClient(
            base_url=server.address, timeout=120, limits=httpx.Limits(max_keepalive_connections=0)
        ) as client:
            tasks = [asyncio.create_task(ask(client, text, outcome, server.beam)) for text in texts[:clients]]
            await asyncio.sleep(1.0)
            server.process.terminate()
            await asyncio.gather(*tasks)
        return outcome

    outcome = asyncio.run(end_under_load())
    assert server.process is not None
    code = server.process.wait(120)
    server.start()
    server.stop(signal.SIGKILL)
    server.start()
    return {"asked": clients, "statuses": dict(outcome.statuses), "exit_code": code, "starts_again_after_sigkill": True}


def sources(pairs: Path | None, number: int) -> list[str]:
    if pairs:
        return [pair.source for pair in itertools.islice(read_tsv(pairs), number)]
    rng = random.Random(0)
    return ["".join(rng.choices("0123456789", k=rng.choice([3, 8, 15, 25, 40]))) for _ in range(number)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="en-de")
    parser.add_argument("--pairs", type=Path)
    parser.add_argument("--texts", type=int, default=192, help="different ones")
    parser.add_argument("--beam", type=int, help="by default the model's")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--hostile", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    texts = sources(arguments.pairs, arguments.texts)
    server = Server(arguments.model, most_requests=2 * arguments.clients, beam=arguments.beam, log=Path(os.devnull))
    server.start()
    results: dict[str, Any] = {"sources_mean_length": statistics.fmean(map(len, texts))}
    try:
        for name, work in (
            ("throughput", lambda: throughput(server, texts, arguments.clients)),
            ("for a while", lambda: for_a_while(server, texts, arguments.clients, arguments.seconds)),
            ("beyond the queue", lambda: beyond(server, texts)),
            ("short beside long", lambda: short_beside_long(server, texts)),
            ("hostile", lambda: hostile(server, arguments.hostile)),
            ("endings", lambda: endings(server, texts, arguments.clients)),
        ):
            results[name] = work()
            print(name, json.dumps(results[name]), flush=True)
    finally:
        server.stop(signal.SIGKILL)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
