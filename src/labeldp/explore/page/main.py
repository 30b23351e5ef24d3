"""The page: the answer on top, then one section at a time."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable

import streamlit as st

from labeldp.advice.words import percent
from labeldp.errors import LabelDPError
from labeldp.explore.outlook import caveats, headline
from labeldp.explore.page.downloads import take_away
from labeldp.explore.page.plain_text import as_text
from labeldp.explore.page.sections import comparison, one_label, outputs, private_prior, which_epsilon, whole_channel
from labeldp.explore.page.sidebar import controls
from labeldp.explore.question import Question

SECTIONS: dict[str, Callable[[Question, tuple[str, ...]], None]] = {
    "Which ε": which_epsilon,
    "Outputs": outputs,
    "One label": one_label,
    "Channel": whole_channel,
    "Compare": comparison,
    "Private prior": private_prior,
    "Take away": take_away,
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
        "What ε buys, what it risks, and what a mechanism does to a label. No label is read, and nothing leaves this machine. The bar on the left (») has the settings."
    )
    found = controls(preset)
    if found.problem is not None:
        st.warning("The uploaded file was not used. The left side says why.")
    if not _guarded(_check, found.question, found.compared):
        return
    _guarded(_answer, found.question, found.compared)
    if (
        st.session_state.get("section") is None
    ):  # at first, and after a second click on a section, which takes the choice back
        st.session_state["section"] = st.session_state.get("last section", FIRST)
    name = st.segmented_control("Section", tuple(SECTIONS), key="section", label_visibility="collapsed")
    st.session_state["last section"] = name
    _guarded(SECTIONS[name or FIRST], found.question, found.compared)


def _check(question: Question, names: tuple[str, ...]) -> None:  # noqa: ARG001
    question.check()


def _answer(question: Question, names: tuple[str, ...]) -> None:  # noqa: ARG001
    """The sentence on top, and the figures beside it."""
    longer = " unbiased takes longer where ε is large." if question.mechanism == "unbiased" else ""
    with st.spinner(f"Designing.{longer}"):
        now = headline(question)
    st.markdown(f"##### {as_text(now.sentence)}")
    for note in caveats(question):
        st.caption(as_text(note))
    columns = st.columns(4)
    columns[0].metric(
        "Predicted R²", f"{now.trained.r2:.2f}", help="The share of the labels' variance that the model explains."
    )
    columns[1].metric("R² without privacy", f"{now.not_private.r2:.2f}")
    columns[2].metric("Predicted RMSE", f"{now.trained.rmse:,.4g}", help="In the unit of the labels.")
    columns[3].metric(
        "50 % belief, after",
        f"≤ {percent(now.risk.most(0.5))}",
        help="The most that somebody who knows everything but this label can come to believe.",
    )


def _guarded(part: Callable[[Question, tuple[str, ...]], None], question: Question, names: tuple[str, ...]) -> bool:
    """Draw one part of the page. What cannot work is said where it would have been, and the rest of the page goes on."""
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
