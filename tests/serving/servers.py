"""A real server on a free port of the loopback address, in a thread."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

from bytenet import Bytes, Pipeline
from bytenet.serving import application
from bytenet.serving.config import ServingConfig
from bytenet.serving.service import Service
from tests.pipelines import language_model, pipeline_of, translator

ALL_BYTES = Bytes(range(256))


@dataclass(frozen=True)
class Running:
    """Where it is, and what it serves."""

    port: int
    service: Service
    translator: Pipeline
    writer: Pipeline

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving(*, port: int = 0, translating: Pipeline | None = None, **options: object) -> Iterator[Running]:
    """Options are those of the ServingConfig."""
    translating = translating or pipeline_of(translator(ALL_BYTES, end=2.0), ALL_BYTES)
    models = translating, pipeline_of(language_model(ALL_BYTES), ALL_BYTES)
    app = application.create(*models, ServingConfig(**options))  # type: ignore[arg-type]
    listening = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=30))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Running(listening.getsockname()[1], app.state.service, *models)
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
