"""The charts, with Altair: plain figures in, a chart out. Colours are those of the library's pictures, legible on light and dark."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd  # which Streamlit brings

from labeldp import plots
from labeldp.arrays import Floats
from labeldp.evaluate import Advice
from labeldp.evaluate.comparison import Comparison
from labeldp.explore.answers import Headline
from labeldp.explore.views import Channel, Reported, grouped
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.registry import MECHANISMS
from labeldp.priors import Prior

Picture = alt.LayerChart
HEIGHT = 400
PRIOR = "#7f9ab3"
"""Of distributions: between the light and the dark version of the library's own."""
MARK = "#7a8290"
"""Of the current ε: legible on light and dark pages."""
MOST_STEMS = 120
"""Beyond this number of outputs, reports are counted in cells."""
MOST_DENSITIES = 500
"""The most points of a density."""
MOST_BORDERS = 40
"""Beyond this number of outputs the borders of bins are not drawn."""
SHORT = "datum.value >= 1000 ? format(datum.value, '.2~s') : format(datum.value, '~g')"
"""How an axis writes large numbers in little room: 20k, 1.5M."""
AUTO, BINS, SUMS, OPEN, MEAN = (
    "private labels (auto)",
    "paper's bins, as sent",
    "noisy sums (one team)",
    "no privacy",
    "the mean for all",
)


def outlook_chart(advice: Advice, now: Headline, epsilon: float, figure: str, name: str) -> Picture:
    """The predicted figure ("r2" or "rmse") of models against ε. The current ε is marked, with a point for the mechanism of this name."""
    lines = {AUTO: "labels", BINS: "paper", SUMS: "sums"}
    rows = [
        {"ε": each.epsilon, "model": name, "value": getattr(getattr(each, method), figure)}
        for each in advice.outlooks
        for name, method in lines.items()
    ]
    rows += [
        {"ε": each.epsilon, "model": name, "value": getattr(reference, figure)}
        for each in advice.outlooks
        for name, reference in ((OPEN, advice.not_private), (MEAN, advice.mean_only))
    ]
    title = "predicted R² of a model" if figure == "r2" else "predicted error (RMSE, in the unit of the labels)"
    names = [AUTO, BINS, SUMS, OPEN, MEAN]
    colours = [MECHANISMS["auto"].colour, MECHANISMS["rr-on-bins"].colour, plots.CURVES[3], plots.QUIET, plots.QUIET]
    low = min(0.0, max(-0.25, min(row["value"] for row in rows))) if figure == "r2" else 0.0
    scale = alt.Scale(domainMin=low, clamp=True) if figure == "r2" else alt.Scale(zero=True)
    base = alt.Chart(_data(rows)).encode(
        x=_epsilon_axis(),
        y=alt.Y("value:Q", title=title, scale=scale),
        color=alt.Color("model:N", scale=alt.Scale(domain=names, range=colours), legend=_legend()),
        tooltip=[
            alt.Tooltip("model:N"),
            alt.Tooltip("ε:Q", format=".3g"),
            alt.Tooltip("value:Q", title=figure, format=".3f"),
        ],
    )
    dashes = alt.Scale(domain=names, range=[[1, 0], [1, 0], [1, 0], [6, 3], [2, 3]])
    drawn = base.mark_line(strokeWidth=2.5).encode(strokeDash=alt.StrokeDash("model:N", scale=dashes, legend=None))
    current = alt.Chart(_data([{"ε": epsilon, "value": getattr(now.trained, figure)}]))
    point = current.mark_point(size=130, filled=True, color=_colour(name), opacity=1).encode(
        x=alt.X("ε:Q"), y=alt.Y("value:Q"), tooltip=[alt.Tooltip("ε:Q"), alt.Tooltip("value:Q", format=".3f")]
    )
    return _finished(alt.layer(drawn, point, *_epsilon_mark(epsilon)), f"{title} against ε")


def outputs_chart(mechanism: FiniteMechanism, labels: Prior, chances: Floats, name: str) -> Picture:
    """Outputs over the distribution of the labels: the taller a line, the more often it is reported."""
    density = _density(labels)
    top = (
        1.6 * float(np.quantile([row["density"] for row in density], 0.98)) or 1.0
    )  # a mass at an end must not hide the rest
    area = (
        alt.Chart(_data(density))
        .mark_area(interpolate="step", color=PRIOR, opacity=0.55, clip=True)
        .encode(
            x=alt.X("label:Q", title="label, and what it is reported as"),
            y=alt.Y("density:Q", title="density of labels", scale=alt.Scale(domain=[0, top])),
            tooltip=[alt.Tooltip("label:Q", format=",.4g"), alt.Tooltip("density:Q", format=".3g")],
        )
    )
    places, shares = grouped(mechanism.outputs, chances, MOST_STEMS)
    rows = [
        {"reported as": value, "how often": often}
        for value, often in zip(places.tolist(), shares.tolist(), strict=True)
    ]
    outputs = (
        alt.Chart(_data(rows))
        .mark_rule(color=_colour(name), strokeWidth=2.5)
        .encode(
            x=alt.X("reported as:Q"),
            y=alt.Y("how often:Q", title="how often it is reported", axis=alt.Axis(format=".2~%", grid=False)),
            y2=alt.Y2Datum(0),
            tooltip=[alt.Tooltip("reported as:Q", format=",.4g"), alt.Tooltip("how often:Q", format=".2%")],
        )
    )
    layers: list[Any] = [alt.layer(area), outputs]
    borders = getattr(mechanism.encoder, "thresholds", np.empty(0))
    if mechanism.kind == "rr-on-bins" and 0 < borders.size <= MOST_BORDERS:
        border = alt.Chart(_data([{"border": value} for value in borders.tolist()]))
        layers[0] = alt.layer(
            area,
            border.mark_rule(color=plots.QUIET, strokeDash=[2, 3]).encode(
                x=alt.X("border:Q"), tooltip=[alt.Tooltip("border:Q", format=",.4g")]
            ),
        )
    return _finished(
        alt.layer(*layers).resolve_scale(y="independent"), "density of labels, and how often each output is reported"
    )


