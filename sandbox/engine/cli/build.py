"""Builds the pinned `pulumi` command from its Go module, unless there is a usable one.

Run as `python -m sandbox.engine.cli.build`; the last line of the output is the command's path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from runtime.contract.errors import HoldfastError
from sandbox.engine.cli.binary import MODULE, PulumiMissing, built_binary, find_pulumi, pinned_version

LANGUAGE_HOST: Final = "pulumi-language-python"
_PACKAGE: Final = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
_TAGS: Final = "osusergo,grpcnotrace"
_VERSION: Final = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version"
_STEPS: Final = 10
"""Reports of a build."""
_NICENESS: Final = 10
"""Other work on the machine goes first."""


def build(binary: Path) -> None:
    """Builds the command; takes 2 to 15 minutes the first time. Half of a build is never left at its place.

    Raises:
        PulumiMissing: there is no Go, or it does not build.
    """
    go = shutil.which("go")
    if go is None:
        raise PulumiMissing("building pulumi needs Go 1.26 or newer; install it, or put a pulumi command on PATH")
    binary.parent.mkdir(parents=True, exist_ok=True)
    version = pinned_version()
    os.nice(_NICENESS)
    print(f"Building pulumi {version} (once; minutes)", flush=True)  # noqa: T201 - tells a waiting person
    total = len(_lines([go, "list", "-mod=readonly", "-deps", "-tags", _TAGS, _PACKAGE]))
    with tempfile.TemporaryDirectory(dir=binary.parent) as folder:
        built = Path(folder) / binary.name
        flags = f"-w -s -X {_VERSION}=v{version}"
        command = [go, "build", "-v", "-mod=readonly", "-trimpath", "-tags", _TAGS, "-ldflags", flags, "-o", str(built)]
        _followed([*command, _PACKAGE], total)
        built.replace(binary)


def lay_language_host(binary: Path) -> None:
    """Puts our language host beside a built command, which looks for it there; the latest wins."""
    partial = binary.with_name(f"{LANGUAGE_HOST}.partial")
    shutil.copy(MODULE / LANGUAGE_HOST, partial)
    partial.chmod(0o755)
    partial.replace(binary.with_name(LANGUAGE_HOST))


def _lines(command: Sequence[str]) -> list[str]:
    answer = subprocess.run(command, cwd=MODULE, stdout=subprocess.PIPE, text=True, check=False)
    if answer.returncode:
        raise PulumiMissing(f"`{' '.join(command[:2])}` in {MODULE} failed; its reason is above")
    return answer.stdout.splitlines()


def _followed(command: Sequence[str], total: int) -> None:
    """Runs the build and says how far it is; what is no package's name is an error of the compiler."""
    done = step = 0
    with subprocess.Popen(command, cwd=MODULE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr or ():
            if " " in line.strip():
                print(line.rstrip(), file=sys.stderr, flush=True)  # noqa: T201
                continue
            done += 1
            if done * _STEPS // total > step:
                step = done * _STEPS // total
                print(f"  {done} of at most {total} packages", flush=True)  # noqa: T201
    if process.returncode:
        raise PulumiMissing(f"pulumi does not build (go build ended with {process.returncode}); its reason is above")


def main() -> int:
    """Builds what is missing and prints where the command is."""
    try:
        try:
            binary = find_pulumi()
        except PulumiMissing:
            binary = built_binary()
            build(binary)
        if binary == built_binary():
            lay_language_host(binary)
    except HoldfastError as error:
        print(error.line(), file=sys.stderr)  # noqa: T201
        return 1
    print(binary)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
