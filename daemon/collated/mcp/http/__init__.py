"""The bridge over HTTP, by the seed's transport rules (register "HTTP transport").

A connection carries one request and one JSON answer, so that a slot of `--max-in-flight` is a connection
from its accept to its answer: `door` counts them, `exchange` speaks HTTP on one of them, `serving` accepts
and drains. `credentials` is pure and says who is admitted, `keyring` reads its files, `app` routes, and
`faces` has the SDK answer each caller within its scope.

No stream is ever opened to a client, so progress and changed lists of stores or tools cannot be pushed: a
client asks again. Both are there over stdio.
"""
