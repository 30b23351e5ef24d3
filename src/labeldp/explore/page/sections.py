"""The right side, one section at a time: only what is looked at is computed."""

from __future__ import annotations

import math
from inspect import signature
from typing import Any

import streamlit as st

from labeldp.advice.words import odds, percent
from labeldp.explore.channel import channel
from labeldp.explore.comparison import COARSE, GRID_DECIDES, compared
from labeldp.explore.designed import Designed, designed, merged
from labeldp.explore.one_label import apart, reported
from labeldp.explore.outlook import curve, headline
from labeldp.explore.page import charts
from labeldp.explore.page.plain_text import as_text
from labeldp.explore.question import RECEIVED, Question
from labeldp.explore.simulated_prior import simulated_prior, why_none
from labeldp.formatting import count_of, plain
from labeldp.mechanisms.registry import MECHANISMS

SMALL_BIAS = 0.05
"""A squared bias of this share of the variance of the labels is small."""

STRETCH: dict[str, Any] = (
    {"width": "stretch"} if "width" in signature(st.altair_chart).parameters else {"use_container_width": True}
)
"""As wide as the page, in the words of the installed version of Streamlit."""
FIGURES = {
    "model_error": "error of a model (MSE)",
    "label_error": "error of a label",
    "bias": "bias of a label (rms)",
    "variance": "variance of a label",
}


def which_epsilon(question: Question, names: tuple[str, ...]) -> None:  # noqa: ARG001 - all sections are called alike
    """The advisor's curve with the current ε marked, and what this ε risks."""
    now, advice = headline(question), curve(question)
    shown = st.radio("Show", ("R²", "RMSE"), horizontal=True, label_visibility="collapsed", key="figure")
    _chart(charts.outlook_chart(advice, now, question.epsilon, "r2" if shown == "R²" else "rmse", question.mechanism))
    whose = "" if question.mechanism == "auto" else "With auto: "
    st.markdown(f"**{as_text(whose + advice.recommendation)}**")
    st.markdown("**What this ε risks at worst**")
    for_whom, *sentences = now.risk.words(now.statement)
    st.markdown("\n".join([as_text(for_whom), "", *(f"- {as_text(sentence)}" for sentence in sentences)]))
    st.caption(
        "Predictions are for models of the default size, on labels distributed like this. On data that they were checked with they were off by a "
        "few percent; docs/guides/choose-epsilon.md says where by more."
    )


def outputs(question: Question, names: tuple[str, ...]) -> None:  # noqa: ARG001
    """Bins and outputs over the distribution."""
    found = designed(question)
    labels = merged(question.labels)
    chances = labels.masses @ found.mechanism.matrix(labels.values)
    _chart(charts.outputs_chart(found.mechanism, question.labels, chances, question.mechanism))
    count = found.mechanism.outputs.size
    values = found.mechanism.outputs
    st.markdown(
        as_text(
            f"{_named(question)} reports {count:,} different values, from {plain(values.min())} to {plain(values.max())}. The filled area is the "
            "distribution of the labels. Lines are the values that labels are reported as: the taller, the more often."
        )
    )
    domain = question.domain
    if values.min() < domain.lower or values.max() > domain.upper:
        averages = " A model averages them, and so its bias is small."
        small = found.bias**2 <= SMALL_BIAS * labels.variance
        st.markdown(
            f"Reports lie outside the bounds on purpose: they are numbers to train on.{averages if small else ''}"
        )
    _costs(question, found)


def one_label(question: Question, names: tuple[str, ...]) -> None:  # noqa: ARG001
    """What a label of the user's choice is reported as."""
    found, domain = designed(question), question.domain
    step = 1.0 if question.whole else float(f"{(domain.upper - domain.lower) / 400:.1g}")
    start = min(max(round(question.labels.mean / step) * step, domain.lower), domain.upper)
    place = f"{domain.lower} {domain.upper} {question.whole}"
    label = st.slider(
        "A label of your choice", domain.lower, domain.upper, start, step, format="%g", key=f"label {place}"
    )
    second = None
    if st.toggle("Compare with another label", key="two labels"):
        other = st.slider(
            "Another label", domain.lower, domain.upper, domain.upper, step, format="%g", key=f"other {place}"
        )
        second = reported(found.mechanism, other)
    first = reported(found.mechanism, label)
    st.markdown(f"**{as_text(first.sentence())}**")
    _chart(
        charts.reports_chart(
            first, second, found.mechanism.kind if question.mechanism == RECEIVED else question.mechanism
        )
    )
    if second is not None:
        st.markdown(as_text(second.sentence()))
        st.markdown(as_text(apart(first, second)))
    st.caption(
        f"The mechanism has ε = {found.epsilon_labels:.4g}: no report is more than {odds(math.exp(found.epsilon_labels))} times as likely for one "
        f"label as for another. Dashed lines are true labels."
        + (f" Reports are counted in {charts.MOST_STEMS} cells." if first.outputs.size > charts.MOST_STEMS else "")
    )


