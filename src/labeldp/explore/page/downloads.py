"""What a user takes away: the mechanism, the figures, the command and the Python call."""

from __future__ import annotations

import streamlit as st

from labeldp.explore.designed import designed
from labeldp.explore.figures import FIGURES, as_file, figure
from labeldp.explore.page.plain_text import as_text
from labeldp.explore.question import RECEIVED, Question
from labeldp.explore.take_away import PRIOR_FILE, Names, advise_command, command, prior_csv, python_call


def take_away(question: Question, names: tuple[str, ...]) -> None:
    """The last section."""
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
        st.caption(
            as_text(
                f"Designed for {whose} at ε = {found.epsilon_labels:.4g}. It reads with Mechanism.from_json.{later}"
            )
        )
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
        bought = ", which counts a private prior as bought" if question.public else ""
        st.markdown(f"{whose}{bought}:")
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
    picture = as_file(figure(name, question, label=label, names=names), kind)
    mime = "image/svg+xml" if kind == "svg" else "image/png"
    st.download_button(f"Figure ({kind.upper()})", picture, f"{name.replace(' ', '-')}.{kind}", mime, key="figure file")
    st.image(picture.decode() if kind == "svg" else picture, width=520)
