"""The service as an ASGI application."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException as PlainHTTPException
from starlette.middleware.cors import CORSMiddleware

from bytenet import __version__
from bytenet.pipeline import Pipeline
from bytenet.serving import completing, measuring, translating
from bytenet.serving.config import ServingConfig
from bytenet.serving.documentation import documentation, policy
from bytenet.serving.http import Gate
from bytenet.serving.service import Service

PAGE = Path(__file__).parent / "page.html"


class Json(JSONResponse):
    """In ASCII: a text may hold half a character, which UTF-8 cannot."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def create(translator: Pipeline | None, writer: Pipeline | None, config: ServingConfig) -> FastAPI:
    """The application; `app.state.service` is closed when it shuts down."""
    service = Service(translator, writer, config)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    page = PAGE.read_text(encoding="utf-8")
    app = FastAPI(
        title="bytenet", version=__version__, lifespan=life, default_response_class=Json, docs_url=None, redoc_url=None,
        description="Sequence models that read and write characters in linear time.",
    )  # fmt: skip
    app.state.service = service
    for part in (translating, completing, measuring):
        app.include_router(part.routes(service))
    _add_pages(app, service, page)
    _add_errors(app)
    if config.cors:
        app.add_middleware(CORSMiddleware, allow_origins=list(config.cors), allow_methods=["*"], allow_headers=["*"])
    app.add_middleware(
        Gate, metrics=service.metrics, keys=config.api_keys, body_bytes=config.body_bytes,
        body_seconds=config.body_seconds, page_policy=policy(page),
    )  # fmt: skip
    return app


def _add_pages(app: FastAPI, service: Service, page: str) -> None:
    @app.get("/", include_in_schema=False)
    async def index() -> HTMLResponse:
        return HTMLResponse(page)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(documentation(app.openapi()))

    @app.get("/health/live", tags=["operation"], summary="The process answers")
    async def live() -> dict[str, bool]:
        return {"live": True}

    @app.get("/health/ready", tags=["operation"], summary="Requests are worked on")
    async def ready() -> dict[str, bool]:
        if not service.scheduler.is_alive:
            raise HTTPException(503, "not ready")
        return {"ready": True}

    @app.get("/metrics", tags=["operation"], summary="For Prometheus", response_class=PlainTextResponse)
    async def metrics() -> Response:
        return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _add_errors(app: FastAPI) -> None:
    """One line each, in the form that the route's clients know."""

    def answer(request: Request, status: int, message: str, headers: Any = None) -> Json:
        if request.url.path.startswith("/v1/"):
            kind = "invalid_request_error" if status < 500 else "server_error"
            content: Any = {"error": {"message": message, "type": kind, "param": None, "code": None}}
        else:
            content = {"error": message}
        return Json(content, status, headers=headers)

    @app.exception_handler(PlainHTTPException)
    async def known(request: Request, error: PlainHTTPException) -> Json:
        return answer(request, error.status_code, str(error.detail), error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Json:
        return answer(request, 400, error.errors()[0]["msg"])

    @app.exception_handler(Exception)
    async def fault(request: Request, error: Exception) -> Json:
        return answer(request, 500, "a fault of the service; its log says more")
