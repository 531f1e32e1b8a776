"""The bridge to agents: every store on the machine through one server of the Model Context Protocol.

`tools`, `asking`, `answering`, `contents`, `scope` and `freshness` are pure; `link` talks to the daemon.
The SDK, an extra, is imported by `session` and what serves it alone.
"""

__all__ = ["BUDGET_TOKENS"]

BUDGET_TOKENS = 3_000
"""How long an agent's instructions may be; here, where the parser of `collate` can import it fast."""
