"""What waits for the callers of streams: bounded for each of them, and for all of a process together."""

from __future__ import annotations

from typing import Final

from runtime.contract.limits import MIB

CALLER_BYTES: Final = 8 * MIB
"""Most that waits for one caller."""
PROCESS_BYTES: Final = 64 * MIB
"""Most that waits for all callers of a process, an eighth of the memory that an instance of the API has by default."""
SHARE_BYTES: Final = MIB // 4
"""What may wait for a caller whatever waits for others: one that keeps up does not pay for those that do not."""


class Backlogs:
    """Those of one process.

    Attributes:
        size: bytes that wait in all of them.
    """

    def __init__(self) -> None:
        self.size = 0


class Backlog:
    """Bytes on their way to one caller. Nobody waits for room: what does not fit is refused.

    Args:
        all_backlogs: of the process.
    """

    def __init__(self, all_backlogs: Backlogs) -> None:
        self._all = all_backlogs
        self._data = bytearray()

    def __len__(self) -> int:
        return len(self._data)

    def put(self, data: bytes) -> bool:
        """Adds data; False where the caller is too far behind. One that has taken everything is not, whatever comes."""
        size = len(self._data) + len(data)
        is_over = size > CALLER_BYTES or (self._all.size + len(data) > PROCESS_BYTES and size > SHARE_BYTES)
        if self._data and is_over:
            return False
        self._data += data
        self._all.size += len(data)
        return True

    def take(self, most: int) -> bytes:
        """The next bytes, at most so many; none where nothing waits."""
        taken = bytes(self._data[:most])
        del self._data[:most]
        self._all.size -= len(taken)
        return taken

    def clear(self) -> None:
        """Nothing of it will be taken."""
        self._all.size -= len(self._data)
        self._data.clear()
