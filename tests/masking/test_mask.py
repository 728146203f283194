"""What masking takes out, what it leaves alone, and what it does when it cannot do its work."""

import base64
import gzip
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tersely.errors import ConfigError, InputError, MaskingFailed
from tersely.masking.assignments import worth_masking
from tersely.masking.mask import DEFAULT_GROUPS, Masker, mask
from tersely.masking.masked import Masked
from tersely.masking.patterns import is_secret
from tersely.masking.search import GROUPS, find_secrets
from tersely.masking.spans import MaskingDeadline

MASKER = Masker(key=b"a key for these tests")
MARK = re.compile(r"\[MASKED:[a-z0-9_]+:[0-9a-f]{12}\]")
SECRET = "Walnut!orbit42"
BASE64 = base64.b64encode(SECRET.encode()).decode()


def masked(text: str) -> str:
    """The masked text with every mark as «», so that the rest can be compared literally."""
    return MARK.sub("«»", MASKER.mask(text))


# --------------------------------------------------------------------------- what is taken out


def test_only_the_value_is_replaced_and_the_mark_says_what_it_was() -> None:
    out = MASKER.mask("user=admin password=hunter2 host=db")
    assert re.fullmatch(r"user=admin password=\[MASKED:password:[0-9a-f]{12}\] host=db", out)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f'{{"user": "bob", "password": "{SECRET}"}}', '{"user": "bob", "password": "«»"}'),
        (f"export DB_PASSWORD='{SECRET}'", "export DB_PASSWORD='«»'"),
        (f"spring.datasource.password={SECRET}", "spring.datasource.password=«»"),
        (f"$config['db_password'] => '{SECRET}';", "$config['db_password'] => '«»';"),
        (f'const clientSecret: string = "{SECRET}";', 'const clientSecret: string = "«»";'),
        (f'System.setProperty("API_TOKEN", "{SECRET}")', 'System.setProperty("API_TOKEN", "«»")'),
        (f"<password>\n  {SECRET}\n</password>", "<password>\n  «»\n</password>"),
        (f'<add key="DbPassword" value="{SECRET}" />', '<add key="DbPassword" value="«»" />'),
        (f"connect(host='db', password='{SECRET}', timeout=5)", "connect(host='db', password='«»', timeout=5)"),
        (f"panic: opts={{Addr:cache:6379 Password:{SECRET} DB:0}}", "panic: opts={Addr:cache:6379 Password:«» DB:0}"),
        (f"Server=db;User ID=sa;Password={SECRET};Encrypt=True;", "Server=db;User ID=sa;Password=«»;Encrypt=True;"),
        (f"postgres://app:{SECRET}@db:5432/orders?ssl=true", "postgres://app:«»@db:5432/orders?ssl=true"),
        ("GET /me?access_token=b418d55fcc8c4360b72dd7d7671d76e0&page=2", "GET /me?access_token=«»&page=2"),
        ("Authorization: Bearer t6bME6PM8LFRIBQxM4H8L5hYVM8n", "Authorization: Bearer «»"),
        ("Authorization:[Basic YWRtaW46RmFsY29u]", "Authorization:[Basic «»]"),
        (
            "Cookie: theme=dark; sessionid=j1c43uwilw0y7n3qp5pymdf3d; lang=en",
            "Cookie: theme=dark; sessionid=«»; lang=en",
        ),
        (f"$ mysql -h db -u root -p{SECRET} -e 'select 1'", "$ mysql -h db -u root -p«» -e 'select 1'"),
        ("$ app --token 99adPRWm5jNrg3Wh5ZX5Z5AM --port 80", "$ app --token «» --port 80"),
        (f"Args:\n  --db-password\n  {SECRET}\n  --verbose", "Args:\n  --db-password\n  «»\n  --verbose"),
        ("use token cWGiDLSf3pH9KILUwUktri957NPc02n0 for staging", "use token «» for staging"),
        (f"the password for staging is {SECRET}, ask Bob", "the password for staging is «», ask Bob"),
        ("rejected ghp_BnJPZHxjJHZ03Ap4O5JpIDrplVkw19Qc92MS from 10.2.3.4", "rejected «» from 10.2.3.4"),
    ],
)
def test_a_secret_is_taken_out_and_its_surroundings_stay(text: str, expected: str) -> None:
    assert masked(text) == expected


