"""The spine: what a conversation sees of a call, and what is kept of it."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from tersely.agent.tool_executor import Fetched, Step
from tersely.errors import ToolError
from tersely.llm.limits import RetryPolicy
from tersely.llm.messages import Message, ToolCall
from tersely.masking.masked import assume_masked
from tersely.mcp.raw import ContentPart, RawResult, Tool
from tersely.mcp.servers import Server, ServerOptions
from tersely.pipeline.process import Intent, Scope
from tersely.results.kept import KeptResults
from tersely.store.database import Database
from tersely.text.tokens import O200K
from tests.fakes.asking import model_at
from tests.fakes.executing import execute, tool_executor
from tests.fakes.llm_server import FakeLLMServer, Reply

ME = Scope("user:me", key=b"k" * 32)
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"

PODS = "NAME READY STATUS RESTARTS AGE\n" + "".join(f"api-{n:04d} 1/1 Running 0 {n % 90}d\n" for n in range(3000))
PODS = PODS.replace("api-1234 1/1 Running 0", "api-1234 0/1 CrashLoopBackOff 77")


class OneTool:
    """A registry with one tool whose answers are given."""

    def __init__(self, answer: RawResult | str | Exception, **options: Any) -> None:
        self.answer = RawResult(parts=(ContentPart(kind="text", text=answer),)) if isinstance(answer, str) else answer
        self.options = ServerOptions.model_validate({"transport": {"command": "true"}, **options})
        self.calls: list[Mapping[str, Any]] = []

    def resolve(self, name: str) -> Tool:
        if name != "cluster__get":
            raise ToolError(f"There is no tool {name!r}. There is: cluster__get.")
        return Tool(server="cluster", name="get", input_schema={}, fingerprint="f", raw={})

    def server(self, name: str) -> Server:
        return Server(name="cluster", options=self.options)

    async def call(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        on_progress: Callable[..., Any] | None = None,
        meta: Any = None,
    ) -> RawResult:
        self.calls.append(arguments)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
async def results(tmp_path: Path) -> AsyncIterator[KeptResults]:
    async with Database.open(f"sqlite:///{tmp_path / 'tersely.db'}") as database:
        yield KeptResults(database)


def ask(arguments: str = '{"namespace": "prod"}') -> ToolCall:
    return ToolCall("c1", "cluster__get", arguments)


async def test_a_small_result_reaches_the_conversation_untouched_and_is_kept(results: KeptResults) -> None:
    observation = await execute(tool_executor(OneTool("three pods, all well"), results), ask(), scope=ME)
    assert (observation.text, observation.status, observation.is_error) == (
        "three pods, all well",
        "passthrough",
        False,
    )
    assert observation.handle is not None
    assert await results.load(observation.handle, ME.name) == "three pods, all well"


async def test_a_large_result_is_condensed_within_its_limit_and_says_how_to_read_the_rest(results: KeptResults) -> None:
    observation = await execute(
        tool_executor(OneTool(PODS), results), ask(), scope=ME, intent=Intent(looking_for="which pods fail")
    )
    assert observation.status == "structural"
    assert O200K.count(observation.text) == observation.tokens_after <= 1000 < observation.tokens_before
    assert "CrashLoopBackOff" in observation.text and "api-1234" in observation.text
    assert observation.handle is not None and f"read_result(handle='{observation.handle}'" in observation.text
    assert await results.load(observation.handle, ME.name) == PODS


async def test_a_secret_is_masked_in_the_kept_original_as_well_as_in_the_observation(results: KeptResults) -> None:
    """The order is ours to choose; masking after keeping would leave the secret in the database."""
    arguments = json.dumps({"token": SECRET})
    registry = OneTool(f"user=admin password={SECRET}")
    observation = await execute(tool_executor(registry, results), ask(arguments), scope=ME)
    assert SECRET not in observation.text and "[MASKED:" in observation.text
    assert observation.handle is not None
    kept = await results.find(observation.handle, ME.name)
    assert SECRET not in await results.load(observation.handle, ME.name) and SECRET not in str(kept.origin.arguments)
    assert registry.calls == [{"token": SECRET}], "the server gets the arguments as they were written"


async def test_structured_content_and_error_texts_are_masked_too(results: KeptResults) -> None:
    """LESSONS: arguments and error texts were not masked."""
    structured = RawResult(structured={"password": SECRET, "user": "admin"})
    observation = await execute(tool_executor(OneTool(structured), results), ask(), scope=ME)
    assert SECRET not in observation.text and json.loads(observation.text)["user"] == "admin"
    failed = await execute(tool_executor(OneTool(ToolError(f"401 for token={SECRET}")), results), ask(), scope=ME)
    assert failed.is_error and SECRET not in failed.text and "401" in failed.text
    endless = await execute(tool_executor(OneTool(ToolError("no " * 1_000_000)), results), ask(), scope=ME)
    assert endless.is_error and len(endless.text) <= 8_000


async def test_what_cannot_be_masked_is_dropped(results: KeptResults, monkeypatch: pytest.MonkeyPatch) -> None:
    """F41: closed, and nothing of the result is kept."""

    def broken(self: object, text: str) -> str:
        from tersely.errors import MaskingFailed

        raise MaskingFailed("out of order")

    registry = OneTool("harmless or not, nobody knows")
    monkeypatch.setattr("tersely.masking.mask.Masker.mask", broken)
    observation = await execute(tool_executor(registry, results), ask(), scope=ME)
    assert observation.is_error and observation.handle is None and "harmless" not in observation.text
    assert "could not be checked for secrets" in observation.text


async def test_what_only_deceives_is_taken_out_and_counted(results: KeptResults) -> None:
    observation = await execute(tool_executor(OneTool("all\u200b \x1b[31mwell\x1b[0m\u202e"), results), ask(), scope=ME)
    assert observation.text == "all well" and observation.cleaned > 0


@pytest.mark.slow
async def test_an_error_result_is_never_given_to_a_model_and_still_fits_the_window(results: KeptResults) -> None:
    """LESSONS: fail-open put a result of any size into the conversation and killed the session."""
    failed = RawResult(parts=(ContentPart(kind="text", text=PODS),), is_error=True)
    async with FakeLLMServer([]).listening() as server, model_at(server.url) as llm:
        observation = await execute(tool_executor(OneTool(failed), results), ask(), scope=ME, llm=llm, window=2000)
    assert observation.is_error and observation.tokens_after <= 2000 and observation.handle


async def test_a_server_whose_results_are_left_alone_is_still_bounded_by_the_window(results: KeptResults) -> None:
    executor = tool_executor(OneTool(PODS, summarization={"enabled": False}), results)
    assert (await execute(executor, ask(), scope=ME)).text == PODS
    assert (await execute(executor, ask(), scope=ME, window=3000)).tokens_after <= 3000


@pytest.mark.slow
async def test_a_model_is_told_the_call_its_arguments_and_the_conversation(results: KeptResults) -> None:
    """LESSONS: the summarizer never saw the call's arguments, so it did not know what had been asked."""
    conversation = [
        Message("system", assume_masked("you are an agent")),
        Message("user", assume_masked("why is checkout slow?")),
        Message("assistant", assume_masked("x" * 50_000)),
    ]
    async with (
        FakeLLMServer(lambda body: "One pod crashes: api-1234.").listening() as server,
        model_at(server.url) as llm,
    ):
        observation = await execute(
            tool_executor(OneTool(PODS), results), ask(), scope=ME, llm=llm, intent=Intent(conversation=conversation)
        )
    assert observation.status == "summarized" and observation.text.startswith("One pod crashes: api-1234.")
    prompt = server.prompt(0)
    assert 'cluster.get({"namespace": "prod"})' in prompt and "user: why is checkout slow?" in prompt
    assert "you are an agent" not in prompt and "x" * 10_001 not in prompt and "x" * 10_000 in prompt


