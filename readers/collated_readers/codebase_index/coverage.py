"""How far an answer from the graph can be trusted, by the languages it is about."""

from __future__ import annotations

from collections.abc import Iterable

from collated_readers.code import Coverage

__all__ = ["coverage_of", "family_of", "unmatched"]

_WHOLE = frozenset(
    {
        *("c", "cpp", "csharp", "go", "java", "javascript", "kotlin", "php", "python", "ruby"),
        *("rust", "typescript"),
    }
)
"""Languages whose imports and inheritance the program extracts; of others it parses it knows some calls."""

_FAMILIES = {"kotlin": "java", "scala": "java", "typescript": "javascript", "cpp": "c"}


def coverage_of(written_in: Iterable[tuple[str | None, str]]) -> Coverage:
    """Return the coverage of files, each with its language and how it was parsed. Pure."""
    parsed = {language for language, parser in written_in if language is not None and parser == "treesitter"}
    partial = tuple(sorted(parsed - _WHOLE))
    if not partial:
        return Coverage()
    names = ", ".join(partial)
    return Coverage(
        True, partial, f"of {names} the store knows neither imports nor inheritance, and not all calls"
    )


def unmatched(target: str) -> Coverage:
    """Return the coverage of an answer about what the store does not know. Pure."""
    return Coverage(
        True, (), f"the store knows nothing called {target!r}; look it up as a symbol, or grep for it"
    )


def family_of(language: str | None) -> str | None:
    """Return one of the languages whose programs call each other directly, for all of them. Pure."""
    return _FAMILIES.get(language or "", language)
