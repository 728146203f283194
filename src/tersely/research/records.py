"""The stable names of what steps of research store, beside those of every session."""

from tersely.research.budget import BudgetExceeded
from tersely.research.gathering import ReadPage, Shortened
from tersely.research.instruments import ResearchTools, SearchHit
from tersely.sessions.codec import StoredType

RESEARCH_TYPES = (
    StoredType("search_hit", SearchHit, ("tersely.research.instruments:Hit",)),
    StoredType("research_tools", ResearchTools, ("tersely.research.instruments:Instruments",)),
    StoredType("page_read", ReadPage, ("tersely.research.gathering:ReadPage",)),
    StoredType("page_shortened", Shortened, ("tersely.research.gathering:Shortened",)),
    StoredType("error.budget_exceeded", BudgetExceeded, ("tersely.research.purse:BudgetSpent",)),
)
