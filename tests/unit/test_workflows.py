"""The workflows of `.github/`: whose code they run, what they may do, and that what they name exists.

Does not cover their syntax, which actionlint checks in `make check`, nor what the actions do.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from sandbox.engine.cli.binary import pinned_version

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".github" / "workflows"
TEXTS: Final[Mapping[str, str]] = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.yml"))}
USES: Final = re.compile(r"uses: (?P<action>\S+?)(?:@(?P<commit>\S+)(?: # (?P<version>\S+))?)?$", re.MULTILINE)
OWNERS: Final = {"actions", "google-github-actions", "pulumi"}
SAME_REPOSITORY: Final = "github.event.pull_request.head.repo.full_name == github.repository"
MAY_WRITE: Final = {
    ("preview", "preview"): {"id-token", "pull-requests"},
    ("deploy", "dev"): {"id-token"},
    ("deploy", "prod"): {"id-token"},
    ("up", "up"): {"id-token"},
}
WORKSPACE: Final = "${{ github.workspace }}/"
REFUSED: Final = ".github/refused-preview"
FILES: Final = ("go-version-file", "cache-dependency-path", "pulumi-version-file", "policyPacks")
"""Inputs of actions that are paths of this repository, one a line."""


def workflow(name: str) -> dict[str, Any]:
    """A workflow; `on` is a boolean to YAML."""
    parsed: dict[Any, Any] = yaml.safe_load(TEXTS[name])
    return {"on" if key is True else key: value for key, value in parsed.items()}


def jobs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for name in TEXTS:
        for job, body in workflow(name)["jobs"].items():
            yield name, job, body


def steps() -> list[dict[str, Any]]:
    return [step for _, _, body in jobs() for step in body.get("steps", [])]


def test_the_workflows_are_these() -> None:
    assert set(TEXTS) == {"check", "preview", "deploy", "up"}
    assert {path.suffix for path in FOLDER.iterdir()} == {".yml"}


@pytest.mark.parametrize("name", TEXTS)
def test_every_action_is_pinned_by_a_commit_with_its_version_beside_it(name: str) -> None:
    assert len(USES.findall(TEXTS[name])) == TEXTS[name].count("uses:")
    for match in USES.finditer(TEXTS[name]):
        if match["action"].startswith("./"):
            assert (ROOT / match["action"]).is_file()
            continue
        assert match["action"].split("/")[0] in OWNERS
        assert re.fullmatch("[0-9a-f]{40}", match["commit"]), match[0]
        assert re.fullmatch(r"v\d+\.\d+\.\d+", match["version"] or ""), match[0]


def test_an_action_has_the_same_commit_everywhere() -> None:
    pins = defaultdict(set)
    for text in TEXTS.values():
        for match in USES.finditer(text):
            pins[match["action"]].add((match["commit"], match["version"]))
    assert [action for action, found in pins.items() if len(found) > 1] == []


def test_a_job_may_write_what_it_has_to_and_nothing_else() -> None:
    for name in TEXTS:
        assert set(workflow(name)["permissions"].items()) <= {("contents", "read")}, name
    for name, job, body in jobs():
        given = {**workflow(name)["permissions"], **body.get("permissions", {})}
        assert {scope for scope, level in given.items() if level == "write"} == MAY_WRITE.get((name, job), set())
        assert {scope for scope, level in given.items() if level == "read"} <= {"contents"}


def test_code_of_a_fork_never_gets_an_identity() -> None:
    """A pull request can reach a workflow by its trigger, or by a call from one that it triggers."""
    reached = {name for name in TEXTS if "pull_request" in workflow(name)["on"]}
    called = {Path(body["uses"]).stem for name, _, body in jobs() if name in reached and "uses" in body}

    assert "pull_request_target" not in " ".join(TEXTS.values())
    assert "workflow_run" not in " ".join(TEXTS.values())
    for name, job, body in jobs():
        if name in reached | called and (name, job) in MAY_WRITE:
            assert SAME_REPOSITORY in body["if"], f"{name}/{job}"


def test_there_is_no_stored_credential_and_no_text_of_others_in_a_script() -> None:
    assert "secrets." not in " ".join(TEXTS.values()), "identities are federated"
    assert [step["run"] for step in steps() if "${{" in step.get("run", "")] == []
    checkouts = [step for step in steps() if step.get("uses", "").startswith("actions/checkout@")]
    assert [step["with"]["persist-credentials"] for step in checkouts] == [False] * len(checkouts)


def test_every_target_and_file_that_a_workflow_names_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    made = {target for step in steps() for target in re.findall(r"\bmake (\S+)", step.get("run", ""))}
    inputs = [step.get("with", {}).get(key, "") for step in steps() for key in FILES]
    named = [path for value in inputs for path in value.replace(WORKSPACE, "").split()]
    documents = [path for text in TEXTS.values() for path in re.findall(r"\bdocs/\S+\.md", text)]

    assert made == {"ci", "setup"}
    assert made <= targets
    assert [path for path in (*named, *documents) if not (ROOT / path).exists()] == []


def test_each_stack_is_previewed_and_deployed_under_the_policy_pack_one_run_at_a_time() -> None:
    stacks = {path.name.split(".")[1] for path in ROOT.glob("Pulumi.*.yaml")} - {"local"}
    deployed = {body["with"]["stack"]: body for _, _, body in jobs() if "with" in body}
    engines = [step["with"] for step in steps() if step.get("uses", "").startswith("pulumi/actions@")]

    assert set(workflow("preview")["jobs"]["preview"]["strategy"]["matrix"]["stack"]) == stacks == set(deployed)
    assert (deployed["dev"]["needs"], deployed["prod"]["needs"]) == ("check", "dev")
    assert {engine["command"] for engine in engines} == {"preview", "up"}
    assert {engine["policyPacks"] for engine in engines} == {f"{WORKSPACE}policies/run"}
    assert workflow("up")["jobs"]["up"]["concurrency"] == {
        "group": "up-${{ inputs.stack }}",
        "cancel-in-progress": False,
    }


def test_a_preview_that_fails_is_commented_on_too() -> None:
    """`pulumi/actions` comments after a success only."""
    previewing, commenting = workflow("preview")["jobs"]["preview"]["steps"][-2:]

    assert previewing["with"]["comment-on-pr"] is True
    assert commenting["if"] == f"failure() && steps.{previewing['id']}.outcome == 'failure'"
    assert commenting["run"] == REFUSED
    assert os.access(ROOT / REFUSED, os.X_OK)
    assert set(commenting["env"]) >= {"STACK", "PULL_REQUEST", "GH_TOKEN", "PULUMI_BACKEND_URL"}


@pytest.mark.parametrize(
    ("found", "request_"),
    [
        ("", "--method POST repos/my/holdfast/issues/7/comments"),
        ("11\n12\n", "--method PATCH repos/my/holdfast/issues/comments/11"),
    ],
)
def test_the_comment_on_a_failed_preview_has_its_end_and_takes_the_place_of_the_last_one(
    tmp_path: Path, found: str, request_: str
) -> None:
    _command(tmp_path, "pulumi", f'yes 1234567 | head -n 9000; echo "<{"$*"}> refused"; exit 255')
    _command(tmp_path, "gh", f"case $* in *--paginate*) printf '{found}' ;; *) echo \"$*\"; cat ;; esac")
    given = {"GITHUB_REPOSITORY": "my/holdfast", "GITHUB_WORKSPACE": "/w", "PULL_REQUEST": "7", "STACK": "dev"}
    environment = {**given, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([ROOT / REFUSED], env=environment, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")
    sent, heading, *body = done.stdout.splitlines()
    assert request_ in sent
    assert heading == "#### :tropical_drink: `preview` on holdfast/dev"
    assert "<summary>Pulumi report</summary>" in body, "the action finds by it what it may edit"
    assert "&lt;preview --stack dev --diff --color never --policy-pack /w/policies/run> refused" in body
    assert 60_000 < len(done.stdout) < 65_535


def _command(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_the_engine_in_the_workflows_is_the_one_of_the_tests() -> None:
    assert (ROOT / ".pulumi.version").read_text().strip() == pinned_version()
