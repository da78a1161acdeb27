"""Finds the `pulumi` command: the one that `make pulumi` built, or a recent one on PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from runtime.contract.errors import HoldfastError

MODULE: Final = Path(__file__).parent
"""The Go module that pins the command's version."""
OLDEST: Final = (3, 255)
"""First version that runs a policy pack which is an executable file."""

_PINNED: Final = re.compile(r"^\s*github\.com/pulumi/pulumi/pkg/v3 v(?P<version>\S+)", re.MULTILINE)
_ANSWER_SECONDS: Final = 20


class PulumiMissing(HoldfastError):
    """There is no command that can run the program."""

    code = "pulumi_missing"


def pinned_version() -> str:
    """The version that `make pulumi` builds, without a v."""
    match = _PINNED.search((MODULE / "go.mod").read_text())
    if match is None:
        raise PulumiMissing(f"{MODULE / 'go.mod'} does not require github.com/pulumi/pulumi/pkg/v3")
    return match["version"]


def built_binary() -> Path:
    """Where `make pulumi` puts the command; outside the checkout, so that every checkout shares it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "holdfast" / f"pulumi-{pinned_version()}" / "bin" / "pulumi"


def find_pulumi() -> Path:
    """The built command, or the one on PATH.

    Raises:
        PulumiMissing: there is neither, or the one on PATH is too old.
    """
    built = built_binary()
    if built.exists():
        return built
    on_path = shutil.which("pulumi")
    wanted = ".".join(map(str, OLDEST))
    if on_path is None:
        raise PulumiMissing(f"no pulumi command: run `make pulumi` (needs Go), or put one from {wanted} on PATH")
    found = version_of(Path(on_path))
    if found < OLDEST:
        raise PulumiMissing(
            f"{on_path} is version {'.'.join(map(str, found)) or 'unknown'}, older than {wanted}: update it or run "
            "`make pulumi`"
        )
    return Path(on_path)


def version_of(binary: Path) -> tuple[int, ...]:
    """Major and minor version; () where the command does not say."""
    command = [str(binary), "version"]
    environment = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        answer = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.match(r"v?([0-9]+)\.([0-9]+)\.", answer.stdout.strip())
    return (int(match[1]), int(match[2])) if match else ()
