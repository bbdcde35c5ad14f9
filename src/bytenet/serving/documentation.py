"""The page about the service's routes, and what pages may load."""

import base64
import hashlib
import html
import json
import re
from typing import Any


def policy(page: str) -> str:
    """What the page may load: its own script and style, and answers of this service."""
    scripts, styles = (re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL) for tag in ("script", "style"))
    return (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes([*styles, STYLE])}; "
        "connect-src 'self'; img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    )


def _hashes(parts: list[str]) -> str:
    digests = (hashlib.sha256(part.encode()).digest() for part in parts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem }
code { font: 14px/1.4 ui-monospace, monospace }
h2 { margin: 2.5rem 0 0 }
h2 code { font-size: 18px }
table { border-collapse: collapse }
td, th { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #8884 }
"""


def documentation(document: dict[str, Any]) -> str:
    """A page about the OpenAPI document, without anything from elsewhere."""
    parts = []
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            parts.append(
                f"<h2><code>{method.upper()} {html.escape(path)}</code></h2><p>{html.escape(about['summary'])}</p>"
            )
            content = about.get("requestBody", {}).get("content", {})
            for kind, body in list(content.items())[:1]:
                also = f" (or {', '.join(list(content)[1:])})" if len(content) > 1 else ""
                parts.append(f"<p>Body: {kind}{also}</p>{_fields(body['schema'])}")
    title = f"{document['info']['title']} {document['info']['version']}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{STYLE}</style><h1>{title}</h1>"
        f'<p>{html.escape(document["info"]["description"])} The same as <a href="/openapi.json">OpenAPI</a>.</p>'
        f"{''.join(parts)}</html>"
    )


def _fields(schema: dict[str, Any]) -> str:
    rows = []
    for name, about in schema.get("properties", {}).items():
        needed = "needed" if name in schema.get("required", []) else json.dumps(about.get("default"))
        rows.append(
            f"<tr><td><code>{name}</code><td>{html.escape(needed)}<td>{html.escape(about.get('description', ''))}"
        )
    return f"<table><tr><th>field<th>default<th>{''.join(rows)}</table>"
