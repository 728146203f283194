"""The web application: routes, the door before them, and one shape for everything that goes wrong.

`build_web_app` puts together what it is handed; starting, stopping and listening are
`serve`'s. Deterministic in its parts: the same settings give the same application on every replica.
"""

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from tersely.web import alerts, live, metrics, pages, results, sessions, system
from tersely.web.auth import Authenticator, build_authenticator
from tersely.web.dependencies import WebDependencies
from tersely.web.middleware import AccessMiddleware, Names
from tersely.web.problems import answer_problems
from tersely.web.version import VERSION

API = "/api/v1"

_ABOUT = (
    "Alerts in, agents at work, a live timeline out. Lists have `items` and `next_cursor`; whatever goes wrong "
    "has one shape, `error`."
)


def build_web_app(
    parts: WebDependencies,
    *,
    host: str | None = None,
    dashboard: Path = pages.DASHBOARD,
    slow_seconds: float = live.SLOW_SECONDS,
) -> FastAPI:
    """The application as it listens on `host` (the configured one unless given).

    Raises:
        ConfigError: The address is open to others, and nothing says who may come in.
    """
    up = parts.settings.up
    host = up.host if host is None else host
    who = build_authenticator(parts.settings, host)
    names = Names(host, up.allowed_hosts, up.public_url or "")
    app = FastAPI(
        title="tersely", version=VERSION, description=_ABOUT, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.add_middleware(AccessMiddleware, names=names, authenticator=who)
    answer_problems(app)
    viewers = live.Live(parts, slow_seconds=slow_seconds)
    app.state.live = viewers
    for routed in (
        alerts.routes(parts),
        sessions.routes(parts),
        results.routes(parts),
        system.routes(parts, who),
        live.routes(viewers),
    ):
        app.include_router(routed, prefix=API)
    app.include_router(metrics.routes(parts, viewers))
    app.include_router(pages.routes(app, who, secure=(up.public_url or "").startswith("https:")))
    pages.serve_dashboard(app, dashboard)
    _describe(app, who)
    return app


def _describe(app: FastAPI, who: Authenticator) -> None:
    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            if who.required:
                document.setdefault("components", {})["securitySchemes"] = {
                    "token": {"type": "http", "scheme": "bearer"}
                }
                document["security"] = [{"token": []}]
                for path in ("/health", "/ready", "/login", "/logout"):
                    for operation in document["paths"].get(path, {}).values():
                        operation["security"] = []
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
