"""RetryPolicy: slots, the gate after a Retry-After, the circuit, retries, fallbacks."""

import anyio
import pytest

from tersely.errors import LLMRefused, LLMUnavailable
from tersely.llm.limits import CircuitOpen, RetryPolicy
from tersely.llm.meter import METER
from tests.fakes.asking import QUICK, model_at, say
from tests.fakes.llm_server import Body, FakeLLMServer, Reply

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
async def test_what_can_heal_is_tried_three_times_more(status: int) -> None:
    """F18, and LESSONS: three retries, not three attempts."""
    async with FakeLLMServer([status, status, status, "at last"]).listening() as server, model_at(server.url) as llm:
        assert (await llm.complete(say("hello"), max_tokens=10)).text == "at last"
    async with FakeLLMServer([status] * 4).listening() as server, model_at(server.url) as llm:
        with pytest.raises(LLMUnavailable, match=str(status)):
            await llm.complete(say("hello"), max_tokens=10)


async def test_each_try_is_counted_and_what_it_cost() -> None:
    who = ("openrouter", "openai/gpt-4o-mini")
    answered, failed, wrote = METER.answered[who], METER.failed[who], METER.output_tokens[who]
    async with FakeLLMServer([500, "at last"]).listening() as server, model_at(server.url) as llm:
        assert (llm.provider, llm.model) == who
        answer = await llm.complete(say("hello"), max_tokens=10)
    assert (METER.answered[who], METER.failed[who]) == (answered + 1, failed + 1)
    assert METER.output_tokens[who] == wrote + answer.usage.output_tokens > wrote
    assert METER.price[who] > 0


def test_production_waits_two_four_and_eight_seconds() -> None:
    assert RetryPolicy().delays == (2.0, 4.0, 8.0)


async def test_never_more_calls_at_once_than_there_are_slots() -> None:
    """LESSONS: the limit covered map and not reduce; here it is in the client, so it covers both."""
    async with FakeLLMServer(lambda body: Reply("ok", delay=0.03)).listening() as server:
        async with (
            model_at(server.url, retry_policy=RetryPolicy(concurrency=3)) as llm,
            anyio.create_task_group() as tasks,
        ):
            for _ in range(20):
                tasks.start_soon(lambda: llm.complete(say("hello"), max_tokens=10))
    assert server.most_in_flight == 3
    assert len(server.requests) == 20


async def test_a_slot_is_free_while_its_call_waits_for_a_retry() -> None:
    """LESSONS: slots were held while backing off."""

    def script(body: Body) -> Reply | str | int:
        return 500 if body["messages"][0]["content"] == "unlucky" and len(server.requests) == 1 else "ok"

    async with FakeLLMServer(script).listening() as server:
        async with (
            model_at(server.url, retry_policy=RetryPolicy(concurrency=1, delays=(3600.0,))) as llm,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(lambda: llm.complete(say("unlucky"), max_tokens=10))
            while not server.requests:
                await anyio.sleep(0.01)
            with anyio.fail_after(300):
                assert (await llm.complete(say("lucky"), max_tokens=10)).text == "ok"
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("header", ["1", "Wed, 21 Oct 2099 07:28:00 GMT", "0", "garbage", None])
async def test_a_retry_after_holds_all_callers_back_and_then_lets_one_probe(header: str | None) -> None:
    """F17: at most one request on the wire in the waiting time; other callers wait without using up their tries."""
    told = Reply(status=429, headers={"retry-after": header} if header else {})
    arrivals: list[float] = []

    def script(body: Body) -> Reply:
        arrivals.append(anyio.current_time())
        return told if len(arrivals) == 1 else Reply("ok", delay=0.1)

    async with FakeLLMServer(script).listening() as server:
        async with model_at(server.url, retry_policy=QUICK) as llm:

            async def ask() -> None:
                await llm.complete(say("hello"), max_tokens=10)

            if header and "2099" in header:
                with pytest.raises(LLMUnavailable):
                    await ask()
                return
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                while not arrivals or llm.in_use:
                    await anyio.sleep(0.001)
                for _ in range(4):
                    tasks.start_soon(ask)
    waited = arrivals[1] - arrivals[0]
    assert waited >= (1.0 if header == "1" else 0.01)
    assert arrivals[2] - arrivals[1] >= 0.09, "the second waits until the first has come back"
    assert len(arrivals) == 6


async def test_a_provider_that_asks_for_an_hour_counts_as_unavailable_and_is_left_alone() -> None:
    """F17: a delay over 60 s is not waited for; the next caller fails without a request."""
    async with (
        FakeLLMServer([Reply(status=429, headers={"retry-after": "3600"})]).listening() as server,
        model_at(server.url) as llm,
    ):
        for _ in range(2):
            with anyio.fail_after(300), pytest.raises(LLMUnavailable):
                await llm.complete(say("hello"), max_tokens=10)
    assert len(server.requests) == 1


async def test_half_of_the_last_twenty_failing_opens_the_circuit_and_one_success_closes_it() -> None:
    """F18."""
    broken = True

    def script(body: Body) -> Reply | str | int:
        return 503 if broken else "ok"

    async with FakeLLMServer(script).listening() as server:
        async with model_at(server.url, retry_policy=RetryPolicy(delays=(), circuit_open_for=2)) as llm:
            for _ in range(20):
                with pytest.raises(LLMUnavailable):
                    await llm.complete(say("hello"), max_tokens=10)
            asked = len(server.requests)
            with pytest.raises(CircuitOpen, match="half of its last calls failed"):
                await llm.complete(say("hello"), max_tokens=10)
            assert len(server.requests) == asked == 20, "with the circuit open nobody is asked"
            broken = False
            await anyio.sleep(2.05)
            for _ in range(3):
                assert (await llm.complete(say("hello"), max_tokens=10)).text == "ok"


async def test_the_next_model_steps_in_when_the_first_fails() -> None:
    async with FakeLLMServer([401]).listening() as first, FakeLLMServer(["from the second"]).listening() as second:
        async with model_at(first.url, second.url) as llm:
            assert (await llm.complete(say("hello"), max_tokens=10)).text == "from the second"


async def test_when_all_models_fail_the_error_names_each_failure() -> None:
    async with (
        FakeLLMServer([401]).listening() as first,
        FakeLLMServer([Reply(status=400, error="bad wish")]).listening() as second,
    ):
        async with model_at(first.url, second.url) as llm:
            with pytest.raises(Exception, match=r"401.* Then: .*bad wish"):
                await llm.complete(say("hello"), max_tokens=10)


async def test_a_fallback_with_too_small_a_window_is_not_asked() -> None:
    async with (
        FakeLLMServer([Reply(status=400, error="no")]).listening() as first,
        FakeLLMServer([]).listening() as second,
    ):
        async with model_at(first.url, second.url, window=1100, output_cap=100) as llm:
            with pytest.raises(LLMRefused, match="too small a window"):
                await llm.complete(say("word " * 2000), max_tokens=100)


async def test_a_caller_who_leaves_frees_the_slot_and_the_connection() -> None:
    async with FakeLLMServer(lambda body: Reply("ok", delay=3600)).listening() as server:
        async with model_at(server.url, retry_policy=RetryPolicy(concurrency=1)) as llm:
            async with anyio.create_task_group() as caller:
                caller.start_soon(lambda: llm.complete(say("hello"), max_tokens=10))
                with anyio.fail_after(300):
                    while not server.in_flight:
                        await anyio.sleep(0.01)
                caller.cancel_scope.cancel()
            assert llm.in_use == 0
            with anyio.fail_after(300):
                while not server.cancelled:
                    await anyio.sleep(0.01)
