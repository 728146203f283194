"""Levels of a log over time."""

from datetime import UTC, datetime

from tersely.results.histogram import line_level, log_histogram


def test_levels_are_counted_over_time_and_lines_without_a_time_belong_to_the_line_before() -> None:
    text = "".join(f"2026-11-16T08:{n:02d}:00+01:00 {'WARN slow' if n > 50 else 'INFO ok'}\n" for n in range(60))
    text += "2026-11-16T09:00:00+01:00 ERROR pool exhausted\n  at Pool.take(Pool.java:3)\n"
    buckets, first_error = log_histogram(text)
    assert first_error == 61
    assert buckets[0].at == datetime(2026, 11, 16, 7, tzinfo=UTC) and buckets[0].first_line == 1
    assert sum(one.warn for one in buckets) == 9 and (buckets[-1].error, buckets[-1].other) == (1, 1)


def test_without_times_buckets_are_stretches_of_lines() -> None:
    buckets, first_error = log_histogram("ok\n" * 120 + "panic: no memory\n")
    assert first_error == 121 and len(buckets) == 60 and {one.at for one in buckets} == {None}


def test_the_first_level_word_counts() -> None:
    assert line_level("INFO no error was found") == "other"
    assert line_level("WARNING error rate rises") == "warn"
    assert line_level("java.lang.IllegalStateException: x") == "other"