@pytest.mark.parametrize(
    "document",
    [
        (
            f"apiVersion: v1\nkind: List\nitems:\n- kind: Secret\n  data:\n    field: {BASE64}\n- kind: ConfigMap\n  "
            "data:\n    mode: blue\n"
        ),
        f"- kind: ConfigMap\n  data:\n    mode: blue\n- data:\n    field: {BASE64}\n  kind: Secret\n",
        (
            "kind: ConfigMap\ndata:\n  mode: blue\n---\nkind: Secret\nstringData:\n  field: |\n    first line\n    "
            f"{SECRET}\n"
        ),
        f"mode: blue\n---\nkind: Secret\ndata: {{field: {BASE64}, other: {BASE64}}}\n",
        json.dumps([{"kind": "ConfigMap", "data": {"mode": "blue"}}, {"kind": "Secret", "data": {"field": BASE64}}]),
        json.dumps({"kind": "SecretList", "items": [{"data": {"field": BASE64}}], "mode": "blue"}, indent=1),
        json.dumps({"mode": "blue", "text": f"kind: Secret\ndata:\n  field: {BASE64}\n"}),
        json.dumps({"mode": "blue", "a": json.dumps({"b": json.dumps({"data": {"field": BASE64}, "kind": "Secret"})})}),
        'kind: ConfigMap\nmode: blue\nlast-applied: |\n  {"kind":"Secret","data":{"field":"' + BASE64 + '"}}\n',
        f"mode: blue map[kind:Secret data:map[field:{BASE64}] type:Opaque]",
        f'{{"mode": "blue", "kind": "Secret", "data": {{"field": "{BASE64}"',
    ],
    ids=[
        "List",
        "root list",
        "documents",
        "flow",
        "JSON array",
        "SecretList",
        "YAML in JSON",
        "JSON³",
        "last-applied",
        "Go",
        "cut off",
    ],
)
def test_a_kubernetes_secret_is_masked_in_any_nesting(document: str) -> None:
    """A Secret in a `kind: List`, a root list or a JSON array once went through in clear."""
    out = MASKER.mask(document)
    assert BASE64 not in out and SECRET not in out
    assert "blue" in out


@pytest.mark.parametrize(
    "pair",
    [
        f"env:\n- name: DB_PASSWORD\n  value: '{SECRET}'\n- name: REGION\n  value: eu-west-1\n",
        f"env:\n- value: {SECRET}\n  name: DB_PASSWORD\n- name: REGION\n  value: eu-west-1\n",
        json.dumps({"env": [{"name": "DB_PASSWORD", "value": SECRET}, {"name": "REGION", "value": "eu-west-1"}]}),
        json.dumps(
            {
                "env": [
                    {"value": SECRET, "meta": {"x": 1}, "name": "DB_PASSWORD"},
                    {"value": "eu-west-1", "name": "REGION"},
                ]
            },
            indent=2,
        ),
        f"<name>db.password</name>\n<value>{SECRET}</value>\n<name>region</name><value>eu-west-1</value>",
    ],
)
def test_a_value_is_masked_for_the_name_beside_it(pair: str) -> None:
    out = MASKER.mask(pair)
    assert SECRET not in out
    assert "DB_PASSWORD" in out or "db.password" in out
    assert "eu-west-1" in out


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (f'user,password\nbob,{SECRET}\n"ann","a, b!9"\n', 'user,password\nbob,«»\n"ann","«»"\n'),
        (
            f" id | api_token\n----+-----\n 1  | {BASE64}x\n 2  | null\n(2 rows)\n",
            " id | api_token\n----+-----\n 1  | «»\n 2  | null\n(2 rows)\n",
        ),
        (f"| user | password |\n|---|---|\n| bob | {SECRET} |\n", "| user | password |\n|---|---|\n| bob | «» |\n"),
        (f"user\tpassword\tport\nbob\t{SECRET}\t80\n", "user\tpassword\tport\nbob\t«»\t80\n"),
    ],
)
def test_a_column_is_masked_for_its_heading(table: str, expected: str) -> None:
    assert masked(table) == expected


def test_lists_under_a_telling_name_are_masked_item_by_item() -> None:
    assert masked(f"passwords: [{BASE64}x1, none]\n") == "passwords: [«», none]\n"
    assert masked(f'{{"tokens": ["{BASE64}x1", "{BASE64}x2"], "n": 1}}') == '{"tokens": ["«»", "«»"], "n": 1}'
    assert (
        masked(f"api_keys:\n  - {BASE64}x1\n  - {BASE64}x2 # old\nport: 1\n")
        == "api_keys:\n  - «»\n  - «» # old\nport: 1\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        f"payload={base64.b64encode(f'password={SECRET}'.encode()).decode()}",
        f"twice: {base64.b64encode(base64.b64encode(f'client_secret: {SECRET} '.encode())).decode()}",
        f"dump {f'password={SECRET};'.encode().hex()} end",
        "callback=https%3A%2F%2Fx.test%2Fcb%3Fpassword%3DWalnut%21orbit42%26user%3Dbob",
        '{"text": "{\\"password\\": \\"' + SECRET + '\\"}"}',
        '{"a": "{\\"b\\": \\"password=' + SECRET + '\\\\nuser=bob\\"}"}',
        '{"msg": "\\u0070assword\\u003dWalnut!orbit42\\u0026user=bob"}',
        '{"text": "db:\\n  password: |-\\n    Walnut!orbit42\\n  port: 1\\n"}',
        f"&quot;password&quot;: &quot;{SECRET}&quot;",
        f"\x1b[32mpassword\x1b[0m=\x1b[33m{SECRET}\x1b[0m",
        f"pass\u200bword: {SECRET}",
    ],
)
def test_what_is_encoded_is_decoded_and_looked_at_again(text: str) -> None:
    out = MASKER.mask(text)
    assert MARK.search(out)
    assert SECRET not in out and "Walnut%21" not in out
    assert base64.b64encode(SECRET.encode())[:16].decode() not in out


