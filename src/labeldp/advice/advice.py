"""What `advise` answers: predictions for a list of ε, what a target needs, and what each ε risks, with a table and a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labeldp.advice.predictions import Prediction
from labeldp.advice.targets import Target
from labeldp.advice.words import Risk, percent
from labeldp.formatting import Tabular, count_of
from labeldp.priors import Prior

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

ENOUGH = 0.8
"""The share of R² without privacy that a recommended ε keeps."""


@dataclass(frozen=True)
class Outlook:
    """The predictions at one ε, and its risk.

    Attributes
    ----------
    epsilon : float
        The ε of one label.
    labels : Prediction
        A model trained on labels that `auto` made private.
    paper : Prediction
        A model trained on the outputs of the paper's RR-on-Bins, as they are sent.
    sums : Prediction
        A model fitted to noisy sums, by a team that holds features and labels.
    risk : Risk
        What this ε lets anybody learn.
    """

    epsilon: float
    labels: Prediction
    paper: Prediction
    sums: Prediction
    risk: Risk


@dataclass(frozen=True, repr=False, eq=False)
class Advice(Tabular):
    """Predicted test errors for several ε, from public numbers alone. Get one from `advise`.

    `to_arrow`, `to_pandas` and `to_polars` give the predictions as a table.

    Attributes
    ----------
    records : int
        How many records a model is trained on.
    explained : float
        The share of the labels' variance that features are taken to explain.
    prior : Prior
        The distribution of the labels, as coarse as predictions use it.
    assumed : bool
        Whether that distribution is only the uniform one between the bounds, because nothing better was given.
    outlooks : tuple of Outlook
        The predictions at each ε, in increasing order.
    not_private : Prediction
        A model trained on true labels.
    mean_only : Prediction
        Answering the mean of the labels for every record.
    statement : str
        What risks are told about, such as "more than 200".
    target : Target or None
        What the wanted error needs, if one was given.

    Examples
    --------
    >>> from labeldp import advise
    >>> advice = advise((0, 400), records=50_000, shape="exponential:mean=90", epsilons=[0.5, 1, 2])
    >>> [round(outlook.labels.r2, 2) for outlook in advice.outlooks]
    [0.45, 0.47, 0.48]
    >>> print(advice.recommendation)
    Take ε = 0.5: a model trained on private labels is predicted to reach R² = 0.45, 92 % of the 0.49 without privacy.
    """

    records: int
    explained: float
    prior: Prior
    assumed: bool
    outlooks: tuple[Outlook, ...]
    not_private: Prediction
    mean_only: Prediction
    statement: str
    target: Target | None

    @property
    def recommended(self) -> Outlook | None:
        """The least listed ε at which private labels keep most of what a model without privacy explains; None if there is none that protects."""
        return next((each for each in self._good_enough("labels") if each.risk.protects), None)

    @property
    def recommendation(self) -> str:
        """What to do, in a sentence or two."""
        best, most = self.recommended, self.not_private.r2
        if most <= 0:
            return f"No ε helps: even without privacy {count_of(self.records, 'record')} {'does' if self.records == 1 else 'do'} not teach a model more than the mean."
        sums = next((each for each in self._good_enough("sums") if each.risk.protects), None)
        team = ""
        if sums is not None and (best is None or sums.epsilon < best.epsilon):
            team = f" A team that holds features and labels reaches R² = {sums.sums.r2:.2f} at ε = {sums.epsilon:g} with noisy sums."
        if best is not None:
            return (
                f"Take ε = {best.epsilon:g}: a model trained on private labels is predicted to reach R² = {best.labels.r2:.2f}, "
                f"{percent(min(1.0, best.labels.r2 / most))} of the {most:.2f} without privacy.{team}"
            )
        enough, last = self._good_enough("labels"), self.outlooks[-1]
        found = f"ε = {last.epsilon:g} is predicted to reach {last.labels.r2:.2f}"
        if enough:
            found = f"ε = {enough[0].epsilon:g} would, but that is hardly any protection"
        return (
            f"With private labels none of these ε protects and keeps {percent(ENOUGH)} of the R² = {most:.2f} without privacy: {found}. More "
            f"records help most.{team}"
        )

    def _good_enough(self, method: str) -> list[Outlook]:
        """The outlooks at which a method keeps most of what a model without privacy explains."""
        wanted = ENOUGH * self.not_private.r2
        return [each for each in self.outlooks if getattr(each, method).r2 >= wanted > 0]

    def table(self) -> list[dict[str, Any]]:
        """The predictions as rows of plain numbers.

        Returns
        -------
        list of dict
            For each ε the squared error, its root and R² of each method.
        """
        return [
            {"epsilon": each.epsilon}
            | {
                f"{name}_{figure}": getattr(getattr(each, name), figure)
                for name in ("labels", "paper", "sums")
                for figure in ("mse", "rmse", "r2")
            }
            for each in self.outlooks
        ]

    def to_arrow(self) -> pa.Table:
        """The rows of `table` as an Arrow table.

        Returns
        -------
        pyarrow.Table
            One row for each ε.
        """
        import pyarrow as pa

        return pa.Table.from_pylist(self.table())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the predicted errors against ε, with the lines of no privacy and of answering the mean.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        matplotlib axes
        """
        from labeldp import plots
        from labeldp.mechanisms import MECHANISMS

        lines = {
            "private labels (auto)": [each.labels.rmse for each in self.outlooks],
            "the paper's bins": [each.paper.rmse for each in self.outlooks],
            "noisy sums (one team)": [each.sums.rmse for each in self.outlooks],
            "no privacy": [self.not_private.rmse] * len(self.outlooks),
            "the mean for all": [self.mean_only.rmse] * len(self.outlooks),
        }
        references = ("no privacy", "the mean for all")
        colours = {
            "private labels (auto)": MECHANISMS["auto"].colour,
            "the paper's bins": MECHANISMS["rr-on-bins"].colour,
            "noisy sums (one team)": plots.CURVES[3],
        } | dict.fromkeys(references, plots.QUIET)
        return plots.curves(
            [each.epsilon for each in self.outlooks],
            lines,
            colours=colours,
            dashed=references,
            ylabel="predicted error (RMSE)",
            title=f"{self.records:,} records, features explain {self.explained:g}",
            ax=ax,
        )

    def _facts(self) -> dict[str, str]:
        return {
            "records": f"{self.records:,}",
            "explained": f"{self.explained:g}",
            "not_private": f"R² {self.not_private.r2:.2f}",
            **{f"ε = {each.epsilon:g}": f"R² {each.labels.r2:.2f}" for each in self.outlooks},
            "recommended": "none" if self.recommended is None else f"ε = {self.recommended.epsilon:g}",
        }
