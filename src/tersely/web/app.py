"""The web application: routes, `AccessMiddleware` in front of them, and one error body.

`build_web_app` only assembles what it is given; `tersely.http.listen` serves it.
The same settings give the same application on every replica.
"""

from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi

from tersely.http.hosts import AllowedHosts
from tersely.store import audit
from tersely.web.access import authorize_request
from tersely.web.alerts import alert_routes
from tersely.web.auth import Authenticator, build_authenticator
from tersely.web.chat import chat_routes
from tersely.web.compression import CompressionMiddleware
from tersely.web.dependencies import WebDependencies
from tersely.web.live import SLOW_SECONDS, Live, live_routes
from tersely.web.metrics import metrics_routes
from tersely.web.middleware import AccessMiddleware
from tersely.web.pages import DASHBOARD, page_routes, serve_dashboard
from tersely.web.problems import add_error_handlers
from tersely.web.rerun import rerun_routes
from tersely.web.results import result_routes
from tersely.web.sessions import session_routes
from tersely.web.system import system_routes
from tersely.web.triage import triage_routes
from tersely.web.version import VERSION

API = "/api/v1"

_DESCRIPTION = (
    "Alerts in, agents at work, a live timeline out. Lists have `items` and `next_cursor`; every error has the "
    "same body, `error`."
)


def build_web_app(
    deps: WebDependencies,
    *,
    host: str | None = None,
    dashboard: Path = DASHBOARD,
    slow_seconds: float = SLOW_SECONDS,
) -> FastAPI:
    """The application for a listener on `host`, by default the configured one.

    Raises:
        ConfigError: Other machines can reach the address, and no authentication is configured.
    """
    up = deps.settings.up
    host = up.host if host is None else host
    authenticator = build_authenticator(deps.settings, host, login_key=deps.login_key)
    allowed_hosts = AllowedHosts(host, up.allowed_hosts, up.public_url or "")
    app = FastAPI(
        title="tersely",
        version=VERSION,
        description=_DESCRIPTION,
        dependencies=[Depends(authorize_request)],
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )

    app.add_middleware(CompressionMiddleware)
    app.add_middleware(
        AccessMiddleware,
        allowed_hosts=allowed_hosts,
        authenticator=authenticator,
        audit=audit.AuditWriter(deps.database),
    )
    add_error_handlers(app)
    viewers = Live(deps, slow_seconds=slow_seconds)
    app.state.live = viewers
    for router in (
        alert_routes(deps),
        session_routes(deps),
        chat_routes(deps),
        triage_routes(deps),
        rerun_routes(deps),
        result_routes(deps),
        system_routes(deps, authenticator),
        live_routes(viewers),
    ):
        app.include_router(router, prefix=API)
    app.include_router(metrics_routes(deps, viewers))
    app.include_router(page_routes(app, authenticator, secure=(up.public_url or "").startswith("https:")))
    serve_dashboard(app, dashboard)
    _describe_auth(app, authenticator)
    return app


def _describe_auth(app: FastAPI, authenticator: Authenticator) -> None:
    """Declare bearer authentication in the OpenAPI document."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            if authenticator.required:
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
