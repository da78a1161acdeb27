"""Fixed numbers of the platform and of the wire, each with where it comes from."""

from __future__ import annotations

from typing import Final

MIB: Final = 1024 * 1024

PUSH_ENVELOPE_BYTES: Final = 14 * MIB
"""Largest push body: 10 MiB of data in base64 plus attributes."""
MESSAGE_DATA_BYTES: Final = 10 * MIB
"""Largest decoded data of a message; Pub/Sub's own limit is 10 MB."""
JSON_DEPTH: Final = 64
"""Deepest nesting accepted in an envelope, in message data and in API bodies."""
DOCUMENT_BYTES: Final = MIB
"""Firestore's limit for one document (Standard edition)."""
COMMIT_WRITES: Final = 500
"""Firestore's limit for one atomic commit."""
DOCUMENT_ID_BYTES: Final = 1500
"""Firestore's limit for a document id."""
INLINE_PAYLOAD_BYTES: Final = 256 * 1024
"""Largest run payload or result kept in a document."""
DEAD_LETTER_PAYLOAD_BYTES: Final = 512 * 1024
"""Largest message data kept beside its dead letter; the full message is in the native sink."""
API_BODY_BYTES: Final = 2 * MIB
"""Largest body of an API request; runs are refused above INLINE_PAYLOAD_BYTES with a clearer answer."""
JOB_BODY_BYTES: Final = 2 * MIB
"""Largest body of a call of the executor; the API keeps runs far below."""
EVENT_BYTES: Final = 64 * 1024
"""Largest event that an engine may emit, encoded."""
CALLBACK_BATCH_EVENTS: Final = 1000
"""Most events in one callback."""
CALLBACK_BATCH_BYTES: Final = 512 * 1024
"""Largest callback batch, encoded: it must fit a document."""

REQUEST_TIMEOUT_MAX: Final = 3600
"""Cloud Run: longest request, seconds."""
REQUEST_TIMEOUT_DEFAULT: Final = 300
"""Cloud Run: request timeout of a template that names none, seconds."""
ACK_DEADLINE_DEFAULT: Final = 10
"""Pub/Sub: ack deadline of a subscription that names none, seconds."""
ACK_DEADLINE_MAX: Final = 600
"""Pub/Sub: longest ack deadline, seconds; for push it is how long the broker waits for the answer."""
STARTUP_WINDOW_MAX: Final = 240
"""Cloud Run: longest startup probe window, seconds."""
DRAIN_SECONDS: Final = 10
"""Cloud Run: from SIGTERM to SIGKILL, seconds."""
SETTLE_BUDGET: Final = 30
"""Seconds kept free of work at the end of a request, for callbacks and settlement."""
BROKER_ATTEMPTS_MIN: Final = 5
"""Pub/Sub: smallest max_delivery_attempts."""
