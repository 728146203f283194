"""A question taken apart, and texts found by it."""

import pytest

from tersely.condensing.focus import ARGUMENTS, Focus, scan, stem


def test_quoted_phrases_and_identifiers_are_looked_for_whole() -> None:
    focus = Focus.parse("Why did 'query failed' show up in my-app-53?")
    texts = {term.text: term.kind for term in focus.terms}
    assert texts["query failed"] == "phrase"
    assert texts["my-app-53"] == "identifier"


def test_an_identifier_inside_a_longer_word_is_not_found() -> None:
    found = scan(["id 63246 here", "id 632461 here"], Focus.parse("inode 63246"))
    assert found.relevance[0] > 0
    assert found.relevance[1] == 0


def test_words_are_found_in_their_forms_and_inside_compound_names() -> None:
    focus = Focus.parse("failing pods")
    found = scan(["PodScheduled", "one pod failed", "a podium", "nothing"], focus)
    assert found.relevance[0] > 0
    assert found.relevance[1] > found.relevance[0]
    assert found.relevance[2:] == [0, 0]


@pytest.mark.parametrize(
    ("word", "root"),
    [("running", "run"), ("failed", "fail"), ("failures", "fail"), ("class", "class"), ("pods", "pod")],
)
def test_stems_are_what_the_forms_of_a_word_share(word: str, root: str) -> None:
    assert stem(word) == root


def test_what_every_text_has_says_nothing() -> None:
    texts = [f"version {number}" for number in range(40)] + ["version of web-7"]
    found = scan(texts, Focus.parse("version of web-7"))
    assert found.relevance[-1] > 5 * found.relevance[0]


def test_parts_of_an_identifier_hardly_count_where_it_is_found_whole() -> None:
    texts = ["rook-ceph-mds", "rook ceph mds parts only", *["other"] * 20]
    found = scan(texts, Focus.parse("rook-ceph-mds"))
    assert found.relevance[0] > 3 * found.relevance[1]


def test_wishes_are_read_from_the_words_around_them() -> None:
    focus = Focus.parse("Which pods are not running since 14:00 and took over 500 ms?")
    assert focus.rejects("Running") and not focus.rejects("Pending")
    assert (focus.comparisons[0].above, focus.comparisons[0].amount, focus.comparisons[0].unit) == (True, 500.0, "ms")
    assert focus.since == "14:00"
    assert Focus.parse("slowest request").superlative == 1
    assert Focus.parse("why is this query slow").superlative == 1
    assert Focus.parse("the least memory").superlative == -1
    assert Focus.parse("anything unusual?").unusual
    assert Focus.parse("which timeout is out of line?").unusual and Focus.parse("what does not fit?").unusual
    assert Focus.parse("").trouble and Focus.parse("").unusual and not Focus.parse("")


@pytest.mark.parametrize(
    ("line", "inside"),
    [("2025-01-02T14:05:00Z started", True), ("2025-01-02T13:59:59Z started", False), ("no time at all", None)],
)
def test_lines_are_inside_or_outside_the_asked_for_time(line: str, inside: bool | None) -> None:
    assert Focus.parse("errors since 14:00").within(line) is inside


def test_severity_comes_from_words_and_not_from_their_denial() -> None:
    found = scan(
        ["panic: out of memory", "request failed", "disk slow", "errors: 0", "no error", "all fine"], Focus.parse("")
    )
    assert found.severity[0] == 3
    assert found.severity[1] == 2
    assert found.severity[2] == 1
    assert max(found.severity[3:]) <= 0.5


def test_text_that_grows_in_lower_case_keeps_its_places() -> None:
    found = scan(["İİİİ web-7", "web-7"], Focus.parse("web-7"))
    assert all(value > 0 for value in found.relevance)


def test_questions_without_blanks_between_words_find_their_text() -> None:
    found = scan(["支払いサービスが失敗しました", "正常"], Focus.parse("支払いサービスはなぜ失敗"))
    assert found.relevance[0] > 0 and found.relevance[1] == 0


@pytest.mark.parametrize("name", ["HighLatency", "PodNotReady", "OOMKilled", "KubePodCrashLooping"])
def test_the_name_of_an_alert_is_understood_by_its_words(name: str) -> None:
    assert Focus.parse(f"Look into {name}").trouble
    assert not Focus.parse("Look into PodReplicaCount").trouble


def test_what_the_words_of_a_joined_name_mean_is_looked_for_too() -> None:
    found = scan(["request took 9 s", "request came in"], Focus.parse("HighLatency on web"))
    assert found.relevance[0] > found.relevance[1]


def test_a_state_of_several_words_can_be_what_is_not_wanted() -> None:
    focus = Focus.parse("Which flights are not on time?")
    assert focus.rejects("on time")
    assert not focus.rejects("late")
    assert Focus.parse("Which mirrors are not up to date?").rejects("up to date")


