"""The page: the answer on top, then one section at a time. Only the section on the screen is computed."""

from __future__ import annotations

import math
import sys
import traceback
import warnings
from collections.abc import Callable

import streamlit as st

from labeldp.errors import LabelDPError
from labeldp.evaluate.risk import odds
from labeldp.explore import charts
from labeldp.explore.answers import (
    RECEIVED,
    Designed,
    Question,
    Reported,
    apart,
    caveats,
    channel,
    compared,
    curve,
    designed,
    headline,
    reported,
    simulated_prior,
    why_none,
)
from labeldp.explore.exchange import (
    FIGURES,
    PRIOR_FILE,
    Names,
    advise_command,
    command,
    figure,
    prior_csv,
    python_call,
)
from labeldp.explore.sidebar import as_text, controls
from labeldp.formatting import count_of, percent, plain
from labeldp.mechanisms.prediction import PREDICTION_LABELS
from labeldp.mechanisms.registry import MECHANISMS
from labeldp.plots import in_words
from labeldp.plots.axes import image

SMALL_BIAS = 0.05
"""A squared bias of this share of the variance of the labels is small."""

COMPARED_FIGURES = {
    "model_error": "error of a model (MSE)",
    "expected_loss": "error of a label",
    "bias": "bias of a label (rms)",
    "variance": "variance of a label",
}


def which_epsilon(question: Question, names: tuple[str, ...]) -> None:  # noqa: ARG001 - all sections are called alike
    """Show the advisor's curve with the current ε marked, the risk at this ε and, separately, the recommended ε."""
    now, advice = headline(question), curve(question)
    shown = st.radio("Show", ("R²", "RMSE"), horizontal=True, label_visibility="collapsed", key="figure")
    _chart(charts.outlook_chart(advice, now, question.epsilon, "r2" if shown == "R²" else "rmse", question.mechanism))
    st.markdown(f"**What ε = {question.epsilon:g} risks at worst**")
    for_whom, *sentences = now.risk.words(now.statement)
    st.markdown("\n".join([as_text(for_whom), "", *(f"- {as_text(sentence)}" for sentence in sentences)]))
    low, high = now.trained.likely_r2
    st.caption(
        f"Private labels are made by auto. The paper's bins are used as sent. Noisy sums are for one team. Where R² = {now.trained.r2:.2f} was predicted, nine of "
        f"ten models on real data reached {low:.2f} to {high:.2f}."
    )
    whose = "" if question.mechanism == "auto" else "With auto: "
    best = advice.recommended
    risk = "" if best is None else f" With ε = {best.epsilon:g}, 50 % becomes at most {percent(best.risk.most(0.5))}."
    st.markdown("**A recommendation, independent of the slider**")
    _say(f"{whose}{advice.recommendation}{risk}")


def outputs(question: Question, names: tuple[str, ...]) -> None:  # noqa: ARG001
    """Show bins and outputs over the distribution."""
    found = designed(question)
    labels = question.merged
    chances = labels.masses @ found.mechanism.matrix(labels.values)
    _chart(charts.outputs_chart(found.mechanism, question.labels, chances, question.mechanism))
    values = found.mechanism.outputs
    _say(
        f"{_named(question)} reports {values.size:,} different values, from {plain(values.min())} to {plain(values.max())}. The filled area is the "
        "distribution of the labels. Lines are the values that labels are reported as. Taller lines are reported more often."
    )
    domain = question.domain
    if values.min() < domain.lower or values.max() > domain.upper:
        averages = " A model averages them, so its bias is small."
        small = found.bias**2 <= SMALL_BIAS * labels.variance
        st.markdown(
            f"Reports lie outside the bounds on purpose: they are numbers to train on.{averages if small else ''}"
        )
    _costs(question, found)


