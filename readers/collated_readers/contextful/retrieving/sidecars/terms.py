"""What a query's token is in a full-text sidecar: the terms its tokenizer makes of it (layout §6). Pure."""

from __future__ import annotations

import re

from collated_readers.contextful.retrieving.matching import takes_plural
from collated_readers.contextful.retrieving.tokens import runs_of

__all__ = ["TOKENIZERS", "forms_of", "terms_of"]

TOKENIZERS = ("unicode", "cjk")

# Han, Kana and Hangul, as the tokenizer `cjk` has them.
_IDEOGRAPHS = (
    "\u1100-\u11ff\u3040-\u309f\u30a0-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af"
)
_STRETCHES = re.compile(f"[{_IDEOGRAPHS}]+|[^{_IDEOGRAPHS}]+")
_IDEOGRAPH = re.compile(f"[{_IDEOGRAPHS}]")


def terms_of(text: str, tokenizer: str) -> list[str]:
    """Return the terms of *text* (lower case) in order, as `unicode` or `cjk` has them."""
    runs = runs_of(text)
    return runs if tokenizer != "cjk" else [term for run in runs for term in _pairs(run)]


def forms_of(token: str, tokenizer: str) -> list[list[str]]:
    """Return the terms that a token stands for, one after another, each in all its forms."""
    terms = terms_of(token, tokenizer)
    if len(terms) == 1 and takes_plural(terms[0]):
        return [[terms[0], terms[0] + "s", terms[0] + "es"]]
    return [[term] for term in terms]


def _pairs(run: str) -> list[str]:
    terms: list[str] = []
    for stretch in _STRETCHES.findall(run):
        if _IDEOGRAPH.match(stretch) and len(stretch) > 1:
            terms += [stretch[place : place + 2] for place in range(len(stretch) - 1)]
        else:
            terms.append(stretch)
    return terms
