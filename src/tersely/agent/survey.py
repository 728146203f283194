"""x"""

from tersely.agent.assignment import Report
from tersely.agent.calls import Caller
from tersely.tools.execute import Step


async def survey(caller: Caller, *, step: Step) -> Report:
    raise NotImplementedError
