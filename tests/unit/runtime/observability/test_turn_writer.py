"""Lines are written together, in order, and none is left behind."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
from pathlib import Path

from runtime.observability.turn_writer import TurnWriter

ROOT = Path(__file__).parents[4]


class Counted(io.StringIO):
    """Counts its writes."""

    writes = 0

    def write(self, text: str) -> int:
        self.writes += 1
        return super().write(text)


async def test_the_lines_of_a_turn_are_one_write() -> None:
    out = Counted()
    lines = TurnWriter(out)
    lines.msg("one")
    lines.write("two\n")
    lines.msg("three")
    before = out.getvalue()
    await asyncio.sleep(0)
    assert (before, out.getvalue(), out.writes) == ("", "one\ntwo\nthree\n", 1)
    lines.msg("four")
    await asyncio.sleep(0)
    assert (out.getvalue(), out.writes) == ("one\ntwo\nthree\nfour\n", 2)


def test_without_a_loop_a_line_is_written_at_once() -> None:
    out = io.StringIO()
    TurnWriter(out).msg("one")
    assert out.getvalue() == "one\n"


def test_what_a_loop_has_left_is_written_with_the_next_line() -> None:
    out = io.StringIO()
    lines = TurnWriter(out)
    loop = asyncio.new_event_loop()

    async def say() -> None:
        lines.msg("one")
        loop.stop()

    task = loop.create_task(say())
    loop.run_forever()
    assert task.done()
    loop.close()

    async def more() -> None:
        lines.msg("two")
        await asyncio.sleep(0)

    asyncio.run(more())
    assert out.getvalue() == "one\ntwo\n"


async def test_a_line_from_a_thread_is_written_with_those_before_it() -> None:
    out = io.StringIO()
    lines = TurnWriter(out)
    lines.msg("one")
    await asyncio.to_thread(lines.msg, "two")
    await asyncio.sleep(0)
    assert out.getvalue() == "one\ntwo\n"


def test_the_last_line_of_a_process_is_written() -> None:
    code = (
        "import asyncio, sys\nfrom runtime.observability.turn_writer import TurnWriter\n"
        "lines = TurnWriter(sys.stdout)\n"
        "async def main():\n    lines.msg('last')\n    asyncio.get_running_loop().stop()\n"
        "loop = asyncio.new_event_loop()\ntask = loop.create_task(main())\nloop.run_forever()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "last\n"
