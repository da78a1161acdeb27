"""The stack's values, typed: what a stack file may say, with unit, default and meaning of each key.

Timeouts are given once; everything that follows from them is derived in `infra.alignment`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Final, get_args

from pydantic import BeforeValidator, ConfigDict, Field

from infra.fields import Explanation, Flag, explained, fitting, shaped
from infra.image_name import is_image
from infra.naming import PREFIX_MAX, Names
from infra.public_key import derive_public_key, is_signing_key
from infra.sections.alerts import AlertsPlan
from infra.sections.api import ApiPlan
from infra.sections.artifact_repository import ArtifactRepositoryPlan
from infra.sections.content import ContentPlan
from infra.sections.dead_letter_sink import DeadLetterSinkPlan
from infra.sections.executor import ExecutorPlan
from infra.sections.image_build import ImageBuildPlan
from infra.sections.public_endpoint import PublicEndpointPlan
from infra.sections.section import Section
from infra.sections.usage_database import UsageDatabasePlan
from infra.sections.worker import WorkerPlan
from runtime.contract.settings import job_keys, rules, tracing
from runtime.contract.settings.engines import DEFAULT_ENGINES, parse_engines
from runtime.contract.settings.http_hosts import HOSTS_RULE, PASSING, are_hosts
from runtime.contract.settings.verifying_keys import DEFAULT_KEY_ID, PreviousKey, another_key_id
from runtime.contract.settings.words import LogLevel, Workload

NAMESPACE: Final = "holdfast:"
"""In front of every key of ours."""
STACK: Final = "stack"
"""Under this name, which is no key, the name of the stack is given beside the values."""
BUILT: Final = frozenset({Workload.EXECUTION})
"""Workloads that the program can deploy."""

_NUMBER: Final = re.compile(r"[1-9][0-9]{5,19}", re.ASCII)
_REGION: Final = re.compile(
    r"(?:africa|asia|australia|europe|me|northamerica|southamerica|us)-"
    r"(?:central|north|south|(?:north|south)?(?:east|west))[0-9]{1,2}",
    re.ASCII,
)
"""The scheme of Google's names, so that a new region needs no new version of ours."""
_PREFIX: Final = re.compile(rf"(?!goog)(?!.*google)[a-z][a-z0-9-]{{0,{PREFIX_MAX - 2}}}[a-z0-9]", re.ASCII)
"""Pub/Sub takes no name that starts with `goog`, Cloud Storage none with `google` in it."""

_ENGINES: Final = Explanation(
    "must map names to entry points, NAME: module.path:function; `flow` is always there",
    "no job of the engine could run",
    '{"report": "acme.reports:run"}',
)


def _with_flow(value: object) -> object:
    """Entry points by name, with the built-in engine in front."""
    given = value if isinstance(value, Mapping) else {"": ""}
    listed = ",".join([*DEFAULT_ENGINES, *(f"{name}={place}" for name, place in given.items())])
    engines = parse_engines(listed)
    if engines is None or len(engines) != len(DEFAULT_ENGINES) + len(given):
        raise ValueError("does not fit")
    return dict(engines)


def _hosts(value: object) -> object:
    """A list of hosts as it was given."""
    if not isinstance(value, list) or not are_hosts(value):
        raise ValueError("does not fit")
    return tuple(value)


def _as_built(value: object) -> object:
    """Workloads in a fixed order, each once."""
    if not isinstance(value, list) or not value or len(set(map(str, value))) != len(value):
        raise ValueError("does not fit")
    return tuple(sorted(value, key=str))


