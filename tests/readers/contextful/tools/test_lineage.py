from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.rule("lineage.call", "withheld-count", "depth-bound", "seed-refusal", "node-page")
@pytest.mark.parametrize(
    "params", [{}, {"table": "notes", "direction": "up", "depth": 3}, {"table": "absent"}]
)
def test_lineage_is_refused_with_its_reason(example: Any, params: dict[str, Any]) -> None:
    refusal = example.refusal("context.lineage", **params)

    assert refusal.code == "ReadArgumentUnsupported"
    assert "context.lineage" in refusal.message