def whole_channel(question: Question, names: tuple[str, ...]) -> None:  # noqa: ARG001
    """The channel as a heat map."""
    found, domain = designed(question), question.domain
    table = channel(found.mechanism, question.labels, (domain.lower, domain.upper))
    _chart(charts.channel_chart(table))
    st.markdown(
        "Each column belongs to true labels, each row to a report. Colours say how often. The more alike columns are, the less a report tells about one "
        "label."
    )
    if not table.single:
        st.caption("Reports are counted in 60 cells.")


def comparison(question: Question, names: tuple[str, ...]) -> None:
    """Error, bias and variance of several mechanisms against ε."""
    if not names:
        st.info("Choose mechanisms to compare on the left.")
        return
    with st.spinner("Comparing"):
        points, refused = compared(question, names)
    for name, why in refused.items():
        st.warning(as_text(f"{name}: {why}"))
    modelled = any(point.model_error is not None for point in points)
    shown = [figure for figure in FIGURES if modelled or figure != "model_error"]
    for start in range(0, len(shown) if points else 0, 2):
        for column, figure in zip(st.columns(2), shown[start : start + 2], strict=False):
            with column:
                title = FIGURES[figure] + (f" ({question.loss} loss)" if figure == "label_error" else "")
                _chart(charts.comparison_chart(points, figure, title, question.epsilon))
    if modelled:
        st.markdown(
            "To train a model, choose by the error of a model: noise averages out in training, bias does not. Where single labels are read, choose by "
            "the error of a label."
        )
    else:
        st.markdown(
            "These are errors of single labels. To train a model choose auto all the same: noise averages out in training and bias does not."
        )
    gridded = [name for name in names if name in GRID_DECIDES and name not in refused]
    if modelled and gridded:
        st.caption(
            as_text(
                f"No line for the error of a model: {', '.join(gridded)}. It depends on the grid; labeldp compare has it."
            )
        )
    unbiased = list(dict.fromkeys(point.mechanism for point in points if point.bias == 0))
    if unbiased:
        st.caption(as_text(f"No line for bias: {', '.join(unbiased)}. There is none."))
    outside = list(dict.fromkeys(point.mechanism for point in points if math.isinf(point.label_error)))
    if outside:
        st.caption(
            as_text(
                f"No line for the error of a label: {', '.join(outside)}. Its reports leave the range of {question.loss} loss."
            )
        )
    model_error = (
        "The error of a model takes features to explain 0.7 of the label, whatever the left side says; the sentence on top "
        "takes the share on the left. Both take the values that `labeldp train` takes by default. "
    )
    st.caption(
        f"Expectations under the distribution, with labels merged into at most {COARSE}, designs that are quick, and all of ε spent on the labels: within "
        f"2 % of `labeldp compare`, and 5 % at ε = 8. {model_error if modelled else ''}auto's private labels are noisy on purpose."
    )


def private_prior(question: Question, names: tuple[str, ...]) -> None:  # noqa: ARG001
    """What the private prior of a release may look like."""
    why = why_none(question)
    if why is not None:
        st.info(as_text(why))
        return
    draw = int(st.session_state.get("draw", 1))
    found = simulated_prior(question, draw)
    st.markdown(
        f"**Simulated: {count_of(question.records, 'invented label')}, counted, with the noise of a real release. Draw {draw}.**"
    )
    _chart(charts.prior_chart(found.assumed, found.drawn))
    st.button("Draw again", on_click=_next_draw)
    planned = designed(question)
    lost = (
        ""
        if MECHANISMS[question.mechanism].for_training  # their labels are noisy on purpose, and more loss is no worse
        else f" Designed for it, {question.mechanism} has an expected {question.loss} loss of {_figure(found.expected_loss)} a label; designed for the true "
        f"distribution, {_figure(planned.expected_loss)}."
    )
    st.markdown(
        as_text(
            f"The private prior would cost ε₁ = {found.epsilon_prior:.4g} of ε = {question.epsilon:g}. {percent(found.distance)} of its mass is in other "
            f"cells than assumed ({len(found.drawn):,} cells, noise of scale {found.scale:.4g} on each count).{lost}"
        )
    )


def _next_draw() -> None:
    st.session_state["draw"] = int(st.session_state.get("draw", 1)) + 1


def _costs(question: Question, found: Designed) -> None:
    """How ε is divided, and the error of a label."""
    whose = "as received" if question.mechanism == RECEIVED else "if labels are distributed like this"
    parts = (
        f"ε = {found.epsilon_prior:.4g} for the private prior + {found.epsilon_labels:.4g} for the labels"
        if found.epsilon_prior
        else f"all of ε = {found.epsilon_labels:.4g} for the labels"
    )
    bias = f"is off by {plain(found.bias)} on average (bias, rms)" if found.bias else "has no bias"
    st.markdown(
        as_text(
            f"Budget: {parts}, {whose}. One private label {bias} and scatters by {plain(found.deviation)} "
            f"(standard deviation); its expected {question.loss} loss is {_figure(found.expected_loss)}."
        )
    )
    if found.advice:
        st.warning(as_text(found.advice))


def _named(question: Question) -> str:
    return "The received mechanism" if question.mechanism == RECEIVED else question.mechanism


def _figure(value: float) -> str:
    return plain(value) if math.isfinite(value) else "infinite (reports leave the range of this loss)"


def _chart(chart: charts.Picture) -> None:
    st.altair_chart(chart, **STRETCH)
