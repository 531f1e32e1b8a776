"""One connection: cuts its bytes into requests and answers each exactly once (DESIGN §6)."""

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import anyio
import structlog
from msgspec import Struct

from .errors import RequestFailed
from .framing import Framer
from .messages import Call, Codec, Rejected
from .methods import Methods
from .protocol import (
    CancelParams,
    Changes,
    Id,
    Partial,
    PingResult,
    Progress,
    SubscribeParams,
    SubscribeResult,
)
from .stream import PIECE_BYTES, READ_BYTES, Stream

__all__ = ["Session"]

log = structlog.get_logger()

# How long the requests of one client are handled before everybody else has a turn.
_TURN_S = 0.002
# How often a client that has sent its last is looked at: gone, or only done with sending?
_HANGUP_POLL_S = 0.05
# News are no answers: a client that leaves so much unread gets no more of its progress, and is not kept
# for the sake of what changed.
_UNREAD_NEWS_BYTES = 1_048_576
_RETRY_AFTER_MS = 200


class Session:
    """Serves one client until it goes, stops reading, or breaks the framing."""

    def __init__(
        self, methods: Methods, *, is_draining: Callable[[], bool], is_turned_away: bool = False
    ) -> None:
        """Answer with *methods*; a client that is *turned away* is told `overloaded` and let go."""
        server = methods.settings.server
        self._methods = methods
        self._is_draining = is_draining
        self._is_turned_away = is_turned_away
        self._max_in_flight = server.max_in_flight
        self._framer = Framer(server.max_frame_bytes)
        self._stream = Stream(self, server.send_timeout_s)
        self._loop = asyncio.get_running_loop()
        self._codec: Codec | None = None
        self._bodies: deque[bytes] = deque()
        self._has_ended = False
        self._is_waiting = False
        self._over = anyio.Event()
        self._running: dict[Id, anyio.CancelScope] = {}
        self._unanswered = 0
        self._at_once: dict[str, Callable[[Any], Struct]] = {
            "initialize": lambda params: methods.initialize(self._codec_of().framing, params.require),
            "status": methods.status,
            "stores": methods.stores,
            "subscribe": self._subscribe,
            "$/cancelRequest": self._cancel,
        }
        self._idle = anyio.Event()

    async def run(self, client: socket.socket) -> None:
        """Serve *client* until the end and close it.

        Never raises but for cancellation: what fails here ends no other session.
        """
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                await self._stream.open(client)
                await self._over.wait()
                await self._finish()
                tasks.cancel_scope.cancel()
        except* Exception:
            log.exception("session_failed")
        finally:
            self._over.set()  # whatever may still come in
            self._methods.inventory.listeners.discard(self._stores_changed)
            with anyio.CancelScope(shield=True):
                await self._stream.close()
            client.close()

    # ----------------------------------------------------------------- what the stream tells

    def received(self, data: bytes) -> None:
        """Handle *data*; where there is more to be had at once, after everybody else's turn."""
        self._bodies.extend(self._framer.feed(data))
        if self._is_turned_away and self._bodies:
            self._has_ended = True  # it hears its answer, and that is all
        if len(data) < READ_BYTES:
            self._work()
        else:
            self._wait()

    def ended(self) -> None:
        """Handle the rest, and end."""
        self._has_ended = True
        self._bodies.extend(self._framer.finish())
        self._work()

    def caught_up(self) -> None:
        """Go on where a client that did not read made us stop."""
        self._work()
        self._idle.set()

    def lost(self) -> None:
        """Give up."""
        self._bodies.clear()
        self._over.set()
        self._idle.set()

    # ----------------------------------------------------------------- a turn

    def _wait(self) -> None:
        self._stream.hold()
        if not self._is_waiting:
            self._is_waiting = True
            self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_waiting = False
        self._work()

    def _work(self) -> None:
        try:
            self._go_on()
        except Exception:
            log.exception("session_failed")
            self._stream.abort()

    def _go_on(self) -> None:
        """Handle what came, for one turn at most and as long as the replies get out; then read on, or end."""
        if self._over.is_set():
            return
        stream = self._stream
        self._handle_some()
        if not self._bodies and self._is_done():
            self._over.set()
        stream.flush()
        if stream.is_choked:
            return  # nothing is read either, until the client has `caught_up`
        if self._bodies:
            self._wait()
        elif self._over.is_set():
            stream.hold()
        else:
            stream.release()

    def _handle_some(self) -> None:
        stream, bodies = self._stream, self._bodies
        until = time.monotonic() + _TURN_S
        while bodies and not stream.is_choked:
            self._handle(bodies.popleft())
            if stream.unsent_bytes >= PIECE_BYTES:
                stream.flush()
            if time.monotonic() >= until:
                break

    def _is_done(self) -> bool:
        """Tell whether nothing more is to be handled, ever."""
        if self._framer.error is not None:
            # A stream whose framing nobody knows gets its answer as a line, which a person can read.
            codec = self._codec or Codec(self._framer.framing or "lines")
            error = self._framer.error
            self._stream.put(codec.failure(None, RequestFailed(error.code, error.message)))
            return True
        return self._has_ended

    # ----------------------------------------------------------------- a request

    def _handle(self, body: bytes) -> None:
        codec = self._codec_of()
        try:
            call = codec.read(body)
        except Rejected as rejected:
            self._stream.put(codec.failure(rejected.request_id, rejected.failed))
            return
        if call is None:
            return
        if call.id is not None:
            reply = self._reply_at_once(codec, call, call.id)
            if reply is not None:
                self._stream.put(reply)
        elif isinstance(call.params, CancelParams):
            self._cancel(call.params)

    def _reply_at_once(self, codec: Codec, call: Call, request_id: Id) -> bytes | None:
        """Return the framed reply, None where a task was begun that will give it."""
        try:
            result = self._admit(codec, call, request_id)
        except RequestFailed as failed:
            return codec.failure(request_id, failed)
        except Exception:
            log.exception("request_failed", method=call.method)
            return codec.failure(request_id, _internal())
        return None if result is None else codec.response(request_id, result)

    def _admit(self, codec: Codec, call: Call, request_id: Id) -> bytes | None:
        """Return the encoded result of what is answered at once; give everything else a task.

        Raises:
            RequestFailed: `overloaded`, `draining`, `invalid_request`, or what an inline method raises.
        """
        if self._is_turned_away:
            raise RequestFailed("overloaded", "too many connections", retry_after_ms=_RETRY_AFTER_MS)
        if request_id in self._running:
            raise RequestFailed("invalid_request", f"a request with id {request_id!r} is still running")
        if self._is_draining():
            raise RequestFailed("draining", "the daemon is stopping", "connect again")
        result = self._inline(codec, call)
        if result is not None:
            return result
        if len(self._running) >= self._max_in_flight:
            message = f"{self._max_in_flight} requests are in flight on this connection"
            raise RequestFailed("overloaded", message, retry_after_ms=_RETRY_AFTER_MS)
        # The scope exists before the task runs, so that a cancel in the same read finds it.
        self._running[request_id] = scope = anyio.CancelScope()
        self._unanswered += 1
        self._methods.gauges.in_flight += 1
        self._tasks.start_soon(self._serve, call, request_id, scope)
        return None

    def _inline(self, codec: Codec, call: Call) -> bytes | None:
        """Return the encoded result of a request that needs no task, None for one that does."""
        if call.method == "ping":
            return codec.nothing
        answer = self._at_once.get(call.method)
        if answer is not None and self._methods.is_at_once(call.method):
            return codec.encode(answer(call.params))
        return self._methods.remembered(codec, call.method, call.params)

    async def _serve(self, call: Call, request_id: Id, scope: anyio.CancelScope) -> None:
        try:
            reply = None
            with scope:
                reply = await self._reply(request_id, call)
            if reply is None:
                cancelled = RequestFailed("cancelled", "the request was cancelled")
                reply = self._codec_of().failure(request_id, cancelled)
            del self._running[request_id]  # before the reply is out: the client may use the id again at once
            if self._running:  # which may be answered in this turn too
                self._stream.send(reply)
            else:
                self._stream.put(reply)
                self._stream.flush()
            await self._stream.settle()  # a daemon that stops has not answered before
        finally:
            self._methods.gauges.in_flight -= 1
            self._unanswered -= 1
            if not self._unanswered:
                self._idle.set()

    async def _reply(self, request_id: Id, call: Call) -> bytes:
        codec = self._codec_of()
        try:
            report = self._report(call.params)
            return codec.response(
                request_id, await self._methods.answer(codec, call.method, call.params, report)
            )
        except RequestFailed as failed:
            return codec.failure(request_id, failed)
        except Exception:
            log.exception("request_failed", method=call.method)
            return codec.failure(request_id, _internal())

    def _report(self, params: Any) -> Any:
        token = getattr(params, "partialResultToken", None)
        if token is None:
            return None

        async def report(partial: Partial) -> None:  # waits for nothing: no store waits for a slow client
            if self._stream.unsent_bytes < _UNREAD_NEWS_BYTES:
                self._stream.send(self._codec_of().notification("$/progress", Progress(token, partial)))

        return report

    # ----------------------------------------------------------------- what concerns the session itself

    def _cancel(self, params: CancelParams) -> PingResult:
        scope = self._running.get(params.id)
        if scope is not None:
            scope.cancel()
        return PingResult()

    def _subscribe(self, params: SubscribeParams) -> SubscribeResult:
        if params.topics:
            self._methods.inventory.listeners.add(self._stores_changed)
        else:
            self._methods.inventory.listeners.discard(self._stores_changed)
        return SubscribeResult(sorted(set(params.topics)))

    def _stores_changed(self, changes: Changes) -> None:
        if self._stream.unsent_bytes < _UNREAD_NEWS_BYTES:
            self._stream.send(self._codec_of().notification("stores/changed", changes))
        else:
            self._stream.drop("it does not read the news that it subscribed to")

    def _codec_of(self) -> Codec:
        if self._codec is None:
            self._codec = self._methods.codec(self._framer.framing or "lines")
        return self._codec

    async def _finish(self) -> None:
        """After the client's last byte: let what it asked be answered, unless it is gone altogether."""
        while (self._unanswered or not self._stream.is_settled) and not self._stream.is_hung_up():
            self._idle = anyio.Event()
            with anyio.move_on_after(_HANGUP_POLL_S):
                await self._idle.wait()


def _internal() -> RequestFailed:
    return RequestFailed("internal", "collated failed; its log has the traceback")
