"""What a browser gets: the dashboard's files, the login, and a reference of the API. Nothing comes from other hosts.

The dashboard is static; which page it shows is its own business, so an address
that is neither a file nor part of the API gets its first page.
"""

import json
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from tersely.web.auth import COOKIE, COOKIE_SECONDS, Authenticator, Principal
from tersely.web.bodies import read_json
from tersely.web.problems import Refusal
from tersely.web.schemas import ERRORS, LoginIn, LoginOut
from tersely.web.version import VERSION

DASHBOARD = Path(__file__).with_name("dashboard")

_NOT_PAGES = ("/api/", "/health", "/ready", "/metrics", "/openapi.json", "/docs")

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid #8884; border-radius: .4rem; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #8884; }
h3 { margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #8882; }
form { display: grid; gap: .75rem; max-width: 24rem; margin-top: 20vh; margin-inline: auto; }
input, button { font: inherit; padding: .5rem .75rem; }
[role=alert] { color: #c22; }
""".strip()


class Dashboard:
    """The static files, with their first page for every address that is a page of theirs."""

    def __init__(self, folder: Path) -> None:
        self._files = StaticFiles(directory=folder) if (folder / "index.html").is_file() else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path.startswith(_NOT_PAGES):
            raise HTTPException(404)
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405, headers={"Allow": "GET, HEAD"})
        if self._files is None:
            if path != "/":
                raise HTTPException(404)
            await _page("tersely", _PLACEHOLDER)(scope, receive, send)
            return
        response = await self._found(path.lstrip("/"), scope)
        # Asked for again each time, and cheap where nothing changed: a new version is seen at once.
        response.headers["Cache-Control"] = "no-cache"
        await response(scope, receive, send)

    async def _found(self, path: str, scope: Scope) -> Response:
        assert self._files is not None
        if path and "\0" not in path:
            try:
                return await self._files.get_response(
                    self._files.get_path({**scope, "path": "/" + path, "root_path": ""}), scope
                )
            except HTTPException as missing:
                if missing.status_code != 404 or "." in path.rpartition("/")[2]:
                    raise
        return await self._files.get_response("index.html", scope)


def serve_dashboard(app: FastAPI, folder: Path) -> None:
    """Everything that no route is for."""
    pages, nobody = Dashboard(folder), app.router.default

    async def other(scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp = pages if scope["type"] == "http" else nobody
        await answer(scope, receive, send)

    app.router.default = other


def routes(app: FastAPI, authenticator: Authenticator, *, secure: bool) -> APIRouter:
    router = APIRouter(tags=["login"])

    @router.get("/login", include_in_schema=False)
    async def login_page(next: str = "/") -> Response:
        return _login(next) if authenticator.mode == "tokens" else RedirectResponse("/", 303)

    @router.post(
        "/login",
        response_model=LoginOut,
        responses={**ERRORS, 303: {"description": "Logged in by the form"}},
        openapi_extra={
            "requestBody": {"required": True, "content": {"application/json": {"schema": LoginIn.model_json_schema()}}}
        },
    )
    async def login(request: Request) -> Response:
        """A cookie for a bearer token, so that a browser can ask. The WebSocket uses it too."""
        if authenticator.mode != "tokens":
            raise Refusal(409, "Nobody has to log in here.", code="no_login")
        by_form = request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
        raw = await request.body()
        if by_form:
            form = parse_qs(raw.decode("utf-8", "replace"), max_num_fields=10)
            token, onwards = form.get("token", [""])[0], form.get("next", ["/"])[0]
        else:
            token, onwards = _token(raw), "/"
        try:
            principal, cookie = authenticator.login(token)
        except Refusal as refused:
            if by_form:
                return _login(onwards, refused.detail)
            raise
        response: Response = RedirectResponse(_local(onwards), 303) if by_form else _logged_in(principal)
        is_secure = secure or request.url.scheme == "https"
        response.set_cookie(
            COOKIE, cookie, max_age=COOKIE_SECONDS, path="/", secure=is_secure, httponly=True, samesite="strict"
        )
        return response

    @router.post("/logout", status_code=204, response_class=Response, responses=ERRORS)
    async def logout() -> Response:
        """Forget the cookie."""
        response = Response(status_code=204)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response

    @router.get("/docs", include_in_schema=False)
    async def reference() -> Response:
        return _page("API of tersely", _reference(app.openapi()))

    @router.get("/docs/style.css", include_in_schema=False)
    async def style() -> Response:
        return Response(_STYLE, media_type="text/css")

    return router


def _token(raw: bytes) -> str:
    try:
        return LoginIn.model_validate(read_json(raw)).token
    except ValidationError as wrong:
        raise RequestValidationError(wrong.errors(include_url=False, include_input=False)) from None


def _logged_in(principal: Principal) -> Response:
    out = LoginOut(principal=principal.name, scopes=sorted(principal.rights), expires_in=COOKIE_SECONDS)
    return Response(out.model_dump_json(), media_type="application/json", headers={"Cache-Control": "no-store"})


def _local(address: str) -> str:
    """Where to go after the login: a place of ours, whatever the form says."""
    fine = (
        address.startswith("/")
        and not address.startswith(("//", "/\\"))
        and address.isprintable()
        and address.isascii()
    )
    return address if fine else "/"


def _page(title: str, body: str, status: int = 200, *, style: str = "/docs/style.css") -> HTMLResponse:
    return HTMLResponse(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" '
        'content="width=device-width">\n'
        f'<title>{escape(title)}</title>\n<link rel="stylesheet" '
        f'href="{style}">\n</head>\n<body>\n{body}\n</body>\n</html>\n',
        status,
        headers={"Cache-Control": "no-store"},
    )


def _login(onwards: str, problem: str = "") -> HTMLResponse:
    alert = f'<p role="alert">{escape(problem)}</p>' if problem else ""
    form = (
        '<form method="post" action="/login"><h1>tersely</h1>'
        f'{alert}<label for="token">Access token</label>'
        '<input id="token" name="token" type="password" autocomplete="current-password" required autofocus '
        'aria-describedby="hint">'
        '<p id="hint" class="hint">Whoever runs this service has one for you. This browser is let in for twelve '
        "hours.</p>"
        f'<input type="hidden" name="next" value="{escape(_local(onwards))}"><button class="primary">Log '
        "in</button></form>"
    )
    return _page("Log in · tersely", f'<main class="login">{form}</main>', 401 if problem else 200, style="/style.css")


_PLACEHOLDER = f"""<main><h1>tersely {VERSION}</h1>
<p>The service is running; the dashboard is not part of this installation.</p>
<ul><li><a href="/docs">Reference of the API</a></li><li><a href="/openapi.json">OpenAPI</a></li>
<li><a href="/api/v1/sessions">Sessions</a></li></ul></main>"""


def _reference(openapi: dict[str, Any]) -> str:
    """The OpenAPI document as a page to read."""
    parts = [f"<h1>{escape(openapi['info']['title'])} {escape(openapi['info']['version'])}</h1>"]
    parts.append(
        f'<p>{escape(openapi["info"].get("description", ""))} <a href="/openapi.json">OpenAPI document</a></p>'
    )
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            parts.append(
                f"<h2><code>{method.upper()} "
                f"{escape(path)}</code></h2><p>{escape(operation.get('description', ''))}</p>"
            )
            if parameters := operation.get("parameters"):
                told = "".join(
                    (
                        f"<tr><td><code>{escape(one['name'])}</code> "
                        f"({one['in']})</td><td>{escape(one.get('description', ''))}</td></tr>"
                    )
                    for one in parameters
                )
                parts.append(f"<table>{told}</table>")
            if body := operation.get("requestBody"):
                parts.append(f"<h3>Body</h3>{_shape(next(iter(body['content'].values()))['schema'], openapi)}")
            for status, response in operation["responses"].items():
                content = next(iter(response.get("content", {}).values()), None)
                shape = (
                    _shape(content["schema"], openapi)
                    if content and "schema" in content and str(status).startswith("2")
                    else ""
                )
                parts.append(f"<h3>{escape(str(status))}</h3><p>{escape(response.get('description', ''))}</p>{shape}")
    return "<main>" + "\n".join(parts) + "</main>"


def _shape(schema: dict[str, Any], openapi: dict[str, Any]) -> str:
    resolved = schema
    if "$ref" in schema:
        resolved = openapi["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "properties" not in resolved:
        return f"<pre>{escape(json.dumps(resolved, indent=2))}</pre>"
    needed = set(resolved.get("required", ()))
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code>{'' if name in needed else ' (optional)'}</td>"
        f"<td><code>{escape(_kind(one))}</code></td>"
        f"<td>{escape(one.get('description', ''))}</td></tr>"
        for name, one in resolved["properties"].items()
    )
    return f"<table>{rows}</table>"


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(json.dumps(one) for one in schema["enum"])
    if schema.get("type") == "array":
        return f"[{_kind(schema.get('items', {}))}]"
    return str(schema.get("format") or schema.get("type") or "any")
