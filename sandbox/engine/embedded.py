"""Runs the Pulumi program in this process, without the CLI, and realises what it declares in a world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pulumi.errors import RunError
from pulumi.runtime import run_in_stack, set_all_config
from pulumi.runtime.settings import Settings, configure

from sandbox.engine.changes import Changes
from sandbox.engine.collector import uncollected
from sandbox.engine.deployment import Deployment, DeploymentFailed
from sandbox.engine.judgement import violations
from sandbox.engine.monitor import EmbeddedLog, EmbeddedMonitor
from sandbox.engine.registration import Mutate, Registration, unchanged
from sandbox.engine.sdk_lock import ONE_AT_A_TIME
from sandbox.world import World


def realise(
    config: Mapping[str, str],
    secrets: Mapping[str, str],
    *,
    stack: str,
    world_dir: Path,
    project: str = "holdfast",
    program: Callable[[], None] | None = None,
    mutate: Mutate = unchanged,
    before: World | None = None,
    with_policies: bool = True,
) -> Deployment:
    """Runs the program once and brings the world to what it declares.

    Blocks for as long as the program runs; the calling thread may have a running event loop of its own.

    Args:
        config: the stack's values, full keys; structures as JSON text, as the real engine passes them.
        secrets: the stack's secret values, likewise.
        stack: name of the stack.
        world_dir: folder of the world; what is there is the state of the last run.
        project: name of the Pulumi project, from Pulumi.yaml.
        program: what to run; None runs the project's own, the same that `pulumi up` runs.
        mutate: for tests: changes or drops registrations.
        before: the last run's world where the caller still has it; None loads it from `world_dir`.
        with_policies: for tests: False leaves the policy pack out.

    Raises:
        DeploymentFailed: with a line for each fault; the world, in memory and on disk, is as it was.
    """
    number, region = config.get("holdfast:project_number", ""), config.get("gcp:region", "")
    now = World(config.get("gcp:project", ""), number, region, world_dir)
    last = World.load(world_dir) if before is None else before
    changes = Changes(before=World(now.project, number, region, world_dir) if last is None else last, now=now)
    log = EmbeddedLog()
    monitor = EmbeddedMonitor(stack, project, changes, mutate)

    def run() -> None:
        configure(Settings(project=project, stack=stack, monitor=monitor, engine=log, dry_run=False))
        set_all_config({**config, **secrets}, list(secrets))
        _run_program(program or _project_program())

    # A thread of its own has an empty context and no event loop: nothing of the caller's is touched.
    with ONE_AT_A_TIME, uncollected(), ThreadPoolExecutor(max_workers=1, thread_name_prefix="pulumi") as thread:
        error = thread.submit(run).exception()
    if error is not None or monitor.faults or log.errors:
        raise DeploymentFailed(_fault_lines(error, monitor, log)) from error
    advice = _judged(monitor.registrations) if with_policies else []
    return _finished(changes, monitor, [*log.warnings, *advice])


def _judged(registrations: Sequence[Registration]) -> list[str]:
    """What the policy pack advises; what it demands is refused."""
    found = violations(registrations)
    if refused := [str(one) for one in found if one.mandatory]:
        raise DeploymentFailed(refused)
    return [str(one) for one in found]


def _finished(changes: Changes, monitor: EmbeddedMonitor, warnings: Sequence[str]) -> Deployment:
    """Deletes what is left over, and saves."""
    deleted = tuple(resource.urn for resource in changes.leftovers())
    changes.now.save()
    return Deployment(
        outputs=monitor.outputs,
        secret_outputs=monitor.secret_outputs,
        world=changes.now,
        created=tuple(changes.created),
        updated=tuple(changes.updated),
        replaced=tuple(changes.replaced),
        deleted=deleted,
        unchanged=tuple(changes.unchanged),
        registrations=tuple(monitor.registrations),
        warnings=tuple(warnings),
    )


def _project_program() -> Callable[[], None]:
    from infra.program import program

    return program


def _run_program(program: Callable[[], None]) -> None:
    """Runs a program as the SDK's own language server does: an own loop, ended with everything it started."""
    with asyncio.Runner() as runner:
        # One thread for the SDK's calls: registrations arrive one at a time. Independent ones may still change places.
        runner.get_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
        # After a failed registration the SDK leaves the outputs that depended on it unread.
        runner.get_loop().set_exception_handler(lambda _, __: None)
        runner.run(run_in_stack(program))


def _fault_lines(error: BaseException | None, monitor: EmbeddedMonitor, log: EmbeddedLog) -> list[str]:
    """The first cause of each fault; what failed only because of another is left out."""
    if monitor.faults or log.errors:
        return [*monitor.faults, *log.errors]
    if isinstance(error, RunError):
        return str(error).splitlines()
    return [f"the program failed: {type(error).__name__}: {error}"]
