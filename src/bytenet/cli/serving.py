"""`serve`."""

import socket
from pathlib import Path
from typing import Annotated

import typer

from bytenet.cli.options import Device, Precision, open_model, say

NONE = "none"


def serve(
    model: Annotated[str, typer.Option(metavar="FOLDER_OR_NAME", help='The translator; "none" for none.')] = "en-de",
    text_model: Annotated[
        str, typer.Option(metavar="FOLDER_OR_NAME", help='The language model; "none" for none.')
    ] = "text",
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0 lets everybody in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    api_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Let in only who has a key: one a line of this file.")
    ] = None,
    most_requests: Annotated[
        int, typer.Option(min=1, help="That may be on their way at once; beyond it, the answer is 429.")
    ] = 256,
    seconds: Annotated[float, typer.Option(min=0.1, help="That a request may take.")] = 60.0,
    cors: Annotated[
        list[str] | None, typer.Option(metavar="ORIGIN", help="Another site whose pages may use the service.")
    ] = None,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Write users' texts to the log too.")] = False,
    precision: Precision = None,
    device: Device = None,
) -> None:
    """Serve models over HTTP: a page, LibreTranslate's routes, and OpenAI's completions."""
    try:
        import uvicorn

        from bytenet.serving import application
    except ModuleNotFoundError as error:
        raise ValueError(f'{error.name} is not installed: pip install "bytenet[serve]"') from None
    from bytenet.serving.config import ServingConfig

    config = ServingConfig(
        most_requests=most_requests,
        seconds=seconds,
        api_keys=_keys(api_key) if api_key else frozenset(),
        cors=tuple(cors or ()),
        log_texts=log_texts,
    )
    if model == text_model == NONE:
        raise ValueError("nothing to serve: --model and --text-model are both none")
    listening = _listen(host, port)
    translator, writer = (None if name == NONE else open_model(name, device, precision) for name in (model, text_model))
    app = application.create(translator, writer, config)
    at = f"[{host}]" if ":" in host else host
    say(f"http://{at}:{listening.getsockname()[1]}/ (Ctrl-C ends it)")
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=int(seconds) + 5)
    )
    server.run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    """Before the models are loaded: an address that is taken is told at once."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise ValueError(f"{host}:{port}: {error.strerror or error}") from None


def _keys(file: Path) -> frozenset[str]:
    try:
        keys = frozenset(filter(None, map(str.strip, file.read_text(encoding="utf-8").splitlines())))
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not UTF-8 at byte {error.start}") from None
    if not keys:
        raise ValueError(f"{file}: no key in it")
    return keys
