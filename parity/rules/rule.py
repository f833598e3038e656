"""What is known of one rule."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of finding, explained; all but the summary may hold Markdown.

    Attributes:
        summary: What it says, in one sentence.
        meaning: What is so when it is found.
        detection: By which evidence it is found.
        mending: What to do.
        example: A case, with what a report says of it.
    """

    summary: str
    meaning: str
    detection: str
    mending: str
    example: str
