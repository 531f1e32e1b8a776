"""Part `tantivy`: one tantivy index holding all records, with its snippets, against the daemon."""

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from contextpull.ops import normalize_for_fts  # type: ignore[import-untyped]  # the package has no types

from .answers import LIMIT, Answer
from .bench import Bench
from .comparing import BOTH_WAYS, Compared, Way, alone, compare
from .projects import CLASSES, pairs
from .reference import tokens_of
from .report import Report, times, us

__all__ = ["run"]

# Cut into the contract's words by a regular expression, or into its own words by its own faster code.
NEAR, OWN, BARE = "tantivy", "its own words", "no snippets"
_GOAL = 3
_HEAP_BYTES = 256_000_000
_SNIPPET_CHARACTERS = 160
_SECTIONS = "SELECT id, heading_path, text FROM sections_fts"
# As near as it comes to the contract's: letters, digits, `-`, `_` and `.`, without case and accents.
_WORD = r"[\w.\-]+"
_OWN_WORD = re.compile(r"[^\W_]+")
_HEADING_WEIGHT = 2.0


def run(bench: Bench, report: Report) -> None:
    """Compare over each number of stores."""
    try:
        module = import_module("tantivy")
    except ModuleNotFoundError:
        report.section("One tantivy index", "The package `tantivy` is not installed: **not measured**.")
        report.goal(f"search: within {_GOAL}× of one tantivy index", "no tantivy", None)
        return
    for count in bench.counts:
        store, folder = bench.corpus.single(count), bench.folder(f"tantivy-{count}")
        near = _Index(module, folder / "near", store, tokens_of)
        own = _Index(module, folder / "own", store, _own_words)
        result, common = _compare(bench, count, near, own)
        _show(report, count, result, common)


class _Index:
    """All records of one store, indexed by tantivy."""

    def __init__(
        self, module: ModuleType, folder: Path, store: Path, words: Callable[[str], list[str]]
    ) -> None:
        self._module = module
        self._words = words
        self._index = _built(module, folder, store, words is tokens_of)
        self._searcher = self._index.searcher()

    def search(self, text: str) -> Sequence[tuple[str, str, str]]:
        """Return id, heading path and snippet of the best hits of any of the words."""
        query = self._query(self._words(text))
        found = self._searcher.search(query, LIMIT, count=False).hits
        if not found:
            return []
        make = self._module.SnippetGenerator.create(self._searcher, query, self._index.schema, "text")
        make.set_max_num_chars(_SNIPPET_CHARACTERS)
        documents = [self._searcher.doc(address) for _, address in found]
        return [
            (each.get_first("id"), each.get_first("heading_path"), make.snippet_from_doc(each).to_html())
            for each in documents
        ]

    def find(self, text: str) -> Sequence[str]:
        """Return the ids of the best hits, without their snippets."""
        found = self._searcher.search(self._query(self._words(text)), LIMIT, count=False).hits
        return [self._searcher.doc(address).get_first("id") for _, address in found]

    def _query(self, words: Sequence[str]) -> Any:  # Any: the package's own type, which need not be there
        query, schema = self._module.Query, self._index.schema
        either = self._module.Occur.Should
        parts = [(either, query.term_query(schema, "text", word)) for word in words]
        parts += [
            (either, query.boost_query(query.term_query(schema, "heading_path", word), _HEADING_WEIGHT))
            for word in words
        ]
        return query.boolean_query(parts)


def _own_words(text: str) -> list[str]:
    return _OWN_WORD.findall(text.lower())


def _built(module: ModuleType, folder: Path, store: Path, is_near: bool) -> Any:  # Any: as above
    schema = module.SchemaBuilder()
    schema.add_text_field("id", stored=True, tokenizer_name="raw")
    for name in ("heading_path", "text"):
        schema.add_text_field(name, stored=True, tokenizer_name="words" if is_near else "default")
    folder.mkdir(parents=True)
    index = module.Index(schema.build(), path=str(folder))
    words = module.TextAnalyzerBuilder(module.Tokenizer.regex(_WORD))
    words = words.filter(module.Filter.lowercase()).filter(module.Filter.ascii_fold())
    index.register_tokenizer("words", words.build())
    writer = index.writer(_HEAP_BYTES)
    for section, heading_path, text in _sections(store):
        writer.add_document(module.Document(id=section, heading_path=heading_path, text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def _sections(store: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the sections as the contract indexes them."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro&immutable=1", uri=True)) as db:
        for section, heading_path, text in db.execute(_SECTIONS):
            yield section, normalize_for_fts(heading_path), normalize_for_fts(text)


def _compare(bench: Bench, count: int, near: _Index, own: _Index) -> tuple[Compared, float]:
    """Return the times, and the share of tantivy's hits that `global` has too."""
    asker, result = bench.asker(count), Compared()
    common = total = 0
    for kind, text in pairs(bench.asked(count)):
        ours: list[Answer] = []
        ways = {
            NEAR: _steady(partial(near.search, text)),
            OWN: _steady(partial(own.search, text)),
            BARE: _steady(partial(near.find, text)),
        }
        for name, ask in BOTH_WAYS.items():
            turn = partial(ask, asker, text, ranking="global")
            ours = turn()[1]
            ways[name] = Way(turn, ours)
        compare(result, kind, ways, max(5, bench.rounds(count)))
        theirs = set(near.find(text))
        total += len(theirs)
        common += len(theirs & {f"{hit.store}/{hit.id}" for hit in ours[0]})
    return result, common / total if total else 0.0


def _steady(ask: Callable[[], object]) -> Way:
    """Return a contender that must always answer as the first time."""
    return Way(alone(ask), [ask()])


def _show(report: Report, count: int, result: Compared, common: float) -> None:
    report.compared(result.answers, result.differing)
    report.section(
        f"Search over {count:,} stores against one tantivy index of all their records",
        "tantivy answers in the bench's own process: any of the words, headings weighing twice, its snippets "
        f'for the best {LIMIT}. The daemon answers `ranking = "global"`, all three tiers. '
        f"{common:.0%} of tantivy's hits are among ours. It cuts text into the contract's words by a regular "
        "expression, also for its snippets; in the second column into its own words, which is faster and "
        "finds no `tx-4419` as one word. In bold our multiple of its time.",
    )
    report.table(
        (
            "query",
            *(f"{each}, µs" for each in (NEAR, OWN, BARE, *BOTH_WAYS)),
            *(f"**{way}**" for way in BOTH_WAYS),
            *(f"**{way}, {OWN}**" for way in BOTH_WAYS),
        ),
        [
            (
                kind or "**all**",
                *(us(result.median_s(each, kind)) for each in (NEAR, OWN, BARE, *BOTH_WAYS)),
                *(f"{times(result.ratio(NEAR, kind, to=way))}×" for way in BOTH_WAYS),
                *(f"{times(result.ratio(OWN, kind, to=way))}×" for way in BOTH_WAYS),
            )
            for kind in (*CLASSES, None)
        ],
    )
    for way in BOTH_WAYS:
        ratio = result.ratio(NEAR, to=way)
        name = f"search over {count:,} stores, {way}: at most {_GOAL}× tantivy's time at the median over all"
        report.goal(name, f"{times(ratio)}×", ratio <= _GOAL)