def one_label(question: Question, names: tuple[str, ...]) -> None:  # noqa: ARG001
    """Show the outputs for a label of the user's choice."""
    found, domain = designed(question), question.domain
    step = 1.0 if question.whole else float(f"{(domain.upper - domain.lower) / 400:.1g}")
    start = min(max(round(question.labels.mean / step) * step, domain.lower), domain.upper)
    place = f"{domain.lower} {domain.upper} {question.whole}"

    def chosen(name: str, start: float, key: str) -> Reported:
        label = st.slider(name, domain.lower, domain.upper, start, step, format="%g", key=f"{key} {place}")
        return reported(found.mechanism, label)

    first, second = chosen("A label of your choice", start, "label"), None
    if st.toggle("Compare with another label", key="two labels"):
        second = chosen("Another label", domain.upper, "other")
    st.markdown(f"**{as_text(first.sentence())}**")
    kind = found.mechanism.kind if question.mechanism == RECEIVED else question.mechanism
    _chart(charts.reports_chart(first, second, kind))
    if second is not None:
        _say(second.sentence())
        _say(apart(first, second))
    st.caption(
        f"The mechanism has ε = {found.epsilon_labels:.4g}: no report is more than {odds(math.exp(found.epsilon_labels))} times as likely for one "
        f"label as for another. Dashed lines are true labels."
        + (f" Reports are counted in {charts.MOST_STEMS} cells." if first.outputs.size > charts.MOST_STEMS else "")
    )


def whole_channel(question: Question, names: tuple[str, ...]) -> None:  # noqa: ARG001
    """Show the channel as a heat map."""
    found, domain = designed(question), question.domain
    table = channel(found.mechanism, question.merged, (domain.lower, domain.upper))
    _chart(charts.channel_chart(table))
    st.markdown(
        "Each column is a true label, and each row is a report. The colour shows how often a label is reported as this value. Where columns look "
        "alike, a report reveals little about a label."
    )
    if not table.single:
        st.caption("Reports are counted in 60 cells.")


def comparison(question: Question, names: tuple[str, ...]) -> None:
    """Show error, bias and variance of several mechanisms against ε."""
    if not names:
        st.info("Choose mechanisms to compare on the left.")
        return
    with st.spinner("Comparing"):
        points, refused = compared(question, names)
    for name, why in refused.items():
        st.warning(as_text(f"{name}: {why}"))
    modelled = any(point.model_error is not None for point in points)
    shown = [name for name in COMPARED_FIGURES if modelled or name != "model_error"]
    for start in range(0, len(shown) if points else 0, 2):
        for column, name in zip(st.columns(2), shown[start : start + 2], strict=False):
            with column:
                title = COMPARED_FIGURES[name] + (f" ({question.loss} loss)" if name == "expected_loss" else "")
                _chart(charts.comparison_chart(points, name, title, question.epsilon))
    st.markdown(
        "To train a model, choose by the error of a model: noise averages out in training, but bias does not. If people read single labels, choose by "
        "the error of a label."
        if modelled
        else "These are errors of single labels. To train a model, still choose auto: noise averages out in training, but bias does not."
    )
    unbiased = list(dict.fromkeys(point.mechanism for point in points if point.bias == 0))
    if unbiased:
        _note(f"{', '.join(unbiased)}: not in the chart of the bias, which is zero.")
    outside = list(dict.fromkeys(point.mechanism for point in points if math.isinf(point.expected_loss)))
    if outside:
        range_left = f"Its reports leave the range of {question.loss} loss."
        _note(f"{', '.join(outside)}: not in the chart of the error of a label. {range_left}")
    st.caption(
        f"To be fast, this page merges labels into at most {PREDICTION_LABELS} and spends all of ε on the labels. Its figures are within "
        "2 % of `labeldp compare`, and within 5 % at ε = 8. auto's private labels are noisy on purpose."
    )


def private_prior(question: Question, names: tuple[str, ...]) -> None:  # noqa: ARG001
    """Show an example of a release's private prior."""
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
    _say(
        f"The private prior would cost ε₁ = {found.epsilon_prior:.4g} of ε = {question.epsilon:g}. {percent(found.distance)} of its mass is in other "
        f"cells than assumed ({len(found.drawn):,} cells, noise of scale {found.scale:.4g} on each count).{lost}"
    )


