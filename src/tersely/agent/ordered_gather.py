"""Concurrent work whose durable steps start in a deterministic order.

A durable engine identifies steps by the order in which they start. Concurrent work
would start its second steps in whatever order the first ones end, and a replay would
find a different step than it asks for. So steps start in rounds: the first step of
every work, in the order of the works, then the second step of every work that has
one, and so on.
"""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

from tersely.agent.tool_executor import Step

T = TypeVar("T")
S = TypeVar("S")


async def ordered_gather(step: Step, works: Sequence[Callable[[Step], Awaitable[T]]]) -> list[T]:
    """Run the works concurrently and return their results in order. Each work must use the step it receives."""
    results: dict[int, T] = {}
    unfinished = set(range(len(works)))
    waiting: dict[int, anyio.Event] = {}
    following: dict[int, anyio.Event] = {}
    """The event of the work that may start its step after this one."""

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
                # The next work wakes up only after this one has started its step; that keeps the order.
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
