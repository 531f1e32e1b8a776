import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from collated.locate import listing
from collated.settings import Pinned, Watched, parse
from collated.setup.model import Looked, Plan, SeenStore
from collated.setup.planning import PROJECT_PATTERNS, appended, block, planned
from collated.setup.toml import can_quote, quoted
from collated_readers.contract import PROJECT_FOLDERS

HOME = "/home/anna"
BELOW = tuple(f"*/{pattern}" for pattern in PROJECT_PATTERNS)
STORE = ".contextpull/store.sqlite"


def of_project(folder: str) -> SeenStore:
    return SeenStore(f"{folder}/{STORE}", "contextpull", folder)


def alone(path: str) -> SeenStore:
    return SeenStore(path, "book-agent", None)


def looked(
    *stores: SeenStore, crowded: Collection[str] = (), strangers: Collection[tuple[str, str]] = ()
) -> Looked:
    by_path: Mapping[str, SeenStore] = {store.path: store for store in stores}
    return Looked(by_path, {}, frozenset(crowded), frozenset(strangers), 1)


def plan(seen: Looked, *, known: Collection[str] = (), roots: Collection[str] = (HOME,)) -> Plan:
    return planned(seen, known, roots, HOME)


def test_there_is_a_pattern_for_each_folder_of_a_project() -> None:
    assert [
        next(pattern for pattern in PROJECT_PATTERNS if pattern.startswith(folder + "/"))
        for folder in PROJECT_FOLDERS
    ] == list(PROJECT_PATTERNS)


def test_projects_are_watched_through_their_parent_once() -> None:
    seen = looked(of_project(f"{HOME}/src/a"), of_project(f"{HOME}/src/b"))

    assert plan(seen) == Plan(watched=(Watched(f"{HOME}/src", BELOW),))


def test_a_project_in_the_home_is_watched_alone() -> None:
    assert plan(looked(of_project(f"{HOME}/a"))) == Plan(watched=(Watched(f"{HOME}/a", PROJECT_PATTERNS),))


def test_a_project_that_was_named_is_watched_alone() -> None:
    seen = looked(of_project(f"{HOME}/src/a"))

    assert plan(seen, roots=(f"{HOME}/src/a",)).watched == (Watched(f"{HOME}/src/a", PROJECT_PATTERNS),)


def test_nothing_above_the_home_is_watched() -> None:
    seen = looked(of_project("/home/common"))

    assert plan(seen, roots=("/",)).watched == (Watched("/home/common", PROJECT_PATTERNS),)


def test_a_project_among_hundreds_of_folders_is_watched_alone() -> None:
    seen = looked(of_project(f"{HOME}/src/a"), crowded=[f"{HOME}/src"])

    assert plan(seen).watched == (Watched(f"{HOME}/src/a", PROJECT_PATTERNS),)


def test_a_project_whose_name_a_pattern_does_not_match_is_watched_alone() -> None:
    seen = looked(of_project(f"{HOME}/src/.hidden"), of_project(f"{HOME}/src/b"))

    assert plan(seen, roots=(f"{HOME}/src", f"{HOME}/src/.hidden")).watched == (
        Watched(f"{HOME}/src", BELOW),
        Watched(f"{HOME}/src/.hidden", PROJECT_PATTERNS),
    )


def test_a_project_inside_of_another_is_found_too() -> None:
    seen = looked(of_project(f"{HOME}/src/a"), of_project(f"{HOME}/src/a/b"))

    assert plan(seen).watched == (Watched(f"{HOME}/src", BELOW), Watched(f"{HOME}/src/a", BELOW))


def test_a_folder_of_stores_alone_is_watched() -> None:
    seen = looked(alone(f"{HOME}/books/a.db"), alone(f"{HOME}/books/b.db"), alone(f"{HOME}/books/c.sqlite"))

    assert plan(seen) == Plan(watched=(Watched(f"{HOME}/books", ("*.db", "*.sqlite")),))


def test_a_store_among_other_databases_is_named_itself() -> None:
    path = f"{HOME}/books/a.db"

    assert plan(looked(alone(path), strangers=[(f"{HOME}/books", ".db")])) == Plan(pinned=(Pinned(path),))


def test_a_store_in_the_home_is_named_itself() -> None:
    assert plan(looked(alone(f"{HOME}/a.sqlite"))) == Plan(pinned=(Pinned(f"{HOME}/a.sqlite"),))


def test_what_is_known_is_left_alone() -> None:
    seen = looked(of_project(f"{HOME}/src/a"), alone(f"{HOME}/b.db"))

    assert plan(seen, known=seen.stores) == Plan()


def test_a_path_that_no_configuration_can_say_gets_a_link() -> None:
    seen = looked(of_project(f"{HOME}/\udcff"), of_project(f"{HOME}/src/\udcfe"), alone(f"{HOME}/\udcfd.db"))

    assert plan(seen) == Plan(
        watched=(Watched(f"{HOME}/src", BELOW),),
        linked=(f"{HOME}/\udcfd.db", f"{HOME}/\udcff/{STORE}"),
    )


NAMES = st.text(
    st.sampled_from(
        ["a", "b", " ", "*", "[", "]", "?", "~", "\n", "\x1b", '"', "\\", "é", "\udcff", "\u202e"]
    ),
    min_size=1,
    max_size=3,
)


@given(st.sets(st.lists(NAMES, min_size=1, max_size=3).map("/".join), min_size=1, max_size=6))
def test_whatever_folders_are_called_the_plan_finds_their_stores(folders: set[str]) -> None:
    with TemporaryDirectory() as temporary:
        home = str(Path(temporary).resolve())
        for folder in folders:
            path = Path(home, folder, STORE)
            path.parent.mkdir(parents=True)
            path.write_bytes(b"x")
        stores = [of_project(f"{home}/{folder}") for folder in folders]

        made = planned(looked(*stores), (), [home], home)
        settings = parse(block(made))

        found = listing(settings.watch, settings.store).found
        assert {store.path for store in stores} == set(found) | set(made.linked)


# --------------------------------------------------------------------------- as text


def test_an_empty_plan_is_no_text() -> None:
    assert block(Plan()) == ""
    assert appended("# mine\n", "") == "# mine\n"


def test_entries_stand_between_marks_and_say_what_was_planned() -> None:
    made = Plan((Watched('/a "b"\n', BELOW), Watched("/c", ("*.db",))), (Pinned("/d\x1b.db"),))

    text = block(made)

    assert text.startswith("# >>> collate setup >>>")
    assert text.endswith("# <<< collate setup <<<\n")
    assert parse(text).watch == made.watched
    assert parse(text).store == made.pinned


def test_what_was_there_stays_as_it_was() -> None:
    assert appended("", "b\n") == "b\n"
    assert appended("a\n", "b\n") == "a\n\nb\n"
    assert appended("a", "b\n") == "a\n\nb\n"


@given(st.text())
def test_any_text_can_be_quoted_and_nothing_acts_on_a_terminal(text: str) -> None:
    assert tomllib.loads(f"a = {quoted(text)}") == {"a": text}
    assert quoted(text).isprintable()


def test_half_a_character_cannot_be_quoted() -> None:
    assert can_quote("é\x1b𝄞")
    assert not can_quote("a\udcff")
