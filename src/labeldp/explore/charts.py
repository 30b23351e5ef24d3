"""The charts, with Altair, from plain figures. They use the colours of the library's pictures, legible on light and dark.

Data are tables of pandas: Altair would check every number of a list against its schema, which takes seconds.
"""

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
from labeldp.explore.answers import Channel, Headline, Reported, grouped
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
AUTO, BINS, SUMS = "private labels", "paper's bins", "noisy sums"
OPEN, MEAN = "no privacy", "the mean"


def outlook_chart(advice: Advice, now: Headline, epsilon: float, figure: str, name: str) -> Picture:
    """Return the predicted figure ("r2" or "rmse") of models against ε. The current ε is marked, with a point for the mechanism of this name."""
    lines = {AUTO: "labels", BINS: "paper", SUMS: "sums"}
    same = {OPEN: advice.not_private, MEAN: advice.mean_only}
    rows = [
        {"ε": each.epsilon, "model": name, "value": getattr(prediction, figure)}
        for each in advice.outlooks
        for name, prediction in ({name: getattr(each, method) for name, method in lines.items()} | same).items()
    ]
    title = "predicted R² of a model" if figure == "r2" else "predicted error (RMSE, in the unit of the labels)"
    names = [AUTO, BINS, SUMS, OPEN, MEAN]
    colours = [MECHANISMS["auto"].colour, MECHANISMS["rr-on-bins"].colour, plots.CURVES[3], plots.QUIET, plots.QUIET]
    low = min(0.0, max(-0.25, min(row["value"] for row in rows))) if figure == "r2" else 0.0
    scale = alt.Scale(domainMin=low, clamp=True) if figure == "r2" else alt.Scale(zero=True)
    base = alt.Chart(pd.DataFrame(rows)).encode(
        x=_epsilon_axis(),
        y=alt.Y("value:Q", title=title, scale=scale),
        color=alt.Color("model:N", scale=alt.Scale(domain=names, range=colours), legend=_legend()),
        tooltip=["model:N", _tip("ε:Q", ".3g"), _tip("value:Q", ".3f", title=figure)],
    )
    dashes = alt.Scale(domain=names, range=[[1, 0], [1, 0], [1, 0], [6, 3], [2, 3]])
    drawn = base.mark_line(strokeWidth=2.5).encode(strokeDash=alt.StrokeDash("model:N", scale=dashes, legend=None))
    current = alt.Chart(pd.DataFrame({"ε": [epsilon], "value": [getattr(now.trained, figure)]}))
    point = current.mark_point(size=130, filled=True, color=_colour(name), opacity=1).encode(
        x="ε:Q", y="value:Q", tooltip=["ε:Q", _tip("value:Q", ".3f")]
    )
    return _finished(alt.layer(drawn, point, *_epsilon_mark(epsilon)), f"{title} against ε")


def outputs_chart(mechanism: FiniteMechanism, labels: Prior, chances: Floats, name: str) -> Picture:
    """Return a chart of outputs over the distribution of the labels. Taller lines are reported more often."""
    density = _density(labels)
    area = (
        alt.Chart(density)
        .mark_area(interpolate="step", color=PRIOR, opacity=0.55, clip=True)
        .encode(
            x=alt.X("label:Q", title="label, and what it is reported as"),
            y=alt.Y("density:Q", title="density of labels", scale=_density_scale(density)),
            tooltip=[_tip("label:Q"), _tip("density:Q", ".3g")],
        )
    )
    places, shares = grouped(mechanism.outputs, chances, MOST_STEMS)
    outputs = (
        alt.Chart(pd.DataFrame({"reported as": places, "how often": shares}))
        .mark_rule(color=_colour(name), strokeWidth=2.5)
        .encode(
            x="reported as:Q",
            y=alt.Y("how often:Q", title="how often it is reported", axis=alt.Axis(format=".2~%", grid=False)),
            y2=alt.Y2Datum(0),
            tooltip=[_tip("reported as:Q"), _tip("how often:Q", ".2%")],
        )
    )
    layers: list[Any] = [alt.layer(area), outputs]
    borders = getattr(mechanism.encoder, "thresholds", np.empty(0))
    if mechanism.kind == "rr-on-bins" and 0 < borders.size <= MOST_BORDERS:
        border = alt.Chart(pd.DataFrame({"border": borders})).mark_rule(color=plots.QUIET, strokeDash=[2, 3])
        layers[0] = alt.layer(area, border.encode(x="border:Q", tooltip=[_tip("border:Q")]))
    return _finished(
        alt.layer(*layers).resolve_scale(y="independent"), "density of labels, and how often each output is reported"
    )


