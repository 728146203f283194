"""Generated logs: many formats, a few dozen kinds of message, and one event to ask for.

A log is first a list of events, which a format then renders. The question is about one
event among thousands, or about a few that share an identifier.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from bench.generator.vocabulary import (
    FAMILY_NAMES,
    FIRST_NAMES,
    PLACES,
    Domain,
    hex_digits,
    identity,
    pseudo_word,
    some_domain,
)

LOG_ASKS = ("trouble", "rare", "trace", "extreme", "lookup", "topic", "since")


@dataclass
class Event:
    second: int
    level: str
    part: str
    message: str
    fields: dict[str, str] = field(default_factory=dict)
    stack: tuple[str, ...] = ()


Format = Callable[[Random, list[Event]], str]


@dataclass(frozen=True)
class LogShape:
    name: str
    write: Format
    asks: tuple[str, ...] = LOG_ASKS
    held_out: bool = False


LOG_SHAPES: dict[str, LogShape] = {}


def log_shape(name: str, *, without: tuple[str, ...] = (), held_out: bool = False) -> Callable[[Format], Format]:
    def keep(write: Format) -> Format:
        LOG_SHAPES[name] = LogShape(name, write, tuple(ask for ask in LOG_ASKS if ask not in without), held_out)
        return write

    return keep


def clock(second: int) -> str:
    return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


# --- What happens

ROUTINE = (
    "{verb} {noun} {id} in {ms} ms",
    "{noun} {id} {verb} by {person}",
    "heartbeat from {host} seq={n}",
    "cache {word} hit ratio {pct}% over {n} lookups",
    "connection to {host}:{port} established",
    "connection from {address} closed after {n} bytes",
    "scheduled {word} job for {noun} {id}",
    "received batch of {n} {plural} from {place}",
    "request {hash} finished status=200 bytes={n}",
    "loaded configuration section {word}",
    "worker {n} picked {noun} {id}",
    "user {person} opened {noun} {id}",
    "flushed {n} entries to segment {hash}",
    "{word} queue length is {n}",
    "health check of {host} answered in {ms} ms",
    "token for {person} renewed, valid for {n} s",
    "index {word} refreshed, {n} {plural} seen",
    "compaction of {word} level {digit} took {ms} ms",
    "{noun} {id} moved from {place} to {place}",
    "snapshot {hash} written, {n} kB",
    "listening on {address}:{port}",
    "session {hash} started for {person}",
    "metric {word}.{word2} reported value {n}",
    "leader lease extended to {n}",
    "throttle for {place} set to {n} per second",
)

BACKGROUND_TROUBLE = (
    ("WARN", "retrying {word} call to {host}, attempt {digit}"),
    ("WARN", "slow answer from {host}: {ms} ms"),
    ("ERROR", "request {hash} failed with status 502 after {ms} ms"),
    ("WARN", "deprecated option {word} used by {host}"),
)

CAUSES = (
    "checksum mismatch in segment {n}",
    "certificate of {host} has expired",
    "disk quota exceeded on /{word}/{word2}",
    "permission denied for user {word}",
    "no route to host {address}",
    "duplicate key value violates constraint {word}_{word2}_key",
    "unexpected end of stream after {n} bytes",
    "schema version {digit} is not supported",
    "lock held by {host} since {n} s",
    "cannot allocate {n} kB",
    "column {word} does not exist",
    "too many open files ({n})",
    "signature of {word} does not match",
    "upstream {host} refused the connection",
    "deadline of {n} ms exceeded",
    "out of memory while sorting {word}",
    "invalid character {digit} in field {word}",
    "replica {word} is {n} s behind",
)

CALM = (
    "maintenance window opened by {person} for {place}",
    "feature {word}-{word2} switched on for {place}",
    "rollout of revision {hash} began, previous {word}",
    "license changed from {word} to {word2}",
    "backup target moved to /{word}/{word2}",
    "certificate authority {word} added by {person}",
    "time zone set to {place}",
    "role {word} granted to {person}",
)


@dataclass
class Story:
    """The events of a log, and what is asked about them."""

    events: list[Event]
    focus: str
    needles: list[tuple[str, ...]]
    """Each a literal, or a name and a value that must stand near each other."""


class Narrator:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.domain: Domain = some_domain(rng)
        self.parts = [
            pseudo_word(rng, 2) if rng.random() < 0.5 else f"{rng.choice(self.domain.groups)}-{suffix}"
            for suffix in ("core", "api", "sync", "io", "worker")
        ]
        self.hosts = [f"{pseudo_word(rng)}-{rng.randint(1, 40)}" for _ in range(12)]
        self.style = rng.choice(("kebab-number", "kebab-hash", "code", "uuid", "integer", "snake"))
        self.counter = 100

    def fill(self, template: str, **fixed: str) -> str:
        rng = self.rng
        self.counter += 1
        values = {
            "verb": rng.choice(self.domain.verbs),
            "noun": self.domain.noun,
            "plural": self.domain.plural,
            "id": fixed.get("id") or identity(rng, self.style, self.counter),
            "ms": str(rng.randint(2, 180)),
            "n": str(rng.randint(10, 9000)),
            "digit": str(rng.randint(1, 9)),
            "pct": str(rng.randint(60, 99)),
            "host": rng.choice(self.hosts),
            "port": str(rng.choice((80, 443, 5432, 6379, 8080, 9092))),
            "person": f"{rng.choice(FIRST_NAMES)} {rng.choice(FAMILY_NAMES)}",
            "place": rng.choice(PLACES),
            "hash": hex_digits(rng, 10),
            "address": f"10.{rng.randint(0, 40)}.{rng.randint(0, 255)}.{rng.randint(1, 254)}",
            "word": pseudo_word(rng, 2),
            "word2": pseudo_word(rng, 2),
            **fixed,
        }
        return template.format(**values)

    def routine(self, count: int) -> list[Event]:
        """Ordinary events, with ordinary problems among them."""
        rng = self.rng
        kinds = [
            (template, rng.choice(self.parts), pseudo_word(rng, 2), pseudo_word(rng, 2))
            for template in rng.sample(ROUTINE, k=rng.randint(8, 18))
        ]
        noise = rng.sample(BACKGROUND_TROUBLE, k=rng.randint(0, 2))
        words = [pseudo_word(rng, 2) for _ in range(4)]
        weights = [rng.choice((1, 2, 4, 8)) for _ in kinds]
        begin, end = sorted((rng.randint(0, 30_000), rng.randint(50_000, 86_000)))
        seconds = sorted(rng.randint(begin, end) for _ in range(count))
        events = []
        for second in seconds:
            if noise and rng.random() < 0.03:
                level, template = rng.choice(noise)
                events.append(Event(second, level, rng.choice(self.parts), self.fill(template, word=rng.choice(words))))
            else:
                template, part, word, word2 = rng.choices(kinds, weights)[0]
                level = "DEBUG" if rng.random() < 0.15 else "INFO"
                events.append(Event(second, level, part, self.fill(template, word=word, word2=word2)))
        return events

    def stack(self) -> tuple[str, ...]:
        rng = self.rng
        frames = []
        for depth in range(rng.randint(8, 30)):
            package = (
                f"com.{self.parts[0].replace('-', '.')}"
                if depth < 3
                else rng.choice(("java.base/java.util", "io.netty.channel", "org.jboss.core"))
            )
            frames.append(
                "\tat "
                f"{package}.{pseudo_word(rng).title()}.{pseudo_word(rng)}({pseudo_word(rng).title()}.java:{rng.randint(10, 900)})"
            )
        return tuple(frames)


class Draft:
    """A log that is being written: routine events, and the places where others are put."""

    def __init__(self, rng: Random, count: int, with_stacks: bool) -> None:
        self.rng = rng
        self.count = count
        self.narrator = Narrator(rng)
        self.events = self.narrator.routine(count)
        self.with_stacks = with_stacks

    @property
    def noun(self) -> str:
        return self.narrator.domain.noun

    def middle(self) -> int:
        """A place that head and tail cuts do not show by accident."""
        return self.rng.randint(self.count // 7, self.count * 6 // 7)

    def put(self, level: str, message: str, at: int = -1, part: str = "") -> None:
        place = self.middle() if at < 0 else at
        second, part = self.events[place].second, part or self.rng.choice(self.narrator.parts)
        stack = self.narrator.stack() if self.with_stacks and level == "ERROR" else ()
        self.events.insert(place, Event(second, level, part, message, {}, stack))

    def story(self, focus: str, *needles: tuple[str, ...]) -> Story:
        return Story(self.events, focus, list(needles))


def draw_story(rng: Random, ask: str, count: int, *, with_stacks: bool = False) -> Story:
    """A log of about `count` events in which `ask` has an answer."""
    return _ASKS[ask](Draft(rng, count, with_stacks))


def _trouble(draft: Draft) -> Story:
    rng = draft.rng
    message = draft.narrator.fill("could not complete {verb} of {noun} {id}: ") + draft.narrator.fill(
        rng.choice(CAUSES)
    )
    draft.put("ERROR" if rng.random() < 0.7 else "INFO", message)
    focus = rng.choice(
        (
            "What went wrong?",
            "Is anything failing here?",
            "Find the cause of the outage",
            "any errors?",
            "Why does it not work?",
            "",
        )
    )
    return draft.story(focus, (message,))


def _rare(draft: Draft) -> Story:
    rng = draft.rng
    message = draft.narrator.fill(rng.choice(CALM))
    draft.put("INFO", message)
    focus = rng.choice(
        (
            "Anything out of the ordinary in this log?",
            "What happened only once?",
            "Which entry is unlike the others?",
            "Overview, please; what stands out?",
        )
    )
    return draft.story(focus, (message,))


def _trace(draft: Draft) -> Story:
    rng = draft.rng
    key = identity(rng, draft.narrator.style, 7)
    templates = rng.sample(
        [t for t in ROUTINE if "{id}" in t] + ["{noun} {id} rejected by {host}", "{noun} {id} waits for {place}"],
        k=3,
    )
    messages = [draft.narrator.fill(template, id=key) for template in templates]
    for place, message in zip(sorted(draft.middle() for _ in messages), messages, strict=True):
        draft.put("INFO", message, place)
    focus = rng.choice(
        ("What happened to {k}?", "Follow {k} through the log", "{k}", "show everything about {noun} {k}")
    ).format(k=key, noun=draft.noun)
    return draft.story(focus, *((message,) for message in messages))


def _extreme(draft: Draft) -> Story:
    rng = draft.rng
    slow = rng.randint(2_000, 90_000)
    for index in range(draft.count // 8):
        took = slow if index == draft.count // 16 else rng.randint(5, 900)
        key = identity(rng, draft.narrator.style, 5_000 + index)
        draft.put(
            "INFO",
            f"{draft.narrator.domain.verbs[0]} {draft.noun} {key} took {took} ms",
            draft.middle(),
            draft.narrator.parts[0],
        )
        if index == draft.count // 16:
            winner = key
    focus = rng.choice(
        (
            f"Which {draft.noun} took longest?",
            f"slowest {draft.noun}",
            f"What is the highest time a {draft.noun} took, and for which one?",
        )
    )
    return draft.story(focus, (winner, str(slow)))


def _lookup(draft: Draft) -> Story:
    rng = draft.rng
    answers = []
    for index in range(draft.count // 8):
        key = identity(rng, draft.narrator.style, 5_000 + index)
        took = rng.randint(1_000, 99_999)
        draft.put(
            "INFO",
            f"{draft.narrator.domain.verbs[0]} {draft.noun} {key} size {took} from {rng.choice(draft.narrator.hosts)}",
            draft.middle(),
            draft.narrator.parts[0],
        )
        answers.append((key, str(took)))
    answer = rng.choice(answers)
    focus = rng.choice(("What was the size of {k}?", "size of {noun} {k}", "How big is {k}?  I need its size")).format(
        k=answer[0], noun=draft.noun
    )
    return draft.story(focus, answer)


def _topic(draft: Draft) -> Story:
    rng = draft.rng
    subjects = [pseudo_word(rng, 3) for _ in range(14)]
    messages = []
    for subject in subjects:
        cause = draft.narrator.fill(rng.choice(CAUSES))
        for _ in range(rng.randint(1, 4)):
            message = f"{subject}: operation failed, {cause}"
            draft.put("ERROR", message)
        messages.append(message)
    chosen = rng.randrange(len(subjects))
    focus = rng.choice(("Any errors about {s}?", "What is the problem with {s}", "errors of {s}")).format(
        s=subjects[chosen]
    )
    return draft.story(focus, (messages[chosen],))


def _since(draft: Draft) -> Story:
    """The loud failures were before, the one that matters came after."""
    rng = draft.rng
    late = draft.events[draft.count * 3 // 5].second
    hour = late // 3600 * 3600
    early = [index for index, event in enumerate(draft.events) if event.second < hour]
    for _ in range(30):
        if early:
            draft.put(
                "ERROR",
                draft.narrator.fill("{word}: could not be read, ") + draft.narrator.fill(rng.choice(CAUSES)),
                rng.choice(early),
            )
    after = [index for index, event in enumerate(draft.events) if hour + 60 < event.second][:-20] or [
        len(draft.events) - 21
    ]
    message = draft.narrator.fill("{word}: could not be read, ") + draft.narrator.fill(rng.choice(CAUSES))
    draft.put("ERROR", message, rng.choice(after))
    focus = rng.choice(("Which errors came after {t}?", "errors since {t}", "What failed later than {t}?")).format(
        t=clock(hour)[:5]
    )
    return draft.story(focus, (message,))


_ASKS: dict[str, Callable[[Draft], Story]] = {
    "trouble": _trouble,
    "rare": _rare,
    "trace": _trace,
    "extreme": _extreme,
    "lookup": _lookup,
    "topic": _topic,
    "since": _since,
}


# --- How it is written


@log_shape("app log")
def app_log(rng: Random, events: list[Event]) -> str:
    return "\n".join(
        f"2026-09-14 {clock(e.second)},{rng.randint(0, 999):03d} {e.level:<5} [{e.part}] {e.message}" for e in events
    )


@log_shape("system log")
def system_log(rng: Random, events: list[Event]) -> str:
    host = f"{pseudo_word(rng)}{rng.randint(1, 9)}"
    pids = {part: rng.randint(300, 30000) for part in sorted({e.part for e in events})}
    return "\n".join(f"Sep 14 {clock(e.second)} {host} {e.part}[{pids[e.part]}]: {e.message}" for e in events)


@log_shape("json log lines")
def json_log(rng: Random, events: list[Event]) -> str:
    keys = rng.choice(
        (
            ("ts", "level", "logger", "msg"),
            ("time", "severity", "component", "message"),
            ("@timestamp", "log.level", "service", "message"),
        )
    )
    return "\n".join(
        json.dumps(
            dict(zip(keys, (f"2026-09-14T{clock(e.second)}Z", e.level.lower(), e.part, e.message), strict=True))
            | {"trace_id": hex_digits(rng, 16)}
        )
        for e in events
    )


@log_shape("logfmt")
def logfmt(rng: Random, events: list[Event]) -> str:
    return "\n".join(
        (
            f"ts=2026-09-14T{clock(e.second)}Z level={e.level.lower()} caller={e.part}.go:{rng.randint(20, 400)} "
            f"msg={json.dumps(e.message)}"
        )
        for e in events
    )


@log_shape("java log with stack traces")
def java_log(rng: Random, events: list[Event]) -> str:
    lines = []
    for e in events:
        thread = f"pool-{rng.randint(1, 4)}-thread-{rng.randint(1, 16)}"
        lines.append(
            f"{clock(e.second)}.{rng.randint(0, 999):03d} [{thread}] {e.level} c.{e.part}.Service - {e.message}"
        )
        lines += e.stack
    return "\n".join(lines)


@log_shape("log without levels")
def no_levels(rng: Random, events: list[Event]) -> str:
    return "\n".join(f"[14/Sep/2026 {clock(e.second)}] {e.message}" for e in events)


@log_shape("log without times", without=("since",))
def no_times(rng: Random, events: list[Event]) -> str:
    return "\n".join(f"{e.level}: {e.part}: {e.message}" for e in events)


@log_shape("bare messages", without=("since",))
def bare(rng: Random, events: list[Event]) -> str:
    return "\n".join(e.message for e in events)


@log_shape("letter and number log")
def letter_log(rng: Random, events: list[Event]) -> str:
    return "\n".join(
        (
            f"{e.level[0]}0914 {clock(e.second)}.{rng.randint(0, 999999):06d}       1 "
            f"{e.part}.go:{rng.randint(20, 900)}] "
            f"{e.message}"
        )
        for e in events
    )


@log_shape("two sources, interleaved", held_out=True)
def interleaved(rng: Random, events: list[Event]) -> str:
    pods = [f"[pod/{pseudo_word(rng)}-{hex_digits(rng, 5)}/{name}]" for name in ("main", "sidecar")]
    lines = []
    for e in events:
        if rng.random() < 0.6:
            lines.append(f"{pods[0]} {clock(e.second)} {e.level} {e.message}")
        else:
            lines.append(f"{pods[1]} " + json.dumps({"t": clock(e.second), "l": e.level.lower(), "m": e.message}))
    return "\n".join(lines)


@log_shape("kernel ring", without=("since",))
def kernel(rng: Random, events: list[Event]) -> str:
    return "\n".join(
        f"[{e.second + rng.random():14.6f}] {e.part} {rng.randint(0, 7):04x}:00:1f.{rng.randint(0, 7)}: {e.message}"
        for e in events
    )


@log_shape("event blocks")
def event_blocks(rng: Random, events: list[Event]) -> str:
    return "\n\n".join(
        f"Event: {index}\nWhen: 2026-09-14 {clock(e.second)}\nSource: {e.part}\nLevel: {e.level}\nText: {e.message}"
        for index, e in enumerate(events, 1)
    )


@log_shape("piped log", held_out=True)
def piped(rng: Random, events: list[Event]) -> str:
    return "\n".join(
        f"{clock(e.second)} | {e.level:<8} | {e.part}:run:{rng.randint(10, 400)} - {e.message}" for e in events
    )


@log_shape("semicolon log", held_out=True)
def semicolon_log(rng: Random, events: list[Event]) -> str:
    lines = [f"14.09.2026 {clock(e.second)};{e.level};{e.part};{json.dumps(e.message)}" for e in events]
    return "\n".join(["Zeit;Stufe;Teil;Text", *lines])


@log_shape("brackets log", held_out=True)
def brackets_log(rng: Random, events: list[Event]) -> str:
    return "\n".join(
        f"[{1_789_300_000 + e.second}][{e.level.lower()}][{e.part}][{rng.randint(100, 120)}] {e.message}"
        for e in events
    )


@log_shape("coloured log", held_out=True)
def coloured_log(rng: Random, events: list[Event]) -> str:
    colours = {"ERROR": 31, "WARN": 33, "INFO": 32, "DEBUG": 36}

    def painted(text: str, colour: int) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m"

    return "\n".join(
        f"{painted(clock(e.second), 2)} {painted(f'{e.level:>5}', colours[e.level])} {painted(e.part, 1)}: {e.message}"
        for e in events
    )
