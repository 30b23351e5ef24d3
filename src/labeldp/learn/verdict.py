"""What a trained model is worth, in words: the lines that `labeldp train` prints."""

from __future__ import annotations

import math
import shlex
from typing import Any

from labeldp.evaluate.held_out_sums import WIDEST
from labeldp.evaluate.intervals import ASSUMPTIONS
from labeldp.evaluate.scoring import LossEstimate
from labeldp.formatting import count_of, plain

ALL = 99.5
"""A share in percent that is printed as 100 %. No model explains more, so "at most 100 %" is not worth printing."""
LEAST_SHOWN = 0.01
"""Parts of a stack below this share are not printed."""
LEAST_R2 = -100.0
"""An R² below this, in percent, is not printed: it only shows that the labels are noisy."""
WIDE = 0.5
"""If the interval of R² is wider than this, a score is offered."""
UNKNOWN = "not known from these labels"
Line = tuple[str, str]
"""A title, which is empty if the line continues the one before, and a sentence."""


def report_lines(facts: dict[str, Any]) -> list[Line]:
    """Return the report on a model from the facts of its training."""
    lines = [("model", _trained_on(facts))]
    if members := facts.get("members"):
        lines.append(("", f"made of {_members(members)}"))
    sums = facts["model"] == "sums"
    lines += unpaired(facts["features_without_label"], facts.get("labels_without_features", 0), sums=sums)
    return lines + (_verdict_of_sums(facts["explained"]) if sums else verdict_of_labels(facts))


def unpaired(without_label: int, without_features: int, *, sums: bool = False) -> list[Line]:
    """Return how many rows of features and private labels were not used, for lack of the other."""
    lines = []
    for number, noun, lack in (
        (without_label, "row", "of features {were} not summed" if sums else "of features had no private label"),
        (without_features, "private label", "had no features"),
    ):
        if number:
            were = "was" if number == 1 else "were"
            unused = " and not used" if sums else f" and {were} not used"
            lines.append(("unpaired", f"{count_of(number, noun)} {lack.format(were=were)}{unused}"))
    return lines


def _trained_on(facts: dict[str, Any]) -> str:
    if facts["model"] == "sums":
        return f"sums of {count_of(facts['records'], 'label')} for squared loss, ε = {facts['epsilon']:g}"
    named = facts["target_values"] not in ("auto", "distribution", "classes")
    values = f" with {facts['target_values']} values" if named else ""
    records = count_of(facts["records"], "record")
    return f"{facts['model']} for {facts['loss']} loss on {records}{values}, ε = {facts['epsilon']:g}"


def _members(members: list[dict[str, Any]]) -> str:
    """Return the models of a stack with their weights; what these lack to 1 is the mean."""
    shown = [(member["name"], member["weight"]) for member in members]
    if (left := 1 - sum(weight for _, weight in shown)) > LEAST_SHOWN:
        shown.append(("the mean", left))
    parts = [f"{100 * weight:.0f} % {name}" for name, weight in shown if weight > LEAST_SHOWN]
    return ", ".join(parts)


def _verdict_of_sums(explained: dict[str, float]) -> list[Line]:
    value, low, high = (f"{100 * explained[name]:.0f} %" for name in ("value", "lower", "upper"))
    spans = explained["upper"] - explained["lower"] > WIDEST
    share = f"between {low} and {high}" if spans else f"about {value} ({low} to {high})"
    basis = "(from the noisy sums alone, if effects of columns add up; the interval is for the noise of the histogram)"
    return [("verdict", f"the model explains {share} of the labels' variation"), ("", basis)]


def verdict_of_labels(facts: dict[str, Any]) -> list[Line]:
    """Return what the private labels show about the model."""
    estimates, lost = facts["estimates"], facts.get("estimated_loss")
    if "log_loss" in estimates:
        return _verdict_of_classes(estimates)
    low, high = facts.get("bounds") or (0.0, math.inf)
    width, square = high - low, (high - low) ** 2
    lines = _verdict_of_loss(facts["loss"], lost) if lost else []
    if "r2" in estimates:
        share = {key: None if value is None else 100 * value for key, value in estimates["r2"].items()}
        lines.append(("" if lines else "verdict", _explained(share)))
        lines.append(("", f"its mean squared test error is {_or_unknown(estimates['error'], square)}"))
    if not estimates and not lost:
        lines.append(
            ("verdict", "none: these private labels do not tell how good a model is (labeldp evaluate needs true ones)")
        )
    if "r2" in estimates or (estimates and not lost):
        if "error_of_mean" in estimates:
            error = _or_unknown(estimates["error_of_mean"], square)
            verb = "has a mean squared error that is" if error == UNKNOWN else "has a mean squared error of"
            lines.append(("", f"always answering the mean {verb} {error}"))
        lines.append(("", f"the labels' mean is {_or_unknown(estimates['mean'], width, low)}"))
        made = [f"that {ASSUMPTIONS[name]}" for name in facts["assumptions"]]
        besides = f", and {', and '.join(made)} (--assume-nothing does without)" if made else ""
        bare = "95 % intervals, from the private labels alone; they assume that labels lie within the bounds"
        lines.append(("", f"({bare}{besides})"))
        if facts.get("batches_differ"):
            lines.append(("", "(later batches differ from the first, so that its noisy counts are not used for them)"))
    if facts.get("score") and ("r2" not in estimates or not _is_clear(estimates["r2"])):
        lines += _score_lines(facts)
    (title, text), *others = lines
    return [(title or "labels", text), *others]  # without a verdict the figures are about the labels alone


