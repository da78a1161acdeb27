"""A run that is under way while the signing key changes: its message waits, and the stack comes back with other keys.

Not covered: what each deployment of a rotation changes (tests/deploy/test_key_rotation.py).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from infra.public_key import derive_public_key
from runtime.contract.settings.verifying_keys import DEFAULT_KEY_ID
from sandbox.local_keys import LocalKeys, local_keys, save_keys
from tests.support.job_keys import pair
from tests.support.local import QUICK, RunningStack, local_stack

SECOND_ID: Final = "backend-es256-v2"
THIRD_ID: Final = "backend-es256-v3"


def new_key(state_dir: Path, name: str) -> LocalKeys:
    """Puts another signing key into the stack's folder; returns the keys that were there."""
    before = local_keys(state_dir)
    save_keys(state_dir, replace(before, signing_key=pair(name).private))
    return before


def keys(kid: str, **previous: str) -> dict[str, Any]:
    return {**QUICK, "holdfast:signing_key_id": kid, **{f"holdfast:{name}": value for name, value in previous.items()}}


async def submit_held(running: RunningStack, run_id: str) -> None:
    """A run whose message is published, and delivered by the next stack on this folder."""
    await running.stack.pubsub.hold()
    await running.submit(run_id=run_id)
    assert (await running.run(run_id))["state"] == "dispatching"
    assert running.counts().pending == 1


async def letter_of(running: RunningStack) -> dict[str, Any]:
    """The one letter, once it is there."""
    async with asyncio.timeout(60):
        while True:
            async with running.session.get("/v1/dead-letters") as response:
                found = (await response.json())["dead_letters"]
            if found:
                (letter,) = found
                return dict(letter)
            await asyncio.sleep(0.1)


async def test_a_run_outlives_the_change_of_the_key_that_signed_it_where_that_key_is_still_accepted(
    tmp_path: Path,
) -> None:
    async with local_stack(tmp_path) as running:
        await submit_held(running, "under-the-first")

    first = await asyncio.to_thread(new_key, tmp_path, "second of the flow")
    both = keys(
        SECOND_ID,
        previous_signing_public_key=derive_public_key(first.signing_key) or "",
        previous_signing_key_id=DEFAULT_KEY_ID,
    )
    async with local_stack(tmp_path, both) as running:
        record, events = await running.ended("under-the-first")
        assert (record["state"], record["attempt"]) == ("succeeded", 1), running.logs.text()
        assert [event["event_type"] for event in events].count("greeting") == 1, "its callbacks were accepted"
        assert running.logs.events("token_refused") == []

        await running.submit(run_id="under-the-second")
        record, _ = await running.ended("under-the-second")
        assert record["state"] == "succeeded", running.logs.text()
        await running.stack.pubsub.wait_idle(timeout=60)
        await submit_held(running, "left-behind")

    await asyncio.to_thread(new_key, tmp_path, "third of the flow")
    async with local_stack(tmp_path, keys(THIRD_ID)) as running:
        letter = await letter_of(running)
        assert (letter["run_id"], letter["reason"]) == ("left-behind", "execution_token_rejected"), running.logs.text()
        record = await running.run("left-behind")
        assert (record["state"], record["attempt"]) == ("dispatching", 0), "nothing of it was run, and nobody vouches"
