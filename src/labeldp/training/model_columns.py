"""The columns of a table that a saved model takes, and the form in which it takes them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp.errors import InvalidInput
from labeldp.features.tables import is_text


def trained_columns(model: Any, facts: dict[str, Any]) -> list[str]:
    """The names of the columns that a model was trained on, in their order; empty if nothing says them.

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
    """The columns for a model that knows how many it takes, but not their names: all the `rest`, if they are as many.

    A model that knows neither gets the rest as well, and says itself what is wrong with it.
    """
    expected = columns_taken(model)
    if expected is not None and not of_labeldp(model) and len(rest) != expected:
        raise InvalidInput(
            f"the model takes {expected:,} columns and was trained without their names, but {where} has {len(rest):,} that could "
            'be meant. Say which ones when you save it: SavedModel(model, {"columns": [...]})'
        )
    return list(rest)


def columns_taken(model: Any) -> int | None:
    """How many columns a model takes, if scikit-learn noted it."""
    number = _noted(model, "n_features_in_")
    return int(number) if isinstance(number, (int, np.integer)) and not isinstance(number, bool) else None


def suited(model: Any, table: pa.Table) -> Any:
    """The table as its model takes it.

    Models of labeldp read Arrow. Of others, those that were fitted to named columns get a pandas table if pandas is installed, since
    parts of scikit-learn (a `ColumnTransformer` that passes columns through) know no Arrow, and the rest an array.
    """
    if of_labeldp(model):
        return table
    if trained_columns(model, {}):
        return _frame(model, table) if find_spec("pandas") else table
    return table if columns_taken(model) is None else np.asarray(table)


def _frame(model: Any, table: pa.Table) -> Any:
    """The table in pandas. LightGBM and XGBoost take text only as categories, so text must have been categories in training."""
    frame = table.to_pandas(ignore_metadata=True)  # the metadata may name an index
    if type(model).__module__.partition(".")[0] in {"lightgbm", "xgboost"}:
        texts = [field.name for field in table.schema if is_text(field.type)]
        return frame.astype(dict.fromkeys(texts, "category"))
    return frame


def of_labeldp(model: Any) -> bool:
    """Whether a model is one of ours."""
    return type(model).__module__.partition(".")[0] == "labeldp"


def _noted(model: Any, name: str) -> Any:
    """An attribute that scikit-learn sets in `fit`. The model may come from a changed file, in which a pipeline has no steps."""
    try:
        return getattr(model, name, None)
    except (AttributeError, IndexError, KeyError, TypeError):
        return None
