"""Pages for browsers: the dashboard's files, the login, and the API reference. Nothing is loaded from other hosts.

The dashboard is static and does its own routing, so a path that is neither a file
nor part of the API gets `index.html`.
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
from tersely.web.problems import ApiError
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
    """ASGI application: the static files, and `index.html` for every path the dashboard routes itself."""

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
        response = await self._response(path.lstrip("/"), scope)
        # Browsers revalidate each time, which is cheap, and get a new version at once.
        response.headers["Cache-Control"] = "no-cache"
        await response(scope, receive, send)

    async def _response(self, path: str, scope: Scope) -> Response:
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
    """Serve the dashboard for every path without a route."""
    pages, not_found = Dashboard(folder), app.router.default

    async def default(scope: Scope, receive: Receive, send: Send) -> None:
        handler: ASGIApp = pages if scope["type"] == "http" else not_found
        await handler(scope, receive, send)

    app.router.default = default


def page_routes(app: FastAPI, authenticator: Authenticator, *, secure: bool) -> APIRouter:
    router = APIRouter(tags=["login"])

    @router.get("/login", include_in_schema=False)
    async def login_page(next: str = "/") -> Response:
        return _login_page(next) if authenticator.mode == "tokens" else RedirectResponse("/", 303)

    @router.post(
        "/login",
        response_model=LoginOut,
        responses={**ERRORS, 303: {"description": "Logged in with the form"}},
        openapi_extra={
            "requestBody": {"required": True, "content": {"application/json": {"schema": LoginIn.model_json_schema()}}}
        },
    )
    async def login(request: Request) -> Response:
        """Exchange a bearer token for a login cookie, which the WebSocket accepts too."""
        if authenticator.mode != "tokens":
            raise ApiError(409, "This service needs no login.", code="no_login")
        is_form = request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
        raw = await request.body()
        if is_form:
            form = parse_qs(raw.decode("utf-8", "replace"), max_num_fields=10)
            token, target = form.get("token", [""])[0], form.get("next", ["/"])[0]
        else:
            token, target = _token(raw), "/"
        try:
            principal, cookie = authenticator.login(token)
        except ApiError as refused:
            if is_form:
                return _login_page(target, refused.detail)
            raise
        request.state.principal = principal  # For the audit log.
        response: Response = RedirectResponse(_local_path(target), 303) if is_form else _logged_in(principal)
        is_secure = secure or request.url.scheme == "https"
        response.set_cookie(
            COOKIE, cookie, max_age=COOKIE_SECONDS, path="/", secure=is_secure, httponly=True, samesite="strict"
        )
        return response

    @router.post("/logout", status_code=204, response_class=Response, responses=ERRORS)
    async def logout() -> Response:
        """Delete the login cookie."""
        response = Response(status_code=204)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response

    @router.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return Response(json.dumps(app.openapi()), media_type="application/json")

    @router.get("/docs", include_in_schema=False)
    async def reference() -> Response:
        return _page("tersely API", _reference(app.openapi()))

    @router.get("/docs/style.css", include_in_schema=False)
    async def style() -> Response:
        return Response(_STYLE, media_type="text/css")

    return router


def _token(raw: bytes) -> str:
    try:
        return LoginIn.model_validate(read_json(raw)).token
    except ValidationError as invalid:
        raise RequestValidationError(invalid.errors(include_url=False, include_input=False)) from None


def _logged_in(principal: Principal) -> Response:
    out = LoginOut(principal=principal.name, scopes=sorted(principal.scopes), expires_in=COOKIE_SECONDS)
    return Response(out.model_dump_json(), media_type="application/json", headers={"Cache-Control": "no-store"})


def _local_path(target: str) -> str:
    """Where to redirect after the login: a path of this service, or `/` (no open redirect)."""
    is_local = (
        target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable() and target.isascii()
    )
    return target if is_local else "/"


def _page(title: str, body: str, status: int = 200, *, style: str = "/docs/style.css") -> HTMLResponse:
    return HTMLResponse(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" '
        'content="width=device-width">\n'
        f'<title>{escape(title)}</title>\n<link rel="stylesheet" '
        f'href="{style}">\n</head>\n<body>\n{body}\n</body>\n</html>\n',
        status,
        headers={"Cache-Control": "no-store"},
    )


def _login_page(target: str, problem: str = "") -> HTMLResponse:
    alert = f'<p role="alert">{escape(problem)}</p>' if problem else ""
    form = (
        '<form method="post" action="/login"><h1>tersely</h1>'
        f'{alert}<label for="token">Access token</label>'
        '<input id="token" name="token" type="password" autocomplete="current-password" required autofocus '
        'aria-describedby="hint">'
        '<p id="hint" class="hint">Ask the operator of this service for a token. The login lasts twelve hours.'
        "</p>"
        f'<input type="hidden" name="next" value="{escape(_local_path(target))}"><button class="primary">Log '
        "in</button></form>"
    )
    return _page("Log in · tersely", f'<main class="login">{form}</main>', 401 if problem else 200, style="/style.css")


_PLACEHOLDER = f"""<main><h1>tersely {VERSION}</h1>
<p>The service is running; the dashboard is not part of this installation.</p>
<ul><li><a href="/docs">API reference</a></li><li><a href="/openapi.json">OpenAPI</a></li>
<li><a href="/api/v1/sessions">Sessions</a></li></ul></main>"""


def _reference(openapi: dict[str, Any]) -> str:
    """The OpenAPI document as an HTML page."""
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
                rows = "".join(
                    (
                        f"<tr><td><code>{escape(one['name'])}</code> "
                        f"({one['in']})</td><td>{escape(one.get('description', ''))}</td></tr>"
                    )
                    for one in parameters
                )
                parts.append(f"<table>{rows}</table>")
            if body := operation.get("requestBody"):
                parts.append(f"<h3>Body</h3>{_schema_table(next(iter(body['content'].values()))['schema'], openapi)}")
            for status, response in operation["responses"].items():
                content = next(iter(response.get("content", {}).values()), None)
                shape = (
                    _schema_table(content["schema"], openapi)
                    if content and "schema" in content and str(status).startswith("2")
                    else ""
                )
                parts.append(f"<h3>{escape(str(status))}</h3><p>{escape(response.get('description', ''))}</p>{shape}")
    return "<main>" + "\n".join(parts) + "</main>"


def _schema_table(schema: dict[str, Any], openapi: dict[str, Any]) -> str:
    resolved = schema
    if "$ref" in schema:
        resolved = openapi["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "properties" not in resolved:
        return f"<pre>{escape(json.dumps(resolved, indent=2))}</pre>"
    required = set(resolved.get("required", ()))
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code>{'' if name in required else ' (optional)'}</td>"
        f"<td><code>{escape(_type_name(one))}</code></td>"
        f"<td>{escape(one.get('description', ''))}</td></tr>"
        for name, one in resolved["properties"].items()
    )
    return f"<table>{rows}</table>"


def _type_name(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(_type_name(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(json.dumps(one) for one in schema["enum"])
    if schema.get("type") == "array":
        return f"[{_type_name(schema.get('items', {}))}]"
    return str(schema.get("format") or schema.get("type") or "any")
