"""`labeldp audit`: prove the ε of a mechanism, and test its sampler."""

from pathlib import Path
from typing import Annotated, Any

import typer

from labeldp.cli.console import out, print_json
from labeldp.cli.options import Json
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.json_text import read_text


def audit(
    path: Annotated[Path, typer.Argument(metavar="MESSAGE|JSON", help="A message folder, or a mechanism.json.")],
    samples: Annotated[
        int | None, typer.Option(metavar="N", help="Also draw N labels and test the running sampler.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="The confidence of the lower bound from samples.")] = 0.999999,
    as_json: Json = False,
) -> None:
    """Prove ε for the integers that a mechanism samples, in rational arithmetic.

    The proof is exact and needs no data.

    With --samples the sampler runs too, and its outputs alone give a lower bound of ε. That finds bugs in the sampler.

    The exit code is 2 if the claim does not hold.

    \b
    Examples:
      labeldp audit message
      labeldp audit mechanism.json --samples 10000000
    """  # noqa: D301 - the escape keeps the lines of the examples
    from labeldp.audit import measure, verify
    from labeldp.mechanisms import FiniteMechanism, Mechanism

    mechanism = _mechanism(path, Mechanism)
    proof = verify(mechanism)
    assert isinstance(mechanism, FiniteMechanism), "others were refused by verify"
    record: dict[str, Any] = {
        "mechanism": mechanism.kind,
        "digest": mechanism.digest,
        "epsilon_claimed": proof.epsilon_claimed,
        "worst_ratio": str(proof.ratio),
        "epsilon_proven": proof.epsilon_proven,
        "holds": proof.holds,
    }
    measured = None
    if samples is not None:
        labels = mechanism.encoder.representatives()
        if mechanism.outputs.size == 1:
            raise InvalidInput("this mechanism has a single output, which reveals nothing: leave out --samples")
        measured = measure(mechanism, labels, epsilon=mechanism.epsilon_exact, samples=samples, confidence=confidence)
        record["sampled"] = {
            "samples": measured.samples,
            "confidence": measured.confidence,
            "epsilon_at_least": measured.epsilon_lower,
            "smallest_excess_shown": measured.smallest_excess,
            "refuted": measured.refuted,
        }
    if as_json:
        print_json(record)
    else:
        _show(mechanism, proof, measured)
    if not proof.holds or (measured is not None and measured.refuted):
        raise PrivacyRefused("the claimed epsilon does not hold: do not release with this mechanism")


def _mechanism(path: Path, mechanism: Any) -> Any:
    file = path / "mechanism.json" if path.is_dir() else path
    if not file.is_file():
        raise InvalidInput(f"there is no mechanism at {path}: give a message folder or a mechanism.json")
    text = read_text(file)
    try:
        return mechanism.from_json(text)
    except PrivacyRefused:
        raise
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}") from error


def _show(mechanism: Any, proof: Any, measured: Any) -> None:
    low, high = proof.low_symbol, proof.high_symbol
    out.print(f"mechanism  {mechanism.kind}, {mechanism.outputs.size:,} outputs")
    out.print(f"digest     {mechanism.digest}", soft_wrap=True)
    out.print(f"claimed    ε = {float(proof.epsilon_claimed):.12g}")
    out.print(f"worst      {proof.ratio}", soft_wrap=True)
    out.print(f"           = e^{proof.epsilon_proven:.12g}: output {proof.output}, symbol {high} against symbol {low}")
    verdict = "[green]proven[/green]: the exact ratio is at most e^ε" if proof.holds else "[red]NOT private[/red]"
    out.print(f"verdict    {verdict}")
    prior = mechanism.prior
    if prior is not None and prior.epsilon_exact > 0:
        total = prior.epsilon_exact + mechanism.epsilon_exact
        out.print(
            f"in all     ε = {float(total):.12g}, of which {float(prior.epsilon_exact):.6g} paid for the private prior"
        )
    if measured is not None:
        out.print(f"sampled    {measured}", soft_wrap=True)
