"""What a person is shown of each result, and that all of it is harmless."""

import functools
import unicodedata
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from collated import protocol
from collated.cli import overview, render
from collated.cli.advice import ADVICE, advice
from collated.cli.line import Line, plain
from collated.errors import RequestFailed
from collated.protocol import Answered, Changes, Failure
from collated_readers import STORE_CODES

NASTY = "\x1b[2Jx\u202ey\x9b\x07"


def text(lines: Iterable[Line]) -> list[str]:
    return [plain(line) for line in lines]


def hit(**changed: Any) -> protocol.Hit:
    fields: dict[str, Any] = {
        "store": "docs",
        "id": "guide.md#3",
        "ref": "docs:guide.md#3",
        "format": "contextpull",
        "doc": "guide.md",
        "heading_path": "Guide > Refunds",
        "snippet": "the **refund** window",
        "score": 2.5,
        "kind": "prose",
        "tier": "phrase",
    }
    return protocol.Hit(**{**fields, **changed})


def record(number: int, body: str = "text", **changed: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "store": "docs",
        "id": f"guide.md#{number}",
        "ref": f"docs:guide.md#{number}",
        "format": "contextpull",
        "doc": "guide.md",
        "heading_path": f"Guide > Part {number}",
        "kind": "prose",
        "text": body,
        "prev_id": f"guide.md#{number - 1}",
        "next_id": f"guide.md#{number + 1}",
    }
    return {**fields, **changed}


def store(**changed: Any) -> protocol.StoreStatus:
    fields: dict[str, Any] = {
        "name": "docs",
        "path": "/p/docs.sqlite",
        "root": None,
        "format": "contextpull",
        "schema_version": "1.0",
        "state": "open",
        "reason": None,
        "fingerprint": "f",
        "documents": 2,
        "records": 9,
        "bytes": 1,
        "capabilities": [],
    }
    return protocol.StoreStatus(**{**fields, **changed})


def cache_result(name: str = "docs", **changed: Any) -> protocol.CacheResult:
    too_large = protocol.Reason("too_large", "it is too large")
    entries = [
        protocol.CacheEntry(name, "f", 9, 2_048, "ready", None),
        protocol.CacheEntry("large", "g", 9_000, 0, "refused", too_large),
        protocol.CacheEntry("new", "h", 1, 0, "waiting", None),
    ]
    fields: dict[str, Any] = {
        "directory": "/c/sidecars",
        "bytes": 2_048,
        "limit_bytes": 1 << 20,
        "freed_bytes": 0,
        "error": None,
        "entries": entries,
    }
    return protocol.CacheResult(**{**fields, **changed})


def status(**changed: Any) -> protocol.StatusResult:
    fields: dict[str, Any] = {
        "version": "1.2.3",
        "pid": 7,
        "uptime_s": 3_725.0,
        "socket": "/run/s",
        "config": None,
        "config_error": None,
        "stores": {"open": 2, "busy": 1},
        "cache": {"answers_bytes": 2_097_152, "hits": 3},
        "memory": {"rss_bytes": 512},
        "watch": {"directories": 4, "error": None},
        "connections": 1,
        "in_flight": 0,
        "sidecars": {"ready": 2, "bytes": 1_024, "worker": None, "error": None},
    }
    return protocol.StatusResult(**{**fields, **changed})


def search_result(*hits: protocol.Hit) -> protocol.SearchResult:
    return protocol.SearchResult(list(hits), "lexical", None, True, Answered(1, 1))


def test_a_hit_shows_its_ref_heading_tier_score_and_snippet() -> None:
    assert text(render.search(search_result(hit(), hit(tier="any", score=0.0)))) == [
        "docs:guide.md#3  Guide > Refunds  phrase 2.50",
        "    the **refund** window",
        "docs:guide.md#3  Guide > Refunds  any 0.00",
        "    the **refund** window",
    ]


def matches(*lines: str) -> protocol.GrepResult:
    found = [protocol.Match("docs", "a.md#0", "docs:a.md#0", "a.md", "A", line) for line in lines]
    return protocol.GrepResult(found, False, True, Answered(1, 1))


@pytest.mark.parametrize(
    ("line", "pattern", "shown"),
    [
        ("  Code GW-10 and gw-10  ", "gw-10", "    Code GW-10 and gw-10"),
        ("a.c", ".", "    a.c"),
        ("a.c", None, "    a.c"),  # a regular expression: where it matched is not known here
        ("İstanbul", "istanbul", "    İstanbul"),  # its lower case has another length
        ("x", "y", "    x"),
    ],
)
def test_a_match_shows_its_line_with_the_text_that_was_asked_for(
    line: str, pattern: str | None, shown: str
) -> None:
    assert text(render.grep(matches(line), pattern)) == ["docs:a.md#0  A", shown]


