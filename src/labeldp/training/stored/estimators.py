"""The estimators that a model file may hold: those that our learners are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn._loss.loss import AbsoluteError, HalfGammaLoss, HalfPoissonLoss, HalfSquaredError
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.losses import Loss
from labeldp.mechanisms import FiniteMechanism
from labeldp.mechanisms.label_scale import NormalScores
from labeldp.priors import Prior
from labeldp.training.boosting import BoostingRegressor, Trees
from labeldp.training.columns import ColumnEncoder, ConstantsToZero
from labeldp.training.conditional import ConditionalRegressor
from labeldp.training.linear_start import LinearStart
from labeldp.training.regressor import LabelDPRegressor
from labeldp.training.stored.kinds import Kind, NotStorable, State, add, exactly, is_a
from labeldp.training.stored.tree_checks import check_bitsets, check_boosting

Types = tuple[type, ...]
NONE = type(None)
NUMBER: Types = (int, float)


def _state(model: Any) -> State:
    return dict(vars(model))


def estimator(
    kind: type,
    attributes: Mapping[str, Types] | None = None,
    check: Callable[[Any], None] = lambda model: None,  # noqa: ARG005
) -> Kind:
    """The entry of an estimator: its parameters and fitted attributes.

    `attributes` names the types of those that prediction rests on, and `check` looks at the whole.
    """
    needed = dict(attributes or {})

    def state(model: Any) -> State:
        check(model)
        return _state(model)

    def build(state: State) -> Any:
        names: Any = getattr(kind, "_get_param_names", tuple)
        parameters: set[str] = set(names())
        if missing := sorted(parameters - set(state)):
            raise InvalidInput(f"the parameter {missing[0]} is missing")
        for name, value in state.items():
            # An attribute of the object must not hide a method of its class.
            if not name.isidentifier() or (name not in parameters and hasattr(kind, name)):
                raise InvalidInput(f"it cannot have an attribute {name!r:.60}")
            if name in needed:
                is_a(value, *needed[name], what=name)
        made: Any = object.__new__(kind)
        made.__dict__.update(state)
        check(made)
        return made

    return Kind(kind.__name__, kind, state, build)


def _check_pipeline(pipeline: Any) -> None:
    if pipeline.memory is not None:  # a folder of pickles, which the next fit would load
        raise NotStorable("a pipeline with a cache (memory) cannot be stored: set memory=None")
    for step in is_a(pipeline.steps, list, what="steps"):
        if not isinstance(step, tuple) or len(step) != 2 or not isinstance(step[0], str):
            raise InvalidInput("a step of a pipeline is a name and a transformer")
        if not isinstance(step[1], BaseEstimator) and step[1] not in (None, "passthrough"):
            raise InvalidInput("a step of a pipeline is no estimator")


def _check_predictor(tree: Any) -> None:
    check_bitsets(tree.raw_left_cat_bitsets)
    check_bitsets(tree.binned_left_cat_bitsets)


def _check_encoded(model: Any) -> None:
    if not hasattr(model, "trees_"):
        return
    columns = len(model.encoder_.numeric) + len(model.encoder_.categorical)
    if model.n_features_in_ != columns or model.trees_.n_features_in_ != columns:
        raise InvalidInput("the trees do not fit the columns")


def _check_private(model: Any) -> None:
    if model.ledger is not None:  # a copy without it could be fitted at no charge
        raise NotStorable("a regressor with a ledger cannot be stored: save its estimator_, with the bounds as facts")


def _loss(kind: type) -> Kind:
    """A loss of scikit-learn. Its compiled part is made anew and not stored."""

    def build(state: State) -> Any:
        (constant,) = exactly(state, "constant_hessian")
        made = kind()
        made.constant_hessian = is_a(constant, bool, what="constant_hessian")
        return made

    return Kind(kind.__name__, kind, lambda loss: {"constant_hessian": bool(loss.constant_hessian)}, build)


def _generator_state(generator: np.random.Generator) -> State:
    state: Any = generator.bit_generator.state
    if state["bit_generator"] != "PCG64":
        raise NotStorable(f"a random generator of the type {state['bit_generator']} cannot be stored")
    return {**state["state"], "has_uint32": state["has_uint32"], "uinteger": state["uinteger"]}


def _generator(state: State) -> np.random.Generator:
    place, inc, has, left = (
        is_a(part, int, what="the state") for part in exactly(state, "state", "inc", "has_uint32", "uinteger")
    )
    made = np.random.PCG64(0)
    made.state = {
        "bit_generator": "PCG64",
        "state": {"state": place, "inc": inc},
        "has_uint32": has,
        "uinteger": left,
    }
    return np.random.Generator(made)


BOOSTING: Types = (HistGradientBoostingRegressor,)
for entry in (
    estimator(HistGradientBoostingRegressor, check=check_boosting),
    estimator(Trees, check=check_boosting),
    estimator(TreePredictor, check=_check_predictor),
    estimator(_BinMapper),
    *(_loss(kind) for kind in (HalfSquaredError, HalfPoissonLoss, HalfGammaLoss, AbsoluteError)),
    estimator(Pipeline, check=_check_pipeline),
    *(
        estimator(kind)
        for kind in (FunctionTransformer, StandardScaler, ConstantsToZero, SimpleImputer, MissingIndicator, RidgeCV)
    ),
    estimator(
        LinearStart,
        {
            "trees": BOOSTING,
            "trees_": BOOSTING,
            "line_": (Pipeline, NONE),
            "used_": (np.ndarray,),
            "numeric": (int, NONE),
        },
    ),
    estimator(BoostingRegressor, {"encoder_": (ColumnEncoder,), "trees_": (LinearStart, Trees)}, _check_encoded),
    estimator(
        ConditionalRegressor,
        {
            "mechanism": (FiniteMechanism,),
            "loss": (str, Loss),
            "encoder_": (ColumnEncoder, NONE),
            "scores_": (NormalScores,),
            "location_": (BaseEstimator,),
            "spread_": (BaseEstimator, NONE),
            "level_": NUMBER,
            "weight_": NUMBER,
            "factor_": NUMBER,
            "floor_": NUMBER,
        },
    ),
    estimator(
        LabelDPRegressor,
        {
            "domain": (Domain, tuple),
            "loss": (str, Loss),
            "prior": (Prior, NONE),
            "ledger": (NONE,),
            "mechanism_": (FiniteMechanism,),
            "estimator_": (BaseEstimator,),
            "_spent": (Fraction,),
            "_fits": (dict,),
        },
        _check_private,
    ),
    Kind("Generator", np.random.Generator, _generator_state, _generator),
):
    add(entry)
