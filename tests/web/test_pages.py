"""What a browser gets, and how everything that goes wrong looks."""

import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tersely.web.app import build_web_app
from tests.web.running import Running, running, serving


@pytest.fixture(scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("dashboard")
    (folder / "index.html").write_text("<!doctype html><title>all sessions</title>")
    (folder / "app.js").write_text("export const x = 1;")
    (folder / "parts").mkdir()
    (folder / "parts" / "style.css").write_text("body {}")
    (folder.parent / "secret.txt").write_text("outside")
    async with running(f"sqlite:///{tmp_path_factory.mktemp('store') / 't.db'}", dashboard=folder) as service:
        yield service


@pytest.mark.parametrize(
    ("path", "kind", "text"),
    [
        ("/", "text/html", "all sessions"),
        ("/sessions/9dc422a4", "text/html", "all sessions"),
        ("/submit", "text/html", "all sessions"),
        ("/parts", "text/html", "all sessions"),
        ("/app.js", "text/javascript", "export"),
        ("/parts/style.css", "text/css", "body"),
    ],
)
async def test_the_dashboard_is_served_with_its_first_page_for_its_own_addresses(
    service: Running, path: str, kind: str, text: str
) -> None:
    answer = await service.http.get(path)
    assert answer.status_code == 200 and answer.headers["Content-Type"].startswith(kind) and text in answer.text
    assert (
        answer.headers["Cache-Control"] == "no-cache"
        and "script-src 'self'" in answer.headers["Content-Security-Policy"]
    )
    again = await service.http.get(path, headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304


@pytest.mark.parametrize(
    "path",
    [
        "/missing.js",
        "/../secret.txt",
        "/..%2fsecret.txt",
        "/parts/..%2f..%2fsecret.txt",
        "/%00",
        "/api/v1/none",
        "/api/none",
        "/docs/none",
    ],
)
async def test_what_is_not_there_is_not_found_and_nothing_lies_outside(service: Running, path: str) -> None:
    answer = await service.http.get(path)
    assert "outside" not in answer.text
    if path != "/%00":
        assert answer.status_code == 404 and set(answer.json()) == {"error"}


async def test_without_a_dashboard_a_page_says_where_to_go(service: Running, tmp_path: Path) -> None:
    app = build_web_app(service.parts, dashboard=tmp_path)
    async with serving(app) as (address, _), httpx2.AsyncClient(base_url=address, trust_env=False) as http:
        assert '<a href="/docs">' in (await http.get("/")).text
        assert (await http.get("/submit")).status_code == 404


async def test_the_reference_needs_nothing_from_elsewhere(service: Running) -> None:
    page = (await service.http.get("/docs")).text
    assert "POST /api/v1/alerts" in page and "://" not in page.replace("http://127.0.0.1", "") and "<script" not in page
    assert (await service.http.get("/docs/style.css")).headers["Content-Type"].startswith("text/css")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/v1/none", 404, "not_found"),
        ("PUT", "/api/v1/alerts", 405, "method_not_allowed"),
        ("GET", "/api/v1/alerts", 405, "method_not_allowed"),
        ("POST", "/", 405, "method_not_allowed"),
        ("BREW", "/api/v1/sessions", 405, "method_not_allowed"),
        ("GET", "/api/v1/sessions?limit=x", 422, "invalid"),
        ("POST", "/api/v1/alerts", 422, "invalid"),
        ("POST", "/login", 409, "no_login"),
    ],
)
async def test_every_mistake_has_one_shape(service: Running, method: str, path: str, status: int, code: str) -> None:
    answer = await service.http.request(method, path)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["code"] == code and error["message"] and isinstance(error["details"], list)
    if status == 405:
        assert answer.headers["Allow"]


async def test_an_unexpected_error_is_an_id_that_the_log_explains(
    service: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Any:
        raise RuntimeError("password=hunter2 in /srv/tersely/app.py")

    monkeypatch.setattr(service.parts.database, "reading", broken)
    with caplog.at_level(logging.ERROR):
        answer = await service.http.get("/api/v1/sessions")
    assert answer.status_code == 500
    error = answer.json()["error"]
    assert error["code"] == "internal_error" and "hunter2" not in answer.text and "Traceback" not in answer.text
    (record,) = [record for record in caplog.records if record.message == "request_failed"]
    assert getattr(record, "id") in error["message"] and record.exc_info is not None  # noqa: B009
    assert "Content-Security-Policy" in answer.headers


async def test_not_ready_says_why(service: Running) -> None:
    assert (await service.http.get("/health")).json()["status"] == "ok"
    assert (await service.http.get("/ready")).json() == {"status": "ready", "reasons": []}

    parts = replace(service.parts, not_ready=lambda: ["The process is about to stop."])
    async with serving(build_web_app(parts)) as (address, _):
        answer = await service.http.get(f"{address}/ready")
    assert answer.status_code == 503
    assert answer.json() == {"status": "not_ready", "reasons": ["The process is about to stop."]}
    assert (await service.http.get("/health")).status_code == 200


async def test_the_openapi_document_says_what_comes_back_everywhere(service: Running) -> None:
    document = (await service.http.get("/openapi.json")).json()
    assert document["info"]["title"] == "tersely" and "HTTPValidationError" not in json.dumps(document)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation.get("description"), (method, path)
            for status, response in operation["responses"].items():
                if status.startswith("2") and status != "204":
                    assert response["content"] and all(content["schema"] for content in response["content"].values()), (
                        method,
                        path,
                        status,
                    )
                elif status not in ("204", "303"):
                    schema = response["content"]["application/json"]["schema"]["$ref"]
                    assert schema.endswith(("/Error", "/ReadyOut")), (method, path, status)
            assert {"4XX", "5XX"} <= set(operation["responses"]), (method, path)