def test_a_private_key_goes_whole_also_when_it_is_cut_off_or_on_one_line() -> None:
    lines = "\n".join(base64.b64encode(bytes(range(start, start + 48))).decode() for start in range(0, 200, 25))
    whole = f"before\n-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----\nafter\n"
    cut = f"before\n-----BEGIN RSA PRIVATE KEY-----\n{lines}\n[output truncated]\nafter\n"
    in_json = json.dumps({"key": whole, "next": "after"})
    assert masked(whole) == "before\n«»\nafter\n"
    assert masked(cut) == "before\n«»\n[output truncated]\nafter\n"
    assert json.loads(masked(in_json)) == {"key": "before\n«»\nafter\n", "next": "after"}


def test_one_enormous_value_is_masked_whole() -> None:
    assert masked('token="' + "A" * 200_000) == 'token="«»'
    assert masked("token=" + "A" * 200_000 + " next") == "token=«» next"


# --------------------------------------------------------------------------- what stays


@pytest.mark.parametrize(
    "text",
    [
        "api-825a95d321-bjpa6   1/1   Running   0   3d",
        "uid: 802df8c0-f4ff-4bd1-a131-267142ebb33d\nresourceVersion: '77214621'",
        "trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=00f067aa0ba902b7",
        "image: app@sha256:afcef16be9ba39acc412c2027cebb8a816111d57fb607532284dbeee47bd6be9",
        "arn:aws:iam::123456789012:role/app-role-2bZfDaqA1l",
        "commit c2084bd4595b3a554cbfff1634e1d7f9d66e677b",
        'ETag: "50a5e46e55eb5b1f047722a0439816fa"',
        "env:\n- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      name: db\n      key: password\n",
        '{"name":"DB_PASSWORD","valueFrom":{"secretKeyRef":{"name":"db","key":"password"}},"value2":"x"}',
        "volumes:\n- secret:\n    secretName: wildcard-tls-certificate\n",
        "kind: ConfigMap\ndata:\n  LOG_LEVEL: debug\n",
        "kind: Secret\nmetadata:\n  name: db-creds\ndata:\n  empty: ''\n",
        "password: ${DB_PASSWORD}",
        "password: {{ .Values.password }}",
        "api_key = os.environ['API_KEY']",
        "password=self.config.get('db_password')",
        "password: <redacted>",
        "token: [MASKED]",
        "password: ********",
        "password:  16 bytes",
        "Access denied for user 'root'@'10.0.0.5' (using password: YES)",
        "Failed password for root from 10.0.0.1 port 22 ssh2",
        "Password policy: minimum 12 characters",
        "prompt_tokens=18233 completion_tokens=912",
        "Unexpected token } in JSON at position 1048",
        "key=orders.created.v2 partition=7",
        "cache miss for key user:profile:123456:settings",
        "redis://cache:6379/0 http://10.96.0.1:443/healthz ssh://git@github.com/acme/app.git",
        "secret rotation job finished in 12.4s",
        "token = _clock.set(clock)\napi_key = settings.openai.api_key\ndef login(user: str, password: str) -> bool:",
        "<code>dns.resolve(hostname)</code> and <input type='password' name='password' />",
        "columns: id, username, password, created_at",
    ],
)
def test_what_identifies_or_only_speaks_of_secrets_stays(text: str) -> None:
    assert MASKER.mask(text) == text


def test_text_without_secrets_comes_back_as_it_was() -> None:
    text = "nothing to see here\n" * 10
    masked = MASKER.mask(text)
    assert masked == text and type(masked) is Masked
    assert MASKER.mask(masked) is masked, "masked text is not copied again"


# --------------------------------------------------------------------------- marks


def test_the_same_secret_gets_the_same_mark_in_one_scope_and_another_in_another() -> None:
    first, second = MARK.findall(MASKER.mask(f"password={SECRET}\nDB_PASSWORD: {SECRET}\n"))
    (in_url,) = MARK.findall(MASKER.mask(f"postgres://app:{SECRET}@db"))
    (other,) = MARK.findall(MASKER.mask("password=somethingElse7"))
    (elsewhere,) = MARK.findall(Masker(key=b"another scope").mask(f"password={SECRET}"))
    assert first == second
    assert in_url[-9:] == first[-9:]  # Another kind of place, the same digits.
    assert first != other
    assert first != elsewhere


def test_marks_survive_a_restart_with_the_same_key() -> None:
    out = MASKER.mask(f"password={SECRET}")
    assert Masker(key=b"a key for these tests").mask(out) == out


def test_a_forged_mark_stays_readable_but_cannot_be_taken_for_ours() -> None:
    text = "[MASKED:kv:deadbeef] is the same as [masked : token : 0a1b2c3d]"
    out = MASKER.mask(text)
    assert out == "[masked elsewhere:kv:deadbeef] is the same as [masked elsewhere: token : 0a1b2c3d]"
    assert MASKER.mask(out) == out


def test_a_mark_identifies_with_four_digits_and_verifies_with_eight() -> None:
    """Four digits confirm no guess: among 200,000 other passwords, several have the same ones."""
    masker = Masker(key=b"a scope")

    def digits(secret: str) -> str:
        return masker.mask(f"password={secret}")[-13:-1]

    ours = digits(SECRET)
    assert digits(SECRET) == ours
    guesses = {digits(f"guess-{number}-Xy") for number in range(3_000)}
    assert len({guess[:4] for guess in guesses}) < len(range(3_000)), "different secrets share their first digits"
    by_first = {guess[:4]: guess[4:] for guess in guesses}
    assert all(by_first[guess[:4]] == guess[4:] for guess in guesses), "the other digits say nothing more"


