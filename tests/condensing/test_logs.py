"""Logs: what is bad, rare, extreme or asked for stays literally; the rest is counted."""

import random
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tersely.condensing.focus import Focus
from tersely.condensing.pack import Packed, pack
from tersely.condensing.readers import logs
from tersely.condensing.structural import condense_structurally
from tersely.condensing.units import Reading
from tersely.text.tokens import O200K


def _read(text: str, focus: str, budget: int) -> tuple[Reading, Packed]:
    wish = Focus.parse(focus)
    reading = logs.read(text, wish, budget)
    assert reading is not None
    return reading, pack(reading, budget, focus=wish)


def _condensed(text: str, focus: str = "", budget: int = 400) -> str:
    return _read(text, focus, budget)[1].text


def _shop(lines: int = 2_000, seed: int = 7) -> list[str]:
    """A dull day of a shop: heartbeats, requests, cache hits."""
    chance = random.Random(seed)
    day = []
    for at in range(lines):
        time = f"2026-05-04 {8 + at // 600:02}:{at // 10 % 60:02}:{at % 10 * 6:02},{at % 1000:03}"
        message = chance.choice(
            [
                f"c.shop.http.Server - GET /items/{chance.randrange(9_000)} 200 in {chance.randrange(5, 90)} ms",
                (
                    f"c.shop.cache.Cache - hit ratio {chance.randrange(70, 99)}% over {chance.randrange(1_000, 9_000)} "
                    "lookups"
                ),
                (
                    f"c.shop.auth.Sessions - session {chance.getrandbits(40):010x} started for "
                    f"{chance.choice(['Ann', 'Bo', 'Cy'])} Lee"
                ),
                "c.shop.Main - heartbeat",
            ]
        )
        day.append(f"{time} INFO  [pool-{at % 6}-thread-{at % 9}] {message}")
    return day


def test_lines_that_differ_in_numbers_are_one_with_a_count() -> None:
    shown = _condensed("\n".join(_shop()))

    assert len(re.findall(r"GET /items/\d+ 200 in \d+ ms ×\d+", shown)) == 1
    assert "heartbeat ×" in shown


def test_the_one_error_among_thousands_of_lines_stays() -> None:
    day = _shop()
    day[1234] = (
        "2026-05-04 10:03:27,100 ERROR [pool-1-thread-1] c.shop.db.Pool - could not get a connection within 30 s"
    )

    assert "c.shop.db.Pool - could not get a connection within 30 s".split(" - ")[1] in _condensed(
        "\n".join(day), "What went wrong?", 120
    )


def test_a_rare_harmless_line_is_shown_before_more_of_the_same() -> None:
    day = _shop()
    day[700] = day[700].split(" c.shop")[0] + " c.shop.Main - certificate authority replaced by Dana"

    assert "certificate authority replaced by Dana" in _condensed("\n".join(day), "Anything unusual?", 200)


def test_the_line_that_holds_the_identifier_asked_for_is_shown_whole() -> None:
    day = _shop()
    day[1500] = "2026-05-04 10:30:00,000 INFO  [pool-0-thread-6] c.shop.http.Server - GET /items/77 200 in 41 ms"
    day[1501] = (
        "2026-05-04 10:30:00,600 INFO  [pool-1-thread-7] c.shop.auth.Sessions - session 00c0ffee42 started for Bo Chan"
    )

    shown = _condensed("\n".join(day), "What happened to session 00c0ffee42?", 150)

    assert (
        "2026-05-04 10:30:00,600 INFO [pool-1-thread-7] c.shop.auth.Sessions - session 00c0ffee42 started for Bo Chan"
        in shown
    )


def test_every_line_about_an_identifier_competes_as_itself() -> None:
    day = _shop()
    for step, at in enumerate((100, 800, 1700)):
        day[at] = (
            day[at].split(" c.shop")[0] + f" c.shop.Orders - order A-4711-x {['received', 'paid', 'shipped'][step]}"
        )

    shown = _condensed("\n".join(day), "Trace A-4711-x", 200)

    assert all(f"order A-4711-x {step}" in shown for step in ("received", "paid", "shipped"))


def test_the_slowest_request_is_found_among_its_kind() -> None:
    day = _shop()
    day[333] = day[333].split(" c.shop")[0] + " c.shop.http.Server - GET /items/4242 200 in 8731 ms"

    assert "GET /items/4242 200 in 8731 ms" in _condensed("\n".join(day), "Which request was slowest?", 150)


