"""A query's vector comes from where the settings say, or there is a reason why not."""

from __future__ import annotations

import asyncio
import json
import math
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from collated.embedding import Embedders, NotEmbedded, Vectors, obstacle
from collated.settings import Embedding
from collated_readers import Budget, RequestError

from .conftest import Served, answer, response

pytestmark = pytest.mark.anyio

VECTOR = [0.6, -0.8, 0.0]
LLAMA = Embedding(local="wordllama")
TOKENIZER = "l2_supercat_tokenizer_config.json"

Make = Callable[..., Embedders]


@pytest.fixture
async def embedders() -> AsyncIterator[Make]:
    """`embedders({...})` are closed with the test."""
    made: list[Embedders] = []

    def make(configured: dict[str, Embedding], **environ: str) -> Embedders:
        made.append(Embedders(configured, environ))
        return made[-1]

    yield make
    for each in made:
        await each.close()


def budget() -> Budget:
    return Budget.lasting(40.0)


async def reason(embedders: Embedders, model: str, text: str = "what") -> NotEmbedded:
    result = await embedders.embed(model, text, budget())
    assert isinstance(result, NotEmbedded)
    return result


async def test_a_model_that_is_not_configured_is_named_beside_those_that_are(embedders: Make) -> None:
    assert await reason(embedders({"b": LLAMA, "a": LLAMA}), "bge-m3") == NotEmbedded(
        "query_model_mismatch", "the store's vectors are of model bge-m3; [embedding] has a, b"
    )
    assert (await reason(embedders({}), "bge-m3")).message.endswith("[embedding] has no model")


async def test_a_local_model(embedders: Make) -> None:
    made = embedders({"llama": LLAMA})
    vector = await made.embed("llama", "how do refunds work?", budget())
    assert not isinstance(vector, NotEmbedded)
    assert len(vector) == 256
    assert await made.embed("LLAMA", "how do refunds work?", budget()) is vector


async def test_a_local_model_is_asked_in_a_thread_of_its_own(embedders: Make) -> None:
    made = embedders({"llama": LLAMA})
    vectors = await asyncio.gather(*(made.embed("llama", f"question {n}", budget()) for n in range(20)))
    assert all(not isinstance(vector, NotEmbedded) for vector in vectors)
    assert sum(thread.name.startswith("embedding") for thread in threading.enumerate()) == 1


async def test_a_text_without_a_token_has_no_vector(embedders: Make) -> None:
    assert (await reason(embedders({"llama": LLAMA}), "llama", "")).code == "embedder_failed"


async def test_a_prefix_is_put_before_the_text(embedders: Make) -> None:
    made = embedders({"plain": LLAMA, "prefixed": Embedding(local="wordllama", prefix="query: ")})
    assert await made.embed("prefixed", "what", budget()) == await made.embed(
        "plain", "query: what", budget()
    )


