"""The judged questions over `data/docs`, kept in `questions.json`: references, and no document's text.

Each question was written after reading the sections that answer it, in other words than theirs, and names
the project where a user would. The answers are the sections of that store that answer it, by the ids that
contextpull gives them when it cuts the documents of this very archive. Nothing was fitted to a ranking.
"""

from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

__all__ = ["KINDS", "Kind", "Question", "Questions", "load"]

Kind = Literal["question", "keywords", "identifier"]
KINDS: tuple[Kind, ...] = ("question", "keywords", "identifier")
_FILE = Path(__file__).parent.parent / "questions.json"


class Question(Struct, frozen=True, forbid_unknown_fields=True):
    """What a user types, the store that answers it, and the ids there of which one is enough."""

    store: str
    kind: Kind
    question: str
    answers: tuple[str, ...]


class Questions(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole set; its ids hold for one archive, cut by one version of contextpull."""

    contextpull: str
    documents_sha256: str
    questions: tuple[Question, ...]


def load(path: Path = _FILE) -> Questions:
    """Return the set.

    Raises:
        msgspec.ValidationError: the file is of another shape.
    """
    return msgspec.json.decode(path.read_bytes(), type=Questions)
