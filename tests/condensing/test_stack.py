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


_LIBC = (
    "    #{at} 0x7f934a245249 in __libc_start_call_main ../sysdeps/nptl/libc_start_call_main.h:58\n"
    "    #{next} 0x56306c639140 in _start (/bakery/oven+0x1140)\n"
)
SANITIZER = (
    "==19799==ERROR: AddressSanitizer: heap-use-after-free on address 0x604000000068 at pc 0x56306c6393ee\n"
    "READ of size 4 at 0x604000000068 thread T0\n"
    "    #0 0x56306c6393ed in tray_weight /bakery/tray.c:5\n"
    "    #1 0x56306c6396f5 in main /bakery/main.c:8\n" + _LIBC.format(at=2, next=3) + "\n"
    "0x604000000068 is located 24 bytes inside of 48-byte region [0x604000000050,0x604000000080)\n"
    "freed by thread T0 here:\n"
    "    #0 0x7f934a4b76a8 in __interceptor_free ../../../../src/libsanitizer/asan/asan_malloc_linux.cpp:52\n"
    "    #1 0x56306c6393ab in tray_drop /bakery/tray.c:4\n" + _LIBC.format(at=2, next=3) + "\n"
    "SUMMARY: AddressSanitizer: heap-use-after-free /bakery/tray.c:5 in tray_weight\n"
    "Shadow bytes around the buggy address:\n"
    + "".join(f"  0x0c087fff{at:x}: {'fa ' * 8}{'00 ' * 8}\n" for at in range(0x7F00, 0x7FB0, 16))
    + "Shadow byte legend (one shadow byte represents 8 application bytes):\n"
    + "".join(
        f"  {name} redzone:    {at:x}\n" for at, name in enumerate(("Heap", "Stack", "Global", "Alloca") * 5, 0xF1)
    )
)
THREADS = 'Thread 1 "oven" received signal SIGSEGV, Segmentation fault.\n' + "".join(
    f'Thread {at} (Thread 0x7ffff{at:03x}6c0 (LWP {19000 + at}) "oven"):\n'
    f"#0  0x00007ffff7ea3545 in __GI___clock_nanosleep (clock_id=0, flags=0) at ../sysdeps/unix/clock_nanosleep.c:48\n"
    f"#1  0x00007ffff7ed3295 in usleep (useconds=<optimized out>) at ../sysdeps/posix/usleep.c:31\n"
    f"#2  0x000055555555529e in {'knead' if at == 7 else 'rest'} (dough=0x5555555580e0) at dough.c:{at}\n"
    f"#3  0x00007ffff7e5d1f5 in start_thread (arg=<optimized out>) at ./nptl/pthread_create.c:442\n"
    f"#4  0x00007ffff7edd8ec in clone3 () at ../sysdeps/unix/sysv/linux/x86_64/clone3.S:81\n\n"
    for at in range(13, 1, -1)
)
VALGRIND = "==7== Memcheck, a memory error detector\n" + "".join(
    f"==7== \n==7== Invalid read of size {at}\n"
    f"==7==    at 0x4847782: strlen (in /usr/libexec/valgrind/vgpreload_memcheck-amd64-linux.so)\n"
    f"==7==    by 0x10{at:04X}: label_{'abcdefgh'[at]} (label.c:{at})\n"
    f"==7==    by 0x109373: main (main.c:8)\n"
    f"==7==  Address 0x4a45330 is 0 bytes inside a block of size {at} free'd\n"
    f"==7==    at 0x484417B: free (in /usr/libexec/valgrind/vgpreload_memcheck-amd64-linux.so)\n"
    f"==7==    by 0x20{at:04X}: peel_{'abcdefgh'[at]} (peel.c:{at})\n"
    for at in range(8)
)


@pytest.mark.parametrize(
    ("text", "focus", "budget", "wanted"),
    [
        (SANITIZER, "", 500, ["in tray_weight /bakery/tray.c:5", "in tray_drop /bakery/tray.c:4", "SUMMARY: Address"]),
        (THREADS, "Which threads sleep?", 300, ["in knead (dough=0x5555555580e0) at dough.c:7"]),
        (VALGRIND, "", 600, [f"label_{each} (label.c" for each in "abcdefgh"]),
    ],
    ids=["sanitizer", "gdb", "valgrind"],
)
def test_own_frames_of_native_code_go_before_memory_and_libraries(
    text: str, focus: str, budget: int, wanted: list[str]
) -> None:
    shown = condense_structurally(text, budget, focus).text
    assert [each for each in wanted if each not in shown] == []
