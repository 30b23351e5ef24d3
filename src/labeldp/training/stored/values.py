"""The values that a model file may hold beside estimators. Each is built by its own constructor, with its checks."""

from __future__ import annotations

import json
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np

from labeldp.central.private_sums import PrivateSums
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.features.columns import ColumnEncoder
from labeldp.json_text import parse_json
from labeldp.losses import LOSSES, Loss
from labeldp.mechanisms import FiniteMechanism
from labeldp.mechanisms.label_scale import NormalScores
from labeldp.priors import NoisyCounts, Prior
from labeldp.training.method import Method
from labeldp.training.stored.kinds import Kind, NotStorable, State, add, exactly, is_a


def _encoder(state: State) -> ColumnEncoder:
    (text,) = exactly(state, "json")
    return ColumnEncoder.from_record(parse_json(is_a(text, str, what="json"), "the encoder of columns"))


def _scores(state: State) -> NormalScores:
    labels, borders = exactly(state, "labels", "borders")
    for array in (labels, borders):
        floats = is_a(array, np.ndarray, what="an array of scores")
        if floats.dtype != np.float64 or floats.ndim != 1 or not np.isfinite(floats).all():
            raise InvalidInput("scores are a list of finite numbers")
    if labels.size != borders.size + 1 or (np.diff(labels) < 0).any() or (np.diff(borders) < 0).any():
        raise InvalidInput("scores and labels must rise together")
    return NormalScores(labels, borders)


def _mechanism(state: State) -> FiniteMechanism:
    (text,) = exactly(state, "json")
    return FiniteMechanism.from_json(is_a(text, str, what="json"))  # proves ε, and compares the digest


def _loss_state(loss: Loss) -> State:
    for entry in LOSSES:
        if entry.make is type(loss):
            return {"name": entry.name, **{field.name: getattr(loss, field.name) for field in fields(loss)}}  # type: ignore[arg-type]
    raise NotStorable(f"the loss {loss.name} is a function of your own")


def _loss(state: State) -> Loss:
    entry = LOSSES[is_a(state.pop("name", None), str, what="name")]
    numbers = {name: is_a(value, int, float, what=name) for name, value in state.items()}
    return is_a(entry.make(**numbers), Loss, what="the loss")  # type: ignore[no-any-return]


def _fraction(state: State) -> Fraction:
    parts = exactly(state, "numerator", "denominator")
    return Fraction(*(is_a(part, int, what="a fraction's part") for part in parts))


def _prior_state(prior: Prior) -> State:
    counts = None if prior.counts is None else prior.counts.to_json()
    return {"values": prior.values, "masses": prior.masses, "epsilon": prior.epsilon_exact, "counts": counts}


def _prior(state: State) -> Prior:
    values, masses, epsilon, counts = exactly(state, "values", "masses", "epsilon", "counts")
    return Prior(
        is_a(values, np.ndarray, what="values"),
        is_a(masses, np.ndarray, what="masses"),
        is_a(epsilon, Fraction, what="epsilon"),
        None if counts is None else NoisyCounts.from_json(counts),
    )


def _domain(state: State) -> Domain:
    (values,) = exactly(state, "fields")
    return Domain(*is_a(values, list, what="fields"))


def _method(state: State) -> Method:
    return Method(*(is_a(text, str, what="a method's words") for text in exactly(state, "name", "why")))


def _private_sums(state: State) -> PrivateSums:
    (text,) = exactly(state, "json")
    return PrivateSums.from_json(is_a(text, str, what="json"))  # proves ε


def _plain(value: Any) -> State:
    return {field.name: getattr(value, field.name) for field in fields(value)}


for entry in (
    Kind(
        "ColumnEncoder",
        ColumnEncoder,
        lambda made: {"json": json.dumps(made.to_record(), ensure_ascii=False)},
        _encoder,
    ),
    Kind("NormalScores", NormalScores, _plain, _scores),
    Kind("Mechanism", FiniteMechanism, lambda made: {"json": made.to_json()}, _mechanism, subclasses=True),
    Kind("Loss", Loss, _loss_state, _loss, subclasses=True),
    Kind("Domain", Domain, lambda domain: {"fields": domain.to_json()}, _domain),
    Kind("Prior", Prior, _prior_state, _prior),
    Kind("Method", Method, _plain, _method),
    Kind("PrivateSums", PrivateSums, lambda sums: {"json": sums.to_json()}, _private_sums),
    Kind(
        "Fraction",
        Fraction,
        lambda amount: {"numerator": amount.numerator, "denominator": amount.denominator},
        _fraction,
    ),
):
    add(entry)