def test_a_status_of_failure_among_successes_is_shown() -> None:
    access = [
        (
            f'10.0.0.{at % 200} - - [04/May/2026:10:{at // 60 % 60:02}:{at % 60:02} +0000] "GET /p/{at} HTTP/1.1" 200 '
            f"{at % 700}"
        )
        for at in range(900)
    ]
    access[404] = '10.0.0.9 - - [04/May/2026:10:06:44 +0000] "GET /p/404 HTTP/1.1" 503 17'

    assert '"GET /p/404 HTTP/1.1" 503' in _condensed("\n".join(access), "Is anything wrong?", 150)


def test_only_lines_of_the_asked_time_stand_for_their_kind() -> None:
    day = _shop()
    for at in (50, 1900):
        day[at] = day[at].split(" INFO")[0] + f" ERROR [pool-1-thread-1] c.shop.db.Pool - could not read segment {at}"

    shown = _condensed("\n".join(day), "errors since 11:00", 200)

    assert "could not read segment 1900" in shown


def test_what_every_line_shares_is_not_repeated() -> None:
    text = "\n".join(
        f"May  4 10:{at // 60:02}:{at % 60:02} web-07 nginx[812]: {word} done"
        for at, word in enumerate(["alpha", "beta", "gamma"] * 40)
    )

    shown = _condensed(text, "", 300)

    assert shown.count("web-07") == 1
    assert "; host web-07" in shown.split("\n")[0]
    assert "nginx[812]: alpha done ×40" in shown


def test_interleaved_sources_keep_their_names() -> None:
    text = "\n".join(
        f"{'web_1' if at % 2 else 'api_1'} | 2026-05-04 10:00:{at % 60:02} INFO step {at} of the plan"
        for at in range(200)
    )

    shown = _condensed(text, "", 200)

    assert "web_1" in shown and "api_1" in shown


def test_variants_of_a_line_are_said_with_it() -> None:
    users = ["root"] * 30 + ["guest"] * 4 + ["test"] * 2
    text = "\n".join(
        f"Jun 14 15:16:{at:02} combo sshd[{900 + at}]: authentication failure; uid=0 tty=ssh user={user}"
        for at, user in enumerate(users)
    )

    shown = _condensed(text, "failures", 120)

    assert "user=root" in shown and "user=guest ×4" in shown and "user=test ×2" in shown


def test_a_stack_trace_is_shown_by_its_first_and_its_own_frames() -> None:
    frames = [f"\tat javax.swing.Thing{at}.paint(Thing{at}.java:{at})" for at in range(60)]
    frames[20:24] = [
        f"\tat {name}.Native.call(Native.java:1)" for name in ("java.awt", "sun.reflect", "java.util", "jdk.internal")
    ]
    frames[40] = "\tat org.bakery.Oven.preheat(Oven.java:99)"
    day = _shop(300)
    day[150:150] = [
        "2026-05-04 08:15:00,000 ERROR [pool-1-thread-1] c.shop.Main - it broke",
        "java.lang.IllegalStateException: too hot",
        *frames,
    ]

    shown = _condensed("\n".join(day), "Why did it break?", 300)

    assert "java.lang.IllegalStateException: too hot" in shown
    assert "at org.bakery.Oven.preheat(Oven.java:99)" in shown
    assert "at javax.swing.Thing0.paint(Thing0.java:0)" in shown
    assert re.search(r"\[… \d+ lines\]", shown)


def test_where_everything_is_fatal_the_words_decide() -> None:
    registers = [
        f"FATAL register {name}: 0x{at:08x}" for at, name in enumerate(["lr", "cr", "xer", "ctr", "msr", "dear"] * 50)
    ]
    registers[123] = "FATAL rts panic! - stopping execution"

    assert "rts panic! - stopping execution" in _condensed("\n".join(registers), "What went wrong?", 100)


def test_the_head_says_how_many_from_when_to_when_and_of_which_levels() -> None:
    day = _shop(600)
    day[10] = day[10].replace("INFO ", "WARN ")

    head = _condensed("\n".join(day)).split("\n")[0]

    assert head.startswith("600 lines; 2026-05-04 08:00:00,000 – 2026-05-04 08:59:54,599")
    assert "WARN 1" in head


