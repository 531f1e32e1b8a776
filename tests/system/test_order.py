"""The order of DESIGN §5 on real daemons over real stores: total, and the same whatever the circumstances."""

from __future__ import annotations

import random
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from tests.conftest import MakeStore
    from tests.system.conftest import Client, Daemon, StartDaemon

pytestmark = pytest.mark.slow

TOOLS: Any = import_module("contextpull.tools")
OPS: Any = import_module("contextpull.ops")
STORE: Any = import_module("contextpull.store")

WORDS = (
    "whale",
    "ship",
    "sea",
    "captain",
    "harpoon",
    "oil",
    "storm",
    "white",
    "island",
    "crew",
    "mast",
    "deck",
)
# `alike` is `alpha` under another name, so that whole lists tie.
NAMES = ("alpha", "beta", "gamma", "delta", "small", "alike")
TIERS = ("phrase", "all", "any")
MATCHES = """
SELECT id, bm25(sections_fts, 0.0, 2.0, 1.0) AS best FROM sections_fts
WHERE sections_fts MATCH ? ORDER BY best, id LIMIT ?"""
# How a daemon is started with another number of workers: as the command does, but for one default.
WITH_WORKERS = """
import sys
from collated import fanout
from collated.cli.daemon import main
assert fanout.Fanout.__init__.__defaults__ == (fanout.WORKERS,)
fanout.Fanout.__init__.__defaults__ = ({},)
sys.exit(main(["run"]))
"""

words = st.lists(st.sampled_from((*WORDS, "nowhere", "the")), min_size=1, max_size=4).map(" ".join)
questions = st.fixed_dictionaries(
    {"query": words, "limit": st.sampled_from([1, 2, 3, 5, 10, 20, 50])},
    optional={
        "stores": st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True),
        "in": st.sampled_from([["a/"], ["*.md"], ["b/2.md", "a/1.md"], ["nothing"]]),
        "ranking": st.sampled_from(["contract", "fused"]),
    },
)
hypothetically = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def _corpus(seed: int, documents: int) -> dict[str, str]:
    choose = random.Random(seed)  # noqa: S311 - not for secrets
    frequent = choose.sample(WORDS, 6)

    def section(number: int) -> str:
        title = " ".join(choose.choices(WORDS, k=2)).title()
        text = " ".join(choose.choices(frequent + list(WORDS), k=choose.randrange(8, 40)))
        return f"## {title} {number}\n\n{text}.\n"

    return {
        f"{'ab'[number % 2]}/{number}.md": "\n".join(section(each) for each in range(choose.randrange(1, 6)))
        for number in range(documents)
    }


@pytest.fixture(scope="module")
def library(make_store: MakeStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of stores at rest, to be copied."""
    directory = tmp_path_factory.mktemp("library")
    for seed, name in enumerate(NAMES):
        corpus = _corpus(0 if name == "alike" else seed, 2 if name == "small" else 8)
        make_store(directory / f"{name}.sqlite", corpus, rollback=seed % 2 == 0)
    return directory


@pytest.fixture(scope="module")
def daemons(start_shared_daemon: StartDaemon, library: Path) -> dict[str, Daemon]:
    """Daemons over copies of one library, each under other circumstances."""
    uncached = "[cache]\nanswers_bytes = 0\n"
    circumstances = {
        "cached": ("", None),
        "uncached": (uncached, None),
        "one worker": (uncached, 1),
        "sixteen workers, few connections": (f"{uncached}[search]\nmax_open_stores = 2\n", 16),
    }
    started: dict[str, Daemon] = {}
    for seed, (name, (config, workers)) in enumerate(circumstances.items()):
        daemon = start_shared_daemon(config, is_launched=False, environ={"PYTHONHASHSEED": str(seed)})
        if workers is not None:
            daemon.command = (sys.executable, "-c", WITH_WORKERS.format(workers))
        started[name] = _over(library, daemon)
    return started


def _over(library: Path, daemon: Daemon) -> Daemon:
    """Start *daemon* over copies of all stores."""
    for path in library.iterdir():
        shutil.copyfile(path, daemon.stores / path.name)
    daemon.start().ask("rescan")
    return daemon


@pytest.fixture(scope="module")
def clients(daemons: dict[str, Daemon]) -> Iterator[dict[str, Client]]:
    """One connection to each daemon."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(daemon.client()) for name, daemon in daemons.items()}


@pytest.fixture(scope="module")
def client(clients: dict[str, Client]) -> Client:
    """A connection to the daemon that keeps answers."""
    return clients["cached"]


def _refs(answer: Mapping[str, Any]) -> list[str]:
    return [hit["ref"] for hit in answer["hits"]]


def _answer_bytes(client: Client, question: Mapping[str, Any]) -> bytes:
    request_id = client.send("search", question)
    return client.line().replace(b'"id":%d,' % request_id, b"", 1)


# --------------------------------------------------------------------------- the same, whatever happens


@hypothetically
@given(asked=st.lists(questions, min_size=1, max_size=3))
def test_cache_hash_seed_workers_and_connections_change_no_byte(
    clients: dict[str, Client], asked: Sequence[Mapping[str, Any]]
) -> None:
    for question in asked:
        answers = [_answer_bytes(client, question) for client in clients.values()]
        answers.append(_answer_bytes(clients["cached"], question))
        assert set(answers) == {answers[0]}


def test_a_restart_changes_no_byte(start_daemon: StartDaemon, library: Path) -> None:
    daemon = _over(library, start_daemon(is_launched=False))
    asked: list[dict[str, Any]] = [
        {"query": f"{one} {other}", "limit": 50} for one in WORDS[:4] for other in WORDS
    ]
    answers: list[list[bytes]] = []
    for _ in range(2):
        with daemon.client() as client:
            answers.append([_answer_bytes(client, question) for question in asked])
        daemon.restart()
    assert answers[0] == answers[1]


def test_answers_that_are_asked_for_at_once_are_those_that_are_asked_for_one_by_one(
    clients: dict[str, Client],
) -> None:
    asked: list[dict[str, Any]] = [
        {"query": f"{one} {WORDS[n % 5]}", "limit": 20} for n, one in enumerate(WORDS)
    ]
    client = clients["uncached"]
    alone = [client.ask("search", question) for question in asked]
    ids = [client.send("search", question) for question in asked]
    together = {answer["id"]: answer["result"] for answer in (client.receive() for _ in ids)}
    assert [together[each] for each in ids] == alone


# --------------------------------------------------------------------------- one store, many stores


contract = st.fixed_dictionaries(
    {"query": words, "limit": st.sampled_from([1, 3, 10, 50])},
    optional={"in": st.sampled_from([["a/"], ["a/*", "b/3.md"], ["nothing"]])},
)


@pytest.fixture(scope="module")
def reference(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Any]]:
    """The reference program's own reader of each store, over copies: it leaves files beside a store."""
    copies = shutil.copytree(library, tmp_path_factory.mktemp("reference") / "copies")
    with ExitStack() as stack:
        yield {
            name: OPS.Ops(stack.enter_context(STORE.Store.open(Path(copies) / f"{name}.sqlite")))
            for name in NAMES
        }