def _is_clear(r2: dict[str, float | None]) -> bool:
    """Return whether R² is known to be positive or negative, and its interval is not wide."""
    lower, upper = r2["lower"], r2["upper"]
    return lower is not None and upper is not None and upper - lower <= WIDE and (lower > 0 or upper < 0)


def _score_lines(facts: dict[str, Any]) -> list[Line]:
    """Return what a score would cost and tell, with the command of the labels party."""
    asked, (low, high) = facts["score"], facts["bounds"]
    names = " ".join(f"--{name} {shlex.quote(asked[name])}" for name in ("label", "id", "person") if name in asked)
    told = (
        f"the labels party can tell: for ε = {asked['epsilon']:g} more, a score of the predictions gives their mean squared error within "
        f"about ±{plain(asked['within'], 2)}. It runs"
    )
    command = (
        f"labeldp score LABELS {names} --predictions predictions.parquet --epsilon {asked['epsilon']:g} --lower {low:.15g} --upper {high:.15g} "
        "--out score"
    )
    return [("score", told), ("", command)]


def _verdict_of_loss(name: str, lost: dict[str, float]) -> list[Line]:
    better = LossEstimate(**lost).better
    model, constant, chance = (plain(lost[key], 4) for key in ("model", "constant", "chance"))
    compared = f"the model's {name} loss is about {model}, that of the best single answer about {constant}"
    basis = (
        f"(from the private labels alone; the difference is uncertain by ±{chance}, and by what they hide of this loss)"
    )
    return [("verdict", f"{compared}: {_judged(better)} that"), ("", basis)]


def _verdict_of_classes(estimates: dict[str, dict[str, Any]]) -> list[Line]:
    """Return what private labels show about the probabilities of classes."""
    loss, gain = estimates["log_loss"], estimates["gain"]
    better = True if gain["lower"] > 0 else False if gain["upper"] < 0 else None
    others = {name: one for name, one in estimates.items() if name not in ("log_loss", "gain")}
    titles = {"brier": "the Brier score", "auc": "AUC"}
    known = (f"{titles.get(name, name.replace('auc', 'AUC'))} {_or_unknown(one, 1.0)}" for name, one in others.items())
    value, lower, upper = (plain(gain[key], 3) for key in ("value", "lower", "upper"))
    compared = f"the model's log loss is {_interval(loss)}, that of always answering the mean probabilities {value} ({lower} to {upper}) more"
    basis = "(95 % intervals, from the private labels alone)"
    return [("verdict", f"{compared}: {_judged(better)} that"), ("", ", ".join(known)), ("", basis)]


def _judged(better: bool | None) -> str:
    """Return whether the model is better than something, in words."""
    if better is None:
        return "these labels do not show whether it is better than"
    return "it is better than" if better else "it is worse than"


def _explained(share: dict[str, float | None]) -> str:
    lower, upper = share["lower"], share["upper"]
    if lower is not None and lower > 0:
        judged = "it is better than always answering the mean"
    elif upper is not None and upper < 0:
        judged = "it is worse than always answering the mean"
    else:
        least = None if lower is None or lower < LEAST_R2 else lower
        known = (("at least", least), ("at most", None if upper is None or upper >= ALL else upper))
        ends = [f"{word} {_figure(end, ' %', 2)}" for word, end in known if end is not None]
        share_known = f": it explains {' and '.join(ends)} of the labels' variation" if ends else ""
        return f"{UNKNOWN} whether the model is better than always answering the mean{share_known}"
    if lower is not None and lower < LEAST_R2:
        return f"{judged}; how much of the labels' variation it explains is {UNKNOWN}"
    if lower is not None and upper is not None and upper - lower > 100 * WIDEST:
        return f"the model explains at least {_figure(lower, ' %', 2)} of the labels' variation: {judged}"
    return f"the model explains {_interval(share, ' %', digits=2)} of the labels' variation: {judged}"


def _or_unknown(figure: dict[str, float | None], most: float, floor: float = 0.0) -> str:
    """Return a figure with its interval, or its ends alone if these are far apart. If they span what is possible, nothing is known."""
    value, lower, upper = (figure[key] for key in ("value", "lower", "upper"))
    if value is None or upper is None or upper - (floor if lower is None else lower) > WIDEST * most:
        return UNKNOWN
    far = lower is not None and upper - lower > 2 * abs(value - floor)
    return _interval(figure | {"value": upper} if far else figure)


def _interval(figure: dict[str, float | None], unit: str = "", digits: int = 4) -> str:
    value, lower, upper = (figure[key] for key in ("value", "lower", "upper"))
    lower = 0.0 if lower is not None and value is not None and abs(lower) < 1e-6 * abs(value) else lower
    if lower is not None and upper is not None and value in (lower, upper):  # cut off there, so not an estimate
        most = _figure(upper, unit, digits)
        return f"at most {most}" if lower == 0 else f"between {_figure(lower, unit, digits)} and {most}"
    ends = f"to {_figure(upper, unit, digits)}" if lower is not None else f"at most {_figure(upper, unit, digits)}"
    return f"about {_figure(value, unit, digits)} ({'' if lower is None else _figure(lower, unit, digits) + ' '}{ends})"


def _figure(value: float | None, unit: str, digits: int) -> str:
    return "unknown" if value is None else f"{plain(value, digits)}{unit}"