def _next_draw() -> None:
    st.session_state["draw"] = int(st.session_state.get("draw", 1)) + 1


def _costs(question: Question, found: Designed) -> None:
    """Show the split of ε, and the error of a label."""
    whose = "as received" if question.mechanism == RECEIVED else "if labels are distributed like this"
    parts = (
        f"ε = {found.epsilon_prior:.4g} for the private prior + {found.epsilon_labels:.4g} for the labels"
        if found.epsilon_prior
        else f"all of ε = {found.epsilon_labels:.4g} for the labels"
    )
    bias = f"is off by {plain(found.bias)} on average (bias, rms)" if found.bias else "is unbiased"
    _say(
        f"Budget: {parts}, {whose}. One private label {bias} and scatters by {plain(found.deviation)} "
        f"(standard deviation); its expected {question.loss} loss is {_figure(found.expected_loss)}."
    )
    if found.advice:
        st.warning(as_text(found.advice))


def _named(question: Question) -> str:
    return "The received mechanism" if question.mechanism == RECEIVED else question.mechanism


def _figure(value: float) -> str:
    return plain(value) if math.isfinite(value) else "infinite (reports leave the range of this loss)"


def _say(text: str) -> None:
    st.markdown(as_text(text))


def _note(text: str) -> None:
    st.caption(as_text(text))


def _chart(chart: charts.Picture) -> None:
    st.altair_chart(chart, width="stretch")


def take_away(question: Question, names: tuple[str, ...]) -> None:
    """Show the last section."""
    if question.mechanism == RECEIVED:
        st.info(
            "A received mechanism is not made again by a command. Choose a mechanism on the left for the command and the Python call."
        )
    else:
        _calls(question)
    st.subheader("Files")
    found = designed(question)
    st.download_button("Mechanism (JSON)", found.mechanism.to_json(), "mechanism.json", "application/json", key="json")
    if question.mechanism != RECEIVED:
        whose = "the public distribution" if question.public else "the assumed distribution"
        later = "" if question.public else " A release designs its own, for the private prior that it draws."
        designed_for = f"Designed for {whose} at ε = {found.epsilon_labels:.4g}."
        _note(f"{designed_for} It reads with Mechanism.from_json.{later}")
    st.download_button("Distribution (CSV)", prior_csv(question.labels), PRIOR_FILE, "text/csv", key="csv")
    _figures(question, names)


def _calls(question: Question) -> None:
    st.subheader("The release")
    columns = st.columns(2)
    names = Names(
        source=columns[0].text_input("File of labels", Names.source),
        label=columns[1].text_input("Column of labels", Names.label),
        id=columns[0].text_input(
            "Column of record ids", Names.id, help="Empty: records are numbered, which shows their order."
        ),
        out=columns[1].text_input("Folder of the message", Names.out),
    )
    if not (names.source and names.label and names.out):
        st.error("Give a file, a column of labels and a folder.")
        return
    st.markdown("On the command line:")
    st.code(command(question, names), language="bash", wrap_lines=True)
    st.markdown("The same in Python:")
    st.code(python_call(question, names), language="python", wrap_lines=True)
    if question.public:
        st.caption(f"Both read {PRIOR_FILE}, which is below.")
    advice = advise_command(question)
    if advice is not None:
        whose = "The prediction on top of this page" if question.mechanism == "auto" else "The prediction with auto"
        st.markdown(f"{whose}:")
        st.code(advice, language="bash", wrap_lines=True)


def _figures(question: Question, names: tuple[str, ...]) -> None:
    st.subheader("Figures")
    name = st.selectbox("Figure", FIGURES)
    if name == "comparison" and not names:
        st.info("Choose mechanisms to compare on the left.")
        return
    label = question.labels.mean
    if name == "one label":
        domain = question.domain
        label = st.number_input("Label", domain.lower, domain.upper, label, format="%g")
    kind = st.radio("Format", ("SVG", "PNG"), horizontal=True, label_visibility="collapsed").lower()
    drawn = figure(name, question, label=label, names=names)
    picture = image(drawn, kind, alt=in_words(drawn))
    mime = "image/svg+xml" if kind == "svg" else "image/png"
    st.download_button(f"Figure ({kind.upper()})", picture, f"{name.replace(' ', '-')}.{kind}", mime, key="figure file")
    st.image(picture.decode() if kind == "svg" else picture, width=520)


