"""The keys that a service accepts job tokens of: the stack's own and, so that a rotation loses no job, a second one."""

from __future__ import annotations

from typing import Final, NamedTuple, TypedDict

from runtime.contract.settings import job_keys, rules
from runtime.contract.settings.parse import EnvironmentReader

DEFAULT_KEY_ID: Final = "backend-es256-v1"

_PUB: Final = "BACKEND_PUB"
_KID: Final = "BACKEND_KID"
_PREVIOUS_PUB: Final = "BACKEND_PREVIOUS_PUB"
_PREVIOUS_KID: Final = "BACKEND_PREVIOUS_KID"
_INVALID_ID: Final = "invalid_backend_kid"


class PreviousKey(NamedTuple):
    """A key that verifies beside the current one, and signs nothing.

    It is the key before the last rotation; or the one after the next, while services get to know it before anything is
    signed with it.

    Attributes:
        pub: base64 of the PEM of the public key.
        kid: its id, which is not that of the current key.
    """

    pub: str
    kid: str


class VerifyingKeys(TypedDict):
    """The fields of this group, see WorkerSettings."""

    backend_pub: str
    backend_kid: str
    previous_key: PreviousKey | None


def read_verifying_keys(env: EnvironmentReader, *, required: bool) -> VerifyingKeys:
    """Reads the group: `BACKEND_PUB` and `BACKEND_KID`, and the same with `PREVIOUS`, of which both are set or neither.

    Args:
        env: where they are.
        required: False reads a `BACKEND_PUB` that is not set as "".
    """
    pub = _read_public_key(env, _PUB) if required or env.optional(_PUB) is not None else ""
    kid = env.text(_KID, rules.KEY_ID_RULE, _INVALID_ID, rules.is_key_id, DEFAULT_KEY_ID, default=DEFAULT_KEY_ID)
    return VerifyingKeys(backend_pub=pub, backend_kid=kid, previous_key=_read_previous(env, kid))


def render_verifying_keys(pub: str, kid: str, previous: PreviousKey | None) -> dict[str, str]:
    """The variables that `read_verifying_keys` reads back."""
    env = {_PUB: pub, _KID: kid}
    return env if previous is None else {**env, _PREVIOUS_PUB: previous.pub, _PREVIOUS_KID: previous.kid}


def another_key_id(kid: str) -> str:
    """An id that is not this one, for examples."""
    return "backend-es256-v2" if kid == DEFAULT_KEY_ID else DEFAULT_KEY_ID


def _read_public_key(env: EnvironmentReader, name: str) -> str:
    """Never trimmed: whitespace around the value is refused by every role alike.

    A refused value is not repeated: it may be the private key, set to the wrong variable.
    """
    if env.required(name, job_keys.PASSING) is None:
        return ""
    value = env.raw(name) or ""
    if not job_keys.is_public_key(value):
        env.refuse(name, "invalid_backend_pub", job_keys.PUBLIC_RULE, job_keys.PASSING, secret=True)
    return value


def _read_previous(env: EnvironmentReader, current_id: str) -> PreviousKey | None:
    passing = {_PREVIOUS_PUB: job_keys.PASSING, _PREVIOUS_KID: another_key_id(current_id)}
    missing = [name for name in passing if env.optional(name) is None]
    if len(missing) == len(passing):
        return None
    for name in missing:
        (other,) = passing.keys() - {name}
        detail = f"{name} is not set, but {other} is, and neither is of use alone; for example {name}={passing[name]}"
        env.fault(name, "missing_configuration", detail)
    pub = "" if _PREVIOUS_PUB in missing else _read_public_key(env, _PREVIOUS_PUB)
    if _PREVIOUS_KID in missing:
        return None
    kid = env.text(_PREVIOUS_KID, rules.KEY_ID_RULE, _INVALID_ID, rules.is_key_id, passing[_PREVIOUS_KID])
    if kid == current_id and env.good(_KID):
        rule = f"must differ from {_KID}: a token says by the id which key it is checked with"
        env.refuse(_PREVIOUS_KID, _INVALID_ID, rule, passing[_PREVIOUS_KID])
    return PreviousKey(pub, kid)
