"""What a role refuses once its settings hold."""

from __future__ import annotations

import aiohttp
import pytest

from runtime.adapters.clock import ManualClock
from runtime.adapters.google_keys import GoogleKeySource
from runtime.adapters.memory.documents import MemoryDocuments
from runtime.adapters.metadata_server import MetadataTokens
from runtime.observability.metrics import Metrics
from runtime.roles import KeysDiffer, Outside, Process, RoleName, build, read_settings
from runtime.server import Lifecycle
from tests.support.api_bench import ScriptedPublisher
from tests.support.job_keys import pair
from tests.support.settings import api_env


@pytest.mark.parametrize("previous", [{}, {"BACKEND_PREVIOUS_PUB": pair().public, "BACKEND_PREVIOUS_KID": "k0"}])
async def test_an_api_that_would_sign_with_any_key_but_the_current_one_does_not_start(previous: dict[str, str]) -> None:
    """Also where the other key is one that is accepted: what it signs would name the wrong one."""
    clock = ManualClock()
    settings = read_settings(RoleName.API, api_env(BACKEND_PUB=pair("second").public, **previous))
    own = Process(clock=clock, lifecycle=Lifecycle(clock), metrics=Metrics(), revision="test")
    async with aiohttp.ClientSession(trust_env=False) as session:
        outside = Outside(
            documents=MemoryDocuments(clock),
            publisher=ScriptedPublisher(clock),
            tokens=MetadataTokens(session, clock),
            session=session,
            key_source=GoogleKeySource(session),
        )
        with pytest.raises(KeysDiffer, match="BACKEND_PUB is not the public half of BACKEND_KEY"):
            await build(settings, outside, own)