def test_the_account_of_what_is_lost_adds_up() -> None:
    words = "abcdefghijklmnopqrstuvwxyz"
    text = "\n".join(
        f"2026-05-04 10:00:00 INFO {words[at % 26] * 5} did {words[at % 25] * 4} and {words[at % 23] * 6}"
        for at in range(1_000)
    )

    reading, packed = _read(text, "", 150)
    account = packed.account(reading, text.split("\n"))

    counted = sum(reading.units[index].count for index in packed.kept)
    lost = sum(last - first + 1 for first, last in account.lost)
    assert lost + counted == 1_000


@pytest.mark.parametrize(
    "line",
    [
        "03-17 16:13:38.811  1702  2395 W WindowManager: {}",
        "081109 203615 148 WARN dfs.DataNode$PacketResponder: {}",
        "[10.30 16:49:06] chrome.exe - {}",
        "- 1131566461 2005.11.09 dn228 Nov 9 12:01:01 dn228/dn228 crond(pam_unix)[2915]: {}",
        "2016-09-28 04:30:30, Warning               CBS    {}",
        "2015-07-29 17:41:44,747 - WARN  [QuorumPeer[myid=1]/0.0.0.0:2181:Election@774] - {}",
        'ts=2024-05-02T10:11:12.123Z level=warn caller=main.go:120 msg="{}"',
        "2024-05-02T10:11:12.123Z\tWARN\tcontroller/foo.go:23\t{}",
        "W0612 10:00:00.123456       1 reflector.go:120] {}",
        "[   12.345678] {}",
        "[2024-05-02 10:11:12 +0000] [7] [WARNING] {}",
        "2024-05-02 10:11:12.123  WARN 1 --- [           main] c.e.demo.DemoApplication  : {}",
        "<34>1 2003-10-11T22:14:15.003Z host.example.com app 812 - - {}",
        "W, [2024-05-02T10:11:12.123456 #1234]  WARN -- : {}",
        "2024/05/02 10:11:12 [warn] 31#31: *1 {}",
        "WARNING:root:{}",
        "{}",
    ],
)
def test_the_message_survives_in_any_format(line: str) -> None:
    dull = [line.format(f"cache refreshed, {at} entries") for at in range(200)]
    dull[77] = line.format("disk quota exceeded on volume blue")

    shown = _condensed("\n".join(dull), "What is wrong?", 120)

    assert "disk quota exceeded on volume blue" in shown
    assert re.search(r"cache refreshed, \d+ entries\"? ×\d+", shown)


def test_one_huge_line_is_read_in_pieces() -> None:
    text = "\n".join(
        [
            "start",
            "all is well and quiet here, " * 4_000
            + "the reactor failed to start, "
            + "all is well and quiet here, " * 4_000,
            "end",
        ]
    )

    assert "the reactor failed to start" in _condensed(text, "What failed?", 200)


@pytest.mark.slow
def test_lines_without_any_repetition_stay_bounded() -> None:
    chance = random.Random(3)
    syllables = ["ba", "ke", "lo", "mi", "nu", "ra", "so", "ti", "vu", "ze"]
    text = "\n".join(" ".join("".join(chance.choices(syllables, k=4)) for _ in range(6)) for _ in range(30_000))

    reading, packed = _read(text + "\nthe pump failed at order 66-b\n" + text, "What happened at order 66-b?", 300)

    assert len(reading.units) < 10_000
    assert "the pump failed at order 66-b" in packed.text


def test_the_same_text_always_gives_the_same_units() -> None:
    text = "\n".join(_shop())

    assert _condensed(text, "slowest request") == _condensed(text, "slowest request")


_LINE = st.text(alphabet=st.characters(codec=None, exclude_categories=[], exclude_characters="\n"), max_size=80)


@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(_LINE, min_size=2, max_size=40),
    times=st.integers(1, 5),
    budget=st.integers(16, 400),
    focus=st.sampled_from(["", "error 7", "slowest"]),
)
def test_no_lines_break_it_or_its_budget(lines: list[str], times: int, budget: int, focus: str) -> None:
    text = "\n".join(lines * times).encode("utf-8", "replace").decode("utf-8")
    wish = Focus.parse(focus)

    reading = logs.read(text, wish, budget)

    assert reading is not None
    assert O200K.count(pack(reading, budget, focus=wish).text) <= budget


@pytest.mark.parametrize(
    "text",
    ["\0" * 5_000, "a\0b 1\n" * 500, "\n" * 5_000, "1-" * 20_000, "\tat a.b.C(D.java:1)\n" * 400, "[" * 9_000 + "\n]"],
)
def test_hostile_text_is_read_like_any_other(text: str) -> None:
    reading = logs.read(text, Focus.parse("errors?"), 200)

    assert reading is None or O200K.count(pack(reading, 200).text) <= 200


