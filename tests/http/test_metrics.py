"""Prometheus' text format, and the gateway's metrics as dashboards and alerts know them."""

from datetime import date
from textwrap import dedent

from tersely.http.metrics import MetricSample, format_metric
from tersely.servers.gateway.counting import format_gateway_metrics
from tersely.store.tally import Tally

GATEWAY_SERIES = r"""
tersely_tool_calls_total{server="one",tool="echo"} 2
tersely_tool_calls_total{server="t\"wo\\",tool="a\nb"} 1
tersely_tool_errors_total{server="one",tool="echo"} 1
tersely_tool_errors_total{server="t\"wo\\",tool="a\nb"} 0
tersely_results_condensed_total{server="one",tool="echo"} 1
tersely_results_condensed_total{server="t\"wo\\",tool="a\nb"} 0
tersely_summaries_cached_total{server="one",tool="echo"} 1
tersely_summaries_cached_total{server="t\"wo\\",tool="a\nb"} 0
tersely_read_backs_total{server="one",tool="echo"} 1
tersely_read_backs_total{server="t\"wo\\",tool="a\nb"} 0
tersely_tokens_in_total{server="one",tool="echo"} 15
tersely_tokens_in_total{server="t\"wo\\",tool="a\nb"} 1
tersely_tokens_out_total{server="one",tool="echo"} 9
tersely_tokens_out_total{server="t\"wo\\",tool="a\nb"} 1
tersely_tool_seconds_bucket{server="one",tool="echo",le="0.001"} 0
tersely_tool_seconds_bucket{server="one",tool="echo",le="0.002"} 0
tersely_tool_seconds_bucket{server="one",tool="echo",le="0.005"} 1
tersely_tool_seconds_bucket{server="one",tool="echo",le="0.01"} 1
tersely_tool_seconds_bucket{server="one",tool="echo",le="0.02"} 1
tersely_tool_seconds_bucket{server="one",tool="echo",le="0.05"} 1
tersely_tool_seconds_bucket{server="one",tool="echo",le="0.1"} 1
tersely_tool_seconds_bucket{server="one",tool="echo",le="0.2"} 1
tersely_tool_seconds_bucket{server="one",tool="echo",le="0.5"} 1
tersely_tool_seconds_bucket{server="one",tool="echo",le="1"} 1
tersely_tool_seconds_bucket{server="one",tool="echo",le="2"} 2
tersely_tool_seconds_bucket{server="one",tool="echo",le="5"} 2
tersely_tool_seconds_bucket{server="one",tool="echo",le="10"} 2
tersely_tool_seconds_bucket{server="one",tool="echo",le="30"} 2
tersely_tool_seconds_bucket{server="one",tool="echo",le="60"} 2
tersely_tool_seconds_bucket{server="one",tool="echo",le="300"} 2
tersely_tool_seconds_bucket{server="one",tool="echo",le="+Inf"} 2
tersely_tool_seconds_sum{server="one",tool="echo"} 1.253
tersely_tool_seconds_count{server="one",tool="echo"} 2
tersely_tool_seconds_bucket{server="t\"wo\\",tool="a\nb",le="0.001"} 0
tersely_tool_seconds_bucket{server="t\"wo\\",tool="a\nb",le="0.002"} 0
tersely_tool_seconds_bucket{server="t\"wo\\",tool="a\nb",le="0.005"} 0
tersely_tool_seconds_bucket{server="t\"wo\\",tool="a\nb",le="0.01"} 0
tersely_tool_seconds_bucket{server="t\"wo\\",tool="a\nb",le="0.02"} 0
tersely_tool_seconds_bucket{server="t\"wo\\",tool="a\nb",le="0.05"} 0
tersely_tool_seconds_bucket{server="t\"wo\\",tool="a\nb",le="0.1"} 0
tersely_tool_seconds_bucket{server="t\"wo\\",tool="a\nb",le="0.2"} 0
tersely_tool_seconds_bucket{server="t\"wo\\",tool="a\nb",le="0.5"} 0
tersely_tool_seconds_bucket{server="t\"wo\\",tool="a\nb",le="1"} 0
tersely_tool_seconds_bucket{server="t\"wo\\",tool="a\nb",le="2"} 0
tersely_tool_seconds_bucket{server="t\"wo\\",tool="a\nb",le="5"} 0
tersely_tool_seconds_bucket{server="t\"wo\\",tool="a\nb",le="10"} 0
tersely_tool_seconds_bucket{server="t\"wo\\",tool="a\nb",le="30"} 0
tersely_tool_seconds_bucket{server="t\"wo\\",tool="a\nb",le="60"} 0
tersely_tool_seconds_bucket{server="t\"wo\\",tool="a\nb",le="300"} 0
tersely_tool_seconds_bucket{server="t\"wo\\",tool="a\nb",le="+Inf"} 1
tersely_tool_seconds_sum{server="t\"wo\\",tool="a\nb"} 999.999
tersely_tool_seconds_count{server="t\"wo\\",tool="a\nb"} 1
tersely_server_up{server="one"} 1
tersely_server_up{server="t\"wo\\"} 0
""".strip().splitlines()
"""Written by release 0.1.0 for the calls below."""

