"""Several pieces of work side by side, whose steps still begin in one order.

A durable engine knows steps by the order in which they begin. Work that runs side
by side would begin its second steps in whatever order the first ones end, and a
replay would find another step than it asks for. So steps begin in rounds: the
first of every work, in the order of the works, then the second of every work that
has one, and so on.
"""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

from tersely.agent.tool_executor import Step

T = TypeVar("T")
S = TypeVar("S")


async def ordered_gather(step: Step, works: Sequence[Callable[[Step], Awaitable[T]]]) -> list[T]:
    """What the works return, in their order. Each is handed the step it has to use."""
    results: dict[int, T] = {}
    unfinished = set(range(len(works)))
    waiting: dict[int, anyio.Event] = {}
    following: dict[int, anyio.Event] = {}
    """Who may begin once this one has."""

    def next_round() -> None:
        if waiting and waiting.keys() == unfinished:
            order = sorted(waiting)
            following.update((number, waiting[after]) for number, after in itertools.pairwise(order))
            waiting[order[0]].set()
            waiting.clear()

    async def run(number: int) -> None:
        async def in_turn(name: str, work: Callable[[], Awaitable[S]]) -> S:
            waiting[number] = turn = anyio.Event()
            next_round()
            await turn.wait()
            if number in following:
                # It wakes up only after this one has run into its step: whoever came last would else begin last.
                following.pop(number).set()
            return await step(name, work)

        try:
            results[number] = await works[number](in_turn)
        finally:
            unfinished.discard(number)
            next_round()

    async with anyio.create_task_group() as group:
        for number in range(len(works)):
            group.start_soon(run, number)
    return [results[number] for number in range(len(works))]