def reports_chart(first: Reported, second: Reported | None, name: str) -> Picture:
    """How often one label, or two, are reported as each output. The first is in the colour of the mechanism of this name."""
    both = [first] if second is None else [first, second]
    names = [f"label {each.label:g}" for each in both]
    own = _colour(name)
    colours = [own, next(each for each in plots.CURVES if each != own)][: len(both)]
    colour = alt.Color("of:N", scale=alt.Scale(domain=names, range=colours), legend=_legend())
    x = alt.X("reported as:Q", title="reported as")
    y = alt.Y("probability:Q", title="probability", axis=alt.Axis(format=".3~%"))
    tooltip = [
        alt.Tooltip("of:N"),
        alt.Tooltip("reported as:Q", format=",.4g"),
        alt.Tooltip("probability:Q", format=".3%"),
    ]
    rows = []
    for words, each in zip(names, both, strict=True):
        places, shares = grouped(each.outputs, each.probabilities, MOST_STEMS)
        rows += [
            {"of": words, "reported as": value, "probability": often}
            for value, often in zip(places.tolist(), shares.tolist(), strict=True)
        ]
    base = alt.Chart(_data(rows)).encode(x=x, y=y, color=colour, tooltip=tooltip)
    bars = base.transform_filter(alt.datum.of == names[0]).mark_rule(strokeWidth=3).encode(y2=alt.Y2Datum(0))
    points = base.transform_filter(alt.datum.of != names[0]).mark_point(size=60, filled=True, shape="diamond")
    truth = alt.Chart(_data([{"of": words, "label": each.label} for words, each in zip(names, both, strict=True)]))
    lines = truth.mark_rule(strokeDash=[5, 4], strokeWidth=1.5).encode(x=alt.X("label:Q"), color=colour)
    return _finished(alt.layer(bars, points, lines), f"what {' and '.join(names)} are reported as")


def channel_chart(table: Channel) -> Picture:
    """The channel as a heat map: a column for the labels of a cell, a row for each report, however far apart reports lie."""
    names = [f"{value:.4g}" for value in table.reports.tolist()]
    rows = [
        {
            "from": float(table.label_edges[i]),
            "to": float(table.label_edges[i + 1]),
            "row": j,
            "reported as": names[j],
            "share": float(share),
        }
        for (i, j), share in np.ndenumerate(table.shares)
        if share > 0
    ]
    every = math.ceil(len(names) / 12)
    scale = alt.Scale(scheme="viridis", domainMin=0)
    drawn = (
        alt.Chart(_data(rows))
        .mark_rect(strokeWidth=0.8)
        .encode(
            x=alt.X("from:Q", title="true label", scale=alt.Scale(zero=False, nice=False), axis=alt.Axis(grid=False)),
            x2=alt.X2("to:Q"),
            y=alt.Y(
                "row:O",
                title="reported as",
                sort="descending",
                axis=alt.Axis(
                    labelExpr=f"{json.dumps(names)}[datum.value]", values=list(range(0, len(names), every)), grid=False
                ),
            ),
            color=alt.Color(
                "share:Q",
                title="how often",
                scale=scale,
                legend=alt.Legend(type="gradient", orient="bottom", format=".2~%", gradientLength=220, titleLimit=300),
            ),
            stroke=alt.Stroke("share:Q", scale=scale, legend=None),  # no seams between cells
            tooltip=[
                alt.Tooltip("from:Q", title="labels from", format=",.4g"),
                alt.Tooltip("to:Q", title="to", format=",.4g"),
                alt.Tooltip("reported as:N"),
                alt.Tooltip("share:Q", title="how often", format=".3%"),
            ],
        )
    )
    return _finished(alt.layer(drawn), "how often labels are reported as what", height=520, canvas=True)


