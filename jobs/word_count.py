"""Counts the words of a text: a job as a plain Python function.

Deploy it by naming it in EXECUTION_ENGINES: `flow,word-count=jobs.word_count:run`.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # only for the editor: a job needs nothing of Holdfast to run
    from runtime.execution.process.child import RunningJob


def run(job: RunningJob) -> dict[str, Any]:
    """Counts `input.text`; `input.top` (default 3) is how many of the most frequent words are returned."""
    text = job.input.get("text") if isinstance(job.input, dict) else None
    if not isinstance(text, str):
        # A status of 400 or more makes the run `failed`; an exception would too, with status 502.
        return {"status_code": 422, "error": "input.text must be a string"}
    lines = text.splitlines()
    counts: Counter[str] = Counter()
    for number, line in enumerate(lines, 1):
        counts.update(re.findall(r"\w+", line.lower()))
        if number % 100 == 0 or number == len(lines):
            job.emit("progress", {"progress": 100 * number // len(lines), "current_step": f"line {number}"})
    top = [{"word": word, "count": count} for word, count in counts.most_common(int(job.input.get("top", 3)))]
    return {"words": counts.total(), "distinct": len(counts), "top": top}
