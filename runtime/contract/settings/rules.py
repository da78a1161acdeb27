"""What single text values must look like; the platform's own rules unless said otherwise."""

from __future__ import annotations

import re
from typing import Final

PROJECT_RULE: Final = "must be 6 to 30 lower case letters, digits or hyphens, and start with a letter"
RESOURCE_RULE: Final = (
    "must be a name of 3 to 255 characters out of letters, digits and -_.~+%, starting with a letter and not with "
    "`goog`, alone or as the full name in GCP_PROJECT_ID"
)
ADDRESS_RULE: Final = "must be `https://` and a host, without @, \\, ?, #, blanks or a trailing slash"
ACCOUNT_RULE: Final = "must be the e-mail of a service account, ending in .gserviceaccount.com"
COLLECTION_RULE: Final = (
    "must, with its prefix, be a collection id: 1 to 1500 bytes, no slash, not `.`, `..` or `__name__`"
)
DATABASE_RULE: Final = "must be (default), or 4 to 63 lower case letters, digits or hyphens, starting with a letter"
BUCKET_RULE: Final = (
    "must be 3 to 63 lower case letters, digits or -_., with a letter or digit at both ends, without `..`, not "
    "starting with `goog`"
)
KEY_ID_RULE: Final = "must be 1 to 128 characters out of letters, digits and -_."

_PROJECT: Final = re.compile(r"[a-z][a-z0-9-]{5,29}")
_RESOURCE: Final = re.compile(r"[A-Za-z][A-Za-z0-9\-_.~+%]{2,254}")
_ADDRESS: Final = re.compile(r"https://[^\s?#@\\\x00-\x20\x7f]+", re.ASCII)
_ACCOUNT: Final = re.compile(r"[A-Za-z0-9\-_.]+@[A-Za-z0-9\-_.]*\.gserviceaccount\.com")
_DATABASE: Final = re.compile(r"[a-z][a-z0-9-]{2,61}[a-z0-9]")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9\-_.]{1,61}[a-z0-9]")
_KEY_ID: Final = re.compile(r"[A-Za-z0-9\-_.]{1,128}")
_RESERVED: Final = re.compile(r"__.*__", re.DOTALL)


def is_project_id(value: str) -> bool:
    """See PROJECT_RULE."""
    return _PROJECT.fullmatch(value) is not None


def is_address(value: str) -> bool:
    """See ADDRESS_RULE; also the shape of an audience."""
    return value.isascii() and _ADDRESS.fullmatch(value) is not None and not value.endswith("/")


def is_service_account(value: str) -> bool:
    """See ACCOUNT_RULE."""
    return _ACCOUNT.fullmatch(value) is not None


def is_collection_id(value: str) -> bool:
    """See COLLECTION_RULE."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return False
    return 1 <= size <= 1500 and "/" not in value and value not in {".", ".."} and not _RESERVED.fullmatch(value)


def is_database(value: str) -> bool:
    """See DATABASE_RULE."""
    return value == "(default)" or _DATABASE.fullmatch(value) is not None


def is_bucket(value: str) -> bool:
    """See BUCKET_RULE."""
    return _BUCKET.fullmatch(value) is not None and ".." not in value and not value.startswith("goog")


def is_key_id(value: str) -> bool:
    """See KEY_ID_RULE."""
    return _KEY_ID.fullmatch(value) is not None


def canonical_name(value: str, project_id: str, kind: str) -> str | None:
    """The full name of a topic or subscription of one project; None where it is not a name of that project.

    Args:
        value: a bare name, or `projects/PROJECT/KIND/NAME`.
        project_id: the only project accepted.
        kind: `topics` or `subscriptions`.
    """
    prefix = f"projects/{project_id}/{kind}/"
    name = value.removeprefix(prefix)
    if _RESOURCE.fullmatch(name) is None or name.lower().startswith("goog"):
        return None
    return prefix + name
