"""The invariants I1 to I6, stated over a history; each violation with the few records that show it, the shortest
first.
"""

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from tests.survival.history import History, Record

ENDS = ("completed", "failed", "cancelled", "timed_out")
ORDER = {"pending": 0, "in_progress": 1, "cancelling": 2, **dict.fromkeys(ENDS, 3)}
CLOCK = 0.005
"""Times are written down in milliseconds."""

TOOL_TIMEOUT = 5
"""Seconds after which a tool of a run counts as silent."""

WAKING = 1.0
"""Seconds in which a process that was stopped on its way to a call sends it once it has woken: that call was in flight.
"""


@dataclass(frozen=True)
class Violation:
    invariant: str
    what: str
    records: tuple[Record, ...] = ()

    def __str__(self) -> str:
        shown = "".join(f"\n    {json.dumps(record)[:300]}" for record in self.records)
        return f"{self.invariant}: {self.what}{shown}"


def check(history: History) -> list[Violation]:
    """All violations, those that are told in the fewest records first."""
    found = [
        *_ends(history),
        *_moves(history),
        *_numbers(history),
        *_steps(history),
        *_effects(history),
        *(Violation("I5", f"a secret lies in {leak['where']}", (leak,)) for leak in history.of("leak")),
        *(Violation("I6", f"unfinished: {left['where']}", (left,)) for left in history.of("left")),
        *_limit(history),
        *_fenced(history),
        *_given_up(history),
    ]
    return sorted(found, key=lambda violation: (len(violation.records), str(violation)))


def _by_session(records: list[Record]) -> dict[str, list[Record]]:
    sorted_out: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        sorted_out[record["session"]].append(record)
    return sorted_out


def _statuses(events: list[Record]) -> list[tuple[str, Record]]:
    told = [(json.loads(event["payload"]), event) for event in sorted(events, key=lambda event: event["seq"])]
    return [(payload["status"], event) for payload, event in told if payload["type"] == "session.status"]


def _ends(history: History) -> Iterator[Violation]:
    """I1: what was accepted ends, once."""
    ends, events = _by_session(history.of("end")), _by_session(history.of("event"))
    for submitted in history.of("submit"):
        if not submitted["accepted"]:
            continue
        session = submitted["session"]
        if not ends.get(session):
            yield Violation("I1", f"{session} was accepted and is unknown", (submitted,))
            continue
        (end, *_) = ends[session]
        if end["status"] not in ENDS:
            yield Violation("I1", f"{session} has no end: {end['status']}", (submitted, end))
        told = [(status, event) for status, event in _statuses(events[session]) if status in ENDS]
        if len(told) != 1:
            yield Violation("I1", f"{session} has {len(told)} terminal events", (end, *(event for _, event in told)))
        elif told[0][0] != end["status"]:
            yield Violation("I1", f"{session} ended as {end['status']} and told {told[0][0]}", (end, told[0][1]))
        expected = submitted.get("expected", "completed")
        status = "given up" if was_given_up(end) else end["status"]
        if end["status"] in ENDS and status not in expected.split("|"):
            yield Violation(
                "I1", f"{session} ended as {end['status']} ({end['reason']}), not as {expected}", (submitted, end)
            )


def _is_about_a_message(event: Record) -> bool:
    """Whether it is the notice that a message to people was lost, which may be known only after the session's end."""
    told = json.loads(event["payload"])
    return told.get("event_type") == "notice" and "notification" in told["metadata"]


def _moves(history: History) -> Iterator[Violation]:
    """I2: forward only, and each attempt belongs to one worker."""
    for session, events in _by_session(history.of("event")).items():
        statuses = _statuses(events)
        for (before, first), (after, second) in itertools.pairwise(statuses):
            if ORDER[after] <= ORDER[before]:
                yield Violation("I2", f"{session} went from {before} to {after}", (first, second))
        after_end = [
            event
            for event in events
            if statuses
            and statuses[-1][0] in ENDS
            and event["seq"] > statuses[-1][1]["seq"]
            and not _is_about_a_message(event)
        ]
        if after_end:
            yield Violation("I2", f"{session} told something after its end", (statuses[-1][1], after_end[0]))
    holders: dict[tuple[str, int], Record] = {}
    for claim in history.of("claim"):
        other = holders.setdefault((claim["session"], claim["attempt"]), claim)
        if other is not claim:
            yield Violation("I2", f"{claim['session']} was held twice under attempt {claim['attempt']}", (other, claim))
    for end in history.of("end"):
        if end.get("began") and end.get("ended") and end["ended"] < end["began"]:
            yield Violation("I2", f"{end['session']} ended before it began", (end,))


