"""Any function: `wrap` condenses what it returns."""

from shop import LOG, QUESTION

from tersely.integrations import ResultCondenser, wrap

condenser = ResultCondenser(budget=300)


def search(question: str) -> str:
    return LOG


if __name__ == "__main__":
    print(wrap(search, condenser=condenser)(QUESTION))