SECTIONS: dict[str, Callable[[Question, tuple[str, ...]], None]] = {
    "Which ε": which_epsilon,
    "Reported values": outputs,
    "One label": one_label,
    "All labels": whole_channel,
    "Compare": comparison,
    "Private histogram": private_prior,
    "Command and files": take_away,
}
FIRST = "Which ε"
STYLE = """
.stMainBlockContainer {padding-top: 3.5rem;}
@media (max-width: 640px) {
  .stHorizontalBlock:has(.stMetric) {flex-direction: row; flex-wrap: wrap;}
  .stHorizontalBlock:has(.stMetric) > .stColumn {min-width: calc(50% - 1rem); flex: 1 1 calc(50% - 1rem);}
}
"""
"""Less room above the page, and figures two by two on a telephone."""


def show(preset: str | None) -> None:
    """Draw the page once, as Streamlit does after every change of a control."""
    st.set_page_config(page_title="labeldp explore", layout="wide", initial_sidebar_state="auto")
    st.html(f"<style>{STYLE}</style>")
    st.markdown("### labeldp explore")
    st.caption(
        "See how good a model gets at each ε, what ε risks, and what a mechanism does to a label. No label is read, and nothing leaves this machine. The settings are on the left (»)."
    )
    question, names, problem = controls(preset)
    if problem is not None:
        st.warning("The uploaded file was not used. The settings on the left show the reason.")
    if not _guarded(lambda question, _: question.check(), question, names):
        return
    _guarded(_answer, question, names)
    # at first, and after a second click on a section, which takes the choice back
    if st.session_state.get("section") is None:
        st.session_state["section"] = st.session_state.get("last section", FIRST)
    section = st.segmented_control("Section", tuple(SECTIONS), key="section", label_visibility="collapsed")
    st.session_state["last section"] = section
    _guarded(SECTIONS[section or FIRST], question, names)


def _answer(question: Question, names: tuple[str, ...]) -> None:  # noqa: ARG001
    """Draw the sentence on top, and the figures next to it."""
    longer = " unbiased takes longer where ε is large." if question.mechanism == "unbiased" else ""
    with st.spinner(f"Designing.{longer}"):
        now = headline(question)
    st.markdown(f"##### {as_text(now.sentence)}")
    for note in caveats(question):
        _note(note)
    columns = st.columns(4)
    columns[0].metric(
        "Predicted R²", f"{now.trained.r2:.2f}", help="The share of the labels' variance that the model explains."
    )
    columns[1].metric("R² without privacy", f"{now.not_private.r2:.2f}")
    columns[2].metric("Predicted RMSE", f"{now.trained.rmse:,.4g}", help="In the unit of the labels.")
    columns[3].metric(
        "50 % becomes",
        f"≤ {percent(now.risk.most(0.5))}",
        help="The most that someone who knows everything but this label can come to believe.",
    )


def _guarded(part: Callable[[Question, tuple[str, ...]], None], question: Question, names: tuple[str, ...]) -> bool:
    """Draw one part of the page and return whether it worked. An error is shown in its place, and the rest of the page goes on."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # advice about budgets is shown from the split itself
            part(question, names)
    except LabelDPError as error:
        st.error(as_text(str(error)))
        return False
    except (ArithmeticError, ValueError, TypeError, LookupError, MemoryError, RecursionError) as error:
        traceback.print_exc(file=sys.stderr)
        st.error(
            f"This part cannot be shown for these settings ({type(error).__name__}). The terminal has the details; please report them. Other settings may work."
        )
        return False
    return True
