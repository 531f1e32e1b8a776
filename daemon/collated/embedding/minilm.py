"""all-MiniLM-L6-v2 in numpy: six layers of a BERT encoder, the mean of the tokens, unit length."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .local import tensors, tokenizer, unit

__all__ = ["MiniLM"]

Array = npt.NDArray[np.float32]

_LAYERS = 6
_HEADS = 12
_EPSILON = 1e-12
_LONGEST_TOKENS = 256  # what the model was trained for
_LONGEST = 20_000

# Abramowitz and Stegun 7.1.26: erf to within 1.5e-7, which is the precision of float32.
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_ERF_P = 0.3275911


class MiniLM:
    """The model, 384 numbers a text; a query of ten words takes some milliseconds."""

    def __init__(self, folder: Path) -> None:
        """Read `model.safetensors` and `tokenizer.json` in *folder*."""
        self._weights: Mapping[str, Array] = tensors(folder / "model.safetensors")
        self._tokenizer = tokenizer(folder / "tokenizer.json")
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def embed(self, text: str) -> list[float]:
        """Return the vector of *text*; see `LocalModel`."""
        ids = self._tokenizer.encode(text[:_LONGEST]).ids
        if len(ids) > _LONGEST_TOKENS:
            ids = [*ids[: _LONGEST_TOKENS - 1], ids[-1]]  # the last is the end's mark
        state = self._embedded(ids)
        for layer in range(_LAYERS):
            state = self._layer(f"encoder.layer.{layer}", state)
        return unit(state.mean(axis=0))

    def _embedded(self, ids: list[int]) -> Array:
        weights = self._weights
        words = weights["embeddings.word_embeddings.weight"][ids]
        places = weights["embeddings.position_embeddings.weight"][: len(ids)]
        kind = weights["embeddings.token_type_embeddings.weight"][0]
        return self._normed("embeddings.LayerNorm", words + places + kind)

    def _layer(self, name: str, state: Array) -> Array:
        heard = self._dense(f"{name}.attention.output.dense", self._attended(name, state))
        state = self._normed(f"{name}.attention.output.LayerNorm", state + heard)
        inner = _gelu(self._dense(f"{name}.intermediate.dense", state))
        return self._normed(f"{name}.output.LayerNorm", state + self._dense(f"{name}.output.dense", inner))

    def _attended(self, name: str, state: Array) -> Array:
        parts = ("query", "key", "value")
        query, key, value = (self._heads(f"{name}.attention.self.{part}", state) for part in parts)
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(np.float32(key.shape[2]))
        scores = np.exp(scores - scores.max(axis=2, keepdims=True))
        heard = (scores / scores.sum(axis=2, keepdims=True)) @ value
        return np.asarray(heard.transpose(1, 0, 2).reshape(state.shape), np.float32)

    def _heads(self, name: str, state: Array) -> Array:
        projected = self._dense(name, state)
        return projected.reshape(len(state), _HEADS, -1).transpose(1, 0, 2)

    def _dense(self, name: str, state: Array) -> Array:
        return np.asarray(
            state @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"], np.float32
        )

    def _normed(self, name: str, state: Array) -> Array:
        centred = state - state.mean(axis=1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=1, keepdims=True) + np.float32(_EPSILON))
        scaled = centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return np.asarray(scaled, np.float32)


def _gelu(state: Array) -> Array:
    return np.asarray(state * 0.5 * (1.0 + _erf(state * np.float32(np.sqrt(0.5)))), np.float32)


def _erf(values: Array) -> npt.NDArray[Any]:
    size = np.abs(values)
    step = 1.0 / (1.0 + _ERF_P * size)
    total = np.zeros_like(step)
    for factor in _ERF:
        total = (total + factor) * step
    return np.asarray(np.sign(values) * (1.0 - total * np.exp(-size * size)))