def test_asking_for_an_overview_is_asking_for_what_stands_out() -> None:
    assert Focus.parse("Give me an overview; what should I look at first?").unusual


COMMITS = [
    *(f"{n:07x} gateway: close idle session {n} after a minute" for n in range(15)),
    *(f"{n:07x} docs: touch up page {n}, say which changes are wanted" for n in range(15, 30)),
    *(f"{n:07x} store: keep row {n} of the table" for n in range(30, 300)),
]


def found_by(question: str, lines: list[str], most: int) -> set[str]:
    """The lines that a question ranks highest."""
    relevance = scan(lines, Focus.parse(question)).relevance
    return {lines[at] for at in sorted(range(len(lines)), key=lambda at: -relevance[at])[:most] if relevance[at] > 0}


@pytest.mark.parametrize(
    "question",
    [
        "which commits touched the gateway?",
        "Could you please tell me what happened to the gateway, and where?",
        "I would like to know everything that concerns the gateway.",
        "changes to the gateway" + ARGUMENTS + "/srv/store/table docs main 300 page",
        "[MASKED:api_key:abcdef12] gateway [masked elsewhere: docs: 0123abcd]",
        "Welche Änderungen betreffen das gateway?",
    ],
)
def test_a_natural_question_finds_what_the_bare_word_finds(question: str) -> None:
    assert found_by(question, COMMITS, 15) == found_by("gateway", COMMITS, 15) == set(COMMITS[:15])


def test_arguments_have_no_intents() -> None:
    focus = Focus.parse("pods" + ARGUMENTS + "highest error since 14:00 not running over 5 ms")
    assert (focus.superlative, focus.trouble, focus.since, focus.negated, focus.comparisons) == (0, False, "", (), ())
    assert focus.text == "pods"


def test_numbers_among_the_arguments_are_no_terms() -> None:
    focus = Focus.parse("slow calls" + ARGUMENTS + "for n in range(100): run(n, 0, 2.5, [250]) at 10.0.0.7")
    assert [term.text for term in focus.terms if term.text[0].isdigit()] == ["10.0.0.7"]


@pytest.mark.parametrize(
    ("question", "line", "other"),
    [
        ("replication timeout", 'createIntConfig("repl-timeout", 60)', "struct timespec timeout;"),
        ("authentication of users", "auth_users = 1", "users = 1"),
        ("which connections are open", "conn4 open", "cond4 open"),
        ("how much memory may be used", "maxmemory 100", "maxclients 100"),
        ("is the append only file on", "appendonly yes", "protected yes"),
        ("redirect of a trailing slash", "func redirectTrailingSlash(c)", "func redirectFixedPath(c)"),
    ],
)
def test_short_forms_compounds_and_joined_words_are_found(question: str, line: str, other: str) -> None:
    found = scan([line, other, *["something else entirely"] * 20], Focus.parse(question))
    assert found.relevance[0] > found.relevance[1]


def test_a_whole_word_beats_its_short_form() -> None:
    found = scan(["replication on", "repl_on", *["nothing"] * 20], Focus.parse("is replication enabled"))
    assert found.relevance[0] > 2 * found.relevance[1] > 0


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("Welche Verbindungen wurden abgelehnt?", "Verbindung abgelehnt"),
        ("Quelles connexions ont été refusées ?", "connexion refusée"),
        ("¿Qué conexiones fueron rechazadas en el servidor?", "conexión rechazada"),
        ("Какие соединения были потеряны?", "соединение потеряно"),
    ],
)
def test_questions_in_other_languages_find_other_forms_of_their_words(question: str, line: str) -> None:
    relevance = scan([line, "etwas anderes", "something else", *["x"] * 10], Focus.parse(question)).relevance
    assert relevance[0] > 0.3
    assert max(relevance[1:]) == 0


def test_other_languages_have_errors_too() -> None:
    texts = ["Fehler beim Lesen", "erreur de lecture", "falló la lectura", "読み込みに失敗しました", "Alles gut"]
    assert scan(texts, Focus.parse("")).severity == [2, 2, 2, 2, 0]


@pytest.mark.parametrize(
    ("question", "label"),
    [("the oldest passenger", "age"), ("slowest statement", "duration_ms"), ("cheapest ticket", "fare")],
)
def test_a_superlative_names_what_it_measures(question: str, label: str) -> None:
    focus = Focus.parse(question)
    assert focus.names(label) > focus.names("count_of_doors")


