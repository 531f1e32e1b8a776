"""The part of `catalog` that names stores."""

import hashlib
import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated.catalog import Found, assign_names
from collated.settings import is_store_name


def names_of(
    *paths: str, wanted: dict[str, str] | None = None, pinned: dict[str, str] | None = None
) -> dict[str, str]:
    """Name stores found at *paths*; *wanted* are the names that symlinks ask for."""
    return assign_names([Found(path, (wanted or {}).get(path), None) for path in paths], pinned or {})


def digest(path: str) -> str:
    return hashlib.blake2b(os.fsencode(path)).hexdigest()[:8]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/src/uv/.contextpull/store.sqlite", "uv"),
        ("/data/stores/Notes 2024.sqlite", "notes-2024"),
        ("/data/stores/a.b.sqlite", "a.b"),
        ("/data/stores/Ünïcode.db", "n-code"),
        ("/.contextpull/store.sqlite", "store"),
        ("/-.sqlite", "store"),
        ("/data/日本.sqlite", "store"),
    ],
)
def test_a_store_is_called_after_its_project_or_its_file(path: str, name: str) -> None:
    assert names_of(path) == {path: name}


def test_stores_that_collide_get_the_shortest_path_suffix_that_tells_them_apart() -> None:
    names = names_of(
        "/x/docs/notes.sqlite", "/y/docs/notes.sqlite", "/y/code/notes.sqlite", "/y/code/other.sqlite"
    )

    assert names == {
        "/x/docs/notes.sqlite": "x-docs-notes",
        "/y/docs/notes.sqlite": "y-docs-notes",
        "/y/code/notes.sqlite": "code-notes",
        "/y/code/other.sqlite": "other",
    }


def test_stores_of_several_formats_in_one_project_say_what_they_hold() -> None:
    code = ".claude/cache/codebase-index/index.sqlite"
    paths = [f"/src/uv/{code}", "/src/uv/.contextpull/store.sqlite", f"/src/ruff/{code}", f"/alt/uv/{code}"]

    names = names_of(*paths)

    assert names == dict(zip(paths, ["uv-code", "uv-docs", "ruff", "uv"], strict=True))
    assert names_of(*paths[::-1]) == names
    assert names_of(
        f"/a/uv/{code}", "/a/uv/.contextpull/s.db", f"/b/uv/{code}", "/b/uv/.contextpull/s.db"
    ) == {
        f"/a/uv/{code}": "a-uv-code",
        "/a/uv/.contextpull/s.db": "a-uv-docs",
        f"/b/uv/{code}": "b-uv-code",
        "/b/uv/.contextpull/s.db": "b-uv-docs",
    }


def test_projects_that_collide_are_told_apart_by_the_directories_above_them() -> None:
    names = names_of("/src/uv/docs/.contextpull/store.sqlite", "/src/ruff/docs/.contextpull/store.sqlite")

    assert sorted(names.values()) == ["ruff-docs", "uv-docs"]


def test_a_lengthened_name_that_collides_again_is_lengthened_again() -> None:
    names = names_of("/p/a/s.db", "/q/b/s.db", "/r/a-s.db")

    assert names == {"/p/a/s.db": "p-a-s", "/q/b/s.db": "b-s", "/r/a-s.db": "r-a-s"}


def test_paths_that_look_alike_in_the_alphabet_of_names_get_a_digest() -> None:
    names = names_of("/a b.db", "/a~b.db")

    assert names == {"/a b.db": f"a-b-{digest('/a b.db')}", "/a~b.db": f"a-b-{digest('/a~b.db')}"}


def test_a_pinned_name_wins_and_the_other_is_lengthened() -> None:
    names = names_of("/x/a.db", "/y/b.db", pinned={"/y/b.db": "a", "/not/found.db": "b"})

    assert names == {"/x/a.db": "x-a", "/y/b.db": "a"}


def test_a_symlinks_own_name_wins_over_the_file_it_leads_to() -> None:
    names = names_of("/x/a.db", "/y/b.db", wanted={"/x/a.db": "b"})

    assert names == {"/x/a.db": "b", "/y/b.db": "y-b"}