class StackSettings(Section):
    """Everything that a stack says; keys are `holdfast:NAME`, but the provider's `gcp:project` and `gcp:region`."""

    model_config = ConfigDict(alias_generator=lambda name: f"{NAMESPACE}{name}")

    stack: str = Field(validation_alias=STACK)
    """Name of the stack."""
    project: Annotated[str, fitting(rules.is_project_id)] = explained(
        Explanation(rules.PROJECT_RULE, "every full name and e-mail would be wrong", "my-project"), alias="gcp:project"
    )
    """`gcp:project`: id of the project that everything is in."""
    region: Annotated[str, shaped(_REGION)] = explained(
        Explanation("must be a region, like europe-west1", "addresses would be wrong", "europe-west1"),
        alias="gcp:region",
    )
    """`gcp:region`: the one region."""
    project_number: Annotated[str, shaped(_NUMBER)] = explained(
        Explanation(
            "must be the project's number, digits only (`gcloud projects describe PROJECT`)",
            "addresses and the grants of Google's own agents would be wrong, so that nothing is delivered",
            '"123456789012"',
        )
    )
    image: Annotated[str | None, fitting(is_image)] = explained(
        Explanation(
            "must name the image by digest, NAME@sha256:DIGEST, in Artifact Registry (a remote repository there stands "
            "for any other registry), gcr.io or Docker Hub",
            "a tag can move without a deployment noticing, and Cloud Run pulls from no other registry",
            f"europe-west1-docker.pkg.dev/my-project/holdfast/runtime@sha256:{'0' * 64}",
        ),
        None,
    )
    """Image of every service; None: the deployment builds it."""
    signing_key: Annotated[str, fitting(is_signing_key)] = explained(
        Explanation(job_keys.PRIVATE_RULE, "no job could be signed", job_keys.PASSING, secret=True)
    )
    """Key that signs jobs; a secret of the stack."""
    signing_key_id: Annotated[str, fitting(rules.is_key_id)] = explained(
        Explanation(rules.KEY_ID_RULE, "jobs would be refused", DEFAULT_KEY_ID), DEFAULT_KEY_ID
    )
    """Id of that key, and of its public half."""
    previous_signing_public_key: Annotated[str | None, fitting(job_keys.is_public_key)] = explained(
        Explanation(job_keys.PUBLIC_RULE, "its jobs would be refused", job_keys.PASSING, secret=True), None
    )
    """A second key whose jobs are accepted, see PreviousKey; None: there is none.

    No secret, but a refused value may be one, set under the wrong key.
    """
    previous_signing_key_id: Annotated[str | None, fitting(rules.is_key_id)] = explained(
        Explanation(rules.KEY_ID_RULE, "its jobs would be refused", another_key_id(DEFAULT_KEY_ID)), None
    )
    """Id of that key, set where it is."""
    name_prefix: Annotated[str, shaped(_PREFIX)] = explained(
        Explanation(
            f"must be 2 to {PREFIX_MAX} lower case letters, digits or hyphens, starting with a letter, "
            "but not with goog, and without google",
            "Google would refuse the names, or find them too long",
            "holdfast",
        ),
        "holdfast",
    )
    """In front of every physical name; two stacks of one project have different ones."""
    collection_prefix: Annotated[str, fitting(lambda value: rules.is_collection_id(f"{value}x"))] = explained(
        Explanation(rules.COLLECTION_RULE, "Firestore would refuse every write", "blue-"), ""
    )
    """In front of every collection's name."""
    deletion_protection: Flag = explained(
        Explanation("must be true or false", "records could be deleted with the stack", "true"), default=True
    )
    """Whether services, database and secret refuse to be deleted."""
    workloads: Annotated[tuple[Workload, ...], BeforeValidator(_as_built)] = explained(
        Explanation("must list workloads, each once", "messages would have no worker", '["execution"]'),
        (Workload.EXECUTION,),
    )
    """Which workers exist."""
    engines: Annotated[Mapping[str, str], BeforeValidator(_with_flow)] = explained(_ENGINES, dict(DEFAULT_ENGINES))
    """Engine name -> entry point, the built-in `flow` included."""
    http_hosts: Annotated[tuple[str, ...] | None, BeforeValidator(_hosts)] = explained(
        Explanation(HOSTS_RULE, "flows would reach other hosts than was meant, or none", json.dumps(PASSING)), None
    )
    """Hosts that flows may send requests to; None: any public host."""
    log_level: LogLevel = explained(
        Explanation(f"must be one of {', '.join(LogLevel)}", "services would not start", "info"), LogLevel.INFO
    )
    """Least severe line that the services write."""
    traces_endpoint: Annotated[str | None, fitting(tracing.is_endpoint)] = explained(
        Explanation(tracing.ENDPOINT_RULE, "no trace would arrive", tracing.GOOGLE), None
    )
    """Where every service sends its traces; None: nowhere."""
    worker: WorkerPlan = Field(default_factory=WorkerPlan)
    api: ApiPlan = Field(default_factory=ApiPlan)
    dead_letter_sink: DeadLetterSinkPlan = Field(default_factory=DeadLetterSinkPlan)
    artifact_repository: ArtifactRepositoryPlan | None = None
    """None: images are in a repository that is none of the stack's."""
    image_build: ImageBuildPlan | None = None
    """None: `image` names the image."""
    content: ContentPlan | None = None
    """None: no bucket for users' files."""
    usage_database: UsageDatabasePlan | None = None
    """None: no database."""
    executor: ExecutorPlan | None = None
    """None: no executor, and the API refuses what must be answered at once."""
    alerts: AlertsPlan | None = None
    """None: no alerts."""
    public_endpoint: PublicEndpointPlan | None = None
    """None: the API has its run.app address only."""

    @cached_property
    def signing_public_key(self) -> str:
        """What jobs are checked with: the public half of `signing_key`; no secret."""
        key = derive_public_key(self.signing_key)
        if key is None:
            raise AssertionError("the signing key has been checked")
        return key

    @property
    def previous_key(self) -> PreviousKey | None:
        """The second key; None where there is none."""
        pub, kid = self.previous_signing_public_key, self.previous_signing_key_id
        return PreviousKey(pub, kid) if pub and kid else None

    @property
    def names(self) -> Names:
        """Names of the stack's resources."""
        return Names(prefix=self.name_prefix, project=self.project, number=self.project_number, region=self.region)


SECTIONS: Final[Mapping[str, type[Section]]] = {
    f"{NAMESPACE}{name}": section
    for name, info in StackSettings.model_fields.items()
    for section in (info.annotation, *get_args(info.annotation))
    if isinstance(section, type) and issubclass(section, Section)
}
"""Full key of each section -> its model; a section that may be absent is `PLAN | None`."""
STRUCTURED: Final = frozenset({f"{NAMESPACE}workloads", f"{NAMESPACE}engines", f"{NAMESPACE}http_hosts", *SECTIONS})
"""Keys whose value is a structure; the engine hands it over as JSON text."""