def test_lines_are_literal_but_for_marked_omissions() -> None:
    source = _shop(400)
    flat = {" ".join(line.split()) for line in source}
    reading, packed = _read("\n".join(source), "slowest request", 500)

    for index in packed.kept:
        text = re.sub(
            r"(?: ×\d+)?(?: \(also [^)]*\))?(?: \(and \d+ alike\))?(?: \[[\d:–]+\])?$", "", reading.units[index].text
        )
        pieces = [piece.strip() for piece in text.split("…") if piece.strip()]
        assert any(all(piece in line for piece in pieces) for line in flat), text


def test_a_component_in_brackets_is_part_of_the_message() -> None:
    """It was left out like a thread, so lines of all components were counted as one and the one in question was lost."""
    lines = [
        f"2026-11-15T08:{at // 60:02}:{at % 60:02}Z INFO [{'gateway' if at in (237, 391) else 'worker'}] "
        f"{'opened' if at % 2 else 'closed'} connection id={at} took={at % 83}ms"
        for at in range(900)
    ]
    shown = condense_structurally("\n".join(lines), 500, "What happened to the gateway?").text
    assert "[gateway] opened connection id=237" in shown
    assert "×900" not in shown
    threads = [line.replace("[worker]", f"[exec-{at % 7}]") for at, line in enumerate(lines)]
    assert "exec-" not in condense_structurally("\n".join(threads[:200]), 300, "").text


def test_times_of_several_days_have_their_day() -> None:
    lines = [f"2026-03-0{1 + at // 200}T{at % 24:02d}:{at % 60:02d}:00Z INFO tick {at} done" for at in range(800)]
    lines[410] = "2026-03-03T11:50:00Z ERROR disk full on node a"

    text = condense_structurally("\n".join(lines), 120, "").text

    assert "[03-01T00:00:00–03-04T23:59:00]" in text
    assert "[03-03T11:50:00]" in text


def test_times_of_one_day_do_not() -> None:
    lines = [f"2026-03-01T{at // 60:02d}:{at % 60:02d}:00Z INFO tick {at} done" for at in range(800)]

    assert "[00:00:00–13:19:00]" in condense_structurally("\n".join(lines), 120, "").text


def test_days_of_a_form_that_cannot_be_ordered_are_given_too() -> None:
    lines = [f"{28 + at // 400}/Feb/2024:{at % 24:02d}:{at % 60:02d}:00 INFO tick {at} done" for at in range(800)]

    text = condense_structurally("\n".join(lines), 250, "").text

    assert "first line 28/Feb/2024:00:00:00, last line 29/Feb/2024:07:19:00" in text
    assert "[28/Feb/2024:00:00:00, last line 29/Feb/2024:07:19:00]" in text


@pytest.mark.parametrize("section", [0, 9_000])
def test_january_comes_after_december(section: int) -> None:
    days = ["Dec 31"] * 300 + ["Jan  1"] * 300
    lines = [
        f"{day} {at % 300 // 60:02d}:{at % 60:02d}:09 host sshd[{at}]: session opened for user root"
        for at, day in enumerate(days)
    ]

    text = condense_structurally("\n".join(lines), 120, "", section=section).text

    assert "Jan  1 00:00:09 – Dec 31" not in text
    assert "–Dec 31" not in text
    if not section:
        assert "600 lines; Dec 31 00:00:09 – Jan  1 04:59:09" in text
        assert "[Dec 31 00:00:09–Jan  1 04:59:09]" in text


def test_times_of_several_zones_are_compared_as_times() -> None:
    zones = ["+02:00", "Z", "-05:00"]
    lines = [f"2026-03-01T{10 + at // 60:02d}:{at % 60:02d}:00{zones[at % 3]} INFO tick {at} done" for at in range(600)]

    text = condense_structurally("\n".join(lines), 250, "").text

    assert "600 lines; 2026-03-01T10:00:00+02:00 – 2026-03-01T19:59:00-05:00" in text
    assert "[2026-03-01T10:00:00+02:00–2026-03-01T19:59:00-05:00]" in text


def test_times_of_zones_that_change_with_the_season_are_compared_as_times() -> None:
    lines = [f"2026-10-25T02:{at % 60:02d}:00+0{2 if at < 60 else 1}:00 INFO tick {at} done" for at in range(120)]

    assert (
        "2026-10-25T02:00:00+02:00 – 2026-10-25T02:59:00+01:00" in condense_structurally("\n".join(lines), 250, "").text
    )


