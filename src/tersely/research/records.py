"""The stable names of the types that research steps store, in addition to those of every session."""

from tersely.research.budget import BudgetExceeded
from tersely.research.gathering import ReadPage, Shortened
from tersely.research.tools import ResearchTools, SearchHit
from tersely.sessions.codec import StoredType

RESEARCH_TYPES = (
    StoredType("search_hit", SearchHit, ("tersely.research.instruments:Hit",)),
    StoredType("research_tools", ResearchTools, ("tersely.research.instruments:Instruments",)),
    StoredType("page_read", ReadPage, ("tersely.research.gathering:ReadPage",)),
    StoredType("page_shortened", Shortened, ("tersely.research.gathering:Shortened",)),
    StoredType("error.budget_exceeded", BudgetExceeded, ("tersely.research.purse:BudgetSpent",)),
)
