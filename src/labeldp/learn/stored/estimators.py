"""The estimators that a model file may contain: the parts of our learners, and a few whose losses skops does not trust."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from sklearn._loss.loss import (
    AbsoluteError,
    HalfGammaLoss,
    HalfPoissonLoss,
    HalfSquaredError,
    HalfTweedieLoss,
    HalfTweedieLossIdentity,
)
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import GammaRegressor, PoissonRegressor, TweedieRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder, StandardScaler

from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.learn.boosting import LinearStart, Trees
from labeldp.learn.class_rates import ClassRates
from labeldp.learn.classifier import LabelDPClassifier
from labeldp.learn.conditional import ConditionalRegressor
from labeldp.learn.feature_columns import ColumnEncoder, ConstantsToZero
from labeldp.learn.learners import BoostingRegressor, StackedRegressor
from labeldp.learn.method import Method
from labeldp.learn.record_checks import all_are, exactly, finite_float, finite_floats, is_a
from labeldp.learn.regressor import LabelDPRegressor
from labeldp.learn.score_model import ScoreModel
from labeldp.learn.smooth_ridge import SmoothRidge
from labeldp.learn.stack import Stack
from labeldp.learn.stored.codec import (
    MOST_CATEGORIES,
    NotStorable,
    State,
    StoredType,
    add,
    add_on_demand,
    check_boosting,
)
from labeldp.learn.sums.classes_model import ClassesModel
from labeldp.learn.sums.sums_model import SumsModel
from labeldp.learn.sums_then_labels import SumsThenLabels
from labeldp.losses import Loss
from labeldp.mechanisms import FiniteMechanism
from labeldp.mechanisms.bias_variance import NormalScores
from labeldp.priors import Prior
from labeldp.release.private_sums import PrivateSums

Types = tuple[type, ...]
NONE = type(None)
NUMBER: Types = (int, float)


def estimator(
    kind: type,
    attributes: Mapping[str, Types] | None = None,
    check: Callable[[Any], None] = lambda model: None,  # noqa: ARG005
    *,
    fitted: Iterable[str] = (),
) -> StoredType:
    """Return the entry of an estimator: its parameters and fitted attributes, and no other attribute.

    `attributes` has the types of attributes that prediction uses, `fitted` the other attributes that fitting sets, and
    `check` looks at the whole.
    """
    needed = dict(attributes or {})
    names: Any = getattr(kind, "_get_param_names", tuple)
    parameters = frozenset(names())
    known = parameters.union(needed, fitted)

    def state(model: Any) -> State:
        if others := sorted(set(vars(model)) - known):
            raise NotStorable(f"a {kind.__name__} with the attribute {others[0]} cannot be stored")
        check(model)
        return dict(vars(model))

    def build(state: State) -> Any:
        if missing := sorted(parameters - set(state)):
            raise InvalidInput(f"the parameter {missing[0]} is missing")
        if others := sorted(set(state) - known):  # one could hide a method, or switch off a check of scikit-learn
            raise InvalidInput(f"it cannot have an attribute {others[0]!r:.60}")
        for name in needed.keys() & state.keys():
            is_a(state[name], *needed[name], what=name)
        made: Any = object.__new__(kind)
        made.__dict__.update(state)
        check(made)
        return made

    return StoredType(kind.__name__, kind, state, build)


def _check_pipeline(pipeline: Any) -> None:
    if pipeline.memory is not None:  # a folder of pickles, which the next fit would load
        raise NotStorable("a pipeline with a cache (memory) cannot be stored: set memory=None")
    for step in is_a(pipeline.steps, list, what="steps"):
        if not isinstance(step, tuple) or len(step) != 2 or not isinstance(step[0], str):
            raise InvalidInput("a step of a pipeline is a name and a transformer")
        if not isinstance(step[1], BaseEstimator) and step[1] not in (None, "passthrough"):
            raise InvalidInput("a step of a pipeline is not an estimator")


def _check_function(transformer: Any) -> None:
    """Refuse any function but the one that our scaling ends with: a keyword of NumPy can change types or write elsewhere."""
    arguments = transformer.kw_args or {}
    numbers = all(type(number) in {int, float} for number in arguments.values())
    clips = transformer.func is np.clip and set(arguments) == {"a_min", "a_max"} and numbers
    plain = clips or (transformer.func is None and not arguments)
    if not plain or transformer.inverse_func or transformer.inv_kw_args:
        raise NotStorable("a FunctionTransformer can be stored only without a function")


def _boosting(kind: type) -> StoredType:
    """Return a `HistGradientBoostingRegressor`. Of the step that encodes its categorical columns, only the fitted encoder is stored.

    The step selects columns and calls functions, so it is made again from the list of categorical columns.
    """
    plain = estimator(kind, check=check_boosting, fitted=TREES)

    def state(model: Any) -> State:
        found = plain.state(model)
        if found.get("_preprocessor") is not None:
            encoder = found["_preprocessor"].named_transformers_["encoder"]
            codes = all(each.dtype == np.float64 for each in encoder.categories_)
            found["_preprocessor"] = list(encoder.categories_) if codes else encoder
        return found

    def build(state: State) -> Any:
        if state.get("_preprocessor") is not None:
            state["_preprocessor"] = _column_step(
                state["_preprocessor"], state["is_categorical_"], state.get("feature_names_in_")
            )
        return plain.build(state)

    return StoredType(kind.__name__, kind, state, build)


def _column_step(encoder: Any, categorical: Any, names: Any) -> ColumnTransformer:
    """Return the first step of a fitted `HistGradientBoostingRegressor`, as scikit-learn makes it.

    It must return the number of columns that the trees expect, because this is not checked later.
    """
    columns = is_a(categorical, np.ndarray, what="is_categorical_").size
    if categorical.dtype != np.bool_ or categorical.shape != (columns,) or not categorical.any():
        raise InvalidInput("the list of categorical columns is damaged")
    if names is not None and (not isinstance(names, np.ndarray) or names.shape != (columns,)):
        raise InvalidInput("the names of the columns are damaged")
    # Trees that are fitted to zeros have the same step, except for the categories.
    model = HistGradientBoostingRegressor(categorical_features=categorical, max_iter=1)
    step = model.fit(np.zeros((2, columns)), np.zeros(2))._preprocessor  # noqa: SLF001
    fresh, rest = (step.named_transformers_[name] for name in ("encoder", "numerical"))
    count = int(categorical.sum())
    if isinstance(encoder, list):  # the codes that were seen in each column
        codes = [finite_floats(is_a(part, np.ndarray, what="codes"), "codes") for part in encoder]
        if len(codes) != count or not all(part.ndim == 1 and part.size for part in codes):
            raise InvalidInput("the encoder does not fit the categorical columns")
        most = max(part.size for part in codes)
        encoder = clone(fresh).fit(np.column_stack([np.resize(part, most) for part in codes]))
    is_a(encoder, OrdinalEncoder, what="the encoder")
    same = all(repr(value) == repr(encoder.get_params()[name]) for name, value in fresh.get_params().items())
    sizes = [np.size(found) for found in is_a(encoder.categories_, list, what="the categories")]
    if not same or encoder.n_features_in_ != count or len(sizes) != count or max(sizes) > MOST_CATEGORIES:
        raise InvalidInput("the encoder does not fit the categorical columns")
    if names is not None:
        step.feature_names_in_, rest.feature_names_in_ = names, names[~categorical]
    step.transformers_[0] = ("encoder", encoder, categorical)
    return step


def _is_fitted(model: Any, *names: str) -> bool:
    """Return whether a model has these attributes; some without the others are refused."""
    there = [hasattr(model, name) for name in names]
    if any(there) and not all(there):
        raise InvalidInput(f"the attribute {names[there.index(False)]} is missing")
    return all(there)


def _check_ridge(model: Any) -> None:
    if not _is_fitted(model, *RIDGE):
        return
    finite_float(float(model.intercept_), "the intercept")
    for name in ("shift_", "landmarks_", "rotation_", "coef_"):
        finite_floats(getattr(model, name), name)
    for arrays in (model.knots_, model.levels_):
        for one in all_are(arrays, np.ndarray, "knots and levels"):
            finite_floats(one, "knots and levels")
    columns, bumps = model.scale_.size, len(model.landmarks_)
    shapes = (model.shift_.shape, model.landmarks_.shape, model.rotation_.shape, model.coef_.shape)
    if shapes != ((columns,), (bumps, columns), (bumps, bumps), (columns + bumps,)) or not (model.scale_ > 0).all():
        raise InvalidInput("the coefficients do not fit the columns")


def _check_stack(model: Any) -> None:
    if not _is_fitted(model, *STACK):
        return
    finite_float(float(model.base_), "the base")
    for one in all_are(model.models_, tuple, "models"):
        fitted, weights, stages = one if len(one) == 3 else (None, None, None)
        is_a(fitted, SmoothRidge, LinearStart, Trees, what="a model of a stack")
        if len(all_are(stages, int, "stages")) != finite_floats(weights, "weights").size or not stages:
            raise InvalidInput("the weights of a stack do not fit its models")
    for facts in all_are(model.facts_, tuple, "facts"):
        name, weight, trees, r2 = facts if len(facts) == 4 else (None,) * 4
        is_a(name, str, what="a name"), is_a(trees, int, what="trees")
        finite_float(weight, "a weight"), finite_float(r2, "a share")


def _check_encoded(model: Any) -> None:
    if not hasattr(model, "model_"):
        return
    columns = len(model.encoder_.numeric) + len(model.encoder_.categorical)
    predictions = isinstance(model, SumsThenLabels)  # which are one more column
    if model.n_features_in_ != columns or model.model_.n_features_in_ != columns + predictions:
        raise InvalidInput("the trees do not fit the columns")


def _check_conditional(model: Any) -> None:
    if model.scores is not None and model.first is None:
        raise InvalidInput("the model of the scores is missing")


def _check_private(model: Any) -> None:
    if model.ledger is not None:  # a copy without it could be fitted at no charge
        raise NotStorable("an estimator with a ledger cannot be stored: save its estimator_, with the bounds as facts")


def _check_rates(model: Any) -> None:
    if not _is_fitted(model, *RATES):
        return
    classes = model.mechanism.outputs.size
    models = 1 if classes == 2 else classes
    sizes = dict.fromkeys(("slopes_", "shifts_", "floors_"), models) | dict.fromkeys(("rates_", "balance_"), classes)
    for name, size in sizes.items():
        if finite_floats(getattr(model, name), name).shape != (size,):
            raise InvalidInput(f"{name} does not fit the classes")
    if len(all_are(model.models_, BaseEstimator, "models")) != models:
        raise InvalidInput("the models do not fit the classes")


def _check_classifier(model: Any) -> None:
    _check_private(model)
    if not hasattr(model, "estimator_"):
        return
    if model.classes_.ndim != 1:
        raise InvalidInput("the classes are damaged")
    fitted, classes = model.estimator_, 2
    if not isinstance(fitted, SumsModel):
        classes = len(fitted.classes) if isinstance(fitted, ClassesModel) else fitted.mechanism.outputs.size
    if model.classes_.size != classes:
        raise InvalidInput("the classes do not fit the model")


def _loss(kind: type) -> StoredType:
    """Return a loss of scikit-learn. Its compiled part is created again and not stored."""

    def build(state: State) -> Any:
        (constant,) = exactly(state, "constant_hessian")
        made = kind()
        made.constant_hessian = is_a(constant, bool, what="constant_hessian")
        return made

    return StoredType(kind.__name__, kind, lambda loss: {"constant_hessian": bool(loss.constant_hessian)}, build)


def _tweedie(kind: type) -> StoredType:
    """Return a loss of scikit-learn for one power."""

    def build(state: State) -> Any:
        (power,) = exactly(state, "power")
        return kind(power=is_a(power, int, float, what="power"))

    return StoredType(kind.__name__, kind, lambda loss: {"power": float(loss.closs.power)}, build)


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
    made.state = {"bit_generator": "PCG64", "state": {"state": place, "inc": inc}, "has_uint32": has, "uinteger": left}
    return np.random.Generator(made)


ARRAY: Types = (np.ndarray,)
RIDGE: dict[str, Types] = {
    "scaler_": (Pipeline, NONE),
    "used_": ARRAY,
    "knots_": (list,),
    "levels_": (list,),
    "intercept_": NUMBER,
    **dict.fromkeys(("shift_", "scale_", "landmarks_", "rotation_", "coef_"), ARRAY),
}
RATES: dict[str, Types] = {
    "models_": (list,),
    **dict.fromkeys(("slopes_", "shifts_", "floors_", "rates_", "balance_"), ARRAY),
}
STACK: dict[str, Types] = {"base_": NUMBER, "models_": (list,), "facts_": (list,)}
PRIVATE: dict[str, Types] = {
    "ledger": (NONE,),
    "method_": (Method,),
    "mechanism_": (FiniteMechanism,),
    "sums_": (PrivateSums,),
    "_spent": (Fraction,),
    "_fits": (dict,),
}
BOOSTING: Types = (HistGradientBoostingRegressor,)
INPUT = ("n_features_in_", "feature_names_in_")
OUTPUT = (*INPUT, "_sklearn_output_config")
TREES = (
    *INPUT,
    *("is_categorical_", "_preprocessor", "_is_categorical_remapped", "n_trees_per_iteration_"),
    *("_random_seed", "_feature_subsample_rng", "_n_features", "_fitted_with_sw", "_loss"),
    *("do_early_stopping_", "_use_validation_data", "_bin_mapper", "_baseline_prediction", "_predictors"),
    *("_scorer", "train_score_", "validation_score_"),
)
"""What fitting gives to trees. `_in_fit` is not among them: with it, scikit-learn predicts without a look at the features."""
SCALED = (*OUTPUT, "n_samples_seen_", "mean_", "var_", "scale_")
IMPUTED = (*OUTPUT, "_fit_dtype", "_fill_dtype", "indicator_", "statistics_")
INDICATED = (*OUTPUT, "_precomputed", "_n_features", "features_")
add(
    _boosting(HistGradientBoostingRegressor),
    _boosting(Trees),
    estimator(TreePredictor, fitted=("nodes", "binned_left_cat_bitsets", "raw_left_cat_bitsets")),
    estimator(
        _BinMapper, fitted=("is_categorical_", "missing_values_bin_idx_", "bin_thresholds_", "n_bins_non_missing_")
    ),
    *(_loss(kind) for kind in (HalfSquaredError, HalfPoissonLoss, HalfGammaLoss, AbsoluteError)),
    *(_tweedie(kind) for kind in (HalfTweedieLoss, HalfTweedieLossIdentity)),
    *(
        estimator(kind, {"_base_loss": losses}, fitted=(*INPUT, "n_iter_", "intercept_", "coef_"))
        for kind, losses in (
            (PoissonRegressor, (HalfPoissonLoss,)),
            (GammaRegressor, (HalfGammaLoss,)),
            (TweedieRegressor, (HalfTweedieLoss, HalfTweedieLossIdentity)),
        )
    ),
    estimator(Pipeline, check=_check_pipeline),
    estimator(FunctionTransformer, check=_check_function, fitted=OUTPUT),
    estimator(StandardScaler, fitted=SCALED),
    estimator(ConstantsToZero, fitted=SCALED),
    estimator(SimpleImputer, fitted=IMPUTED),
    estimator(MissingIndicator, fitted=INDICATED),
    estimator(SmoothRidge, {"numeric": (int, NONE), **RIDGE}, _check_ridge, fitted=INPUT),
    estimator(
        LinearStart,
        {"trees": BOOSTING, "trees_": BOOSTING, "line": (SmoothRidge, NONE), "line_": (SmoothRidge, NONE)},
        fitted=INPUT,
    ),
    estimator(Stack, {"numeric": (int, NONE), **STACK}, _check_stack, fitted=INPUT),
    *(
        estimator(kind, {"encoder_": (ColumnEncoder,), "model_": models}, _check_encoded, fitted=INPUT)
        for kind, models in ((BoostingRegressor, (LinearStart, Trees)), (StackedRegressor, (Stack,)))
    ),
    estimator(
        SumsThenLabels,
        {"first": (SumsModel,), "residuals": (bool,), "encoder_": (ColumnEncoder,), "model_": (Stack,)},
        _check_encoded,
        fitted=INPUT,
    ),
    estimator(
        ConditionalRegressor,
        {
            "mechanism": (FiniteMechanism,),
            "loss": (str, Loss),
            "encoder_": (ColumnEncoder, NONE),
            "scores_": (NormalScores,),
            "location_": (BaseEstimator,),
            "spread_": (BaseEstimator, NONE),
            **dict.fromkeys(("level_", "weight_", "factor_", "floor_"), NUMBER),
            "first": (SumsModel, NONE),
            "scores": (NormalScores, NONE),
        },
        _check_conditional,
    ),
    estimator(ClassRates, {"mechanism": (FiniteMechanism,), "encoder_": (ColumnEncoder, NONE), **RATES}, _check_rates),
    estimator(
        LabelDPClassifier,
        {**PRIVATE, "estimator_": (ClassRates, SumsModel, ClassesModel), "classes_": ARRAY},
        _check_classifier,
        fitted=(*INPUT, "epsilon_spent_"),
    ),
    estimator(
        LabelDPRegressor,
        {
            **PRIVATE,
            "domain": (Domain, tuple),
            "loss": (str, Loss),
            "prior": (Prior, NONE),
            "estimator_": (BaseEstimator, SumsModel, ScoreModel),
        },
        _check_private,
        fitted=(*INPUT, "epsilon_spent_"),
    ),
    StoredType("Generator", np.random.Generator, _generator_state, _generator),
)
# The paper's network is in a room above this one, so its entry is imported by name when a model needs it.
add_on_demand("NetworkRegressor", "labeldp", partial(import_module, "labeldp.paper.network.network_regressor"))