def test_guessed_marks_are_not_taken_for_ours() -> None:
    guesses = [f"[MASKED:password:{number:08x}]" for number in range(20_000)]
    guesses += [f"[MASKED:password:{number:04x}{number * 7919 % 2**32:08x}]" for number in range(20_000)]
    out = MASKER.mask("\n".join(guesses))
    assert "[MASKED:" not in out and out.count("[masked elsewhere:password:") == len(guesses)


def test_a_mark_of_an_older_version_stays_readable() -> None:
    assert MASKER.mask("password=[MASKED:password:1a2b3c4d] ok") == "password=[masked elsewhere:password:1a2b3c4d] ok"


def test_a_mark_of_another_scope_is_not_taken_for_ours() -> None:
    theirs = Masker(key=b"another scope").mask(f"password={SECRET}")
    assert MASKER.mask(theirs).startswith("password=[masked elsewhere:password:")


# --------------------------------------------------------------------------- arguments, errors, values


def test_arguments_are_masked_by_their_names_at_any_depth() -> None:
    arguments = {
        "host": "db",
        "auth": {"user": "bob", "password": SECRET, "pin": 493817},
        "headers": [["authorization", "Bearer abc123def456ghi789"]],
    }
    out = MASKER.mask_json(arguments)
    assert MARK.sub("«»", json.dumps(out, ensure_ascii=False)) == (
        '{"host": "db", "auth": {"user": "bob", "password": "«»", "pin": "«»"}, "headers": [["authorization", "Bearer '
        '«»"]]}'
    )


def test_a_document_among_the_arguments_is_masked_as_a_document() -> None:
    out = MASKER.mask_json(
        {"manifest": f"kind: Secret\ndata:\n  field: {BASE64}\n", "count": 2, "dry": True, "none": None}
    )
    assert BASE64 not in json.dumps(out)
    assert out["count"] == 2 and out["dry"] is True and out["none"] is None
    assert yaml.safe_load(out["manifest"])["kind"] == "Secret"


@pytest.mark.parametrize(
    "error",
    [
        f"could not connect to postgres://app:{SECRET}@db/orders: timeout",
        f"exec failed: sh -c 'DB_PASS={SECRET} ./run'",
        "Error code: 401 - Incorrect API key provided: sk-proj-fAjVA3WCjIWXrAxBcn7ohuXePYT5kv1I9WcFm7lDXww3qLBN.",
        f"ValidationError: 1 error for Config\npassword\n  too short (input: password='{SECRET}')",
    ],
)
def test_error_texts_are_masked(error: str) -> None:
    out = MASKER.mask(error)
    assert SECRET not in out and "fAjVA3WCjIWXrAxBcn7oh" not in out


# --------------------------------------------------------------------------- configuration


def test_a_bad_custom_pattern_is_refused_by_name() -> None:
    """Invalid custom patterns were once silently skipped."""
    with pytest.raises(ConfigError, match=r"'ticket'.*missing \)"):
        Masker(custom={"fine": "x+", "ticket": "TICKET-(\\d+"})
    with pytest.raises(ConfigError, match="'behind'"):
        Masker(custom={"behind": "(?<=x)y"})
    with pytest.raises(ConfigError, match="'empty'"):
        Masker(custom={"empty": "x*"})


def test_a_custom_pattern_masks_its_group_called_secret() -> None:
    masker = Masker(custom={"badge": r"badge (?P<who>\w+)/(?P<secret>\d+)"}, key=b"k")
    assert re.fullmatch(r"badge bob/\[MASKED:badge:[0-9a-f]{12}\] ok", masker.mask("badge bob/7731 ok"))


def test_an_unknown_group_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'passwords'.*assignments"):
        Masker(groups=["passwords"])


def test_only_the_chosen_groups_are_looked_for() -> None:
    text = f"password={SECRET} and postgres://app:{SECRET}@db"
    assert MARK.sub("«»", Masker(groups=["urls"]).mask(text)) == f"password={SECRET} and postgres://app:«»@db"


def test_mask_is_the_short_way_with_all_groups() -> None:
    assert set(DEFAULT_GROUPS) == {*GROUPS, "encoded"}
    assert MARK.sub("«»", mask(f"password={SECRET}")) == "password=«»"


# --------------------------------------------------------------------------- failing closed


class Unreadable(str):
    """A text that raises in its reader."""

    __slots__ = ()

    def encode(self, *_: Any) -> bytes:
        raise RuntimeError(f"cannot encode {str(self)!r}")


def test_whatever_goes_wrong_inside_nothing_comes_out() -> None:
    with pytest.raises(MaskingFailed) as failure:
        MASKER.mask(Unreadable(SECRET))
    assert SECRET not in str(failure.value)
    assert failure.value.__cause__ is None
    assert failure.value.__suppress_context__


