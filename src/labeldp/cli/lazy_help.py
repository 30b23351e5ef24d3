"""Help texts that name what the catalogues hold, filled in when help is asked for: commands start without reading them."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

MECHANISMS, LOSSES, LEARNERS = "{mechanisms}", "{losses}", "{learners}"
"""Stand for the catalogue's entries in the help of an option."""


class LazyHelp(TyperCommand):
    """A command whose options may name a catalogue in their help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Fill the names in, then print as always."""
        for parameter in self.params:
            text = getattr(parameter, "help", None)
            if text:
                parameter.help = _filled(text)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


def learners() -> Any:
    """The catalogue of learners, the paper's network included."""
    import labeldp.paper.network.learner  # noqa: F401 - enters the network
    from labeldp.training.learners import LEARNERS as KNOWN

    return KNOWN


def _filled(text: str) -> str:
    if MECHANISMS in text:
        from labeldp.mechanisms import MECHANISMS as KNOWN

        text = text.replace(MECHANISMS, "; ".join(f"{entry.name}: {entry.help}" for entry in KNOWN if entry.exact))
    if LOSSES in text:
        from labeldp.losses import loss_examples

        text = text.replace(LOSSES, ", ".join(loss_examples()))
    if LEARNERS in text:
        text = text.replace(LEARNERS, "; ".join(f"{entry.name}: {entry.help}" for entry in learners()))
    return text.replace("[", r"\[")
