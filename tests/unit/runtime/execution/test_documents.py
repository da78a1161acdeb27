"""The pages about flows and jobs say what is so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from runtime.contract.limits import EVENT_BYTES, INLINE_PAYLOAD_BYTES
from runtime.execution.entry_point import ProcessLimits
from runtime.execution.event import RESERVED
from runtime.execution.flow import limits
from runtime.execution.flow.condition import WORDS
from runtime.execution.flow.engine import check_flow
from runtime.execution.flow.kinds import KINDS
from runtime.execution.process.output_log import LINE_BYTES, OUTPUT_BYTES, OUTPUT_LINES
from runtime.execution.process.run_process import TERM_GRACE_SECONDS
from tests.support.flow_bench import FlowBench

ROOT = Path(__file__).parents[4]
FORMAT = (ROOT / "docs/flow-format.md").read_text()
JOBS = (ROOT / "docs/bring-your-own-job.md").read_text()
HELLO = json.loads((ROOT / "jobs/hello.json").read_text())
KIB, MIB = 1024, 1024 * 1024


def test_the_examples_have_no_faults() -> None:
    examples = re.findall(r"```json\n(.*?)```", FORMAT, re.DOTALL)
    assert examples
    assert [check_flow(json.loads(example)) for example in examples] == [[]] * len(examples)


async def test_the_first_flow_greets() -> None:
    assert check_flow(HELLO) == []
    bench = FlowBench()
    result = await bench.run(HELLO, {"names": ["Ada", "Grace"]})
    assert result.output == {
        "greetings": ["Hello, Ada!", "Hello, Grace!"],
        "summary": "Attempt 2 of run r1 is done.",
    }
    assert bench.of("progress") == [{"progress": 50, "current_step": "greeted"}]


def test_every_kind_of_node_and_each_of_its_keys_is_described() -> None:
    rows: dict[str, str] = dict(re.findall(r"^\| `(\w+)` \|(.*)$", FORMAT, re.MULTILINE))
    for name, kind in KINDS.items():
        for key in (*kind.required, *kind.optional):
            assert f"`{key}`" in rows[name], f"{name}.{key}"


def test_every_condition_and_every_reserved_name_is_described() -> None:
    assert [word for word in WORDS if not re.search(rf"[`\"]{word}[`\"]", FORMAT)] == []
    assert [name for name in RESERVED if f"`{name}`" not in FORMAT] == []


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (limits.DEFINITION_BYTES, "definition | 256 KiB"),
        (limits.NODES, "nodes, all flows together | 500"),
        (limits.FLOWS, "sub flows | 50"),
        (limits.DEFINITION_DEPTH, "nesting of a value or condition | 32"),
        (limits.CASES, "cases of a branch | 100"),
        (limits.TEMPLATE_CHARACTERS, "text with `${...}` | 16384"),
        (limits.TEMPLATE_PARTS, "16384 characters, 200"),
        (limits.PATH_CHARACTERS, "path | 512"),
        (limits.PATH_STEPS, "512 characters, 32"),
        (limits.SECONDS, "`timeout_seconds`, `sleep` | 3600"),
        (limits.URL_CHARACTERS, "url, header value | 2048"),
        (limits.HEADER_CHARACTERS, "2048, 8192"),
        (limits.HEADERS, "headers | 50"),
        (limits.STEPS, "steps of a run (nodes and map items) | 100000"),
        (limits.CALL_DEPTH, "sub flows inside each other | 8"),
        (limits.MAP_ITEMS, "items of a map | 10000"),
        (limits.MAP_CONCURRENCY, "items of one map, of a run at a time | 16"),
        (limits.RUN_CONCURRENCY, "at a time | 16, 64"),
        (limits.VALUE_BYTES, "value of a node | 1 MiB"),
        (limits.STATE_BYTES, "values kept at one time | 16 MiB"),
        (INLINE_PAYLOAD_BYTES, "output of the run | 256 KiB"),
        (EVENT_BYTES, "event | 64 KiB"),
        (limits.HTTP_REQUEST_BYTES, "request and answer body | 1 MiB"),
        (limits.HTTP_RESPONSE_BYTES, "request and answer body | 1 MiB"),
        (limits.HTTP_CONNECT_SECONDS, "resolving and connecting | 5"),
        (limits.HTTP_SECONDS, "none of its own (`http`: 30"),
        (limits.FAULTS, "reports up to 100"),
    ],
)
def test_every_limit_of_flows_is_told_as_it_is(limit: int, said: str) -> None:
    assert said in FORMAT
    assert limit in _numbers(said)


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (EVENT_BYTES, "up to 64 KiB"),
        (INLINE_PAYLOAD_BYTES, "up to 256 KiB"),
        (ProcessLimits().memory_bytes, "otherwise 1024 MiB"),
        (LINE_BYTES, "lines are cut at 8 KiB"),
        (OUTPUT_LINES, "after 2000 lines"),
        (OUTPUT_BYTES, "lines or 1 MiB"),
        (int(TERM_GRACE_SECONDS), "and 2 s later"),
    ],
)
def test_every_limit_of_processes_is_told_as_it_is(limit: int, said: str) -> None:
    assert said in JOBS
    assert limit in _numbers(said)


def _numbers(said: str) -> list[int]:
    units = {"": 1, " KiB": KIB, " MiB": MIB}
    return [int(number) * units[unit] for number, unit in re.findall(r"(\d+)( KiB| MiB|)", said)]
