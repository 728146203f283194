"""Everything the OpenAPI document allows, and much that it does not, is asked; nothing of it is our mistake."""

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import anyio.from_thread
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from tests.web.running import Running, running, settings_for

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # It remarks on libraries of its own while it is imported.
    import schemathesis
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        negative_data_rejection,
        response_schema_conformance,
        status_code_conformance,
    )

# The service runs in a thread beside the generator, and is not forbidden to use chance.
pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
COUNT = int(os.environ.get("FUZZ_EXAMPLES", "8"))
"""`make fuzz` asks for more, and for new ones."""

EXAMPLES = settings(
    max_examples=COUNT,
    deadline=None,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """On a loop of its own, because the caller blocks until the answer is there."""
    url = f"sqlite:///{tmp_path_factory.mktemp('store') / 'tersely.db'}"
    with anyio.from_thread.start_blocking_portal() as portal:
        with portal.wrap_async_context_manager(
            running(url, settings=settings_for(url, max_pending=10_000), at_once=1)
        ) as service:
            yield service


@pytest.fixture(scope="module")
def api(service: Running, known: dict[str, str]) -> Any:
    return schemathesis.openapi.from_url(f"{service.address}/openapi.json")


@pytest.fixture(scope="module")
def known(service: Running) -> dict[str, str]:
    """A session that exists, with a result. Submitted first: later it would wait behind thousands of invented ones."""
    import httpx2

    with httpx2.Client(base_url=f"{service.address}/api/v1", trust_env=False) as http:
        session_id = http.post("/alerts", json={"data": "Pod web-1 restarts"}).json()["session_id"]
        while http.get(f"/sessions/{session_id}").json()["status"] != "completed":
            time.sleep(0.05)
        (result,) = http.get(f"/sessions/{session_id}/results").json()["items"]
    return {"session_id": session_id, "handle": result["handle"]}


def ask(operation: Any, checks: list[Any], **in_the_path: str) -> None:
    """Ask one operation in many ways."""

    for mode in GenerationMode:
        try:
            cases = operation.as_strategy(generation_mode=mode)
        except Unsatisfiable:
            continue  # Nothing about it could be wrong.

        @EXAMPLES
        @given(case=cases)
        def asking(case: Any) -> None:
            if case.path_parameters:
                case.path_parameters.update(
                    {name: value for name, value in in_the_path.items() if name in case.path_parameters}
                )
            case.call_and_validate(checks=checks)

        with suppress(Unsatisfiable):
            asking()


# About 100 operations and modes; 30 requests a second on a busy machine.
PATIENCE = pytest.mark.timeout(max(600, 30 * COUNT))


@PATIENCE
@pytest.mark.slow
def test_nothing_that_can_be_asked_is_a_server_error(api: Any) -> None:
    asked = [result.ok() for result in api.get_all_operations()]
    assert len(asked) >= 20
    for operation in asked:
        ask(operation, CHECKS)


@PATIENCE
@pytest.mark.slow
def test_nothing_that_can_be_asked_about_a_session_is_a_server_error(api: Any, known: dict[str, str]) -> None:
    about = [result.ok() for result in api.include(path_regex=r"\{session_id\}", method="GET").get_all_operations()]
    assert len(about) >= 9
    for operation in about:
        ask(operation, CHECKS[:4], **known)