def test_a_match_of_a_file_shows_the_lines_number() -> None:
    found = matches("x = 1")
    found.matches[0].line_number = 56
    assert text(render.grep(found, "x"))[0] == "docs:a.md:56  A"


def test_what_grep_found_is_marked_for_a_terminal_and_left_alone_elsewhere() -> None:
    shown = list(render.grep(matches("Code GW-10 and gw-10"), "gw-10"))[1]
    assert [span.text for span in shown.spans if span.meaning == "found"] == ["GW-10", "gw-10"]


def test_a_record_shows_its_text_word_for_word_and_what_lies_around_it() -> None:
    result = protocol.ReadResult(**record(3, "## Part\n\n\tcode\n", next_id=None), context=[])
    assert text(render.read(result)) == [
        "docs:guide.md#3  Guide > Part 3  prose",
        "## Part",
        "",
        "\tcode",
        "",
        "",
        "before: docs:guide.md#2",
    ]


@pytest.mark.parametrize(("first", "last"), [(1, 5), (2, 3), (3, 4), (3, 3)])
def test_a_records_context_is_shown_in_document_order(first: int, last: int) -> None:
    around = [protocol.ContextRecord(**record(number)) for number in range(first, last + 1) if number != 3]
    shown = text(render.read(protocol.ReadResult(**record(3), context=around)))
    headers = [row for row in shown if row.startswith("docs:")]
    assert headers == [
        f"docs:guide.md#{n}  Guide > Part {n}  {'prose' if n == 3 else 'context'}"
        for n in range(first, last + 1)
    ]


def test_neighbours_begin_with_the_head_of_their_table() -> None:
    result = protocol.NeighboursResult([protocol.Record(**record(3))], protocol.Record(**record(1)))
    headers = [row for row in text(render.neighbours(result)) if row.startswith("docs:")]
    assert headers == [
        "docs:guide.md#1  Guide > Part 1  head of the table",
        "docs:guide.md#3  Guide > Part 3  prose",
    ]


def test_stores_are_a_table_that_says_what_to_do_about_those_that_are_not_open() -> None:
    reason = protocol.Reason("unsupported_version", "it has schema 2.0; supported is 1.x")
    old = store(
        name="old-docs", state="refused", reason=reason, documents=None, records=None, schema_version="2.0"
    )
    unknown = store(name="x", state="refused", format=None, schema_version=None, documents=None, records=None)
    assert text(overview.stores(protocol.StoresResult([store(), old, unknown]))) == [
        "docs      open     contextpull 1.0  2 documents, 9 records  /p/docs.sqlite",
        "old-docs  refused  contextpull 2.0                          /p/docs.sqlite",
        "    it has schema 2.0; supported is 1.x (unsupported_version); " + ADVICE["unsupported_version"],
        "x         refused  ?                                        /p/docs.sqlite",
    ]
    assert text(overview.stores(protocol.StoresResult([]))) == []


def test_a_store_that_needs_attention_says_so_and_all_is_told_of_one_that_is_named() -> None:
    details = {"built_at": "2026-11-30", "languages": ["c", "python"], "files_changed": 3}
    result = protocol.StoresResult([store(), store(format="codes", details=details)])
    changed = "    3 files changed since it was indexed; index the project again with codes"
    row = "docs  open  contextpull 1.0  2 documents, 9 records  /p/docs.sqlite"
    other = "docs  open  codes 1.0        2 documents, 9 records  /p/docs.sqlite"

    assert text(overview.stores(result)) == [row, other, changed]
    assert text(overview.stores(result, in_full=True)) == [
        row,
        other,
        "    built 2026-11-30, languages c, python",
        changed,
    ]


def test_status_is_told_in_words() -> None:
    shown = "\n".join(text(overview.status(status(config_error="search.deadline_s is 0"))))
    assert "collated 1.2.3, process 7, up 1 h 2 min" in shown
    assert "open 2, busy 1" in shown
    assert "answers 2.0 MiB, hits 3" in shown
    assert "rss 512 B" in shown
    assert "sidecars       ready 2, bytes 1.0 KiB" in shown
    assert "error" not in shown
    assert "refused, the old one stays: search.deadline_s is 0" in shown


def test_the_cache_is_a_table_that_says_why_a_store_has_no_sidecar() -> None:
    assert text(overview.cache(cache_result())) == [
        "directory  /c/sidecars",
        "sidecars   2.0 KiB of 1.0 MiB",
        "docs   ready    9 records     2.0 KiB",
        "large  refused  9000 records",
        "    it is too large (too_large)",
        "new    waiting  1 records",
    ]


