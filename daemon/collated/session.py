"""One connection: reads frames, answers each request exactly once, drops a client that stops reading."""

import select
import socket
from collections.abc import Callable
from typing import Any

import anyio
import anyio.abc
import structlog

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

__all__ = ["Session"]

log = structlog.get_logger()

_READ_BYTES = 65_536
# How often a client that has sent its last is looked at: gone, or only done with sending?
_HANGUP_POLL_S = 0.05
_RETRY_AFTER_MS = 200


class Session:
    """Serves one client until it goes, stops reading, or breaks the framing."""

    def __init__(
        self,
        stream: anyio.abc.SocketStream,
        methods: Methods,
        *,
        is_draining: Callable[[], bool],
        is_turned_away: bool = False,
    ) -> None:
        """Serve *stream*; a client that is *turned away* is told `overloaded` once."""
        server = methods.settings.server
        self._stream = stream
        self._methods = methods
        self._is_draining = is_draining
        self._is_turned_away = is_turned_away
        self._framer = Framer(server.max_frame_bytes)
        self._max_in_flight = server.max_in_flight
        self._send_timeout_s = server.send_timeout_s
        self._codec: Codec | None = None
        self._outbox: list[bytes] = []
        self._sending = anyio.Lock()
        self._running: dict[Id, anyio.CancelScope] = {}
        self._unanswered = 0
        self._at_once: dict[str, Callable[[Any], Any]] = {
            "ping": lambda _: PingResult(),
            "initialize": lambda _: methods.initialize(self._codec_of().framing),
            "status": methods.status,
            "stores": methods.stores,
            "subscribe": self._subscribe,
            "$/cancelRequest": self._cancel,
        }
        self._idle = anyio.Event()

    async def run(self) -> None:
        """Serve until the end; never raises but for cancellation: what fails here ends no other session."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                await self._read()
                await self._finish()
                tasks.cancel_scope.cancel()
        except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
            log.debug("client_gone")
        except* TimeoutError:
            log.warning("client_dropped", reason="it stopped reading", send_timeout_s=self._send_timeout_s)
        except* Exception:
            log.exception("session_failed")
        finally:
            self._methods.inventory.listeners.discard(self._stores_changed)
            with anyio.CancelScope(shield=True):
                await self._stream.aclose()

    # ----------------------------------------------------------------- reading

    async def _read(self) -> None:
        """Handle frames until the end of the file, or until the framing is broken."""
        while True:
            try:
                data = await self._stream.receive(_READ_BYTES)
            except anyio.EndOfStream:
                bodies, is_end = self._framer.finish(), True
            else:
                bodies, is_end = self._framer.feed(data), False
            for body in bodies:
                await self._handle(body)
            if self._framer.error is not None:
                self._refuse(RequestFailed(self._framer.error.code, self._framer.error.message))
            await self._flush()
            if is_end or self._framer.error is not None or self._is_turned_away:
                return

    async def _handle(self, body: bytes) -> None:
        codec = self._codec_of()
        try:
            call = codec.read(body)
        except Rejected as rejected:
            self._outbox.append(codec.failure(rejected.request_id, rejected.failed))
            return
        if call is None:
            return
        if call.id is None:
            if isinstance(call.params, CancelParams):
                self._cancel(call.params)
            return
        try:
            self._admit(call, call.id)
        except RequestFailed as failed:
            self._outbox.append(codec.failure(call.id, failed))

    def _admit(self, call: Call, request_id: Id) -> None:
        """Answer at once what is cheap, and give the rest a task.

        Raises:
            RequestFailed: `overloaded`, `draining`, `invalid_request`, or what an inline method raises.
        """
        if self._is_turned_away:
            raise RequestFailed("overloaded", "too many connections", retry_after_ms=_RETRY_AFTER_MS)
        if request_id in self._running:
            raise RequestFailed("invalid_request", f"a request with id {request_id!r} is still running")
        if self._is_draining():
            raise RequestFailed("draining", "the daemon is stopping", "connect again")
        result = self._inline(call)
        if result is not None:
            self._outbox.append(self._codec_of().response(request_id, result))
            return
        if len(self._running) >= self._max_in_flight:
            message = f"{self._max_in_flight} requests are in flight on this connection"
            raise RequestFailed("overloaded", message, retry_after_ms=_RETRY_AFTER_MS)
        # The scope exists before the task runs, so that a cancel in the same read finds it.
        self._running[request_id] = scope = anyio.CancelScope()
        self._unanswered += 1
        self._methods.gauges.in_flight += 1
        self._tasks.start_soon(self._serve, call, request_id, scope)

    def _inline(self, call: Call) -> bytes | None:
        """Return the encoded result of a request that needs no task, None for one that does."""
        codec = self._codec_of()
        answer = self._at_once.get(call.method)
        if answer is not None and self._methods.is_at_once(call.method):
            return codec.encode(answer(call.params))
        return self._methods.remembered(codec, call.method, call.params)

    # ----------------------------------------------------------------- answering

    async def _serve(self, call: Call, request_id: Id, scope: anyio.CancelScope) -> None:
        try:
            reply = self._codec_of().failure(
                request_id, RequestFailed("cancelled", "the request was cancelled")
            )
            with scope:
                reply = await self._reply(request_id, call)
            del self._running[request_id]  # before the reply is out: the client may use the id again at once
            self._outbox.append(reply)
            await self._flush()
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
            return codec.failure(
                request_id, RequestFailed("internal", "collated failed; its log has the traceback")
            )

    def _report(self, params: Any) -> Any:
        token = getattr(params, "partialResultToken", None)
        if token is None:
            return None

        async def report(partial: Partial) -> None:
            self._outbox.append(self._codec_of().notification("$/progress", Progress(token, partial)))
            # Not awaited: no store waits for a slow client, and a cancel must not cut a message in two.
            self._tasks.start_soon(self._flush)

        return report

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
        self._outbox.append(self._codec_of().notification("stores/changed", changes))
        self._tasks.start_soon(self._flush)

    def _refuse(self, failed: RequestFailed) -> None:
        # A stream whose framing nobody knows gets its answer as a line, which a person can read.
        codec = self._codec or Codec(self._framer.framing or "lines")
        self._outbox.append(codec.failure(None, failed))

    # ----------------------------------------------------------------- the stream

    def _codec_of(self) -> Codec:
        if self._codec is None:
            self._codec = self._methods.codec(self._framer.framing or "lines")
        return self._codec

    async def _flush(self) -> None:
        """Send what is in the outbox; several replies go out in one write.

        Raises:
            TimeoutError: the client does not read.
        """
        async with self._sending:
            if self._outbox:
                data = b"".join(self._outbox)
                self._outbox.clear()
                with anyio.fail_after(self._send_timeout_s):
                    await self._stream.send(data)

    async def _finish(self) -> None:
        """After the client's last byte: let what it asked be answered, unless it is gone altogether."""
        raw: socket.socket = self._stream.extra(anyio.abc.SocketAttribute.raw_socket)  # noqa: S610 - not Django
        poll = select.poll()
        poll.register(raw.fileno(), 0)  # POLLHUP is always reported: both directions are shut
        while self._unanswered:
            if any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0)):
                return
            self._idle = anyio.Event()
            with anyio.move_on_after(_HANGUP_POLL_S):
                await self._idle.wait()