@pytest.mark.slow
async def test_when_the_model_fails_the_structure_decides_and_the_observation_says_so(results: KeptResults) -> None:
    async with (
        FakeLLMServer(lambda body: 503).listening() as server,
        model_at(server.url, retry_policy=RetryPolicy(delays=())) as llm,
    ):
        observation = await execute(tool_executor(OneTool(PODS), results), ask(), scope=ME, llm=llm)
    assert (observation.status, observation.returned) == ("fallback", "structural")
    assert observation.tokens_after <= 1000 and "503" in observation.reason


@pytest.mark.slow
async def test_a_summarizer_that_stalls_has_its_own_time_limit(results: KeptResults) -> None:
    """LESSONS: a stalled summarizer ate the whole iteration's time."""
    executor = tool_executor(OneTool(PODS), results, condense_seconds=0.3)
    async with FakeLLMServer(lambda body: Reply("late", delay=20)).listening() as server, model_at(server.url) as llm:
        with anyio.fail_after(20):
            observation = await execute(executor, ask(), scope=ME, llm=llm)
    assert observation.status == "fallback" and "CrashLoopBackOff" in observation.text


@pytest.mark.parametrize("arguments", ["{not json", "[1]", '"x"'])
async def test_arguments_that_are_no_object_are_refused_without_a_call(results: KeptResults, arguments: str) -> None:
    registry = OneTool("never")
    observation = await execute(tool_executor(registry, results), ask(arguments), scope=ME)
    assert observation.is_error and "JSON" in observation.text and not registry.calls


