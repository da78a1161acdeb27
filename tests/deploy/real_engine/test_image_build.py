"""A stack that builds its image, on the real engine: its first preview passes although no image is known yet.

The builder's provider is a stand-in, because there is no Docker here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sandbox.engine.pulumi_cli import policy_packs
from tests.support.docker_build import installed, serving
from tests.support.real_engine import ROOT, engine, saved_world, short


def test_a_first_preview_of_a_build_passes(tmp_path: Path) -> None:
    built = replace(engine(tmp_path, "local", image_build={}, artifact_repository={}), policy_packs=policy_packs(ROOT))
    built = replace(built, config={key: value for key, value in built.config.items() if key != "holdfast:image"})
    with installed(), serving() as port:
        plan = replace(built, providers={"docker-build": port}).preview()

    assert plan.violations == ()
    assert {"api-service", "execution-service", "executor-service"} <= set(short(plan.urns("create")))
    assert len(saved_world(built)) == 0
