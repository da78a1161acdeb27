"""`holdfast:public_endpoint`: the API under a domain of one's own."""

from __future__ import annotations

import re
from typing import Annotated, Final

from infra.fields import Explanation, explained, shaped
from infra.sections.section import Section

_DOMAIN: Final = re.compile(r"(?=.{4,63}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}", re.ASCII)
"""Up to 63 characters: Google's limit for the domain of a managed certificate, and no wildcard."""


class PublicEndpointPlan(Section):
    """`holdfast:public_endpoint`: the API under a domain of one's own; without it there is its run.app address only."""

    domain: Annotated[str, shaped(_DOMAIN)] = explained(
        Explanation(
            "must be a domain of up to 63 lower case characters, without a wildcard or a final dot",
            "no certificate would be issued",
            "jobs.example.com",
        )
    )
    """Domain whose A record points, or will point, at the stack's output `public_address`."""
