"""The left side: distribution, bounds, ε, records, loss and mechanisms. It returns a question and never fails."""

from __future__ import annotations

import re
from functools import lru_cache

import streamlit as st

from labeldp.errors import LabelDPError
from labeldp.evaluate.shapes import SHAPES
from labeldp.explore.answers import PAGE_CELLS, RECEIVED, Question, offered
from labeldp.explore.exchange import Known, read_path, read_upload
from labeldp.losses.loss import LOSSES
from labeldp.mechanisms.registry import MECHANISMS

EPSILONS = (
    *(0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 1.8, 2.0, 2.5, 3.0, 3.5),
    *(4.0, 5.0, 6.0, 7.0, 8.0, 10.0),
)
"""The steps of the slider: even enough on a logarithmic scale."""
COMPARED = ("auto", "rr-on-bins", "unbiased", "discrete-laplace")
"""What is compared at first."""
SHAPE, FILE = "A shape", "A file"
_read, _read_preset = lru_cache(maxsize=8)(read_upload), lru_cache(maxsize=8)(read_path)
_SIGNS = re.compile(r"([!-/:-@\[-`{-~])")


def as_text(text: str) -> str:
    """Escape all Markdown, one line for each line: Streamlit would load the address of a picture in text from a file."""
    return "  \n".join(_SIGNS.sub(r"\\\1", line) for line in text.splitlines())


def controls(preset: str | None) -> tuple[Question, tuple[str, ...], str | None]:
    """Draw the left side and read it: the question, the mechanisms to compare, and what is wrong with an uploaded file."""
    with st.sidebar:
        top = st.container()
        st.header("What you know")
        known, problem = _file(preset)
        lower, upper, cells, whole = _bounds(known)
        distribution = _shape(lower, upper) if known is None else known.prior
        public = _public(known)
        st.header("What you ask")
        mechanism = _mechanism(known)
        with top:  # what is moved most stands first
            epsilon = _epsilon(known, mechanism)
        records = _records(known)
        explained = st.slider(
            "Share of the labels' variance that features explain",
            0.05,
            1.0,
            0.5,
            0.05,
            help="The R² that you hope for without privacy and with endless records. Guess it; measured on true labels it is not public.",
        )
        loss = _loss()
        compared = st.multiselect(
            "Mechanisms to compare",
            offered(),
            [name for name in COMPARED if name in offered()],
            help=_mechanisms_help(),
        )
    question = Question(
        lower=lower,
        upper=upper,
        cells=cells,
        whole=whole,
        unit=None if known is None else known.domain.unit,
        distribution=distribution,
        public=public,
        epsilon=epsilon,
        records=records,
        explained=explained,
        loss=loss,
        mechanism=mechanism,
        received=None if known is None else known.mechanism,
    )
    return question, tuple(compared), problem


def _file(preset: str | None) -> tuple[Known | None, str | None]:
    """Return the file that the distribution comes from, if any, and what is wrong with the last one."""
    source = st.radio(
        "The distribution of the labels comes from",
        (SHAPE, FILE),
        index=0 if preset is None else 1,
        horizontal=True,
        help="Only what is public or was released before. Never a file of labels.",
    )
    if source == SHAPE:
        return None, None
    kept: Known | None = st.session_state.get("known")
    if kept is None and preset is not None:
        kept = _read_preset(preset)
    problem = None
    uploaded = st.file_uploader(
        "A distribution (.csv with columns value, mass) or a received mechanism.json", type=["csv", "json"]
    )
    if uploaded is not None:
        try:
            kept = _read(uploaded.name, uploaded.getvalue())
        except LabelDPError as error:
            problem = str(error)
        except (MemoryError, RecursionError):
            problem = f"{uploaded.name} is too large or nested too deeply to be read"
    st.session_state["known"] = kept
    if problem is not None:
        instead = "The page goes on with the shape below." if kept is None else f"The page goes on with {kept.name}."
        st.error(f"{as_text(problem)}.  \n{as_text(instead)}")
    elif kept is None:
        st.info("Until there is a file, the page shows the shape below.")
    if kept is not None:
        cost = "" if kept.public else f", estimated from labels at ε = {kept.prior.epsilon:.4g}"
        if kept.uniform:
            cost = ", assumed to be uniform, because the file does not contain a distribution"
        st.caption(as_text(f"{kept.name}: {len(kept.prior):,} values, mean {kept.prior.mean:.4g}{cost}"))
    return kept, problem


