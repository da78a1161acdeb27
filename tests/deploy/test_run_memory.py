"""All runs that an instance takes at once, at their limits, fit into it beside the service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.alignment import Plans
from infra.misalignment import misalignments
from infra.run_memory import RUN_MEMORY_MIN, SERVICE_MEMORY, run_memory
from infra.sections.api import ApiPlan
from infra.sections.executor import ExecutorPlan
from infra.sections.worker import WorkerPlan
from runtime.contract.settings.run_memory import RUN_MEMORY
from sandbox.stack_file import read_stack_file
from sandbox.world import SERVICE
from tests.support.stacks import realised, refused

ROOT = Path(__file__).parents[2]
STACKS = sorted(path.name for path in ROOT.glob("Pulumi.*.yaml"))
SIZES = {"Mi": 1, "Gi": 1024}
ENGINES = {"count": "jobs.word_count:run"}

sizes = st.fixed_dictionaries(
    {
        "concurrency": st.integers(1, 1000),
        "memory": st.sampled_from(["128Mi", "320Mi", "512Mi", "1Gi", "2Gi", "4Gi", "16Gi", "32Gi"]),
    }
)


@pytest.mark.parametrize("stack", STACKS)
def test_every_stack_of_ours_leaves_its_runs_what_it_says(stack: str, tmp_path: Path) -> None:
    values = read_stack_file(ROOT / stack)
    sections: dict[str, Any] = {name: values.get(f"holdfast:{name}", {}) for name in ("worker", "executor")}
    world = realised(tmp_path, **sections, engines=ENGINES).world
    for name in ("holdfast-execution", "holdfast-executor"):
        service = world.find(SERVICE, name)
        assert service is not None
        template = service.inputs["template"]
        (container,) = template["containers"]
        (limit,) = (int(entry["value"]) for entry in container["envs"] if entry["name"] == RUN_MEMORY)
        memory = container["resources"]["limits"]["memory"]
        whole = int(memory[:-2]) * SIZES[memory[-2:]]
        assert limit >= RUN_MEMORY_MIN
        assert SERVICE_MEMORY + template["maxInstanceRequestConcurrency"] * limit <= whole


@given(sizes, sizes)
def test_what_passes_fits_and_what_does_not_names_a_change_that_does(
    worker: dict[str, Any], executor: dict[str, Any]
) -> None:
    plans = Plans(
        WorkerPlan.model_validate(worker), ApiPlan(), ExecutorPlan.model_validate(executor), entry_points=True
    )
    found = {one.rule_id: one for one in misalignments(plans)}
    for name, plan in (("worker", worker), ("executor", executor)):
        limit = run_memory(plan["memory"], plan["concurrency"])
        assert (f"{name}-run-memory" in found) is (limit < RUN_MEMORY_MIN)
        assert found.get(f"{name}-run-memory") is None or found[f"{name}-run-memory"].passing


def test_flows_alone_have_limits_of_their_own_and_may_share_any_instance() -> None:
    plans = Plans(WorkerPlan.model_validate({"concurrency": 1000}), ApiPlan(), ExecutorPlan())
    assert misalignments(plans) == []


@pytest.mark.parametrize(
    ("executor", "passing"),
    [
        ({"concurrency": 80}, "holdfast:executor.concurrency: 12 would pass"),
        ({"memory": "256Mi"}, "holdfast:executor.memory: 1Gi would pass"),
    ],
)
def test_a_stack_whose_runs_do_not_fit_is_refused(executor: dict[str, Any], passing: str) -> None:
    (said,) = refused(executor=executor, engines=ENGINES)
    assert "(executor-run-memory: " in said
    assert "with 256 MiB for the service, each run must have at least 64 MiB" in said
    assert said.replace('"', "").endswith(passing)
