"""Stack traces: the first own frame below each cause, then all frames while there is room."""

import pytest

from tersely.condensing.structural import condense_structurally

JAVA = (
    "2026-05-04 08:15:00,000 ERROR main - it broke\nbakery.OvenError: too hot\n"
    + "".join(f"\tat java.base/java.util.concurrent.Pool{at}.run(Pool.java:{at})\n" for at in range(40))
    + "\tat bakery.Oven.heat(Oven.java:99)\n"
    + "Caused by: java.lang.NullPointerException: lid is null\n"
    + "".join(f"\tat java.base/java.lang.Thread{at}.run(Thread.java:{at})\n" for at in range(40))
    + "\tat bakery.Lid.close(Lid.java:6)\n\t... 7 more\n"
)
PYTHON = (
    "2026-05-04 08:15:00,000 ERROR main - it broke\nTraceback (most recent call last):\n"
    + '  File "/bakery/main.py", line 3, in main\n    oven.heat()\n'
    + "".join(
        f'  File "/usr/lib/python3.11/site-packages/web/layer{at}.py", line {at}, in call\n    return step{at}(request)\n'
        for at in range(60)
    )
    + "  File \"/bakery/lid.py\", line 6, in close\n    self.hinge.turn()\nKeyError: 'hinge'\n"
)
GO = (
    "panic: lid is nil\n\ngoroutine 1 [running]:\nmain.closeLid(0xc0001)\n\t/bakery/lid.go:6 +0x1d\n"
    + "".join(
        f"net/http.(*conn{at}).serve(0xc00{at})\n\t/usr/local/go/src/net/http/server.go:{at} +0x2f\n"
        for at in range(50)
    )
    + "main.main()\n\t/bakery/main.go:3 +0x2a\nexit status 2\n"
)
LOG = "".join(f"2026-05-04 08:14:{at % 60:02d},000 INFO main - batch {at} is done\n" for at in range(300))


@pytest.mark.parametrize(
    ("trace", "wanted"),
    [
        (JAVA, ["Caused by: java.lang.NullPointerException: lid is null", "Lid.java:6", "Oven.java:99"]),
        (PYTHON, ['File "/bakery/lid.py", line 6, in close', "self.hinge.turn()", "KeyError: 'hinge'"]),
        (GO, ["panic: lid is nil", "main.closeLid(0xc0001)", "/bakery/lid.go:6"]),
    ],
    ids=["java", "python", "go"],
)
@pytest.mark.parametrize("focus", ["", "Why did it break?"])
def test_the_own_frames_below_each_cause_are_shown(trace: str, wanted: list[str], focus: str) -> None:
    for text in (LOG + trace + LOG, trace):
        shown = condense_structurally(text, 300, focus).text
        assert [each for each in wanted if each not in shown] == []


def test_all_frames_are_shown_while_there_is_room() -> None:
    shown = condense_structurally(LOG + PYTHON, 3_000, "Why did it break?").text

    assert all(f"layer{at}.py" in shown for at in range(60))


def test_a_recursion_is_counted_and_the_frame_that_began_it_is_shown() -> None:
    cycle = "\n".join(f"\tat lib.walk.Step{step}.visit(Step{step}.java:{step})" for step in range(4))
    text = "java.lang.StackOverflowError\n" + (cycle + "\n") * 250 + "\tat shop.cart.Total.sum(Total.java:12)\n"
    condensed = condense_structurally(text, 200, "why does it crash?")
    assert "at lib.walk.Step2.visit(Step2.java:2) ×250" in condensed.text
    assert "at shop.cart.Total.sum(Total.java:12)" in condensed.text
    assert condensed.account.lost == ()