def _bounds(known: Known | None) -> tuple[float, float, int | None, bool]:
    """Lower and upper bound, cells, and whether labels are whole. A file brings its own, which may be widened."""
    own = None if known is None else known.domain
    key = "shape" if known is None else f"{known.name} {hash(known.prior)}"
    whole = st.toggle("Labels are whole numbers", own is not None and own.whole, key=f"whole {key}")
    left, right = st.columns(2)
    low, high = (0.0, 400.0) if own is None else (own.lower, own.upper)
    if whole:
        lower = float(left.number_input("Lower bound", value=int(low), step=1, key=f"lower whole {key}"))
        upper = float(right.number_input("Upper bound", value=int(high), step=1, key=f"upper whole {key}"))
    else:
        lower = left.number_input("Lower bound", value=low, format="%g", key=f"lower {key}")
        upper = right.number_input("Upper bound", value=high, format="%g", key=f"upper {key}")
    if not lower < upper:
        st.error(f"The lower bound must be below the upper one. The page goes on with {low:g} to {high:g}.")
        lower, upper = low, high
    cells = None
    if not whole:
        given = own.count if own is not None and own.cells is not None else None
        why = "Left off, privatize chooses it from the records and ε."
        if st.toggle("Choose the number of cells", given is not None, key=f"grid {key}", help=why):
            first = min(given or 401, PAGE_CELLS)
            cells = int(st.number_input("Cells from lower to upper", 2, PAGE_CELLS, first, key=f"cells {key}"))
    return lower, upper, cells, whole


def _shape(lower: float, upper: float) -> str:
    """Return a shape in words, from sliders whose ranges follow the bounds."""
    fitting = [name for name, shape in SHAPES.items() if upper > 0 or not shape.positive_mean]
    name = st.selectbox("Shape", fitting, fitting.index("log-normal") if "log-normal" in fitting else 0)
    width, texts = upper - lower, []
    step = float(f"{width / 400:.1g}")
    for parameter in SHAPES[name].parameters:
        key = f"{name} {parameter} {lower} {upper}"
        if parameter == "mean":
            least = max(lower, step) if SHAPES[name].positive_mean else lower
            value = st.slider(
                "Mean", least, upper, min(max(lower + 0.2 * width, least), upper), step, format="%g", key=key
            )
        else:
            value = st.slider("Standard deviation", step, 2 * width, 0.225 * width, step, format="%g", key=key)
        texts.append(f"{parameter}={value:.12g}")
    return f"{name}:{','.join(texts)}" if texts else name


def _public(known: Known | None) -> bool:
    """Return whether a release takes the distribution as public."""
    free = known is None or known.public
    public = st.toggle(
        "This distribution is public knowledge",
        value=False,
        disabled=not free,
        help="On: privatize is given it and spends nothing on a prior. Off: a release buys a private prior with a part of ε.",
    )
    if not free:
        st.caption("It was estimated from labels at a cost, so a new release cannot take it as public.")
    return public and free


def _mechanism(known: Known | None) -> str:
    names = offered()
    if known is not None and known.mechanism is not None:
        names = [RECEIVED, *names]
    return st.selectbox(
        "Mechanism",
        names,
        key=f"mechanism {len(names)}",
        help=_mechanisms_help(),
    )


def _mechanisms_help() -> str:
    return "  \n".join(f"**{entry.name}**: {as_text(entry.help)}" for entry in MECHANISMS if entry.exact)


def _epsilon(known: Known | None, mechanism: str) -> float:
    if mechanism == RECEIVED and known is not None and known.epsilon is not None:
        st.markdown(f"**ε = {known.epsilon:.4g}** for each label, as received")
        return known.epsilon
    return st.select_slider(
        "ε (privacy budget of one label)",
        EPSILONS,
        1.0,
        format_func=lambda value: f"{value:g}",
        key="epsilon",
        help="Smaller protects more. For someone who knows everything but this label, the odds of anything about it change at most e^ε times.",
    )


def _records(known: Known | None) -> int:
    own = None if known is None else known.records
    start = 50_000 if own is None else min(own, 10**9)
    return int(st.number_input("Records", 1, 10**9, start, step=1000, key=f"records {own}"))


def _loss() -> str:
    name = st.selectbox("Loss", [entry.name for entry in LOSSES], help="What the mechanism keeps small.")
    entry = LOSSES[name]
    if not entry.takes_number:
        return name
    first = float(entry.example.partition("(")[2].rstrip(")"))
    if name == "pinball":
        number = st.number_input("Level of the quantile", 0.01, 0.99, first, 0.05, format="%g")
    else:
        number = st.number_input("Where squared becomes absolute", 0.001, 1e9, first, format="%g")
    return f"{name}({number:g})"
