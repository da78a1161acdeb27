"""The engines of a deployment: named, asked about, and light for those who only ask."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from runtime.adapters.clock import ManualClock
from runtime.contract.states import ProgressStatus
from runtime.execution.entry_point import EntryPointEngine
from runtime.execution.flow.engine import FlowEngine
from runtime.execution.process.starter import ProcessStarter
from runtime.execution.registry import Engines, EngineTools
from runtime.ports.engine import Isolation, RunContext

PLACES = {"wordcount": "jobs.word_count:run", "flow": ""}


def with_tools() -> Engines:
    clock = ManualClock()
    return Engines(PLACES, EngineTools(clock=clock, starter=ProcessStarter(clock)))


def test_names_are_sorted_and_an_unknown_one_is_a_fault_that_lists_them() -> None:
    engines = Engines(PLACES)
    assert engines.names() == ("flow", "wordcount")
    assert engines.check("other", {}) == [("", "there is no engine 'other'; there are flow, wordcount")]


def test_a_definition_is_checked_by_its_engine() -> None:
    engines = Engines(PLACES)
    good = {"start": "a", "nodes": {"a": {"type": "set", "value": 1}}}
    assert engines.check("flow", good) == []
    assert [pointer for pointer, _ in engines.check("flow", {})] == ["/start", "/nodes"]
    assert engines.check("wordcount", {}) == []
    assert [pointer for pointer, _ in engines.check("wordcount", good)] == [""]


def test_each_engine_says_how_it_is_isolated() -> None:
    engines = with_tools()
    flow, words = engines.get("flow"), engines.get("wordcount")
    assert isinstance(flow, FlowEngine)
    assert isinstance(words, EntryPointEngine)
    assert (flow.isolation, words.isolation) == (Isolation.INLINE, Isolation.PROCESS)
    assert words.check({}) == []
    assert words.check({"x": 1}) != []
    assert engines.get("other") is None


async def test_flows_ask_the_hosts_that_the_settings_name_and_no_others() -> None:
    clock = ManualClock()
    tools = EngineTools(clock=clock, starter=ProcessStarter(clock), http_hosts=("api.example",))
    flow = {"start": "a", "nodes": {"a": {"type": "http", "url": "https://other.example/"}}}
    engine = Engines(PLACES, tools).get("flow")
    assert engine is not None

    async def emit(event_type: str, payload: object) -> None:
        """Nobody listens."""

    result = await engine.run(RunContext("r1", 1, flow, None, 60, emit, asyncio.Event()))
    assert result.status is ProgressStatus.FAILED
    assert "'other.example' is not among the hosts that flows may reach here" in str(result.error)


async def test_engines_without_tools_only_answer_questions() -> None:
    with pytest.raises(RuntimeError):
        Engines(PLACES).get("flow")
    with pytest.raises(RuntimeError):
        await Engines(PLACES).missing()


def test_asking_about_engines_loads_nothing_that_runs_them() -> None:
    code = (
        "import sys; from runtime.execution.registry import Engines;"
        "Engines({'flow': '', 'w': 'a:b'}).check('flow', {});"
        "print([name for name in ('aiohttp', 'multiprocessing', 'ctypes', 'structlog', 'google',"
        " 'runtime.execution.process.starter') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_user_code_is_forked_from_has_loaded_nothing_of_the_service() -> None:
    code = (
        "import sys; import runtime.execution.process.forkserver;"
        "print([name for name in ('aiohttp', 'msgspec', 'structlog', 'google', 'grpc', 'cryptography', 'ssl',"
        " 'runtime.execution.callbacks', 'runtime.identity') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("[]", "['ssl']"), "asyncio itself may load ssl"