def reports_chart(first: Reported, second: Reported | None, name: str) -> Picture:
    """Return a chart of the frequency of each output for one label or two. The first has the colour of the named mechanism."""
    both = [first] if second is None else [first, second]
    names = [f"label {each.label:g}" for each in both]
    own = _colour(name)
    colours = [own, next(each for each in plots.CURVES if each != own)][: len(both)]
    colour = alt.Color("of:N", scale=alt.Scale(domain=names, range=colours), legend=_legend())
    x = alt.X("reported as:Q", title="reported as")
    y = alt.Y("probability:Q", title="probability", axis=alt.Axis(format=".3~%"))
    parts = []
    for words, each in zip(names, both, strict=True):
        places, shares = grouped(each.outputs, each.probabilities, MOST_STEMS)
        parts.append(pd.DataFrame({"of": words, "reported as": places, "probability": shares}))
    base = alt.Chart(pd.concat(parts)).encode(
        x=x, y=y, color=colour, tooltip=["of:N", _tip("reported as:Q"), _tip("probability:Q", ".3%")]
    )
    bars = base.transform_filter(alt.datum.of == names[0]).mark_rule(strokeWidth=3).encode(y2=alt.Y2Datum(0))
    points = base.transform_filter(alt.datum.of != names[0]).mark_point(size=60, filled=True, shape="diamond")
    truth = alt.Chart(pd.DataFrame({"of": names, "label": [each.label for each in both]}))
    lines = truth.mark_rule(strokeDash=[5, 4], strokeWidth=1.5).encode(x="label:Q", color=colour)
    return _finished(alt.layer(bars, points, lines), f"what {' and '.join(names)} are reported as")


def channel_chart(table: Channel) -> Picture:
    """Return the channel as a heat map: a column for the labels of a cell, a row for each report, however far apart reports lie."""
    names = [f"{value:.4g}" for value in table.reports.tolist()]
    cell, row = np.nonzero(table.shares > 0)
    edges, reports = table.label_edges, np.asarray(names)[row]
    data = {
        "from": edges[cell],
        "to": edges[cell + 1],
        "row": row,
        "reported as": reports,
        "share": table.shares[cell, row],
    }
    axis = alt.Axis(
        labelExpr=f"{json.dumps(names)}[datum.value]",
        values=list(range(0, len(names), math.ceil(len(names) / 12))),
        grid=False,
    )
    scale = alt.Scale(scheme="viridis", domainMin=0)
    drawn = (
        alt.Chart(pd.DataFrame(data))
        .mark_rect(strokeWidth=0.8)
        .encode(
            x=alt.X("from:Q", title="true label", scale=alt.Scale(zero=False, nice=False), axis=alt.Axis(grid=False)),
            x2="to:Q",
            y=alt.Y("row:O", title="reported as", sort="descending", axis=axis),
            color=alt.Color(
                "share:Q",
                title="how often",
                scale=scale,
                legend=alt.Legend(type="gradient", orient="bottom", format=".2~%", gradientLength=220, titleLimit=300),
            ),
            stroke=alt.Stroke("share:Q", scale=scale, legend=None),  # no seams between cells
            tooltip=[
                _tip("from:Q", title="labels from"),
                _tip("to:Q"),
                "reported as:N",
                _tip("share:Q", ".3%", title="how often"),
            ],
        )
    )
    return _finished(alt.layer(drawn), "how often labels are reported as what", height=520, canvas=True)


def comparison_chart(points: Sequence[Comparison], figure: str, title: str, epsilon: float) -> Picture:
    """Return one figure of several mechanisms against ε, on logarithmic scales, with the current ε marked."""
    names = list(dict.fromkeys(point.mechanism for point in points))
    rows = [
        {"mechanism": point.mechanism, "ε": point.epsilon, "value": value}
        for point in points
        if (value := getattr(point, figure)) is not None and 0 < value < np.inf
    ]
    colour = alt.Scale(domain=names, range=[_colour(name) for name in names])
    axis = alt.Axis(values=_log_ticks([row["value"] for row in rows]), labelExpr=SHORT)
    base = alt.Chart(pd.DataFrame(rows)).encode(
        x=_epsilon_axis(),
        y=alt.Y("value:Q", title=title, scale=alt.Scale(type="log"), axis=axis),
        color=alt.Color("mechanism:N", scale=colour, legend=_legend()),
        tooltip=["mechanism:N", "ε:Q", _tip("value:Q", title=title)],
    )
    drawn = base.mark_line(strokeWidth=2.5, point=alt.OverlayMarkDef(size=35, filled=True))
    return _finished(alt.layer(drawn, *_epsilon_mark(epsilon)), f"{title} against ε", height=340)


