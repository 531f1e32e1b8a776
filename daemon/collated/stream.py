"""One client's bytes: read while its replies get out, written in few pieces, dropped when nobody reads them.

This is asyncio's transport itself and no anyio stream: a reply is written where its request was read, with
no switch of tasks, which costs ten times what answering a `ping` does (DESIGN §6).
"""

import asyncio
import select
import socket
from collections import deque
from typing import Protocol, cast

import anyio
import structlog

__all__ = ["PIECE_BYTES", "READ_BYTES", "Owner", "Stream"]

log = structlog.get_logger()

# What is read of one client in one turn of the loop.
READ_BYTES = 65_536
# Messages are put together up to this length before they are written; a longer one is written by itself.
PIECE_BYTES = 262_144
# All clients are read into this: it is filled and emptied within one callback, and a process has one loop.
# A new 256 KiB for each read, which `asyncio.Protocol` would get, costs as much as all the rest of an echo.
_BUFFER = memoryview(bytearray(READ_BYTES))


class Owner(Protocol):
    """Who is told of what happens to a stream."""

    def received(self, data: bytes) -> None:
        """Take what was read, up to `READ_BYTES`."""

    def ended(self) -> None:
        """Know that the client has sent its last byte; it may still read."""

    def caught_up(self) -> None:
        """Know that a client that did not read has read everything."""

    def lost(self) -> None:
        """Know that nothing can be read or written any more."""


class Stream(asyncio.BufferedProtocol):
    """A connected socket and the messages that are not written yet, in order.

    `is_choked` means that something written was not taken by the client. As long as that is so nothing more
    is written or read, and a client that takes nothing at all for *send_timeout_s* is dropped.
    """

    def __init__(self, owner: Owner, send_timeout_s: float) -> None:
        """Tell *owner* what happens."""
        self.is_choked = False
        self.is_lost = False
        self.unsent_bytes = 0
        self._owner = owner
        self._send_timeout_s = send_timeout_s
        self._loop = asyncio.get_running_loop()
        self._is_open = False
        self._has_ended = False
        self._is_held = False
        self._unsent: deque[bytes] = deque()
        self._flushing: asyncio.Handle | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._untaken_bytes = 0
        self._moved: anyio.Event | None = None

    async def open(self, client: socket.socket) -> None:
        """Read from *client* from now on, until `close`."""
        client.setblocking(False)
        self._client = client
        with anyio.CancelScope(shield=True):  # of a few turns: a stream that is half open could not be closed
            await self._loop.connect_accepted_socket(lambda: self, client)

    async def close(self) -> None:
        """Let the socket go; what the client has not taken by now is lost."""
        if not self._is_open:
            return
        if self.is_settled:
            self._transport.close()
        else:
            self._transport.abort()
        while not self.is_lost:
            await self._next_move()

    # ----------------------------------------------------------------- writing

    @property
    def is_settled(self) -> bool:
        """Tell whether nothing waits to be written; nothing does where nobody is left."""
        return self.is_lost or not (self._unsent or self.is_choked)

    async def settle(self) -> None:
        """Wait until nothing waits to be written."""
        while not self.is_settled:
            await self._next_move()

    def put(self, message: bytes) -> None:
        """Keep *message* until the next `flush`."""
        self._unsent.append(message)
        self.unsent_bytes += len(message)

    def send(self, message: bytes) -> None:
        """Write *message* in the next turn of the loop, together with others of this one."""
        self.put(message)
        if self._flushing is None and not self.is_choked:
            self._flushing = self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what was put, in few pieces, as far as the client takes it."""
        self._flushing = None
        while self._unsent and not self.is_choked:
            if self._transport.is_closing():
                self._forget()
            else:
                self._transport.write(self._next_piece())
        if self._moved is not None and self.is_settled:
            self._move()

    def drop(self, reason: str) -> None:
        """Give up a client that is to blame, and what it has not read."""
        log.warning("client_dropped", reason=reason, send_timeout_s=self._send_timeout_s)
        self.abort()

    def abort(self) -> None:
        """Close at once; the owner is told, as of every end."""
        self._transport.abort()

    def _next_piece(self) -> bytes:
        pieces = [self._unsent.popleft()]
        length = len(pieces[0])
        while self._unsent and length + len(self._unsent[0]) <= PIECE_BYTES:
            pieces.append(self._unsent.popleft())
            length += len(pieces[-1])
        self.unsent_bytes -= length
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _forget(self) -> None:
        self._unsent.clear()
        self.unsent_bytes = 0

    async def _next_move(self) -> None:
        self._moved = self._moved or anyio.Event()
        await self._moved.wait()

    def _move(self) -> None:
        moved, self._moved = self._moved, None
        if moved is not None:
            moved.set()

    # ----------------------------------------------------------------- reading

    def hold(self) -> None:
        """Read nothing more until `release`; the client's bytes stay with the system."""
        if not self._is_held:
            self._is_held = True
            self._transport.pause_reading()

    def release(self) -> None:
        """Read on, unless the client does not read or has sent its last."""
        if self._is_held and not (self.is_choked or self._has_ended):
            self._is_held = False
            self._transport.resume_reading()

    def is_hung_up(self) -> bool:
        """Tell whether the client is gone altogether, not only done with sending."""
        if self.is_lost:
            return True
        poll = select.poll()
        poll.register(self._client, 0)  # POLLHUP is always reported: both directions are shut
        return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))

    # ----------------------------------------------------------------- what asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, with a transport that chokes on whatever the system does not take at once."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it
        self._transport.set_write_buffer_limits(0)
        self._is_open = True

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where to read to."""
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """Hand over what was read."""
        self._owner.received(bytes(_BUFFER[:nbytes]))

    def eof_received(self) -> bool:
        """Keep the connection, for replies."""
        self._has_ended = True
        self._owner.ended()
        return True

    def pause_writing(self) -> None:
        """Write and read nothing while the client takes what there is."""
        self.is_choked = True
        self.hold()
        self._be_patient()

    def resume_writing(self) -> None:
        """Go on, for the client has taken everything."""
        self.is_choked = False
        self._stop_waiting()
        self.flush()
        if not self.is_choked:
            self._owner.caught_up()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody; whoever waits, waits no longer."""
        if exc is None or isinstance(exc, OSError):
            log.debug("client_gone", error=str(exc or ""))
        else:
            log.error("session_failed", exc_info=exc)
        self.is_lost = True
        self._forget()
        self._stop_waiting()
        self._owner.lost()
        self._move()

    def _be_patient(self) -> None:
        self._untaken_bytes = self._transport.get_write_buffer_size()
        self._patience = self._loop.call_later(self._send_timeout_s, self._lose_patience)

    def _lose_patience(self) -> None:
        # A slow client is not a deaf one. Nothing is written meanwhile, so less to take means that it reads.
        if self._transport.get_write_buffer_size() < self._untaken_bytes:
            self._be_patient()
        else:
            self.drop("it stopped reading")

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