def _numbers(history: History) -> Iterator[Violation]:
    """I3: 1..n without gap or double, and viewers saw the same bytes."""
    stored = _by_session(history.of("event"))
    for session, events in stored.items():
        numbers = [event["seq"] for event in events]
        if numbers != list(range(1, len(numbers) + 1)):
            odd = next((event for place, event in enumerate(events, 1) if event["seq"] != place), events[-1])
            yield Violation("I3", f"{session}: numbers are not 1..{len(numbers)}", (odd,))
        shown = [
            payload["sequence"]
            for payload in (json.loads(event["payload"]) for event in events)
            if "sequence" in payload
        ]
        if sorted(shown) != list(range(1, len(shown) + 1)):
            yield Violation("I3", f"{session}: the timeline is numbered {sorted(shown)}")
    for session, frames in _by_session(history.of("live")).items():
        texts = {event["seq"]: event for event in stored.get(session, [])}
        last = 0
        for frame in frames:
            if frame["seq"] != last + 1:
                yield Violation("I3", f"a viewer of {session} got {frame['seq']} after {last}", (frame,))
                break
            last = frame["seq"]
            if frame["seq"] not in texts or texts[frame["seq"]]["payload"] != frame["payload"]:
                yield Violation(
                    "I3",
                    f"a viewer of {session} saw other bytes than are stored",
                    (frame, texts.get(frame["seq"], {"kind": "none"})),
                )
                break
        if any(not _is_about_a_message(event) for number, event in texts.items() if number > last):
            yield Violation("I3", f"a viewer of {session} saw {last} of {len(texts)} events")


def _steps(history: History) -> Iterator[Violation]:
    """I4: what was stored is not done again, and what is done again was in flight at a fault."""
    cases = {record["case"]: record["session"] for record in history.of("submit") if record.get("session")}
    stored: dict[tuple[str, str, int], Record] = {}
    names: dict[tuple[str, str], Record] = {}
    for step in history.of("step"):
        other = names.setdefault((step["session"], step["name"]), step)
        if other is not step:
            yield Violation("I4", f"{step['session']} stored {step['name']} twice", (other, step))
        if (made := call_of(step["name"])) is not None:
            # A conversation that was too long is asked again, shorter, in a step of its own: the last one counts.
            key = (step["session"], *made)
            stored[key] = max(stored.get(key, step), step, key=lambda one: float(one["stored"]))
    # Where the replicas' clocks differ their times say nothing; there no call may be made twice at all (see below).
    one_clock = not history.of("run")[0].get("clocks_differ")
    woken = [fault for fault in history.of("fault") if fault["what"] == "SIGCONT"]
    had = {(claim["session"], claim["executor"]) for claim in history.of("claim")}
    late: set[tuple[str, float]] = set()
    times = _times_called(history)
    for call in history.of("call") if one_clock else ():
        step = stored.get((cases.get(call["case"], ""), call["what"], call["number"]), {})
        if step and call["at"] > step["stored"] + CLOCK:
            if step["stored"] - step["began"] > TOOL_TIMEOUT and times[_key(call)] == 1:
                # Stored is that the tool gave no answer in time: its server was busy, and came to the only call later.
                continue
            # One call of a session that the woken process had, and no second one.
            waking = {(step["session"], fault["at"]) for fault in woken if (step["session"], fault["executor"]) in had}
            waking = {(session, at) for session, at in waking if -0.1 < call["at"] - at < WAKING} - late
            late |= waking
            if waking:
                continue
            yield Violation(
                "I4", f"{call['what']} {call['number']} of {call['case']} ran again after it was stored", (step, call)
            )
    repeated, most = again(history), most_again(history)
    if repeated > most:
        yield Violation("I4", f"{repeated} calls were made again, at most {most} were in flight at the faults")


def _effects(history: History) -> Iterator[Violation]:
    """I4: what a tool without hints changes is changed once."""
    made: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for effect in history.of("effect"):
        made[effect["case"], effect["number"]].append(effect)
    for (case, number), effects in made.items():
        if len(effects) > 1:
            yield Violation("I4", f"effect {number} of {case} was made {len(effects)} times", tuple(effects))


def was_given_up(end: Record) -> bool:
    """Whether it ended with the reason that it crashed a process in which it ran alone."""
    return bool(end["status"] == "failed" and "It was set aside" in end["reason"])


def _given_up(history: History) -> Iterator[Violation]:
    """I1: only what crashed a child process that nothing else ended is given up."""
    convicted = {record["session"]: record for record in history.of("convicted")}
    killed = {fault.get("executor") for fault in history.of("fault")}
    for end in filter(was_given_up, history.of("end")):
        proof = convicted.get(end["session"])
        if proof is None:
            yield Violation("I1", f"{end['session']} was given up without proof", (end,))
        elif proof["executor"] in killed:
            yield Violation("I1", f"{end['session']} was given up for a process that was killed", (end, proof))