@pytest.mark.parametrize(
    "line",
    [
        "test_failures_no_groups (tests.test_argparse.TestErrors) ... ok",
        "tests/test_retry.py::test_error_is_raised PASSED [ 12%]",
        "  ✔ should handle render error (4ms)",
        "--- PASS: TestPanicRecovery (0.00s)",
        "ok 12 - fails when the socket is broken",
        "struct timespec timeout;",
        "timeout=30",
        "class ErrorHandler(Base)",
        "(1041, 'The Broken Heart', 'Going Down Slow')",
        "insert into tracks values (17, 'Lost In The Supermarket')",
        "delivered to anna@fatal.se in 3 ms",
        "mail from error@example.org accepted",
        "error.log rotated",
        "panic.go:5 main.main()",
        "fail2ban started",
    ],
)
def test_words_of_severity_inside_names_titles_and_passed_tests_are_none(line: str) -> None:
    assert scan([line], Focus.parse("")).severity[0] <= 0.5


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("test_groups (tests.test_argparse.TestErrors) ... FAIL", 2),
        ("ValueError: bad choice", 2),
        ("java.net.SocketTimeoutException: Read timed out", 2),
        ("Warning FailedScheduling 0/3 nodes are available", 2),
        ("OOM_KILLED", 1),
        ("connection timeout after 30 s", 2),
        ("Panic in worker 3", 3),
        ("link is down", 1),
        ("job failed. restarting", 2),
        ("error.msg=boom", 2),
    ],
)
def test_real_failures_stay_severe(line: str, level: float) -> None:
    assert scan([line], Focus.parse("")).severity[0] >= level


@pytest.mark.parametrize(
    ("question", "finds_zero"),
    [("Which host failed?", False), ("How many failed?", True), ("Are there any failed hosts?", True)],
)
def test_a_count_of_zero_failures_is_no_failure(question: str, finds_zero: bool) -> None:
    texts = ["web-1 failed=1 ok=3", "web-2 failed=0 ok=4", "web-3 FAILED!", 'web-4 "failed": 0, "ok": 4', "web-5 ok"]
    relevance = scan(texts, Focus.parse(question)).relevance
    assert relevance[0] > relevance[4]
    assert relevance[2] > relevance[4]
    assert (relevance[1] > relevance[4]) is finds_zero
    assert (relevance[3] > relevance[4]) is finds_zero


def test_words_inside_an_address_are_no_wishes() -> None:
    address = Focus.parse("Show me https://example.org/issues/most/unusual/19114")
    assert (address.trouble, address.unusual, address.superlative) == (False, False, 0)
    assert Focus.parse("What are the issues in /srv/logs/web?").trouble


def test_a_letter_is_looked_for_together_with_the_word_beside_it() -> None:
    found = scan(
        ["GNU C Library: Shared libraries", "JPEG library (package)", "C compiler"],
        Focus.parse("is the C library up to date?"),
    )
    assert max(found.relevance) == found.relevance[0] > 2 * found.relevance[1]
    assert "drive d" in {term.text for term in Focus.parse("how full is drive D?").terms}


def test_the_plural_of_an_acronym_is_found_in_its_singular() -> None:
    found = scan(["(CVE-2023-1) wrong order of calls", "fixes bugs"], Focus.parse("which CVEs are there?"))
    assert found.relevance[0] > found.relevance[1]


def test_an_adverb_is_found_as_its_adjective() -> None:
    found = scan(["threads = 2 {ergonomic}", "threads = 2 {default}"], Focus.parse("what was set ergonomically?"))
    assert found.relevance[0] > 0 == found.relevance[1]


def test_terms_in_labels_hardly_say_which_text_is_meant() -> None:
    texts = ["bread 1.2", "oven 3.4 (stable version)", *(f"tool{number} 1.{number}" for number in range(20))]
    focus = Focus.parse("which version of bread?")
    plain, labelled = scan(texts, focus), scan(texts, focus, labels=["Name", "Version"])
    assert labelled.relevance[1] < 0.5 * plain.relevance[1]
    assert labelled.relevance[0] > plain.relevance[0]


def test_a_part_of_an_identifier_that_the_texts_contain_whole_is_weak_in_names() -> None:
    focus = Focus.parse("how did the signature of dispatch_request change?")
    texts = ["def dispatch_request(self)", "signature of the call", "what may change", "oven = 1"]
    names = ["tests/test_request.py", "src/oven.py", "src/app.py"]
    body = scan(texts, focus)
    assert 0 < scan(names, focus, names_of=body).relevance[0] < 0.2 * scan(names, focus).relevance[0]


def test_the_end_of_a_remark_in_parentheses_is_no_part_of_a_word() -> None:
    terms = {term.text: term.weight for term in Focus.parse("which findings are certain (100%)?").terms}
    assert terms["100%"] == 0.5
    assert "handler[0]" in {term.text for term in Focus.parse("what is handler[0]?").terms}


def test_an_amount_that_limits_is_hardly_looked_for() -> None:
    terms = {term.text: term.weight for term in Focus.parse("which disks are more than 90% full?").terms}
    assert terms["90"] < 0.2
