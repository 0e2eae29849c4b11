"""Numbers as words, for every text of the page."""


def percent(share: float | None, digits: int = 1) -> str:
    """``0.4867`` → ``48.7 %``."""
    return "–" if share is None else f"{100 * share:.{digits}f} %"


def short(number: float) -> str:
    """``-0.25`` → ``−0.25``, three digits."""
    return f"{number:.3g}".replace("-", "−")
