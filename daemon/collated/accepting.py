"""Takes in who connects, and lives on where the system has no descriptors left to do so."""

import socket
from collections.abc import Callable

import anyio

__all__ = ["accept"]

_AGAIN_S = 0.1


async def accept(listener: socket.socket, tell: Callable[[OSError], object]) -> socket.socket:
    """Return the next client of *listener*, which must not block, once there is one.

    Where the system refuses, being out of descriptors, say, it *tells* why, and tries again: those who are
    connected go on, and who waits is not lost.
    """
    while True:
        await anyio.wait_readable(listener)
        try:
            return listener.accept()[0]
        except BlockingIOError:
            continue  # who was there is gone
        except OSError as error:
            tell(error)
            await anyio.sleep(_AGAIN_S)