def test_what_is_no_text_at_all_is_dropped_as_well() -> None:
    with pytest.raises(MaskingFailed):
        MASKER.mask(None)  # type: ignore[arg-type]


def test_a_value_that_is_not_json_is_dropped() -> None:
    with pytest.raises(MaskingFailed):
        MASKER.mask_json({"password": object()})


def test_a_search_that_takes_too_long_ends_in_a_failure() -> None:
    with pytest.raises(MaskingFailed, match="more than -1 s of CPU time"):
        find_secrets(
            b"password=x",
            [finder for group in GROUPS.values() for finder in group],
            decode=True,
            clock=MaskingDeadline(-1),
        )


def test_a_machine_that_is_busy_costs_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit counts the CPU time of the thread: an hour of waiting within two minutes' patience is"""
    """no hour of work."""
    clock = MaskingDeadline(5, wall_seconds=3600)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 3500)
    clock.check()
    monkeypatch.setattr(time, "monotonic", lambda: now + 3601)
    with pytest.raises(MaskingFailed, match="longer than 3600 s"):
        clock.check()


# --------------------------------------------------------------------------- borders


@pytest.mark.parametrize("before", [0, 500, 511, 512, 513, 1_030, 2_047, 5_000])
@pytest.mark.parametrize("size", [12, 600, 1_500, 1_600, 5_000])
def test_a_value_is_masked_whole_wherever_names_are(before: int, size: int) -> None:
    """Only the text near names is searched; a value that is longer than that is masked to its end."""
    value = ("Zx9" + "kQ7w" * size)[:size]
    for template in ('password="{}"', "password={}", 'password = '
    'Some("{}")', "the db_password is {}", "<token>{}</token>",
                     '{{"name": "DB_PASSWORD", "value": "{}"}}', "password:\n  {}\n"):  # fmt: skip
        text = "lorem ipsum " * (before // 12) + "\n" * (before % 12) + template.format(value) + " dolor sit amet" * 200
        out = masked(text)
        assert value[-12:] not in out and "kQ7wkQ7w" not in out, template
        assert out.endswith(" dolor sit amet" * 200)


@pytest.mark.parametrize("border", [4_096, 65_536])
def test_a_secret_across_a_border_is_masked_as_anywhere_else(border: int) -> None:
    """Windows around names have borders, too; none of them may cut a secret."""
    for secret in (
        f"password={SECRET}",
        "rejected ghp_BnJPZHxjJHZ03Ap4O5JpIDrplVkw19Qc92MS",
        f"postgres://app:{SECRET}@db/x",
    ):
        alone = MASKER.mask(f"\n{secret}\n")
        for offset in range(0, len(secret) + 2, 3):
            before = ("an ordinary line of a log\n" * (border // 26 + 1))[: border - offset]
            assert MASKER.mask(f"{before}\n{secret}\n{before}") == f"{before}{alone}{before}"


# --------------------------------------------------------------------------- properties

NAMES = st.sampled_from(
    ["password", "api_key", "clientSecret", "token", "name", "value", "kind", "data", "url", "note", "x-y", "items"]
)
SPECIAL = [
    SECRET,
    BASE64,
    "Secret",
    "hello",
    "DB_PASSWORD",
    "ghp_BnJPZHxjJHZ03Ap4O5JpIDrplVkw19Qc92MS",
    f"postgres://app:{SECRET}@db",
]
AWKWARD = [
    "a: b",
    "- c",
    'say "hi"',
    "it's",
    "back\\slash",
    "two\nlines",
    "[MASKED:password:12345678]",
    "",
    "#",
    "&a",
    "*a",
    "! x",
    "{",
    "[",
]
SENTENCES = [
    f"password={SECRET} and more",
    f"run --token {BASE64} now",
    f"{SECRET} {SECRET}",
    f"password: {SECRET}, ask Bob",
]
VALUES = st.sampled_from(SPECIAL + AWKWARD + SENTENCES)
LEAVES = VALUES | st.integers(0, 99_999_999) | st.booleans() | st.none() | st.text(max_size=12)
DOCUMENTS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)


def shape(value: Any) -> Any:
    """A document without its leaves."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    return [shape(inner) for inner in value] if isinstance(value, list) else "leaf"


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(document=DOCUMENTS, indent=st.sampled_from([None, 2]), ascii_only=st.booleans())
@example(document={"password": [f"run --token {SECRET} now"]}, indent=2, ascii_only=True)
def test_json_stays_json_of_the_same_shape_and_masking_again_changes_nothing(
    document: Any, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    out = MASKER.mask(text)
    assert shape(json.loads(out)) == shape(document)
    assert MASKER.mask(out) == out


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(document=DOCUMENTS, flow=st.sampled_from([False, True, None]))
def test_yaml_stays_yaml_and_masking_again_changes_nothing(document: Any, flow: bool | None) -> None:
    text = yaml.safe_dump(document, default_flow_style=flow, allow_unicode=True, width=10_000)
    assume(flow is False or "two\n" not in text)  # A flow collection over several lines is beyond us.
    out = MASKER.mask(text)
    yaml.safe_load(out)
    assert MASKER.mask(out) == out


WORDS = [
    "password",
    "token",
    "api_key",
    "Secret",
    "kind",
    "data",
    "Bearer ",
    "ghp_",
    "eyJ",
    "curl -u ",
    "mysql -p",
    "${X}",
    SECRET,
    BASE64,
]
SIGNS = [
    "://",
    "@",
    ":",
    "=",
    "=>",
    '"',
    "'",
    "\\",
    "\n",
    " ",
    "  ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "<",
    ">",
    "|",
    "&",
    "%3D",
    "\\n",
    '\\"',
]
ODDITIES = ["[MASKED:token:12345678]", "\x1b[31m", "\u200b", "\ud800", "é", "\x00", "-----BEGIN PRIVATE KEY-----"]
PIECES = st.sampled_from(WORDS + SIGNS + ODDITIES)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
@example("token:passwordghp_-----BEGIN PRIVATE KEY-----V2FsbnV0IW9yYml0NDI=\\")
@example("password: password${X}Walnut!orbit42curl -u ")
def test_any_text_can_be_masked_and_masking_again_changes_nothing(text: str) -> None:
    out = MASKER.mask(text)
    assert MASKER.mask(out) == out


# --------------------------------------------------------------------------- the shared corpus


def shared(*parts: str) -> Path:
    for folder in Path(__file__).resolve().parents:
        if (path := folder.parent.joinpath("shared", *parts)).exists():
            return path
    pytest.skip(f"The shared data are not here ({'/'.join(parts)}): rates are not checked.")


def corpus(kind: str) -> Iterator[dict[str, Any]]:
    with gzip.open(shared("safety", f"corpus_{kind}_dev.jsonl.gz"), "rt", encoding="utf8") as lines:
        yield from map(json.loads, lines)


def leaked(case: dict[str, Any], out: str) -> bool:
    """As the shared scoring counts: the secret, or a run of half of it, is left."""
    for start, end in case["secrets"]:
        for piece in filter(None, map(str.strip, case["text"][start:end].split("\n"))):
            size = max(8, min(len(piece), 64) // 2)
            if piece in out or any(piece[at : at + size] in out for at in range(len(piece) - size + 1)):
                return True
    return False


@pytest.mark.slow
def test_the_open_corpus_is_caught_at_the_promised_rates() -> None:
    caught: dict[str, list[bool]] = {}
    for case in corpus("pos"):
        out = MASKER.mask(case["text"])
        caught.setdefault(case["source"], []).append(not leaked(case, out))
        assert MASKER.mask(out) == out
        assert all(word in out for word in case["keep"]), case["id"]
        if case["fmt"] == "json":
            json.loads(out)
        elif case["fmt"] == "yaml":
            list(yaml.safe_load_all(out))
    rates = {source: sum(hits) / len(hits) for source, hits in caught.items()}
    assert rates["handwritten"] >= 0.97
    assert rates["gitleaks"] >= 0.99


def test_what_is_no_secret_in_the_open_corpus_stays() -> None:
    harmless = [case for case in corpus("neg") if case["source"] == "handwritten" and case["family"] != "policy_public"]
    assert sum(MASKER.mask(case["text"]) != case["text"] for case in harmless) <= 1


def test_ordinary_logs_stay_as_they_are() -> None:
    changed = lines = 0
    for path in sorted(shared("yardstick", "data", "dev", "t2").glob("*.log")):
        text = path.read_text("utf-8", "replace")
        out = MASKER.mask(text)
        lines += text.count("\n")
        changed += sum(before != after for before, after in zip(text.split("\n"), out.split("\n"), strict=True))
    assert changed <= lines / 10_000


def test_a_cookie_header_inside_of_a_json_string_ends_where_its_escaped_line_does() -> None:
    """Once the rest of the string was read as more cookies, and a mark swallowed a backslash."""
    text = json.dumps(
        {
            "result": (
                'Set-Cookie: session=9f8a7c6b5d4e3f2a1b0c9d8e; HttpOnly\npassword=Qm4xTr8zLw2k\n{"clientSecret": "x"}'
            )
        }
    )
    assert json.loads(mask(text))["result"].endswith('\n{"clientSecret": "x"}')


def test_a_command_in_a_line_of_a_text_inside_of_json_is_a_command() -> None:
    """The written-out line end before it stuck to its name."""
    for line in ("mysql -u root -pCjUB5VtnEZiwUa shop", "--api-key Qm3nVb71xTzKp0aLw9Yd"):
        secret = line.split()[-2][2:] if line.startswith("mysql") else line.split()[-1]
        assert secret not in Masker().mask(json.dumps({"text": f"first\n{line}\nlast"}))


def test_a_name_with_its_value_is_masked_in_a_list_whatever_stands_beside_it() -> None:
    beside = [
        '{"clientSecret": "pL0oK9iJ8uH7yG6t"}',
        "DB_PASSWORD: nj6CDJgnNsnggHrWyzjx",
        "--api-key Qm3nVb71xTzKp0aLw9Yd",
    ]
    assert "nj6CDJ" not in json.dumps(Masker().mask_json({"text": "\n".join(beside), "notes": beside}))


@pytest.mark.parametrize(
    "piece",
    [
        "password = Some(",
        'password=f("a",g("b",',
        "password is ",
        "&#112;&#97;",
        "│ password ",
        "contraseña: ",
        "password:\n",
        "insert into x (password) values ('a','b'),(",
        '{"name":"password",',
        "-----END PRIVATE KEY-----\n",
        "app:Xk29!zq@h:5432 ",
    ],
)
def test_a_text_of_nothing_but_names_is_masked_within_the_limit(piece: str) -> None:
    """One of these took time in proportion to the square of its length, and was dropped."""
    text = (piece * (100_000 // len(piece) + 1))[:100_000]
    assert MASKER.mask(MASKER.mask(text)) == MASKER.mask(text)


def test_what_is_not_a_text_is_refused_in_a_sentence() -> None:
    with pytest.raises(InputError, match=r"mask\(\) takes a text, and this is NoneType"):
        mask(None)  # type: ignore[arg-type]


def test_no_value_is_remembered_after_its_text() -> None:
    secret = "Walnut!orbit42"
    assert secret not in mask(f"password={secret} token={secret}")
    assert is_secret.cache_info().currsize == 0  # type: ignore[attr-defined]
    assert worth_masking.cache_info().currsize == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [
        "{a: 1,\n  ssh_passphrase: rPmVFKQMRtT9RbsVoF_17a}\n",
        "{name: 'a\n\n  b', passwd: Juniper!zephyr69, ssh_passphrase: 7, status: BKQtbSgqf048o2x}\n",
    ],
)
def test_a_flow_mapping_over_several_lines_keeps_its_end(text: str) -> None:
    assert isinstance(yaml.safe_load(text), dict) and isinstance(yaml.safe_load(MASKER.mask(text)), dict)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('password = (\n    "k8Qvx2Lm"\n    "7RzTp0Ws"\n)', 'password = (\n    "#"\n    "#"\n)'),
        ('$password = "k8Qvx2Lm" .\n  "zz91Lq0p";', '$password = "#" .\n  "#";'),
        ('password = "ab12Cd34" + "ef56Gh78"', 'password = "#" + "#"'),
        ('password: "x8Lm2vQz9"\n"other": 7Rz\n', 'password: "#"\n"other": 7Rz\n'),
        ('"password": "x8Lm2vQz9",\n"other"', '"password": "#",\n"other"'),
    ],
)
def test_string_literals_that_are_joined_are_masked_and_keys_below_are_not(text: str, left: str) -> None:
    assert re.sub(r"\[MASKED:\w+:\w+\]", "#", mask(text)) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a: 1\npassword: k8Qvx2Lm\n  7RzTp0Ws\nb: 2\n", "a: 1\npassword: [#]\nb: 2\n"),
        ("password: correct7 horse\n  battery9 Staple\nuser: bob\n", "password: [#]\nuser: bob\n"),
        ("db:\n  password: k8Qvx2Lm7\n  user: x\n", "db:\n  password: [#]\n  user: x\n"),
        ("password: k8Qvx2Lm7\n    at app.login(Login.java:3)\n", "password: [#]\n    at app.login(Login.java:3)\n"),
    ],
)
def test_a_plain_yaml_value_is_masked_with_the_lines_that_continue_it(text: str, left: str) -> None:
    masked = mask(text)
    assert re.sub(r"\[MASKED:\w+:\w+\]", "[#]", masked) == left
    assert mask(masked) == masked
    if "java" not in text:
        assert yaml.safe_load(masked)


@pytest.mark.parametrize(
    "text",
    [
        "FAILED tests/test_token.py::test_refresh_token_expires - assert 3 == 4",
        "src/secrets.go:12: undefined: loadAll2Things",
        "anna:*:19000:0:99999:7:::",
    ],
)
def test_places_in_files_and_lines_of_shadow_files_stay(text: str) -> None:
    assert mask(text) == text


@pytest.mark.parametrize(
    "text",
    [
        'final String DB_PASSWORD =\n    "uQ8vLm2xRz7Tp0";',
        "net use Z: \\\\nas\\share /user:anna uQ8vLm2xRz7Tp0",
        "lftp -u anna,uQ8vLm2xRz7Tp0 ftp.example.org",
        "User=anna\nPassw=uQ8vLm2xRz7Tp0",
    ],
)
def test_a_string_below_its_declaration_and_a_password_after_options_are_masked(text: str) -> None:
    assert "uQ8v" not in mask(text)


def test_a_passphrase_in_a_flow_collection_ends_with_it() -> None:
    text = "{a: {b: 'x\n\n    y', ssh_passphrase: rPmVFKQMRtT9RbsVoF_17a}, key: 'plain', status: 7}\n"
    masked = mask(text)
    assert "rPmV" not in masked and yaml.safe_load(masked)["status"] == 7


def test_a_quoted_value_is_masked_over_a_blank_line() -> None:
    text = "passphrase: 'Velvet%orbit4119\n\n    Copper%juniper8563'\nuser: bob\n"
    masked = mask(text)
    assert "Copper" not in masked and yaml.safe_load(masked)["user"] == "bob"
    assert mask(masked) == masked
    prose = "password 'x8Lm2vQz9 is wrong\n\nIt's not\n"
    assert mask(prose).endswith("\n\nIt's not\n")


UNNAMED = [
    # Outputs of commands.
    ("$ wg genkey | tee wg0.key\n«qJ8vR2mZ5xW9bK4nT7cY1dF6gH3sL0pA+eUiOoNbVc=»\n", "credential"),
    ("$ openssl rand -hex 16\n«5f1d7a84db00d2fce00b31a7fc73224f»\n", "credential"),
    ("    Security key           : Present\n    Key Content            : «forelle-blau»\n", "credential"),
    ("334 VXNlcm5hbWU6\nYm9i\nauth\n334 UGFzc3dvcmQ6\n«c2VjcmV0LXdvcmQ=»\n235 ok", "credential"),
    ("impdp system/«Tiger9Kq» directory=DUMP dumpfile=x.dmp", "command_password"),
    ("influx ping -t «qJ8vR2mZ5xW9bK4nT7cY1dF6gH3sL0pAqJ8vR2mZ5xW9»", "command_password"),
    # Settings.
    ('{"encrypt": "«qJ8vR2mZ5xW9bK4nT7cY1dF6gH3sL0pA+eUiOoNbVcQ=»"}', "credential"),
    ('{"acl": {"tokens": {"agent": "«0f3c9a52-77b1-4c5e-9d1a-2b6f8e4a7c10»"}}}', "token"),
    ('{"wifi": {"ssid": "Barn", "key": "«Trout_Lake»"}}', "password"),
    ("config wifi-iface\n\toption ssid 'Barn'\n\toption key '«river.Bend.blue»'", "credential"),
    ("wpa_passphrase=«seven grey herons 4»\nhw_mode=g", "passphrase"),
    ("db.password=«Birch\\:Bark77»\ndb.user=x", "password"),
    ("ansible_ssh_pass: «pebble.Shore4»", "password"),
    ('<module-option name="bindCredential" value="«harbour-mist5»"/>', "password"),
    ('<string name="pin_code">«7391»</string>', "otp"),
    ("\\set pw '«thistledown7»'", "password"),
    ("{<<\"$write_key\">>,<<\"«5f1d7a84db00d2fce00b31a7fc73224f5f1d7a84db00d2fce00b31a7fc73224f»\">>}.", "key"),
    # Password files, sessions and links.
    ("bob:Private Area:«5f1d7a84db00d2fce00b31a7fc73224f»", "password_hash"),
    ("root:«$6$vgKx+m14$" + "DiFUxpS0jufxUlGgaQJFzmms7G3SO+0i" * 2 + "hwSoMxQOx6DncoSMQ0pd3d»:19771:0:99999:7::", None),
    ('a1 LOGIN bob@mail.example.org "«warm Nest 2»"', "credential"),
    ("#0 /srv/Db.php(22): PDO->__construct('mysql:host=db', 'trails', '«birch803Bark»')", None),
    ("SELECT pgp_sym_decrypt(ssn, '«kayak-Through-fog»') FROM people", "credential"),
    ('dsn="trails:«cedar/Plank4»@tcp(10.7.0.8:3306)/trails"', None),
    ("https://cal.example.org/ical/bob/private-«5f1d7a84db00d2fce00b31a7fc73224f»/basic.ics", "token"),
    ("slmgr /ipk «WCHPC-76CBD-R16VB-UX60O-I9K6W»", "product_key"),
    ("PAYLOAD user%5Bp%61ss%77ord%5D=«tamarack22»&x=1", None),
    # Codes and sentences.
    ("Your recovery codes (store them safely)\n«8371a-960bd»\n03aa7-31717\n", "otp"),
    ("Write down the seed phrase:\n«ribbon lunar gossip tackle orphan velvet canoe siren museum pledge oxygen drift»",
     "mnemonic"),
    ("Ihr Bestätigungscode lautet: «481 903»", "otp"),
    ("Die PIN am Gerät ist «2846».", "pin"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind"), UNNAMED)
def test_what_only_its_place_tells_is_masked(text: str, kind: str | None) -> None:
    before, _, rest = text.partition("«")
    secret, _, after = rest.partition("»")
    masked = mask(before + secret + after)
    assert secret not in masked and masked.startswith(before[:6]), masked
    if kind is not None:
        assert masked.startswith(f"{before}[MASKED:{kind}:"), masked
    assert mask(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "password: !vault_ref kv/data/payments#password",
        "vault kv put kv/app password=@pw.txt",
        '{"usage": {"tokens": {"input": 4096, "output": 12}}}',
        '{"tokens": {"color-primary": "#ff8800", "spacing": "8px"}}',
        "Recovery codes are shown once.\nKeep them in a safe place.\n",
        "build:md5:5f1d7a84db00d2fce00b31a7fc73224f",
        "The verification code is sent by mail.",
        "openssl rand --help\nUsage: rand [options] num\n",
        "pwgen is not installed\ncommand-not-found\n",
        'Failed login bob "wrong page shown"',
        "Key content: see below",
        "SELECT aes_encrypt(col, 'utf8')",
        "confirmation code: 200 returned",
        "libfoo:amd64:5f1d7a84db00d2fce00b31a7fc73224f",
        '{"tokens": {"id": "0f3c9a52-77b1-4c5e-9d1a-2b6f8e4a7c10", "prompt": 12}}',
    ],
)
def test_references_counts_and_headings_stay(text: str) -> None:
    assert mask(text) == text
