"""A trained model on disk: a folder with the model and, as readable JSON, what it was trained on.

`model.pickle` is a pickle. Loading one runs code, so load only models that you trained or trust.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.json_text import read_json
from labeldp.release.staging import publish, staging

FORMAT = "labeldp-model"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class SavedModel:
    """A fitted model together with the facts of its training, as `labeldp train` saves it.

    Parameters
    ----------
    model : regressor
        A fitted regressor that can be pickled.
    facts : dict
        What it was trained on, as JSON values. "bounds" holds the public bounds (lower, upper) of the labels, if known.

    Privacy
    -------
    A model trained on a message is as private as the message. Saving and loading cost nothing.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.linear_model import LinearRegression
    >>> from labeldp import SavedModel
    >>> model = LinearRegression().fit([[0.0], [1.0]], [0.0, 10.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     SavedModel(model, {"bounds": [0, 15]}).save(Path(folder) / "model")
    ...     loaded = SavedModel.load(Path(folder) / "model")
    >>> loaded.predict([[0.5], [2.0]])
    array([ 5., 15.])

    """

    model: Any
    facts: dict[str, Any]

    def predict(self, features: Any) -> Floats:
        """Predict, and clip the predictions into the public bounds of the labels if these are known.

        Parameters
        ----------
        features : table or array
            Features with the columns that the model was trained on.

        Returns
        -------
        array of float
            A prediction for each row.

        """
        columns = self.facts.get("columns", ())
        if isinstance(features, pa.Table) and columns and set(columns) <= set(features.schema.names):
            features = features.select(columns)  # an id, or what training left out, is no feature
        values = np.asarray(self.model.predict(features), np.float64)
        bounds = self.facts.get("bounds")
        return np.clip(values, *bounds) if bounds else values

    def save(self, path: str | Path) -> None:
        """Write a new folder, whole or not at all.

        Parameters
        ----------
        path : str or Path
            The folder. It must not exist yet.

        Raises
        ------
        InvalidInput
            If the folder exists or the one around it does not.

        """
        record = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "labeldp_version": version("labeldp"),
            **self.facts,
        }
        target = Path(path).absolute()
        check_new(target)
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
    def load(cls, path: str | Path) -> SavedModel:
        """Load a model from a folder that you trust: the model is a pickle, and loading a pickle runs code.

        Parameters
        ----------
        path : str or Path
            A folder that `save` wrote.

        Returns
        -------
        SavedModel
            The model and its facts.

        Raises
        ------
        InvalidInput
            If the folder is not a model, is damaged, or was written by another version.

        """
        described, stored = Path(path) / "model.json", Path(path) / "model.pickle"
        if not described.is_file() or not stored.is_file():
            raise InvalidInput(f"{path} is not a model: labeldp train writes a folder with model.json and model.pickle")
        try:
            facts = read_json(described)
        except InvalidInput as error:
            raise InvalidInput(f"{described} is damaged: {error}") from None
        if (
            not isinstance(facts, dict)
            or facts.get("format") != FORMAT
            or facts.get("format_version") != FORMAT_VERSION
        ):
            raise InvalidInput(f"{path} was written by another version of labeldp: train the model again")
        _check_facts(facts, described)
        try:
            model = pickle.loads(stored.read_bytes())  # noqa: S301 - the docstring says so
        except Exception as error:
            raise InvalidInput(
                f"{stored} cannot be loaded: {error}. Train the model again with this version"
            ) from error
        return cls(model, facts)


def _check_facts(facts: dict[str, Any], where: Path) -> None:
    """Refuse facts that later steps cannot use, by the name of the first of them."""

    def number(value: Any) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    def texts(value: Any) -> bool:
        return (
            isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)
        )

    bounds = facts.get("bounds")
    paired = isinstance(bounds, list) and len(bounds) == 2 and all(map(number, bounds)) and bounds[0] <= bounds[1]
    sound = {
        "bounds": bounds is None or paired,
        "columns": texts(facts.get("columns", [])),
        "epsilon": number(facts.get("epsilon", 0)),
        "model": isinstance(facts.get("model", ""), str),
        "loss": isinstance(facts.get("loss", ""), str),
        "unit": isinstance(facts.get("unit"), str | None),
    }
    for name, good in sound.items():
        if not good:
            raise InvalidInput(f"{where} is damaged: {name} is not what training wrote. Train the model again")


def check_new(path: Path) -> None:
    """Refuse a place where something is already."""
    if path.exists():
        raise InvalidInput(f"{path} exists: choose another --out, nothing is overwritten")
