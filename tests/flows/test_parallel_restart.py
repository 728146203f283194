"""Parallel agents after a restart, in a module of its own: the workflow engine is one per process."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.fakes.llm_server import Body, Reply
from tests.flows.service import calls, flow_service, said
from tests.flows.test_parallel import REFUSED, configuration, logs_agent, pods_agent, skills_in, stated

pytestmark = pytest.mark.process


async def test_a_restart_repeats_nothing_of_an_agent_whose_steps_are_stored(url: str, tmp_path: Path) -> None:
    """The process ends while one agent has finished and the other waits for its model, then during the synthesis."""
    held = {"spare": True, "summarist": True}
    asked: list[str] = []

    def script(provider: str, replies: list[Reply | str]) -> Any:
        def answer(body: Body) -> Any:
            asked.append(provider)
            steps = sum(message["role"] == "tool" for message in body["messages"])
            step = 2 if "State only what you have seen. Quote lines" in said(body) else min(1, steps)
            if held.get(provider) and step == 1:
                return Reply("never read", delay=600)
            return replies[step]

        return answer

    session_id = ""
    skills = skills_in(tmp_path)
    for _ in range(3):
        async with flow_service(url, tmp_path, configuration, TERSELY_SKILLS_FOLDER=skills) as service:
            case = service.case(main=script("main", logs_agent()), spare=script("spare", pods_agent()))
            synthesis: list[Reply | str] = [
                calls("read_result", handle="r_none"),
                "The database.",
                stated("db-1 refuses.", REFUSED),
            ]
            case.scripts["summarist"] = script("summarist", synthesis)
            session_id = session_id or await service.submit(case, alert_type="pair")
            waiting = next((name for name, is_held in held.items() if is_held), "")
            with anyio.fail_after(300):
                while waiting and (asked.count(waiting) < 2 or asked.count("main") < 3):
                    await anyio.sleep(0.02)
            if not waiting:
                story = await service.story(session_id)
            held.pop(waiting, None)
    # One request was under way at each restart and is made again; nothing else is.
    assert {name: asked.count(name) for name in ("main", "spare", "summarist")} == {
        "main": 3,
        "spare": 4,
        "summarist": 4,
    }
    assert [one["status"] for one in story.session["stages"][0]["executions"]] == ["completed"] * 3
    assert story.session["verdict"]["cause"] == "db-1 refuses." and story.session["attempt"] == 3
    assert len(story.shown("verdict")) == 3 and not [one for one in story.timeline if one["status"] == "streaming"]
