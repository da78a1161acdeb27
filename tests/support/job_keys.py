"""Keys of jobs for tests: made once a process, each as PEM and as its variable."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from runtime.identity.keys import JobKeys, environment_value, generate_job_keys


@dataclass(frozen=True)
class Pair:
    """A pair of keys; `private` and `public` as the environment carries them."""

    keys: JobKeys
    private: str
    public: str


@cache
def pair(name: str = "first") -> Pair:
    """The pair of a name; the same in every test."""
    del name  # the cache's key
    keys = generate_job_keys()
    return Pair(keys, environment_value(keys.private_pem), environment_value(keys.public_pem))
