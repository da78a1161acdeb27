"""What every server of one run is told: whose tokens it takes, and where the stores are."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

VARIABLE: Final = "BENCH_SETUP"
"""Environment variable with the path of a setup's file."""


@dataclass(frozen=True, slots=True)
class Setup:
    """One run's identities.

    Attributes:
        jwks: path of the key set of the push identity.
        firestore: `host:port` of the emulator; "" where none runs.
        job_public: PEM.
    """

    jwks: str
    job_public: str
    firestore: str = ""
    audience: str = "https://worker-123456789012.europe-west1.run.app"
    account: str = "push@bench-project.iam.gserviceaccount.com"
    subscription: str = "projects/bench-project/subscriptions/execution"
    kid: str = "bench-key"
    job_kid: str = "v1"

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls) -> Self:
        return cls(**json.loads(Path(os.environ[VARIABLE]).read_text()))
