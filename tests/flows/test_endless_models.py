"""Sessions whose model does not come to an end: they are cancelled at once, and end with a reason."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.fakes.endless_model import WORDS, EndlessModel
from tests.flows.service import flow_service

pytestmark = pytest.mark.process

MODES = ("silent", "falls-silent", "drip", "endless", "hour")
TYPES = ("openrouter", "anthropic")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def test_a_session_with_an_endless_model_is_cancelled_at_once_or_ends_with_a_reason(tmp_path: Path) -> None:
    def configuration(models: Mapping[str, str]) -> dict[str, Any]:
        names = [f"{kind}-{mode}" for kind in TYPES for mode in MODES]
        return {
            "llm_providers": {
                name: {
                    "type": name.partition("-")[0],
                    "model": name.partition("-")[2],
                    "base_url": server.url if name.startswith("anthropic") else f"{server.url}/v1",
                    "api_key": name,
                    "context_window": 100_000,
                    "max_output_tokens": 1_000,
                }
                for name in names
            },
            "agents": {name: {"llm_provider": name} for name in names},
            "chains": {name: {"alert_types": [name], "stages": [{"name": "look", "agent": name}]} for name in names},
            "defaults": {"alert_type": names[0], "llm_provider": names[0]},
            "queue": {"poll": 0.05, "max_concurrent_sessions": 20},
        }

    async with EndlessModel().listening() as server:
        url = f"sqlite+aiosqlite:///{tmp_path}/tersely.db"
        async with flow_service(url, tmp_path, configuration, providers=()) as home:
            hanging = [
                await home.web.submit(data={"alertname": "x"}, alert_type=f"{kind}-{mode}")
                for kind in TYPES
                for mode in ("silent", "falls-silent", "drip")
            ]
            with anyio.fail_after(60):
                while server.in_flight < len(hanging):
                    await anyio.sleep(0.02)
            began = anyio.current_time()
            for session_id in hanging:
                assert (await home.web.http.post(f"/api/v1/sessions/{session_id}/cancel")).is_success
            for session_id in hanging:
                await home.web.until(session_id, "cancelled")
            assert anyio.current_time() - began < 25, "before any timeout of a model call"
            with anyio.fail_after(60):
                while server.in_flight:
                    await anyio.sleep(0.02)

            for kind in TYPES:
                endless = await home.web.submit(data={"alertname": "x"}, alert_type=f"{kind}-endless")
                hour = await home.web.submit(data={"alertname": "x"}, alert_type=f"{kind}-hour")
                ended = await home.web.until(endless, "completed")
                assert WORDS * 100 in ended["analysis"]
                assert "429" in (ended := await home.web.until(hour, "failed"))["reason"], json.dumps(ended)
                assert "3600 s" in ended["reason"]