async def test_a_package_that_is_not_installed(embedders: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    result = await reason(embedders({"llama": LLAMA}), "llama")
    assert result.code == "embedder_failed"
    assert (
        "no vector for the query under llama: the Python package wordllama is not installed" in result.message
    )


def _weights(name: str = "embedding.weight", kind: str = "F32", shape: Sequence[int] = (8, 2)) -> bytes:
    size = math.prod(shape) * 4
    header = json.dumps({name: {"dtype": kind, "shape": shape, "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)


def _tokens() -> str:
    spec = find_spec("wordllama")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    folder = Path(spec.submodule_search_locations[0])
    return (folder / "tokenizers" / TOKENIZER).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("weights", "tokens"),
    [
        *[(b"", None), (b"\xff" * 8, None), (_weights()[:50], None), (_weights()[:-9], None)],
        *[(_weights().replace(b"dtype", b"what?"), None), (_weights().replace(b"{", b"[", 1), None)],
        *[(_weights("other"), None), (_weights(kind="F9"), None), (_weights(shape=(16,)), None)],
        *[(_weights(), "{}"), (_weights(), "no JSON"), (_weights(), "")],
    ],
)
def test_a_model_of_damaged_files_gives_no_vector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: bytes, tokens: str | None
) -> None:
    files = {
        Path("__init__.py"): b"",
        Path("weights", "l2_supercat_256.safetensors"): weights,
        Path("tokenizers", TOKENIZER): (_tokens() if tokens is None else tokens).encode(),
    }
    for name, content in files.items():
        path = tmp_path / "wordllama" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    monkeypatch.delitem(sys.modules, "wordllama", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    async def ask() -> NotEmbedded:
        made = Embedders({"llama": LLAMA}, {})
        try:
            return await reason(made, "llama", "how do refunds work?")
        finally:
            await made.close()

    result = asyncio.run(ask())
    assert result.code == "embedder_failed"
    assert "the files of the installed wordllama are damaged" in result.message


async def test_an_endpoint_with_its_key_and_its_own_name(served: Served, embedders: Make) -> None:
    served.answers = [response(answer(VECTOR))]
    made = embedders(
        {"bge-m3": Embedding(url=served.url, name="bge:latest", key_env="A_KEY")}, A_KEY="made up"
    )
    assert await made.embed("BGE-M3", "what", budget()) == VECTOR
    assert served.asked[0]["model"] == "bge:latest"
    assert served.headers[0]["authorization"] == "Bearer made up"


async def test_a_text_is_embedded_once(served: Served, embedders: Make) -> None:
    served.answers = [response(answer(VECTOR)), response(answer([1.0])), response(answer([2.0]))]
    made = embedders({"a": Embedding(url=served.url), "b": Embedding(url=served.url)})
    assert [await made.embed("a", "what", budget()) for _ in range(3)] == [VECTOR] * 3
    assert await made.embed("b", "what", budget()) == [1.0]
    assert await made.embed("a", "what else", budget()) == [2.0]
    assert len(served.asked) == 3


async def test_a_failure_is_not_kept(served: Served, embedders: Make) -> None:
    served.answers = [response(b"no", 400), response(answer(VECTOR))]
    made = embedders({"a": Embedding(url=served.url)})
    assert (await reason(made, "a")).code == "embedder_failed"
    assert await made.embed("a", "what", budget()) == VECTOR


@pytest.mark.parametrize("vector", [[], [0.0, 0.0], [1e308 * 10]])
async def test_a_vector_that_points_nowhere_is_none(
    served: Served, embedders: Make, vector: list[float]
) -> None:
    served.answers = [response(answer(vector).replace(b"Infinity", b"1e999"))]
    assert (await reason(embedders({"a": Embedding(url=served.url)}), "a")).code == "embedder_failed"


async def test_a_vector_of_other_dimensions_is_named_beside_those_wanted(
    served: Served, embedders: Make
) -> None:
    served.answers = [response(answer(VECTOR))]
    result = await reason(embedders({"a": Embedding(url=f"{served.url}?k=made_up", dimensions=1024)}), "a")
    assert result == NotEmbedded(
        "query_model_mismatch", f"{served.url} gives 3 numbers, [embedding] says 1024 for a"
    )


async def test_half_of_the_time_is_left_for_the_words(served: Served, embedders: Make) -> None:
    served.answers = [None]
    time = Budget.lasting(1.0)
    result = await embedders({"a": Embedding(url=served.url)}).embed("a", "what", time)
    assert isinstance(result, NotEmbedded)
    assert "did not answer within" in result.message
    assert not time.is_spent()


async def test_without_time_nothing_is_embedded(served: Served, embedders: Make) -> None:
    served.answers = [None]
    made = embedders({"a": Embedding(url=served.url), "llama": LLAMA})
    vectors = await made.vectors(["a", "llama"], "what", Budget(0.0))
    assert set(vectors.failed) == {"a", "llama"}


async def test_a_text_under_several_models(served: Served, embedders: Make) -> None:
    served.answers = [response(answer(VECTOR))]
    made = embedders({"a": Embedding(url=served.url), "llama": LLAMA})
    vectors = await made.vectors(["llama", "a", "c", "a"], "what", budget())
    assert (set(vectors.found), set(vectors.failed)) == ({"a", "llama"}, {"c"})
    assert vectors.embed("a", "what") == VECTOR
    assert vectors.failed["c"].message == "the store's vectors are of model c; [embedding] has a, llama"
    with pytest.raises(RequestError, match="model c"):
        vectors.embed("c", "what")


async def test_only_the_text_that_was_embedded_has_a_vector() -> None:
    vectors = Vectors("what", {"a": VECTOR}, {})
    for model, text in (("a", "other"), ("b", "what")):
        with pytest.raises(RequestError) as caught:
            vectors.embed(model, text)
        assert caught.value.code == "query_model_mismatch"


async def test_others_can_be_configured_at_any_time(served: Served, embedders: Make) -> None:
    served.answers = [response(answer(VECTOR)), response(answer([1.0]))]
    made = embedders({"a": Embedding(url=served.url)})
    assert await made.embed("a", "what", budget()) == VECTOR
    made.adopt({"a": Embedding(url=served.url)})
    assert await made.embed("a", "what", budget()) == VECTOR
    made.adopt({"a": Embedding(url=served.url, name="other")})
    assert await made.embed("a", "what", budget()) == [1.0]
    assert [asked["model"] for asked in served.asked] == ["a", "other"]
    made.adopt({})
    assert (await reason(made, "a")).code == "query_model_mismatch"


@pytest.mark.parametrize("answers", [[response(answer(VECTOR))], [b"", response(answer(VECTOR))]])
async def test_who_is_being_answered_when_others_are_configured_is_answered(
    served: Served, embedders: Make, monkeypatch: pytest.MonkeyPatch, answers: list[bytes | None]
) -> None:
    opened: list[httpx.AsyncClient] = []
    init = httpx.AsyncClient.__init__

    def noted(client: httpx.AsyncClient, **options: Any) -> None:
        opened.append(client)
        init(client, **options)

    monkeypatch.setattr(httpx.AsyncClient, "__init__", noted)
    served.answers = answers
    made = embedders({"a": Embedding(url=served.url)})
    task = asyncio.create_task(made.embed("a", "what", budget()))
    await asyncio.sleep(0)  # it has begun, and no client is there yet
    made.adopt({})
    assert await task == VECTOR
    await made.close()
    assert [client.is_closed for client in opened] == [True]


async def test_a_client_that_comes_too_late_is_closed(
    served: Served, embedders: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[httpx.AsyncClient] = []
    init = httpx.AsyncClient.__init__
    gate = threading.Event()

    def late(client: httpx.AsyncClient, **options: Any) -> None:
        gate.wait(10)
        opened.append(client)
        init(client, **options)

    monkeypatch.setattr(httpx.AsyncClient, "__init__", late)
    made = embedders({"a": Embedding(url=served.url)})
    assert isinstance(await made.embed("a", "what", Budget.lasting(0.05)), NotEmbedded)
    gate.set()
    await made.close()
    assert [client.is_closed for client in opened] == [True]


@pytest.mark.parametrize(
    ("embedding", "environ", "missing"),
    [
        (LLAMA, {}, None),
        (Embedding(url="http://127.0.0.1:9/v1"), {}, None),
        (Embedding(url="http://127.0.0.1:9/v1", key_env="A_KEY"), {"A_KEY": "made up"}, None),
        (Embedding(url="http://127.0.0.1:9/v1", key_env="A_KEY"), {"A_KEY": ""}, "A_KEY"),
    ],
)
def test_what_is_missing_can_be_told_without_asking(
    embedding: Embedding, environ: dict[str, str], missing: str | None
) -> None:
    found = obstacle(embedding, environ)
    assert found is None if missing is None else missing in (found or "")


@pytest.mark.parametrize(
    ("package", "embedding"), [("wordllama", LLAMA), ("httpx", Embedding(url="http://127.0.0.1:9/v1"))]
)
def test_a_package_that_is_missing_can_be_told_without_asking(
    package: str, embedding: Embedding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert f"{package} is not installed" in (obstacle(embedding, {}) or "")


async def test_a_caller_that_goes_away_is_not_answered(served: Served, embedders: Make) -> None:
    served.answers = [None]
    made = embedders({"a": Embedding(url=served.url)})
    task = asyncio.create_task(made.vectors(["a"], "what", budget()))
    async with asyncio.timeout(10):
        await served.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await served.left.wait()
