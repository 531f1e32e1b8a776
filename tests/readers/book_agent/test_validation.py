"""Every fault of a passage is found, with its code, and its record is named (L5–L11, E8–E14)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers import StoreError
from collated_readers.book_agent import PrebuiltVectorStoreAdapter
from collated_readers.book_agent.lossless import Reconstruction, Source
from collated_readers.book_agent.passages import Passage

pytestmark = pytest.mark.slow

Write = Callable[..., Path]
Adapt = Callable[..., PrebuiltVectorStoreAdapter]
Refusal = Callable[..., tuple[str, str]]
Rows = list[tuple[object, object, Sequence[float], object]]

BROKEN = {
    "UPDATE chunks SET text = 'Another text of same length but other' WHERE ordinal = 2": "checksum_mismatch",
    "UPDATE chunks SET text_sha256 = NULL WHERE ordinal = 2": "checksum_mismatch",
    "UPDATE chunks SET text_sha256 = substr(text_sha256, 2) WHERE ordinal = 2": "checksum_mismatch",
    "UPDATE chunks SET char_end = char_end + 1 WHERE ordinal = 2": "offset_length_mismatch",
    "UPDATE chunks SET char_start = char_start || '' WHERE ordinal = 2": None,  # the column makes it a number
    "UPDATE chunks SET char_start = 'x' WHERE ordinal = 2": "offset_length_mismatch",
    "UPDATE chunks SET char_start = NULL WHERE ordinal = 2": "offset_length_mismatch",
    "UPDATE chunks SET char_start = char_start + 1, char_end = char_end + 1 WHERE ordinal = 2": "offset_gap",
    "UPDATE chunks SET char_start = char_start - 1, char_end = char_end - 1 WHERE ordinal = 2": (
        "reconstruction_mismatch"
    ),
    "UPDATE chunks SET char_start = -99, char_end = char_end - char_start - 99 WHERE ordinal = 2": (
        "reconstruction_mismatch"
    ),
    "UPDATE chunks SET text = NULL WHERE ordinal = 2": "invalid_record_text",
    "UPDATE chunks SET text = CAST(text AS BLOB) WHERE ordinal = 2": "invalid_record_text",
    "UPDATE chunks SET text = CAST(x'ff' AS TEXT) WHERE ordinal = 2": "invalid_text_encoding",
    "UPDATE chunks SET text = CAST(x'eda080' AS TEXT) WHERE ordinal = 2": "invalid_text_encoding",
    "UPDATE chunks SET text_sha256 = CAST(x'ff' AS TEXT) WHERE ordinal = 2": "invalid_text_encoding",
    "UPDATE chunks SET embedding = NULL WHERE ordinal = 2": "invalid_vector",
    "UPDATE chunks SET embedding = zeroblob(4096) WHERE ordinal = 2": "invalid_vector",
    "UPDATE chunks SET embedding = zeroblob(8192) WHERE ordinal = 2": "invalid_vector",
    "UPDATE chunks SET embedding = x'0000c07f' || substr(embedding, 5) WHERE ordinal = 2": "invalid_vector",
    "UPDATE chunks SET embedding = CAST(x'0000807f' || substr(embedding, 5) AS BLOB) WHERE ordinal = 2": (
        "invalid_vector"
    ),
    "UPDATE chunks SET embedding = CAST(x'0000803f' || substr(embedding, 5) AS BLOB) WHERE ordinal = 2": (
        "normalization_mismatch"
    ),
    "UPDATE chunks SET embedding = 1.5 WHERE ordinal = 2": "invalid_vector",
}


@pytest.mark.parametrize(("sql", "code"), BROKEN.items())
def test_a_broken_chunk_is_found_and_named(
    tmp_path: Path, write_bge: Write, adapt: Adapt, sql: str, code: str | None
) -> None:
    adapter = adapt(write_bge(tmp_path / "store.sqlite", sql))
    if code is None:
        adapter.validate()
        return
    with pytest.raises(StoreError) as caught:
        adapter.validate()
    assert caught.value.code == code
    assert "record 2" in caught.value.message


def test_a_hash_may_be_in_capitals(tmp_path: Path, write_bge: Write, adapt: Adapt) -> None:
    path = write_bge(tmp_path / "store.sqlite", "UPDATE chunks SET text_sha256 = upper(text_sha256)")
    assert adapt(path).validate() == ()


@pytest.mark.parametrize(
    ("size", "unit"), [("length(CAST(text AS BLOB))", "UTF-8"), ("length(text) + 1", "UTF-16")]
)
def test_offsets_in_another_unit_are_told_as_that(
    tmp_path: Path, write_bge: Write, refusal: Refusal, size: str, unit: str
) -> None:
    sql = f"UPDATE chunks SET char_end = char_start + {size} WHERE ordinal = 1"  # noqa: S608 - a test's
    code, message = refusal(write_bge(tmp_path / "store.sqlite", sql))
    assert (code, unit in message) == ("offset_length_mismatch", True)


@pytest.mark.parametrize("ordinal", [0, 1, 2, 3])
def test_a_missing_chunk_is_missed(tmp_path: Path, write_bge: Write, refusal: Refusal, ordinal: int) -> None:
    sql = f"DELETE FROM chunks WHERE ordinal = {ordinal}"  # noqa: S608 - a test's
    code, _ = refusal(write_bge(tmp_path / "store.sqlite", sql, stated={"chunk_count": None}))
    assert code == ("reconstruction_mismatch" if ordinal == 3 else "offset_gap")


def test_without_a_hash_of_the_whole_it_is_compared_with_what_the_caller_has(
    tmp_path: Path, write_bge: Write, adapt: Adapt
) -> None:
    adapter = adapt(write_bge(tmp_path / "store.sqlite", texts=("ab", "cd"), stated={"source_sha256": None}))
    assert [warned.code for warned in adapter.validate()] == ["source_text_unverified"]
    assert adapter.validate("abcd") == ()
    for other in ("abce", "abcde"):
        with pytest.raises(StoreError) as caught:
            adapter.validate(other)
        assert caught.value.code == "reconstruction_mismatch"


def test_a_length_alone_is_compared_too(
    tmp_path: Path, write_bge: Write, adapt: Adapt, refusal: Refusal
) -> None:
    stated = {"source_sha256": None, "total_chars": "4"}
    assert adapt(write_bge(tmp_path / "store.sqlite", texts=("ab", "cd"), stated=stated)).validate() == ()
    assert refusal(write_bge(tmp_path / "other.sqlite", texts=("ab", "cde"), stated=stated))[0] == (
        "reconstruction_mismatch"
    )


def test_a_strict_adapter_takes_no_overlap(
    tmp_path: Path, write_bge: Write, adapt: Adapt, refusal: Refusal
) -> None:
    digest = hashlib.sha256(b"bcd").hexdigest()
    sql = f"UPDATE chunks SET text = 'bcd', char_start = 1, text_sha256 = '{digest}' WHERE ordinal = 1"  # noqa: S608 - a test's
    path = write_bge(tmp_path / "store.sqlite", sql, texts=("ab", "cd"))
    assert [warned.code for warned in adapt(path).validate()] == ["overlapping_chunks"]
    assert refusal(path, is_strict=True)[0] == "reconstruction_mismatch"


def test_a_hole_in_the_ordinals_is_a_warning(tmp_path: Path, write_bge: Write, adapt: Adapt) -> None:
    path = write_bge(tmp_path / "store.sqlite", "UPDATE chunks SET ordinal = 70 WHERE ordinal = 3")
    (warned,) = adapt(path).validate()
    assert (warned.code, "record 70" in warned.message) == ("ordinal_hole", True)


@given(st.text(min_size=1, max_size=60), st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30))))
def test_chunks_of_a_text_however_they_overlap_are_put_together(
    whole: str, spans: list[tuple[int, int]]
) -> None:
    reconstruction = Reconstruction(is_strict=False)
    cuts = [(0, 1), *((min(start, len(whole)), size) for start, size in sorted(spans)), (len(whole), 0)]
    end, overlaps = 0, False
    for number, (start, size) in enumerate(cuts):
        first = min(start, end)  # sorted, so never before the last one's beginning
        text = whole[first : max(start, end) + size]
        codes = list(reconstruction.take(_chunk(number, first, text)))
        overlaps = overlaps or first < end
        assert ("overlapping_chunks" in codes) == (first < end)
        end = max(end, first + len(text))
    assert reconstruction.compare([Source.of(whole)])


def _chunk(ordinal: int, start: int, text: str) -> Passage:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Passage(ordinal, text, {"char_start": start, "char_end": start + len(text), "text_sha256": digest})


# --------------------------------------------------------------------------- explicit stores

EXPLICITLY_BROKEN = {
    "UPDATE passages SET body = NULL WHERE identifier = 'c'": "invalid_record_text",
    "UPDATE passages SET body = x'00' WHERE identifier = 'c'": "invalid_record_text",
    "UPDATE passages SET body = CAST(x'c0' AS TEXT) WHERE identifier = 'c'": "invalid_text_encoding",
    "UPDATE passages SET source = '[1]' WHERE identifier = 'c'": "invalid_source_metadata",
    "UPDATE passages SET source = '{\"a\": NaN}' WHERE identifier = 'c'": "invalid_source_metadata",
    "UPDATE passages SET source = x'7b7d' WHERE identifier = 'c'": "invalid_source_metadata",
    "UPDATE passages SET source = CAST(x'ff' AS TEXT) WHERE identifier = 'c'": "invalid_source_metadata",
    "UPDATE passages SET vector = NULL WHERE identifier = 'c'": "invalid_vector",
    "UPDATE passages SET vector = CAST('12345678' AS TEXT) WHERE identifier = 'c'": "invalid_vector",
    "UPDATE passages SET vector = zeroblob(8) WHERE identifier = 'c'": "invalid_vector",
    "UPDATE passages SET vector = x'0000c07f00000000' WHERE identifier = 'c'": "invalid_vector",
}


@pytest.mark.parametrize(("sql", "code"), EXPLICITLY_BROKEN.items())
def test_a_broken_passage_is_found_and_named(
    tmp_path: Path, write_explicit: Write, rows: Rows, sql: str, code: str
) -> None:
    path = write_explicit(tmp_path / "store.sqlite", rows, sql)
    with PrebuiltVectorStoreAdapter(path, path.with_suffix(".manifest.json")) as adapter:
        with pytest.raises(StoreError) as caught:
            adapter.validate()
        assert caught.value.code == code
        assert "'c'" in caught.value.message
        if code != "invalid_vector":
            with pytest.raises(StoreError) as caught:
                adapter.get_record("c")
            assert caught.value.code == code
        assert adapter.get_record("b").text == rows[1][1]


JSON_BROKEN = (
    *("", "null", "{}", "[[1, 2]]", "[true, 1]", '["1", "2"]', "[NaN, 1]", "[Infinity, 1]", "[1e999, 1]"),
    *(
        "[1]",
        "[1, 2, 3]",
        "[0, -0.0]",
        "[1, 2] x",
        "[1, 2",
        "1, 2",
        "[1, null]",
        f"[1{'0' * 400}, 1]",
        "[1,, 2]",
    ),
)


@pytest.mark.parametrize("value", JSON_BROKEN)
def test_a_json_vector_is_a_flat_array_of_finite_numbers(
    tmp_path: Path, write_explicit: Write, rows: Rows, refusal: Refusal, value: str
) -> None:
    sql = f"UPDATE passages SET vector = '{value}' WHERE identifier = 'c'"  # noqa: S608 - a test's
    code, message = refusal(write_explicit(tmp_path / "store.sqlite", rows, sql, embedding_format="json"))
    assert (code, "'c'" in message) == ("invalid_vector", True)


@pytest.mark.parametrize(
    "value", ["x'5b312c325d'", "12", f"'[1, {' ' * 100_000}2]'", "CAST(x'5b31ff5d' AS TEXT)"]
)
def test_a_json_vector_is_text_of_a_reasonable_length(
    tmp_path: Path, write_explicit: Write, rows: Rows, refusal: Refusal, value: str
) -> None:
    sql = f"UPDATE passages SET vector = {value} WHERE identifier = 'c'"  # noqa: S608 - a test's
    code, message = refusal(write_explicit(tmp_path / "store.sqlite", rows, sql, embedding_format="json"))
    assert (code, "'c'" in message) == ("invalid_vector", True)


def test_whole_numbers_are_numbers(tmp_path: Path, write_explicit: Write, rows: Rows, adapt: Adapt) -> None:
    sql = "UPDATE passages SET vector = ' [ 3 ,\n4e0 ] ' WHERE identifier = 'c'"
    adapter = adapt(write_explicit(tmp_path / "store.sqlite", rows, sql, embedding_format="json"))
    assert [hit.id for hit in adapter.search([3, 4], 1)] == ["c"]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("INSERT INTO passages VALUES (NULL, 'text', x'0000803f00000000', NULL)", "invalid_record_id"),
        (
            "UPDATE passages SET identifier = CAST(x'ff' AS TEXT) WHERE identifier = 'c'",
            "invalid_text_encoding",
        ),
    ],
)
def test_a_record_has_an_id(tmp_path: Path, write_explicit: Write, rows: Rows, sql: str, code: str) -> None:
    path = write_explicit(tmp_path / "store.sqlite", rows, sql)
    with PrebuiltVectorStoreAdapter(path, path.with_suffix(".manifest.json")) as adapter:
        for work in (
            adapter.validate,
            lambda: adapter.search([1.0, 0.0]),
            lambda: list(adapter.iter_records()),
        ):
            with pytest.raises(StoreError) as caught:
                work()
            assert caught.value.code == code


@pytest.mark.parametrize(
    ("length", "code"), [(1.0005, None), (1.005, "norm_tolerance"), (0.995, "norm_tolerance")]
)
def test_a_length_that_is_a_little_off_is_a_warning(
    tmp_path: Path, write_explicit: Write, adapt: Adapt, length: float, code: str | None
) -> None:
    rows = [("a", "text", [0.0, length], '{"page": 1}')]
    warnings = adapt(write_explicit(tmp_path / "store.sqlite", rows, normalization="l2")).validate()
    assert [warned.code for warned in warnings] == ([] if code is None else [code])


@pytest.mark.parametrize("length", [1.02, 0.98, 1e30])
def test_a_length_that_is_not_1_is_a_fault_where_1_is_promised(
    tmp_path: Path, write_explicit: Write, adapt: Adapt, refusal: Refusal, length: float
) -> None:
    rows = [("a", "text", [0.0, length], '{"page": 1}')]
    code, message = refusal(write_explicit(tmp_path / "store.sqlite", rows, normalization="l2"))
    assert (code, "'a'" in message) == ("normalization_mismatch", True)
    assert adapt(write_explicit(tmp_path / "other.sqlite", rows)).validate() == ()
