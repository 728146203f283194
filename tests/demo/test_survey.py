"""The whole way without a model: servers as processes, the survey, the judge. `survey_rate` measures it on many
incidents.
"""

import pytest

from tersely.demo.incidents import draw_incident, this_minute
from tersely.demo.judge import names_cause
from tests.demo.survey_rate import surveyed

pytestmark = pytest.mark.anyio


@pytest.mark.process
async def test_a_survey_without_a_model_names_what_is_wrong_with_the_simulated_cluster() -> None:
    incident = draw_incident(3, this_minute(), cause="password-rotated")
    report, _ = await surveyed(incident)
    analysis = report.analysis
    assert names_cause(analysis, incident), analysis
    assert report.verdict is not None and incident.cause.is_named_in(report.verdict.summary), report.verdict
    assert not [secret for secret in incident.world.secrets() if secret in f"{analysis} {report.verdict}"]
    assert "restart_deployment(" not in analysis