def prior_chart(assumed: Prior, drawn: Prior) -> Picture:
    """Return the assumed distribution, and a private prior that a release could have drawn."""
    names = ["assumed", "private prior (simulated)"]
    colour = alt.Color("which:N", scale=alt.Scale(domain=names, range=[PRIOR, plots.CURVES[0]]), legend=_legend())
    both = [_density(each) for each in (assumed, drawn)]
    charts = [
        alt.Chart(density.assign(which=name)).encode(
            x=alt.X("label:Q", title="label"),
            y=alt.Y("density:Q", title="density", scale=_density_scale(*both)),
            color=colour,
            tooltip=["which:N", _tip("label:Q"), _tip("density:Q", ".3g")],
        )
        for name, density in zip(names, both, strict=True)
    ]
    area = charts[0].mark_area(interpolate="step", opacity=0.55, clip=True)
    line = charts[1].mark_line(interpolate="step", strokeWidth=1.8, clip=True)
    return _finished(alt.layer(area, line), "the assumed distribution and a simulated private prior")


def _density(prior: Prior) -> pd.DataFrame:
    """Return densities at the values of a distribution; a fine distribution is summed over even cells."""
    values, masses = grouped(prior.values, prior.masses, MOST_DENSITIES)
    widths = np.gradient(values) if values.size > 1 else np.ones(1)
    return pd.DataFrame({"label": values, "density": masses / widths})


def _density_scale(*densities: pd.DataFrame) -> alt.Scale:
    """Return a scale on which a mass at an end does not hide the rest."""
    return alt.Scale(domain=[0, 1.6 * max(float(each["density"].quantile(0.98)) for each in densities) or 1.0])


def _epsilon_axis() -> alt.X:
    axis = alt.Axis(values=[0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8], format="~g")
    scale = alt.Scale(type="log", nice=False, padding=12)
    return alt.X("ε:Q", title="ε (privacy budget, log scale)", scale=scale, axis=axis)


def _epsilon_mark(epsilon: float) -> tuple[alt.Chart, alt.Chart]:
    """Return a dashed line at the current ε, and its text."""
    mark = alt.Chart(pd.DataFrame({"ε": [epsilon], "text": [f"ε = {epsilon:g}"]})).encode(x="ε:Q")
    text = mark.mark_text(dy=-7, color=MARK, fontSize=13, baseline="bottom")
    return mark.mark_rule(color=MARK, strokeDash=[3, 3]), text.encode(y=alt.value(0), text="text:N")


def _log_ticks(values: list[float]) -> list[float]:
    """Return a few round numbers over the range of the values, for a logarithmic axis."""
    if not values:
        return []
    low, high = math.log10(min(values)), math.log10(max(values))
    steps = (1, 2, 5) if high - low < 2 else (1,)
    every = max(1, math.ceil((high - low) / 5))
    powers = range(math.floor(low), math.ceil(high) + 1, every)
    return [step * 10.0**power for power in powers for step in steps]


def _legend() -> alt.Legend:
    return alt.Legend(orient="bottom", title=None, columns=2, labelLimit=120)


def _colour(name: str) -> str:
    entry = MECHANISMS.get(name)
    return plots.CURVES[0] if entry is None else entry.colour


def _tip(field: str, style: str = ",.4g", **facts: Any) -> alt.Tooltip:
    return alt.Tooltip(field, format=style, **facts)


def _finished(chart: Any, words: str, *, height: int = HEIGHT, canvas: bool = False) -> Picture:
    """Set the height and a description for people who do not see the chart, and remove the menu: one of its entries leads to a site on the network."""
    embed = {"embedOptions": {"renderer": "canvas" if canvas else "svg", "actions": False}}
    made: Picture = chart.properties(
        height=height, description=words, usermeta=embed, padding={"left": 4, "right": 12, "top": 22, "bottom": 4}
    )
    return made