def comparison_chart(points: Sequence[Comparison], figure: str, title: str, epsilon: float) -> Picture:
    """One figure of several mechanisms against ε, on logarithmic scales, with the current ε marked."""
    names = list(dict.fromkeys(point.mechanism for point in points))
    rows = [
        {"mechanism": point.mechanism, "ε": point.epsilon, "value": value}
        for point in points
        if (value := getattr(point, figure)) is not None and 0 < value < np.inf
    ]
    colour = alt.Scale(domain=names, range=[_colour(name) for name in names])
    base = alt.Chart(_data(rows)).encode(
        x=_epsilon_axis(),
        y=alt.Y(
            "value:Q",
            title=title,
            scale=alt.Scale(type="log"),
            axis=alt.Axis(values=_log_ticks([row["value"] for row in rows]), labelExpr=SHORT),
        ),
        color=alt.Color("mechanism:N", scale=colour, legend=_legend()),
        tooltip=[alt.Tooltip("mechanism:N"), alt.Tooltip("ε:Q"), alt.Tooltip("value:Q", title=title, format=",.4g")],
    )
    drawn = base.mark_line(strokeWidth=2.5, point=alt.OverlayMarkDef(size=35, filled=True))
    return _finished(alt.layer(drawn, *_epsilon_mark(epsilon)), f"{title} against ε", height=340)


def prior_chart(assumed: Prior, drawn: Prior) -> Picture:
    """The assumed distribution, and a private prior that a release could have drawn."""
    names = ["assumed", "private prior (simulated)"]
    colour = alt.Color("which:N", scale=alt.Scale(domain=names, range=[PRIOR, plots.CURVES[0]]), legend=_legend())
    both = [_density(each) for each in (assumed, drawn)]
    most = 1.6 * max(float(np.quantile([row["density"] for row in rows], 0.98)) for rows in both) or 1.0
    charts = [
        alt.Chart(_data([row | {"which": name} for row in rows])).encode(
            x=alt.X("label:Q", title="label"),
            y=alt.Y("density:Q", title="density", scale=alt.Scale(domain=[0, most])),
            color=colour,
            tooltip=[
                alt.Tooltip("which:N"),
                alt.Tooltip("label:Q", format=",.4g"),
                alt.Tooltip("density:Q", format=".3g"),
            ],
        )
        for name, rows in zip(names, both, strict=True)
    ]
    area = charts[0].mark_area(interpolate="step", opacity=0.55, clip=True)
    line = charts[1].mark_line(interpolate="step", strokeWidth=1.8, clip=True)
    return _finished(alt.layer(area, line), "the assumed distribution and a simulated private prior")


def _density(prior: Prior) -> list[dict[str, float]]:
    """Densities at the values of a distribution; those of a fine one are summed over even cells."""
    values, masses = prior.values, prior.masses  # noqa: PD011 - of a prior, not of a data frame
    if values.size > MOST_DENSITIES:
        edges = np.linspace(values[0], values[-1], MOST_DENSITIES + 1)
        place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, MOST_DENSITIES - 1)
        masses = np.bincount(place, masses, MOST_DENSITIES).astype(np.float64)
        values = (edges[:-1] + edges[1:]) / 2
    widths = np.gradient(values) if values.size > 1 else np.ones(1)
    return [
        {"label": label, "density": density}
        for label, density in zip(values.tolist(), (masses / widths).tolist(), strict=True)
    ]


def _epsilon_axis() -> alt.X:
    ticks = [0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8]
    return alt.X(
        "ε:Q",
        title="ε (privacy budget, log scale)",
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=alt.Axis(values=ticks, format="~g"),
    )


def _epsilon_mark(epsilon: float) -> tuple[alt.Chart, alt.Chart]:
    """Return a dashed line at the current ε, and its text."""
    mark = alt.Chart(_data([{"ε": epsilon, "text": f"ε = {epsilon:g}"}])).encode(x=alt.X("ε:Q"))
    text = mark.mark_text(dy=-7, color=MARK, fontSize=13, baseline="bottom")
    return mark.mark_rule(color=MARK, strokeDash=[3, 3]), text.encode(y=alt.value(0), text=alt.Text("text:N"))


def _log_ticks(values: list[float]) -> list[float]:
    """A few round numbers over the range of the values, for a logarithmic axis."""
    if not values:
        return []
    low, high = math.log10(min(values)), math.log10(max(values))
    steps = (1, 2, 5) if high - low < 2 else (1,)
    every = max(1, math.ceil((high - low) / 5))
    powers = range(math.floor(low), math.ceil(high) + 1, every)
    return [step * 10.0**power for power in powers for step in steps]


def _legend() -> alt.Legend:
    return alt.Legend(orient="bottom", title=None, columns=2, labelLimit=150)


def _colour(name: str) -> str:
    entry = MECHANISMS.get(name)
    return plots.CURVES[0] if entry is None else entry.colour


def _data(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """A table. Altair would check every number of a list against its schema, which takes seconds."""
    return pd.DataFrame(rows)


def _finished(chart: Any, words: str, *, height: int = HEIGHT, canvas: bool = False) -> Picture:
    """Set the height and a description for people who do not see the chart, and remove the menu: one of its entries leads to a site on the network."""
    embed = {"embedOptions": {"renderer": "canvas" if canvas else "svg", "actions": False}}
    made: Picture = chart.properties(
        height=height, description=words, usermeta=embed, padding={"left": 4, "right": 12, "top": 22, "bottom": 4}
    )
    return made