def test_a_pinned_name_wins_over_a_symlinks() -> None:
    names = names_of(
        "/x/a.db", "/y/b.db", pinned={"/y/b.db": "mine"}, wanted={"/x/a.db": "mine", "/y/b.db": "hers"}
    )

    assert names == {"/x/a.db": "a-mine", "/y/b.db": "mine"}


def test_symlinks_that_ask_for_the_same_name_are_told_apart_by_where_they_lead() -> None:
    names = names_of("/x/a.db", "/y/b.db", wanted={"/x/a.db": "n", "/y/b.db": "n"})

    assert names == {"/x/a.db": "a-n", "/y/b.db": "b-n"}


def test_a_name_pinned_twice_is_given_to_neither() -> None:
    names = names_of("/x/a.db", "/y/b.db", pinned={"/x/a.db": "n", "/y/b.db": "n"})

    assert names == {"/x/a.db": "a", "/y/b.db": "b"}


def test_a_pinned_name_that_looks_like_a_digest_name_is_not_given_twice() -> None:
    names = names_of("/a.db", "/b.db", "/c.db", pinned={"/b.db": "a", "/c.db": f"a-{digest('/a.db')}"})

    assert len(set(names.values())) == 3
    assert names["/c.db"] == f"a-{digest('/a.db')}"


# --------------------------------------------------------------------------- whatever the paths

# Few letters, so that names collide in every way; some outside the alphabet, some not even Unicode.
parts = st.sampled_from(["a", "A", "b", "a-b", "-", "~", ".", "a b", "é", "\udce9", ".contextpull", "a" * 99])
paths = st.lists(parts, min_size=1, max_size=5).map(lambda each: "/" + "/".join(each) + ".sqlite")
names = st.sampled_from(["a", "b", "a-b", "b-a", "store", "n"])
finds = st.dictionaries(paths, st.none() | names, max_size=12)
pins = st.dictionaries(paths, names, max_size=4)


def assigned(found: dict[str, str | None], pinned: dict[str, str]) -> dict[str, str]:
    return assign_names([Found(path, wanted, None) for path, wanted in found.items()], pinned)


@given(finds, pins)
def test_every_store_gets_a_name_of_its_own_in_the_alphabet_of_names(
    found: dict[str, str | None], pinned: dict[str, str]
) -> None:
    given_names = assigned(found, pinned)

    assert given_names.keys() == found.keys()
    assert len(set(given_names.values())) == len(found)
    assert all(is_store_name(name) for name in given_names.values())


@given(finds, pins, st.randoms(use_true_random=False))
def test_names_do_not_depend_on_the_order_of_discovery(
    found: dict[str, str | None], pinned: dict[str, str], shuffled: random.Random
) -> None:
    order = list(found)
    shuffled.shuffle(order)

    assert assigned({path: found[path] for path in order}, pinned) == assigned(found, pinned)


@given(finds, pins)
def test_a_pinned_name_is_given_unless_it_is_pinned_twice(
    found: dict[str, str | None], pinned: dict[str, str]
) -> None:
    given_names = assigned(found, pinned)

    here = {path: name for path, name in pinned.items() if path in found}
    for path, name in here.items():
        if list(here.values()).count(name) == 1:
            assert given_names[path] == name


@given(st.sets(st.text("ab", min_size=1, max_size=5), max_size=8))
def test_a_name_is_no_longer_than_telling_it_apart_takes(letters: set[str]) -> None:
    at = {"/" + "/".join(each) + ".db": each for each in letters}  # "aab" lies at /a/a/b.db

    given_names = assigned(dict.fromkeys(at), {})

    for path, each in at.items():
        others = letters - {each}
        lengths = (n for n in range(1, len(each) + 1) if not any(o.endswith(each[-n:]) for o in others))
        if shortest := next(lengths, None):
            assert given_names[path] == "-".join(each[-shortest:])
        else:  # /b.db beside /a/b.db
            assert given_names[path] == f"{'-'.join(each)}-{digest(path)}"