def test_pieces_of_a_long_line_are_not_counted_as_lines() -> None:
    body = "INFO retry of item " * 60
    lines = [f"2026-01-01 10:{at // 60:02d}:{at % 60:02d} INFO request {at} {body} size={at}" for at in range(50)]
    lines[20] = "2026-01-01 10:00:20 ERROR disk full"
    text = condense_structurally("\n".join(lines), 400, "").text

    assert "INFO 49 ERROR 1" in text
    assert {int(times) for times in re.findall(r"×(\d+)", text)} <= {49}
    assert not re.search(r"\bi$|^tem\b", text, re.M)


def test_records_in_one_line_are_not_counted_as_lines() -> None:
    records = [f"2026-01-01 00:{at // 60:02d}:{at % 60:02d} INFO worker[{at % 9}]: job {at} done" for at in range(400)]

    head = condense_structurally("\r".join(records), 250, "").text.split("\n")[0]

    assert "1 lines" in head
    assert not re.search(r"(?:INFO|ERROR) \d", head)


@pytest.mark.parametrize(
    ("message", "question", "counted"),
    [
        (lambda at: f"user u{at % 17} logged in from 10.0.0.{at % 30}", "logins from 10.0.0.7?", (20, 580)),
        (lambda at: f"job {at} finished with exit code {int(at == 321)}", "what about job 321?", (1, 599)),
        (lambda at: f"order {at % 4 + 70} of client {at % 3 + 30} sent", "order 72 of client 31", (50, 300)),
    ],
)
def test_a_line_with_a_value_of_the_question_is_counted_with_those_that_have_it(
    message: Callable[[int], str], question: str, counted: tuple[int, int]
) -> None:
    text = "\n".join(f"2026-05-01 10:{at // 60:02d}:{at % 60:02d} INFO {message(at)}" for at in range(600))
    for section in (0, len(text) // 4):
        condensed = condense_structurally(text, 250, question, section=section)
        sizes = [int(size) for size in re.findall(r" ×(\d+)", condensed.text)]
        asked, others = counted
        assert others in sizes or section, condensed.text
        assert 600 not in sizes and (asked in sizes or asked == 1), condensed.text


def test_identifiers_that_begin_with_letters_are_values_and_no_variants_of_a_word() -> None:
    ids = random.Random(1)
    text = "".join(f"2026-05-01 10:00:00 INFO served id={ids.getrandbits(32):08x}\n" for _ in range(3_000))
    condensed = condense_structurally(text, 200)
    assert "also" not in condensed.text
    assert sum(last - first + 1 for first, last in condensed.account.folded) > 2_980


def test_a_head_that_is_too_long_is_cut_between_its_statements_and_says_first_what_was_asked() -> None:
    text = "".join(
        f"2026-05-01T10:00:{at % 60:02d}Z INFO handled path=/api/{'abc'[at % 3]} status={500 if at == 9 else 200}\n"
        for at in range(900)
    )
    head = condense_structurally(text, 150, "how many requests have status 500?").text.split("\n")[0]
    assert "[status: 500 ×1, 200 ×899" in head
    shortest = condense_structurally(text, 100, "how many requests have status 500?").text.split("\n")[0]
    assert shortest.count("[") == shortest.count("]") and not shortest.endswith(": …")


def access_log(failing: Callable[[int], bool], path: str = "/cart") -> str:
    return "\n".join(
        f'10.1.{at % 7}.{at % 200} - - [18/Nov/2026:10:{at // 60:02d}:{at % 60:02d} +0000] "GET '
        f'{path if failing(at) else ("/", "/cart", "/items")[at % 3]} HTTP/1.1" {502 if failing(at) else 200} {at * 37} "-" "curl/8"'
        for at in range(1_200)
    )


@pytest.mark.parametrize("path", ["/cart", "/checkout"])
def test_failed_requests_are_counted_apart_from_those_that_succeeded(path: str) -> None:
    condensed = condense_structurally(access_log(lambda at: at % 100 == 3, path), 300)
    assert condensed.kind == "log" and not condensed.account.lost
    failed = [line for line in condensed.text.split("\n") if " 502 " in line and "×12" in line]
    assert len(failed) == 1 and path in failed[0]
    assert not any("×1200" in line or f"{path} ×12" in line for line in condensed.text.split("\n"))


def test_an_access_log_whose_lines_have_equal_many_words_is_no_table() -> None:
    assert condense_structurally(access_log(lambda at: False), 300).kind == "log"
