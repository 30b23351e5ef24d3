"""A trained model on disk: a folder with the model as data and, as readable JSON, what it was trained on.

`model.safetensors` holds arrays and the model's structure. Loading it builds types of an explicit list only and runs no code of
the file (`labeldp.learn.stored`). A model that this format cannot hold can be saved as `model.pickle`. Loading a pickle runs
the code in it, so that is done only on request.
"""

from __future__ import annotations

import hashlib
import json
import math
import pickle
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from labeldp.arrays import Floats, check_unit
from labeldp.artifact.staging import publish, staging
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, LabelDPError, MissingExtra, described
from labeldp.json_text import parse_json, read_bytes
from labeldp.learn.estimator_checks import without_values
from labeldp.learn.feature_tables import is_text
from labeldp.learn.stored.codec import NotStorable
from labeldp.learn.stored.model_file import LARGEST_FILE, from_bytes, to_bytes
from labeldp.learn.stored.skops_file import is_of_scikit_learn

FORMAT = "labeldp-model"
FORMAT_VERSION = 1
DATA, PICKLE = "model.safetensors", "model.pickle"
LARGEST_DESCRIPTION = 64 << 20
"""A larger model.json is not read."""


@dataclass(frozen=True)
class SavedModel:
    """A fitted model together with the facts of its training, as `labeldp train` saves it.

    Parameters
    ----------
    model : regressor
        A fitted regressor.
    facts : dict
        What it was trained on, as JSON values, all of them optional. Used are:

        - "bounds": the public bounds [lower, upper] of the labels, into which predictions are clipped,
        - "columns": the names of the columns that the model takes, in their order. Without them it is what scikit-learn noted
          when the model was fitted to a table (`feature_names_in_`),
        - "classes": the names of the classes, of a model with `predict_proba`, in the order of its columns,
        - "unit": the unit of labels that are durations, such as "hours",
        - "loss": the loss that `labeldp evaluate` reports next to the usual figures, "squared" by default,
        - "model" and "epsilon": the model's name and the ε of its labels, for the report of `labeldp evaluate`.

        Other facts are kept.

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

    @property
    def members(self) -> tuple[Any, ...]:
        """What a stack is made of, with weights; empty for other models."""
        return tuple(getattr(self.model, "members", ()))

    @property
    def classes(self) -> list[str] | None:
        """The names of the classes that the model predicts; None if it predicts numbers."""
        named = self.facts.get("classes")
        if named is None and hasattr(self.model, "predict_proba"):
            named = np.asarray(self.model.classes_).tolist()
        return None if named is None else [str(name) for name in named]

    @property
    def class_values(self) -> NDArray[Any]:
        """The classes as predictions show them: names, or booleans if the names are true and false. Empty if the model predicts numbers."""
        named = self.classes or []
        if {name.lower() for name in named} == {"false", "true"}:
            return np.array([name.lower() == "true" for name in named])
        return np.array(named, str)

    def predict_proba(self, features: Any) -> Floats:
        """Return the probability of each class for each row.

        Parameters
        ----------
        features : table or array
            Features with the columns that the model was trained on.

        Returns
        -------
        array of float of shape (rows, classes)
            In the order of `classes`.

        Raises
        ------
        InvalidInput
            If the model predicts numbers, or cannot predict from these features.
        """
        if self.classes is None:
            raise InvalidInput("the model predicts numbers and no classes: use predict")
        return self._values(self._suited(features), len(self.classes))

    def predict(self, features: Any) -> NDArray[Any]:
        """Predict, and clip the predictions into the public bounds of the labels if these are known.

        Parameters
        ----------
        features : table or array
            Features with the columns that the model was trained on.

        Returns
        -------
        array of float, of str or of bool
            A prediction for each row; of a model of classes, the most probable one as in `class_values`.

        Raises
        ------
        InvalidInput
            If the model cannot predict from these features.

        """
        if self.classes is not None:
            return np.asarray(self.class_values[self.predict_proba(features).argmax(axis=1)])
        values = self._values(self._suited(features))
        bounds = self.facts.get("bounds")
        return np.clip(values, *bounds) if bounds else values

    def _suited(self, features: Any) -> Any:
        """Return the columns that the model takes, as it takes them."""
        columns = trained_columns(self.model, self.facts)
        if isinstance(features, pa.Table):
            if columns and set(columns) <= set(features.schema.names):
                features = features.select(columns)  # without the id and columns that training left out
            features = suited(self.model, features)
        return features

    def _values(self, features: Any, classes: int | None = None) -> Floats:
        """Predict. The model may come from a changed file, so it can fail in any way."""
        try:
            with without_values("the features"):
                answers = self.model.predict(features) if classes is None else self.model.predict_proba(features)
            values = np.asarray(answers, np.float64)
        except (LabelDPError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - the text of scikit-learn may show a value
            raise InvalidInput(
                f"the model cannot predict from these features ({type(error).__name__}).{self._counts(features)}{_texts(features)} Give "
                "the columns that it was trained on, with the same types, and missing values only where it knew some. If you do, and a "
                "model that you train again predicts, this one is damaged: copy it again"
            ) from None
        rows = features.shape[0] if hasattr(features, "shape") else len(features)
        if values.shape != ((rows,) if classes is None else (rows, classes)):
            wanted = "one number" if classes is None else f"the rates of {classes} classes"
            raise InvalidInput(
                f"the model predicts an array of the shape {values.shape} in place of {wanted} for each of {rows:,} rows. It is damaged: copy "
                "it again, or train it again"
            )
        return values

    def _counts(self, features: Any) -> str:
        """Return a sentence for features with another number of columns than the model takes."""
        expected, given = columns_taken(self.model), getattr(features, "shape", ())[1:]
        if not given or expected in (None, *given):
            return ""
        return f" It takes {expected:,} columns, and these are {given[0]:,}."

    def save(self, path: str | Path, *, pickle: bool = False) -> None:
        """Write a new folder, whole or not at all.

        Parameters
        ----------
        path : str or Path
            The folder. It must not exist yet.
        pickle : bool
            Write a pickle, which can contain any model. Anyone who loads it must trust you: loading a pickle runs code.
            By default the model is written as data. That works for the regressors of labeldp, for regressors of
            scikit-learn that predict with NumPy, and for `HistGradientBoostingRegressor`, `LGBMRegressor` and
            `XGBRegressor`.

        Raises
        ------
        InvalidInput
            If the folder exists or the one around it does not, if the model is not fitted, or if it cannot be written as data.

        """
        target = Path(path).absolute()
        check_new(target)
        _check_facts(self.facts, "the facts")
        _check_fitted(self.model)
        name, content = (PICKLE, _pickled(self.model)) if pickle else (DATA, _as_data(self.model))
        record = {
            **self.facts,
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "labeldp_version": version("labeldp"),
            "model_file": name,
            "model_sha256": hashlib.sha256(content).hexdigest(),
        }
        with staging(target) as place:
            folder = place / "model"
            folder.mkdir()
            (folder / "model.json").write_text(
                json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )
            (folder / name).write_bytes(content)
            publish(folder, target)

    @classmethod
    def load(cls, path: str | Path, *, trust_pickle: bool = False) -> SavedModel:
        """Load a model. Nothing in the folder can run code, unless you allow a pickle.

        Parameters
        ----------
        path : str or Path
            A folder that `save` wrote.
        trust_pickle : bool
            Load the model even if it is a pickle. Loading a pickle runs the code in it, with your rights: allow it only
            for folders that you wrote yourself or that come from people whom you would let run programs here.

        Returns
        -------
        SavedModel
            The model and its facts.

        Raises
        ------
        InvalidInput
            If the folder is not a model, is damaged, or was written by another version, or if the model is a pickle.

        """
        folder = Path(path)
        facts = _described(folder)
        if facts.get("format") != FORMAT or facts.get("format_version") != FORMAT_VERSION:
            raise InvalidInput(f"{path} was written by another version of labeldp: train the model again")
        name = facts.get("model_file")
        if name not in (DATA, PICKLE):  # not a set, which would hash any value of the file
            raise InvalidInput(f"{folder / 'model.json'} is damaged: model_file is neither {DATA} nor {PICKLE}")
        if name == PICKLE and not trust_pickle:
            raise InvalidInput(
                f"{folder / PICKLE} is a pickle, and loading a pickle runs the code it contains. If you trust the sender of the "
                "folder, give --trust-pickle, in Python SavedModel.load(path, trust_pickle=True). Otherwise ask for the model as data: "
                "SavedModel.save without pickle=True writes models of labeldp, scikit-learn, LightGBM and XGBoost so"
            )
        stored = folder / name
        if not stored.is_file():
            raise InvalidInput(f"{folder} is not a whole model: {name} is missing. Copy the folder again")
        content = read_bytes(stored, LARGEST_FILE)
        if hashlib.sha256(content).hexdigest() != facts.get("model_sha256"):
            raise InvalidInput(f"{stored} is damaged: its SHA-256 is not the one in model.json. Copy the folder again")
        return cls(_unpickled(content, stored) if name == PICKLE else _from_data(content, stored), facts)


def _texts(features: Any) -> str:
    """Return a sentence that names the columns of text or categories, which many models do not take."""
    kinds = {str(name): str(kind) for name, kind in getattr(getattr(features, "dtypes", None), "items", dict)()}
    if isinstance(features, pa.Table):
        kinds = {field.name: str(field.type) for field in features.schema}
    names = [name for name, kind in kinds.items() if re.match(r"object|str|large_string|category|dictionary", kind)]
    if not names:
        return ""
    shown = ", ".join(f"{name!r:.60}" for name in names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return (
        f" The {'column' if len(names) == 1 else 'columns'} {shown} contain{'s' if len(names) == 1 else ''} text or categories. If the model "
        "was trained on numbers there, convert the text to numbers. If it was trained on categories, give categories (in pandas "
        'astype("category")), with the values that it was trained on.'
    )


def check_new(path: Path) -> None:
    """Raise `InvalidInput` if the path exists, or the folder that it would lie in does not."""
    if path.exists():
        raise InvalidInput(f"{path} exists: choose another --out, nothing is overwritten")
    if not path.absolute().parent.is_dir():
        raise InvalidInput(f"the folder {path.absolute().parent} does not exist: make it first")


def _check_fitted(model: Any) -> None:
    """Raise `InvalidInput` for an unfitted estimator of scikit-learn or labeldp. Others cannot be checked."""
    if is_of_scikit_learn(model) or (of_labeldp(model) and isinstance(model, BaseEstimator)):
        try:
            check_is_fitted(model)
        except NotFittedError:
            raise InvalidInput(f"the {type(model).__name__} is not fitted: call fit before save") from None


def _as_data(model: Any) -> bytes:
    try:
        return to_bytes(model)
    except NotStorable as error:
        raise InvalidInput(
            f"the model cannot be saved as data: {error}. If everybody who will load it trusts you to run code on their machine, "
            "save it as a pickle: save(path, pickle=True)"
        ) from error


def _from_data(content: bytes, stored: Path) -> Any:
    try:
        return from_bytes(content)
    except MissingExtra:
        raise
    except InvalidInput as error:
        raise InvalidInput(f"{stored} cannot be loaded: {error}. Train the model again with this version") from error


def _pickled(model: Any) -> bytes:
    try:
        return pickle.dumps(model)
    except Exception as error:
        raise InvalidInput(f"the model cannot be pickled: {error}") from error


def _unpickled(content: bytes, stored: Path) -> Any:
    try:
        return pickle.loads(content)  # noqa: S301 - only if the caller trusts the folder
    except (ImportError, AttributeError) as error:
        raise InvalidInput(
            f"{stored} cannot be loaded: {error}. The class of a pickled model must be importable here under the name that it had "
            "when it was saved: install its package, or put its module on PYTHONPATH. A class that was defined in a script or a "
            "notebook has to move to a module first, and the model has to be saved again"
        ) from error
    except Exception as error:
        raise InvalidInput(f"{stored} cannot be loaded: {error}. Train the model again with this version") from error


def _described(folder: Path) -> dict[str, Any]:
    """Return the checked content of model.json."""
    written = folder / "model.json"
    if not written.is_file():
        raise InvalidInput(f"{folder} is not a model: labeldp train writes a folder with model.json and {DATA}")
    try:
        facts = parse_json(read_bytes(written, LARGEST_DESCRIPTION, "it"), "it")
    except InvalidInput as error:
        raise InvalidInput(f"{written} is damaged: {error}. Copy the folder again") from None
    if not isinstance(facts, dict):
        raise InvalidInput(
            f"{written} is damaged: it must hold a JSON object, not a {type(facts).__name__}. Copy the folder again"
        )
    _check_facts(facts, str(written))
    return facts


def _check_facts(facts: dict[str, Any], where: str) -> None:
    """Raise `InvalidInput` for facts that predictions or reports cannot use."""
    bounds, columns = facts.get("bounds"), facts.get("columns", [])
    epsilon = facts.get("epsilon", 1)
    texts = isinstance(columns, (list, tuple)) and all(isinstance(column, str) for column in columns)
    pair = isinstance(bounds, (list, tuple)) and len(bounds) == 2 and all(map(_is_finite, bounds))
    for name, good in (
        ("bounds", bounds is None or (pair and bounds[0] <= bounds[1])),
        ("columns", texts and len(set(columns)) == len(columns)),
        ("epsilon", _is_finite(epsilon) and epsilon > 0),
        ("model", isinstance(facts.get("model", ""), str) and facts.get("model", "").isprintable()),  # it is printed
        ("loss", isinstance(facts.get("loss", ""), str)),
        ("classes", facts.get("classes") is None or _are_names(facts["classes"])),
    ):
        if not good:
            raise InvalidInput(f"{where}: {name} cannot be {described(facts.get(name))}")
    if facts.get("unit") is not None:
        try:
            check_unit(facts["unit"])
        except (InvalidInput, TypeError) as error:
            raise InvalidInput(f"{where}: unit cannot be {described(facts['unit'])}") from error


def _are_names(classes: object) -> bool:
    try:
        Domain.of_classes(classes)  # type: ignore[arg-type]
    except InvalidInput:
        return False
    return True


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer beyond the floats
        return False


def trained_columns(model: Any, facts: dict[str, Any]) -> list[str]:
    """Return the names of the columns that a model was trained on, in their order; empty if nothing says them.

    The facts say them, or else what scikit-learn noted when the model was fitted to a table.
    """
    if facts.get("columns"):
        return list(facts["columns"])
    names = _noted(model, "feature_names_in_")
    if not isinstance(names, np.ndarray) or names.ndim != 1:
        return []
    texts = [str(name) for name in names if isinstance(name, str)]
    return texts if len(set(texts)) == names.size else []


def columns_by_number(model: Any, rest: Sequence[str], where: object) -> list[str]:
    """Return the columns for a model that knows their number, but not their names: all the `rest`, if the number fits.

    A model that knows neither gets the rest as well, and raises its own error.
    """
    expected = columns_taken(model)
    if expected is not None and not of_labeldp(model) and len(rest) != expected:
        raise InvalidInput(
            f"the model takes {expected:,} columns and was trained without their names, but {where} has {len(rest):,} that could "
            'be meant. Name them when you save it: SavedModel(model, {"columns": [...]})'
        )
    return list(rest)


def columns_taken(model: Any) -> int | None:
    """Return how many columns a model takes, if scikit-learn noted it."""
    number = _noted(model, "n_features_in_")
    return int(number) if isinstance(number, (int, np.integer)) and not isinstance(number, bool) else None


def suited(model: Any, table: pa.Table) -> Any:
    """Return the table as its model takes it.

    Models of labeldp read Arrow. Other models that were fitted to named columns get a pandas table if pandas is installed, since
    parts of scikit-learn (a `ColumnTransformer` that passes columns through) do not read Arrow. The rest get an array.
    """
    if of_labeldp(model):
        return table
    if trained_columns(model, {}):
        return _frame(model, table) if find_spec("pandas") else table
    return table if columns_taken(model) is None else np.asarray(table)


def _frame(model: Any, table: pa.Table) -> Any:
    """Return the table in pandas. LightGBM and XGBoost take text only as categories, so text must have been categories in training."""
    frame = table.to_pandas(ignore_metadata=True)  # the metadata may name an index
    if type(model).__module__.partition(".")[0] in {"lightgbm", "xgboost"}:
        texts = [field.name for field in table.schema if is_text(field.type)]
        return frame.astype(dict.fromkeys(texts, "category"))
    return frame


def of_labeldp(model: Any) -> bool:
    """Return whether a model is one of ours."""
    return type(model).__module__.partition(".")[0] == "labeldp"


def _noted(model: Any, name: str) -> Any:
    """Return an attribute that scikit-learn sets in `fit`. The model may come from a changed file, with an empty pipeline."""
    try:
        return getattr(model, name, None)
    except (AttributeError, IndexError, KeyError, TypeError):
        return None
