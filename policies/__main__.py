"""Starts the pack from its folder, whatever the folder is called and wherever the caller is."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_PACKAGE = "policies"


def _load(folder: Path) -> None:
    """Makes the folder the package that its modules belong to: a published pack lies in a folder of another name."""
    spec = importlib.util.spec_from_file_location(
        _PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder.name} is no policy pack")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_PACKAGE] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    _load(Path(__file__).resolve().parent)
    try:
        pack = importlib.import_module(f"{_PACKAGE}.pack")
    except ModuleNotFoundError as error:
        sys.exit(
            f"the policy pack needs {error.name}, which {sys.executable} does not have; set PYTHON to one that does"
        )
    pack.serve()