@hypothetically
@given(question=contract)
@pytest.mark.parametrize("name", NAMES)
def test_one_store_alone_gives_the_reference_programs_answer(
    client: Client, reference: Mapping[str, Any], name: str, question: Mapping[str, Any]
) -> None:
    expected = TOOLS.call(reference[name], "search", question)
    answer = client.ask("search", question, stores=[name])
    ours = [{key: hit[key] for key in expected["hits"][0]} for hit in answer["hits"]]
    assert ours == expected["hits"]
    assert (answer["mode"], answer["hint"]) == (expected["mode"], expected["hint"])


def _merged(library: Path, query: str, limit: int) -> list[str]:
    """Return what DESIGN §5 asks for, made of each store's own passes: key (tier, rank, id, store)."""
    every: list[tuple[int, float, str, str]] = []
    each_word = [f'"{word}"' for word in query.split()]
    matches = [f'"{query}"', " AND ".join(each_word), " OR ".join(each_word)]
    for name in NAMES:
        with sqlite3.connect(f"file:{library / name}.sqlite?immutable=1", uri=True) as db:
            found: dict[str, tuple[int, float, str, str]] = {}
            for tier, match in enumerate(matches):
                for record_id, rank in db.execute(MATCHES, (match, limit)):
                    found.setdefault(record_id, (tier, rank, record_id, name))
        db.close()
        every += list(found.values())[:limit]
    return [f"{store}:{record_id}" for _, _, record_id, store in sorted(every)[:limit]]


@hypothetically
@given(query=st.lists(st.sampled_from(WORDS), min_size=2, max_size=3).map(" ".join), limit=st.integers(1, 50))
def test_many_stores_are_merged_by_tier_rank_id_and_store(
    client: Client, library: Path, query: str, limit: int
) -> None:
    answer = client.ask("search", query=query, limit=limit)
    assert _refs(answer) == _merged(library, query, limit)
    tiers = [TIERS.index(hit["tier"]) for hit in answer["hits"]]
    assert tiers == sorted(tiers)


@hypothetically
@given(query=words, gone=st.sampled_from(NAMES))
def test_removing_a_store_removes_its_hits_and_moves_nothing_else(
    client: Client, query: str, gone: str
) -> None:
    every = _refs(client.ask("search", query=query, limit=50))
    others = _refs(
        client.ask("search", query=query, limit=50, stores=[each for each in NAMES if each != gone])
    )
    left = [ref for ref in every if not ref.startswith(f"{gone}:")]
    assert others[: len(left)] == left


@hypothetically
@given(query=words, limit=st.integers(1, 49), ranking=st.sampled_from(["contract", "fused"]))
def test_a_limit_is_a_prefix_of_the_next_one(client: Client, query: str, limit: int, ranking: str) -> None:
    hits = client.ask("search", query=query, limit=limit, ranking=ranking)["hits"]
    more = client.ask("search", query=query, limit=limit + 1, ranking=ranking)["hits"]
    assert more[: len(hits)] == hits
    assert len(hits) == min(limit, len(more))


@hypothetically
@given(query=words)
def test_stores_that_hold_the_same_tie_and_are_told_apart_by_name(client: Client, query: str) -> None:
    refs = _refs(client.ask("search", query=query, limit=50, stores=["alpha", "alike"]))
    pairs = [ref.partition(":")[::2] for ref in refs]
    for (first, one), (second, other) in zip(pairs[::2], pairs[1::2], strict=False):
        assert one == other
        assert (first, second) == ("alike", "alpha")


def test_grep_is_in_order_of_id_and_store(client: Client) -> None:
    matches = client.ask("grep", pattern="whale", limit=100)["matches"]
    keys = [(match["id"].encode(), match["store"]) for match in matches]
    assert keys == sorted(keys)
    assert len({store for _, store in keys}) == len(NAMES)
    for limit in range(1, 20):
        assert client.ask("grep", pattern="whale", limit=limit)["matches"] == matches[:limit]
