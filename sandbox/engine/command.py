"""The `pulumi` command in a private folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.engine.deployment import DeploymentFailed
from sandbox.engine.engine_events import EngineEvents
from sandbox.engine.pulumi_home import PulumiHome


@dataclass(frozen=True, slots=True)
class PulumiCommand:
    """Runs the command; each call blocks until it has ended, however long an operation takes.

    Attributes:
        binary: the command.
        home: its folder.
        providers: those that run already, and which the engine is led to: name -> port on this host.
    """

    binary: Path
    home: PulumiHome
    providers: Mapping[str, int] = field(default_factory=dict)

    def run(self, *words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """One command, whatever becomes of it.

        Args:
            words: never a secret, which other users of the machine would see.
            given: what it reads; None gives it nothing.
        """
        led = ",".join(f"{name}:{port}" for name, port in self.providers.items())
        return subprocess.run(
            [str(self.binary), *words, "--non-interactive"],
            cwd=self.home.project_dir,
            env={**os.environ, **self.home.environment(), "PULUMI_DEBUG_PROVIDERS": led},
            input=given or "",
            capture_output=True,
            text=True,
            check=False,
        )

    def demand(self, *words: str, given: str | None = None) -> str:
        """What a command says that must not fail; as `run`.

        Raises:
            DeploymentFailed: it failed; with what it said.
        """
        done = self.run(*words, given=given)
        if done.returncode != 0:
            raise DeploymentFailed(_said(done))
        return done.stdout

    def operation(self, program_port: int, *words: str) -> tuple[subprocess.CompletedProcess[str], EngineEvents]:
        """One operation on a stack, of a program that is served on a port of this host, whatever becomes of it."""
        log = self.home.root / "events.jsonl"
        log.unlink(missing_ok=True)
        options = [f"--client=127.0.0.1:{program_port}", "--exec-kind", "auto.inline", "--event-log", str(log)]
        done = self.run(*words, *options)
        return done, EngineEvents.read(log.read_text() if log.exists() else "")

    def operate(self, program_port: int, *words: str) -> EngineEvents:
        """An operation that must not fail; as `operation`.

        Raises:
            DeploymentFailed: with a line for each fault and each mandatory finding of a policy.
        """
        done, events = self.operation(program_port, *words)
        if done.returncode != 0:
            # Where the engine told nothing, its whole output does.
            raise DeploymentFailed(events.faults or _said(done))
        return events


def _said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """At least one line."""
    lines = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    return lines or [f"pulumi {done.args[1]} ended with {done.returncode} and said nothing"]
