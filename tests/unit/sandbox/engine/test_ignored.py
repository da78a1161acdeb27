"""Old values stay at ignored paths."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.engine.ignored import with_ignored

OLD = {"labels": {"a": "1"}, "template": {"containers": [{"image": "old", "args": ["x"]}]}, "gone": True}
NEW = {"labels": {"a": "2"}, "template": {"containers": [{"image": "new"}, {"image": "second"}]}, "fresh": 1}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("labels", {**NEW, "labels": {"a": "1"}}),
        ("labels.a", {**NEW, "labels": {"a": "1"}}),
        ("template.containers[0].image", {**NEW, "template": {"containers": [{"image": "old"}, {"image": "second"}]}}),
        ("gone", {**NEW, "gone": True}),
        ("fresh", {key: value for key, value in NEW.items() if key != "fresh"}),
        ("template.containers[1].image", NEW),
        ("template.nothing.deeper", NEW),
        ("nowhere", NEW),
    ],
)
def test_the_old_value_stays_at_the_path_and_nowhere_else(path: str, expected: dict[str, Any]) -> None:
    assert with_ignored(NEW, OLD, (path,)) == expected


def test_neither_side_is_written_to() -> None:
    merged = with_ignored(NEW, OLD, ("labels",))
    merged["labels"]["a"] = "3"
    assert OLD["labels"] == {"a": "1"}
    assert NEW["labels"] == {"a": "2"}


def test_a_wildcard_is_refused() -> None:
    with pytest.raises(ValueError, match="has a wildcard"):
        with_ignored(NEW, OLD, ("template.containers[*].image",))
