"""What the network may bring: wrong, huge, slow and vanishing requests; keys, headers, logs, metrics."""

import functools
import json
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from bytenet import Pipeline
from tests.serving.servers import Running, serving


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with serving(most_requests=8, most_characters=500, body_bytes=4000, body_seconds=0.5) as running:
        yield running


@pytest.fixture(scope="module")
def client(service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.address, timeout=60) as client:
        yield client


def works(service: Running) -> bool:
    answer = httpx.post(f"{service.address}/translate", json={"q": "abc", "beam": 2}, timeout=60)
    return answer.json() == {"translatedText": service.translator.translate("abc", beam=2)}


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/translate", b"", 400, "not JSON"),
        ("/translate", b"{", 400, "not JSON"),
        ("/translate", b"\xff\xfe", 400, "not"),
        ("/translate", b"[" * 3000, 400, "not JSON"),
        ("/translate", b"[1]", 400, "valid"),
        ("/translate", b"{}", 400, "q: Field required"),
        ("/translate", b'{"q": 7}', 400, "q"),
        ("/translate", b'{"q": "a", "format": "html"}', 400, "format"),
        ("/translate", b'{"q": "a", "beam": 0}', 400, "beam"),
        ("/translate", b'{"q": "a", "beam": 1000}', 400, "beam may be at most"),
        ("/translate", b'{"q": "a", "beam": 2, "alternatives": 5}', 400, "alternatives"),
        ("/translate", b'{"q": "a", "target": "xx"}', 400, "not supported"),
        ("/translate", b'{"q": "a", "target": "\\ud800"}', 400, "not supported"),
        ("/translate", json.dumps({"q": "a" * 501}).encode(), 400, "at most 500 characters"),
        ("/translate", json.dumps({"q": ["a"] * 65}).encode(), 400, "at most 64 texts"),
        ("/translate", b" " * 4001, 413, "at most 4,000 bytes"),
        ("/score", b'{"texts": ["a"], "sources": []}', 400, "0 sources for 1 texts"),
        ("/explain", json.dumps({"target": ""}).encode(), 400, ""),
        ("/v1/completions", b'{"model": "\\ud800"}', 404, "does not exist"),
        ("/nothing", b"{}", 404, "Not Found"),
        ("/languages", b"{}", 405, "Method Not Allowed"),
    ],
)
def test_a_mistake_is_one_line(client, service, path, body, status, message):
    answer = client.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    error = answer.json()["error"]
    assert message in (error["message"] if isinstance(error, dict) else error)
    assert works(service)


@pytest.mark.parametrize("text", ["\ud800", "\x00\x07\x1b", "a\u202eb", "\n\n", "😀" * 20, " "])
def test_any_text_is_translated_and_continued(client, service, text):
    for path, body in (
        ("/translate", {"q": text, "beam": 2}),
        ("/v1/completions", {"prompt": text, "max_tokens": 3, "echo": True, "logprobs": 2}),
        ("/score", {"texts": [text]}),
    ):
        answer = client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
        assert answer.status_code == 200, answer.text


def test_headers_keep_browsers_safe(client):
    for path in ("/", "/docs", "/languages", "/nothing"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "access-control-allow-origin" not in headers


def test_other_sites_may_use_it_only_if_named():
    with serving(cors=("https://a.example",)) as service:
        for origin, allowed in (("https://a.example", True), ("https://b.example", False)):
            headers = httpx.get(f"{service.address}/languages", headers={"origin": origin}).headers
            assert ("access-control-allow-origin" in headers) == allowed


def test_beyond_its_limit_requests_are_put_off(client, service):
    endless = {"prompt": "a", "max_tokens": 4096, "n": 1}
    with httpx.Client(base_url=service.address, timeout=60) as others:
        streams = [others.stream("POST", "/v1/completions", json=endless | {"stream": True}) for _ in range(8)]
        opened = [stream.__enter__() for stream in streams]
        answer = client.post("/translate", json={"q": "abc"})
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) > 0
        for stream in opened:  # clients that go away
            stream.close()
    wait_for(lambda: works(service))


def wait_for(condition: object) -> None:
    for _ in range(500):
        try:
            if condition():  # type: ignore[operator]
                return
        except (httpx.HTTPError, KeyError, json.JSONDecodeError):
            pass
        time.sleep(0.02)
    raise AssertionError("in vain")


