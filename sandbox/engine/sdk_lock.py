"""One program at a time: the SDK's settings have process-wide defaults beside their context variables."""

from __future__ import annotations

import threading
from typing import Final

ONE_AT_A_TIME: Final = threading.Lock()
"""Held while a program runs in this process, on either engine."""
