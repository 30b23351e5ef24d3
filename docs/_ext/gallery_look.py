"""What sphinx-gallery resets before each script."""

from typing import Any


def reset(_configuration: dict[str, Any], _script: str) -> None:
    """Nothing yet."""
