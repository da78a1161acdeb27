"""The version of what runs, which every answer of a health route and every call of another service says."""

from typing import Final

VERSION: Final = "0.1.0"
"""`project.version` of pyproject.toml: an image carries the sources and not that file, and to look for an installed
package would cost every start more than all settings do."""