def test_the_cache_says_that_it_is_turned_off_or_what_is_wrong() -> None:
    shown = text(overview.cache(cache_result(limit_bytes=0, entries=[])))
    assert shown == ["directory  /c/sidecars", "sidecars   turned off"]
    shown = text(overview.cache(cache_result(error="no room on the disk", entries=[])))
    assert shown[-1] == "no room on the disk"


def test_what_was_cleared_says_what_comes_next() -> None:
    shown = text(overview.cleared(cache_result(freed_bytes=2_048)))
    assert shown == ["removed 2.0 KiB of sidecars; they are made anew"]
    assert "turned off" in text(overview.cleared(cache_result(limit_bytes=0)))[0]


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1_023, "1023 B"), (1_024, "1.0 KiB"), (1 << 20, "1.0 MiB"), (1 << 40, "1024.0 GiB")],
)
def test_bytes_are_counted_for_people(count: int, shown: str) -> None:
    assert overview.size(count) == shown


def test_changes_name_every_store() -> None:
    changes = Changes(["new"], ["rewritten"], ["old"])
    assert text(render.changes(changes)) == ["added   new", "changed rewritten", "removed old"]
    assert text(render.reload(protocol.ReloadResult(["search.deadline_s"], Changes([], [], [])))) == [
        "setting search.deadline_s"
    ]


def test_every_store_that_failed_is_named_with_what_to_do() -> None:
    answered = Answered(2, 1, 0, [Failure("old", "locked", "another program holds it")])
    assert text(render.failures(answered)) == [
        f"old did not answer: another program holds it (locked); {ADVICE['locked']}"
    ]


def test_an_error_says_what_to_try_instead_and_when() -> None:
    failed = RequestFailed("unknown_store", "there is no store 'doc'", "did you mean docs?", 200)
    assert text(render.error(failed)) == [
        "there is no store 'doc'",
        "did you mean docs?",
        "try again in 200 ms",
    ]
    assert text(render.error(RequestFailed("internal", "a fault"))) == ["a fault"]


def test_there_is_advice_for_every_code_of_a_store_and_for_codes_to_come() -> None:
    assert ADVICE.keys() == STORE_CODES.keys()
    assert "collate doctor" in advice("from_the_future")
    assert "embed the query" in advice("query_model_mismatch")
    assert "embed the query" in advice("invalid_query_vector")


# --------------------------------------------------------------------------- hostile stores


def in_full(each: protocol.StoreStatus) -> Iterable[Line]:
    return overview.stores(protocol.StoresResult([each]), in_full=True)


RESULTS: list[tuple[Any, Any]] = [
    (render.search, search_result(hit(id=NASTY, heading_path=NASTY, snippet=f"**{NASTY}**", store=NASTY))),
    (functools.partial(render.grep, pattern=NASTY), matches(NASTY)),
    (
        render.read,
        protocol.ReadResult(**record(3, NASTY, heading_path=NASTY, kind=NASTY, prev_id=NASTY), context=[]),
    ),
    (render.neighbours, protocol.NeighboursResult([protocol.Record(**record(3, NASTY, id=NASTY))], None)),
    (render.index, protocol.IndexResult(f"{NASTY}\n{NASTY}")),
    (render.changes, Changes([NASTY], [NASTY], [NASTY])),
    (render.reload, protocol.ReloadResult([NASTY], Changes([NASTY], [], []))),
    (render.failures, Answered(1, 0, 0, [Failure(NASTY, NASTY, NASTY)])),
    (render.error, RequestFailed("internal", NASTY, NASTY)),
    (overview.store, store(name=NASTY, path=NASTY, schema_version=NASTY, state=NASTY, format=NASTY)),
    (overview.store, store(state="refused", reason=protocol.Reason(NASTY, NASTY))),
    (overview.store, store(details={"validation": NASTY, "message": NASTY})),
    (in_full, store(details={"model": NASTY, NASTY: NASTY, "warnings": [{"code": NASTY, "message": NASTY}]})),
    (overview.cache, cache_result(directory=NASTY, error=NASTY)),
    (overview.cache, cache_result(NASTY)),
    (overview.status, status(socket=NASTY, config=NASTY, config_error=NASTY, watch={"error": NASTY})),
]


@pytest.mark.parametrize(("shown", "result"), RESULTS)
def test_nothing_of_a_stores_text_reaches_a_terminal_as_it_is(shown: Any, result: Any) -> None:
    written = "".join(text(shown(result)))
    assert written
    assert "\\x1b[2Jx\\u202ey\\x9b\\x07" in written
    assert all(unicodedata.category(c) not in ("Cc", "Cf") for c in written)


def test_a_result_as_json_is_what_the_wire_has() -> None:
    result = search_result(hit())
    decoded = msgspec.json.decode(msgspec.json.encode(result))
    assert "line_start" not in decoded["hits"][0]
    assert list(decoded) == ["hits", "mode", "hint", "complete", "stores"]