async def test_a_made_up_tool_is_an_error_and_never_a_success(results: KeptResults) -> None:
    """LESSONS: with no server configured, a made-up tool call was answered as a success by a stub."""
    observation = await execute(tool_executor(OneTool("x"), results), ToolCall("c1", "make_coffee"), scope=ME)
    assert observation.is_error and "cluster__get" in observation.text


async def test_images_and_links_are_kept_or_named_and_never_posed_as_text(results: KeptResults) -> None:
    parts = (
        ContentPart(kind="image", data="aGVsbG8=", mime_type="image/png"),
        ContentPart(kind="image", data="!!!notbase64", mime_type="image/png"),
        ContentPart(kind="link", uri="file:///etc/passwd", name="x"),
    )
    observation = await execute(tool_executor(OneTool(RawResult(parts=parts)), results), ask(), scope=ME)
    assert [part.kind for part in observation.parts] == ["image", "image", "link"]
    assert observation.parts[0].handle is not None and observation.parts[2].handle is None
    assert (await results.load_bytes(observation.parts[0].handle, ME.name))[0] == b"hello"
    assert "no text, but: image image/png" in observation.text


async def test_an_empty_result_is_said_to_be_empty(results: KeptResults) -> None:
    observation = await execute(tool_executor(OneTool(RawResult()), results), ask(), scope=ME)
    assert observation.text == "[The tool returned nothing.]"


async def test_a_handle_as_an_argument_stands_for_the_whole(results: KeptResults) -> None:
    executor = tool_executor(OneTool(PODS), results)
    handle = (await execute(executor, ask(), scope=ME)).handle
    registry = OneTool("got it")
    await execute(tool_executor(registry, results), ask(json.dumps({"content": f"result:{handle}"})), scope=ME)
    assert registry.calls == [{"content": PODS}]
    stranger = await execute(
        tool_executor(registry, results),
        ask(json.dumps({"content": f"result:{handle}"})),
        scope=Scope("user:somebody else"),
    )
    assert stranger.is_error and len(registry.calls) == 1, "another scope's handle is not found"


async def test_steps_return_handles_and_sizes_and_never_the_text(results: KeptResults) -> None:
    """What a durable caller stores: nothing unmasked and nothing large."""
    stored: dict[str, Any] = {}

    async def remembering(name: str, work: Any) -> Any:
        stored[name] = await work()
        return stored[name]

    step: Step = remembering
    await execute(tool_executor(OneTool(PODS), results), ask(), scope=ME, step=step)
    assert isinstance(stored["call"], Fetched) and len(repr(stored["call"])) < 1000
    assert len(repr(stored["condense"])) < 20_000


async def test_a_result_that_cannot_be_condensed_is_cut_to_the_room_in_the_window(
    results: KeptResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threshold may be larger than the window; nothing larger than the window enters a conversation."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a condenser failed")

    monkeypatch.setattr("tersely.condensing.ladder.condense_structurally", broken)
    observation = await execute(tool_executor(OneTool(PODS), results), ask(), scope=ME, window=600)
    assert observation.status == "fallback" and O200K.count(observation.text) <= 600