def test_a_slow_body_is_not_waited_for(service):
    with socket.create_connection(("127.0.0.1", service.port)) as slow:
        slow.sendall(b"POST /translate HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        slow.settimeout(10)
        assert b" 408 " in slow.recv(1000)
    assert works(service)


def test_vanishing_and_talking_nonsense_disturbs_nobody(service):
    rng = random.Random(0)
    request = b"POST /translate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 30\r\n\r\n"
    for i in range(60):
        with socket.create_connection(("127.0.0.1", service.port)) as connection:
            nonsense = rng.randbytes(rng.randint(1, 200)) if i % 2 else request + b'{"q": "abcdefgh", "beam": 12}'
            connection.sendall(nonsense[: rng.randint(1, len(nonsense))])
    assert works(service)
    wait_for(lambda: service.service.scheduler.requests == 0)  # nobody works for who is gone


def explaining_for_ever(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Explanations of this model end only if they are given up, which sets the event."""
    ended = threading.Event()

    def explain(source: str, target: str | None, by: str, *, watch: Callable[[int, int], None]) -> None:
        try:
            while True:
                watch(0, 1)
                time.sleep(0.01)
        finally:
            ended.set()

    monkeypatch.setattr(pipeline, "explain", explain)
    return ended


def test_nothing_is_explained_to_who_has_gone(service, monkeypatch):
    ended = explaining_for_ever(service.translator, monkeypatch)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{service.address}/explain", json={"source": "a", "target": "b"}, timeout=0.3)
    assert ended.wait(30)
    monkeypatch.undo()
    assert httpx.post(f"{service.address}/explain", json={"source": "a", "target": "b"}).status_code == 200


def test_an_explanation_has_no_more_time_than_other_requests(monkeypatch):
    with serving(seconds=0.2) as service:
        ended = explaining_for_ever(service.translator, monkeypatch)
        answer = httpx.post(f"{service.address}/explain", json={"source": "a", "target": "b"}, timeout=30)
        assert (answer.status_code, answer.json()) == (504, {"error": "not done after 0.2 s"})
        assert ended.wait(30)


def test_with_keys_only_who_has_one_is_let_in():
    with (
        serving(api_keys=frozenset({"secret-ä", "other"})) as service,
        httpx.Client(base_url=service.address) as client,
    ):
        asked = {"q": "abc", "beam": 1}
        assert client.post("/translate", json=asked).status_code == 401
        assert client.post("/translate", json=asked | {"api_key": "wrong"}).status_code == 401
        assert client.get("/metrics").status_code == 401
        assert client.post("/translate", json=asked | {"api_key": "secret-ä"}).status_code == 200
        assert client.post("/translate", data=asked | {"api_key": "other"}).status_code == 200
        for headers in ({"authorization": "Bearer other"}, {"x-api-key": "other"}):
            assert client.post("/translate", json=asked, headers=headers).status_code == 200
        for path in ("/", "/docs", "/openapi.json", "/health/live", "/health/ready"):
            assert client.get(path).status_code == 200


@pytest.mark.parametrize("log_texts", [False, True])
def test_logs_hold_no_texts_unless_asked(capfd, log_texts):
    with serving(log_texts=log_texts) as service:
        httpx.post(f"{service.address}/translate", json={"q": "my secret", "beam": 1})
        httpx.post(f"{service.address}/v1/completions", json={"prompt": "my secret", "max_tokens": 1})
    written = capfd.readouterr()
    lines = [json.loads(line) for line in written.err.splitlines()]
    assert [(line["route"], line["status"], line["characters"]) for line in lines] == [
        ("/translate", 200, 9),
        ("/v1/completions", 200, 9),
    ]
    assert ("my secret" in written.err) == log_texts


def test_metrics_tell_what_goes_on(client):
    client.post("/translate", json={"q": "abc"})
    found = client.get("/metrics").text
    for name in (
        "requests_total",
        "request_seconds_bucket",
        "written_symbols_total",
        "requests_on_the_way",
        "batch_rows",
    ):
        assert f"bytenet_{name}" in found


def test_shutting_down_finishes_what_was_accepted():
    answers: list[int] = []
    asked = {"q": "abcd" * 30, "beam": 12}
    with serving() as service:

        def ask() -> None:
            answers.append(httpx.post(f"{service.address}/translate", json=asked, timeout=60).status_code)

        threads = [threading.Thread(target=ask) for _ in range(12)]
        for thread in threads:
            thread.start()
        wait_for(lambda: service.service.scheduler.requests + len(answers) == 12)
    for thread in threads:
        thread.join()
    assert answers == [200] * 12


def test_the_document_holds_all_that_it_refers_to(client):
    document = client.get("/openapi.json").json()
    for place in re.findall(r'"\$ref": "#/([^"]*)"', json.dumps(document)):
        functools.reduce(dict.__getitem__, place.split("/"), document)
    body = document["paths"]["/v1/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "include_usage" in json.dumps(body["properties"]["stream_options"])


def test_the_document_names_every_route(client):
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) >= {"/translate", "/languages", "/detect", "/v1/completions", "/v1/models", "/score", "/explain"}
    page = client.get("/docs").text
    assert all(path in page for path in paths)
    assert "http://" not in page.replace(str(client.base_url), "")
    assert "https://" not in page
