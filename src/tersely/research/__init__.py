"""Research: search and read pages for each topic, condense them on arrival, extract facts with their sources."""
