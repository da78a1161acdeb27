"""A job that leaves a mark outside everything that the stack keeps."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.execution.process.child import RunningJob


def run(job: RunningJob) -> str:
    """Writes its run's id as one line to the file `input.marks`."""
    descriptor = os.open(job.input["marks"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{job.run_id}\n".encode())
    finally:
        os.close(descriptor)
    return "marked"