GATEWAY_KINDS = [
    "tersely_tool_calls_total counter",
    "tersely_tool_errors_total counter",
    "tersely_results_condensed_total counter",
    "tersely_summaries_cached_total counter",
    "tersely_read_backs_total counter",
    "tersely_tokens_in_total counter",
    "tersely_tokens_out_total counter",
    "tersely_tool_seconds histogram",
    "tersely_server_up gauge",
]


def test_the_gateway_writes_the_same_series_as_release_0_1_0() -> None:
    monday, tuesday = date(2026, 11, 16), date(2026, 11, 17)
    echo, odd = ("gateway", "one", "echo"), ("gateway", 't"wo\\', "a\nb")
    tally = Tally()
    tally.call((monday, *echo), milliseconds=3, tokens_before=10, tokens_after=4, condensed=True)
    tally.call((tuesday, *echo), milliseconds=1250.5, tokens_before=5, tokens_after=5, is_error=True, cached=True)
    tally.call((monday, *odd), milliseconds=999_999, tokens_before=1, tokens_after=1)
    tally.read_back((monday, *echo))

    lines = format_gateway_metrics(tally, {"one": True, 't"wo\\': False}).splitlines()

    assert [line for line in lines if not line.startswith("#")] == GATEWAY_SERIES
    assert [line.removeprefix("# TYPE ") for line in lines if line.startswith("# TYPE ")] == GATEWAY_KINDS


def test_a_metric_is_written_with_its_help_its_type_and_escaped_labels() -> None:
    samples = [MetricSample({"model": 'gp"t\\\n'}, 1), MetricSample({}, 7), MetricSample({"le": "+Inf"}, 3, "_bucket")]
    assert (
        format_metric("tersely_x", "histogram", "First \\ line.\nSecond.", samples)
        == dedent(
            r"""
        # HELP tersely_x First \\ line.\nSecond.
        # TYPE tersely_x histogram
        tersely_x{model="gp\"t\\\n"} 1
        tersely_x 7
        tersely_x_bucket{le="+Inf"} 3
        """
        ).lstrip()
    )


def test_a_float_keeps_all_its_digits() -> None:
    """Six digits would hide every increment of a counter beyond a million."""
    assert format_metric("tersely_x", "counter", "X.", [MetricSample({"a": "b"}, 1_234_567.25)]).endswith(
        " 1234567.25\n"
    )


def test_a_metric_without_samples_is_still_declared() -> None:
    assert format_metric("tersely_x", "gauge", "X.", []) == "# HELP tersely_x X.\n# TYPE tersely_x gauge\n"