def _fenced(history: History) -> Iterator[Violation]:
    """I2: who lost a session writes nothing for it, in no table, until it has taken it again."""
    holder: dict[str, tuple[str, int]] = {}
    lost: dict[str, set[str]] = defaultdict(set)
    for row in history.of("wrote"):
        session, who = row["session"], row["who"]
        if row["place"] == "sessions" and row["attempt"] > holder.get(session, ("", 0))[1]:
            # Claimed, or taken over: by the writer of this row, under a new attempt.
            before, _ = holder.get(session, ("", 0))
            if before and before != who:
                lost[session].add(before)
            if row["executor"]:
                lost[session].discard(who)
            holder[session] = (who if row["executor"] else "", row["attempt"])
        elif who in lost[session]:
            yield Violation("I2", f"{who} wrote to {row['place']} for {session} after it had lost it", (row,))
            return


def call_of(name: str) -> tuple[str, int] | None:
    """Which call a step makes, as the model's and the tool's logs number it."""
    parts = name.split("/")
    if len(parts) in (3, 4) and parts[2] == "model" and parts[1].isdigit():
        return "model", int(parts[1]) - 1
    if len(parts) == 4 and parts[3] == "call" and parts[2] == "1":
        return "tool", int(parts[1]) - 1
    return None


def again(history: History) -> int:
    """How many calls of models and tools were made more than once."""
    return sum(times - 1 for (_, what, _), times in _times_called(history).items() if what != "summary")


def _times_called(history: History) -> Counter[tuple[str, str, int]]:
    return Counter(_key(call) for call in history.of("call"))


def _key(call: Record) -> tuple[str, str, int]:
    return call["case"], call["what"], call["number"]


def most_again(history: History) -> int:
    """As many sessions as may run at once are interrupted by a fault; and those that were taken from a process that
    only was slow.
    """
    run = history.of("run")[0]
    known = {fault.get("executor") for fault in history.of("fault")}
    slow = sum(int(taken["sessions"]) for taken in history.of("takeover") if taken["executor"] not in known)
    faults = sum(int(fault.get("times", 1)) for fault in history.of("fault") if fault.get("interrupts", True))
    return faults * int(run["limit"]) + slow


def _limit(history: History) -> Iterator[Violation]:
    """No more sessions are held at once than may be."""
    (run, *_) = history.of("run")
    moves: list[tuple[float, int, str, Record]] = []
    claims = _by_session(history.of("claim"))
    ends = {end["session"]: end for end in history.of("end")}
    for session, taken in claims.items():
        # Held from the last claim to the end for certain; what came before was cut short by a fault at an unknown
        # moment.
        last = max(taken, key=lambda claim: claim["attempt"])
        if (ends.get(session, {}).get("ended") or 0) > last["at"] + 2 * CLOCK:
            moves += [(last["at"] + CLOCK, 1, session, last), (ends[session]["ended"] - CLOCK, -1, session, last)]
    held: dict[str, Record] = {}
    for _, change, session, claim in sorted(moves, key=lambda move: (move[0], move[1])):
        if change > 0:
            held[session] = claim
        else:
            held.pop(session, None)
        if len(held) > run["limit"]:
            yield Violation("I6", f"{len(held)} sessions ran at once, {run['limit']} may", tuple(held.values()))
            return


def slowest_event(history: History) -> float:
    """Seconds from when an event was stored, by the store's clock, to when a viewer who was there already got it."""
    stored = {
        (event["session"], event["seq"]): json.loads(event["payload"]).get("timestamp") for event in history.of("event")
    }
    slowest = 0.0
    for session, frames in _by_session(history.of("live")).items():
        for frame in frames[1:]:
            if moment := stored.get((session, frame["seq"])):
                slowest = max(slowest, frame["at"] - datetime.fromisoformat(moment).timestamp())
    return slowest


def resumed_after(history: History) -> list[float]:
    """Seconds from each kill, or from when a process was there again, to the next claim of each session that the killed
    one held.

    Sessions that are suspected of killing their workers wait on purpose, and do not count.
    """
    suspected = {record["session"] for record in history.of("suspected")}
    readies = sorted(ready["at"] for ready in history.of("ready"))
    alone = len({ready["slot"] for ready in history.of("ready")}) == 1
    claims = sorted(history.of("claim"), key=lambda claim: claim["at"])
    ended = {end["session"]: end.get("ended") or 0 for end in history.of("end")}
    found = []
    for fault in history.of("fault"):
        held: dict[str, Record] = {}
        for claim in claims:
            if claim["at"] <= fault["at"]:
                held[claim["session"]] = claim
        for session, claim in held.items():
            if (
                claim["executor"] == fault.get("executor")
                and ended.get(session, 0) > fault["at"]
                and session not in suspected
            ):
                later = [other["at"] for other in claims if other["session"] == session and other["at"] > fault["at"]]
                if later:
                    back = (
                        max([at for at in readies if at <= min(later)], default=fault["at"]) if alone else fault["at"]
                    )
                    found.append(min(later) - back)
    return sorted(found)
