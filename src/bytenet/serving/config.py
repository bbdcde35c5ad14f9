"""How the service is run."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ServingConfig:
    """Limits that keep one user from taking all, and what is kept in logs."""

    most_requests: int = 256
    """That may be on their way at once; beyond it, users are asked to come again later."""
    most_characters: int = 20_000
    """Of all texts in one request."""
    most_texts: int = 64
    """In one request."""
    most_beam: int = 16
    """Of a request, and of what a model asks for by itself."""
    most_samples: int = 16
    most_explained: int = 200
    """Characters of a text to explain: the time grows with the square of it, to ten seconds."""
    most_symbols: int = 4096
    """Of a continuation."""
    seconds: float = 60.0
    """That a request may take."""
    body_bytes: int = 1 << 20
    """Of a request."""
    body_seconds: float = 10.0
    """In which a request's body has to arrive."""
    api_keys: frozenset[str] = frozenset()
    """With any, requests need one of them."""
    cors: tuple[str, ...] = ()
    """Other sites whose pages may use the service."""
    log_texts: bool = False
    """Whether users' texts are written to the log."""
