"""A trained model on disk: a folder with the model and, readable by anybody, what it was trained on.

`model.pickle` is a pickle: loading runs code, so load only models you trained or trust.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.release.staging import publish, staging

FORMAT = "labeldp-model"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class SavedModel:
    """A model with its facts: what message it comes from, how it was trained, the public bounds of its predictions."""

    model: Any
    facts: dict[str, Any]

    def predict(self, features: Any) -> Floats:
        """Predictions, clipped into the public bounds of the labels where these are known."""
        values = np.asarray(self.model.predict(features), np.float64)
        bounds = self.facts.get("bounds")
        return np.clip(values, *bounds) if bounds else values

    def save(self, path: Path) -> None:
        """Into a new folder, whole or not at all."""
        record = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "labeldp_version": version("labeldp"),
            **self.facts,
        }
        target = path.absolute()
        if target.exists():
            raise InvalidInput(f"{path} exists: choose another --out, nothing is overwritten")
        if not target.parent.is_dir():
            raise InvalidInput(f"the folder {target.parent} does not exist: make it first")
        with staging(target) as place:
            folder = place / "model"
            folder.mkdir()
            (folder / "model.json").write_text(
                json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )
            (folder / "model.pickle").write_bytes(pickle.dumps(self.model))
            publish(folder, target)

    @classmethod
    def load(cls, path: Path) -> SavedModel:
        """A model from a folder that you trust."""
        described, stored = path / "model.json", path / "model.pickle"
        if not described.is_file() or not stored.is_file():
            raise InvalidInput(
                f"{path} is not a model: a folder with model.json and model.pickle, as labeldp train writes it"
            )
        try:
            facts = json.loads(described.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InvalidInput(f"{described} is damaged: {error}") from error
        if facts.get("format") != FORMAT or facts.get("format_version") != FORMAT_VERSION:
            raise InvalidInput(f"{path} was written by another version of labeldp; train it again")
        try:
            model = pickle.loads(stored.read_bytes())  # noqa: S301 - the docstring says so
        except Exception as error:
            raise InvalidInput(
                f"{stored} cannot be loaded: {error}. Train the model again with this version"
            ) from error
        return cls(model, facts)
