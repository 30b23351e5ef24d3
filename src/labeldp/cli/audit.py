"""`labeldp audit`: check all files of a release, prove its ε, and test the sampler."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from labeldp.cli.console import Cell, line, phases, print_json
from labeldp.cli.options import Json, VerifyKey
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.formatting import count_of
from labeldp.json_text import read_text
from labeldp.release_kind import ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from labeldp.artifact.reader import Message
    from labeldp.evaluate import Measurement
    from labeldp.evaluate.groups import FiguresAnswer
    from labeldp.evaluate.report import Report
    from labeldp.evaluate.score import Score
    from labeldp.mechanisms import FiniteMechanism, Mechanism
    from labeldp.mechanisms.proof import Proof
    from labeldp.release.private_sums import SumsProof
    from labeldp.release.sums import SumsAnswer

    Opened = Message | SumsAnswer | FiguresAnswer[Any]

WIDTH = 10
"""The columns for the names, of which "mechanism" is one of the longest."""


def audit(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="MESSAGE|JSON",
            help="A message folder, a mechanism.json, or a folder of labeldp sums, score or report.",
        ),
    ],
    verify_key: VerifyKey = None,
    samples: Annotated[
        int | None, typer.Option(metavar="N", help="Also draw N labels and test the running sampler.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="The confidence of the lower bound from samples.")] = 0.999999,
    as_json: Json = False,
) -> None:
    """Check every file and row of a message, of an answer with sums, of a score or a report, and prove its ε in rational arithmetic.

    The proof is exact, for the integers that the mechanism samples or for the scales of the noise, and needs no data.

    With --samples the sampler of a mechanism runs too, and its outputs alone give a lower bound of ε. That finds bugs.

    The figures of a score or a report are shown too.

    The exit code is 2 if anything does not hold.

    \b
    Examples:
      labeldp audit message --verify-key sender-public.pem
      labeldp audit mechanism.json --samples 10000000
    """  # noqa: D301 - the escape keeps the lines of the examples
    from labeldp.evaluate.groups import FiguresAnswer
    from labeldp.release.sums import SumsAnswer

    opened = _opened(path, verify_key, quiet=as_json)
    measured = None
    proof: Proof | SumsProof
    if isinstance(opened, SumsAnswer | FiguresAnswer):
        if samples is not None:
            raise InvalidInput(f"--samples is for mechanisms, and {path} is {_noun(opened)}: leave it out")
        proof = of_sums = (opened.sums if isinstance(opened, SumsAnswer) else opened.figures).proof()
        record, lines = _sums_record(of_sums), list(_sums_proven(of_sums))
    else:
        from labeldp.mechanisms import FiniteMechanism, verify

        mechanism = _mechanism(path) if opened is None else opened.mechanism
        proof = exact = verify(mechanism)
        assert isinstance(mechanism, FiniteMechanism), "others were refused by verify"
        record, lines = _mechanism_record(mechanism, exact), list(_proven(mechanism, exact))
        if samples is not None:
            measured = _measured(mechanism, samples, confidence)
            record["sampled"] = {
                "samples": measured.samples,
                "confidence": measured.confidence,
                "epsilon_at_least": measured.epsilon_lower,
                "smallest_excess_shown": measured.smallest_excess,
                "refuted": measured.refuted,
            }
            lines.append(("sampled", str(measured)))
    if opened is not None:
        record["message"] = _record(opened)
    if isinstance(opened, FiguresAnswer):
        record["figures"] = opened.figures.to_arrow().to_pylist()
    if as_json:
        print_json(record)
    else:
        for name, text in (*_about(opened), *lines):
            line(name, text, width=WIDTH)
        if isinstance(opened, FiguresAnswer):
            show_figures(opened.figures)
    if not proof.holds or (measured is not None and measured.refuted):
        raise PrivacyRefused("the claimed epsilon does not hold: do not release with this mechanism")


def _opened(path: Path, verify_key: Path | None, *, quiet: bool) -> Opened | None:
    """Open a folder after every check of its files and rows; return None for the file of a mechanism."""
    from labeldp.artifact.manifest import kind_in
    from labeldp.artifact.reader import Message
    from labeldp.evaluate.groups import FiguresAnswer
    from labeldp.evaluate.report import Report
    from labeldp.evaluate.score import Score
    from labeldp.release.sums import SumsAnswer, is_answer
    from labeldp.release_kind import REPORT, SCORE

    if not path.is_dir():
        if verify_key is not None:
            raise InvalidInput(f"--verify-key is for releases, and {path} is not a folder: give the folder")
        return None
    if is_answer(path):
        return SumsAnswer.open(path, verify_key=verify_key)  # reads every row
    if (kind := kind_in(path)) == SCORE:
        return FiguresAnswer.open(path, Score, verify_key)
    if kind == REPORT:
        return FiguresAnswer.open(path, Report, verify_key)
    message = Message.open(path, verify_key=verify_key)
    with phases(quiet=quiet) as phase:
        tick = phase("checking", message.records)
        for _, codes in message.batches():  # checks every row, and after the last one that all ids differ
            if tick is not None:
                tick(codes.size)
    return message


def _mechanism(path: Path) -> Mechanism:
    from labeldp.artifact.manifest import release_folder
    from labeldp.mechanisms import Mechanism

    if not path.is_file():
        raise InvalidInput(f"there is no mechanism at {path}: give a message folder or a mechanism.json")
    try:
        text = read_text(path)
    except InvalidInput:
        if path.suffix.lower() != ".json":
            release_folder(path)  # a zip file or a labels file is not one, and this says what to give instead
        raise
    try:
        return Mechanism.from_json(text)
    except PrivacyRefused:
        raise
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error


def _measured(mechanism: FiniteMechanism, samples: int, confidence: float) -> Measurement:
    from labeldp.evaluate import measure

    if mechanism.outputs.size == 1:
        raise InvalidInput("this mechanism has a single output, which reveals nothing: leave out --samples")
    labels = mechanism.encoder.representatives()
    return measure(mechanism, labels, epsilon=mechanism.epsilon_exact, samples=samples, confidence=confidence)


def _record(opened: Opened) -> dict[str, Any]:
    """Return what was checked of a folder, for `--json`. Anything that does not hold was refused before."""
    from labeldp.artifact.description import epsilon_parts
    from labeldp.artifact.reader import Message
    from labeldp.evaluate.groups import FiguresAnswer

    signature = opened.signature
    ids = {} if isinstance(opened, FiguresAnswer) else {"records": opened.manifest.records, "ids_unique": True}
    return {
        **asdict(opened.manifest),
        **(epsilon_parts(opened.mechanism, opened.header.entries) if isinstance(opened, Message) else {}),
        **ids,
        "signed_by": None if signature is None else signature.key,
        "signature_verified": signature is not None and signature.verified,
    }


def _noun(opened: Opened) -> str:
    """Return what the folder is."""
    return next(kind.noun for kind in ReleaseKind if kind == opened.manifest.kind)


def _about(opened: Opened | None) -> Iterator[tuple[str, Cell]]:
    """Return what was checked of a folder, in words."""
    from labeldp.evaluate.groups import FiguresAnswer
    from labeldp.release.sums import SumsAnswer

    if opened is None:
        return
    manifest, signature = opened.manifest, opened.signature
    signed = f"none: nothing shows who wrote {'these sums' if isinstance(opened, SumsAnswer) else f'this {_noun(opened).split()[-1]}'}"
    if signature is not None:
        signed = f"signed by {signature.key}, {'verified' if signature.verified else 'not verified: give --verify-key'}"
    ignored = manifest.ignored_files(opened.path)
    others = f"no other file but {', '.join(ignored)}, left by a desktop and ignored" if ignored else "no other file"
    count = len(manifest.batches)
    batches = f"{count} {'batch' if count == 1 else 'batches'}"
    yield "release", manifest.release
    yield "signature", signed
    yield "files", f"{len(manifest.files)}, each with the size and SHA-256 in manifest.json, and {others}"
    if isinstance(opened, FiguresAnswer):
        yield "figures", f"{manifest.records:,}, which follow from the noisy sums"
        yield from _weighted(opened.figures.persons)
        return
    if isinstance(opened, SumsAnswer):
        yield "records", f"{manifest.records:,}, all ids different"
        yield from _weighted(None if opened.sums.weighting is None else opened.sums.size)
        return
    yield "rows", f"{manifest.records:,} in {batches}, as many as listed; every code fits the mechanism"
    yield "ids", "all different"
    labels = float(opened.header.entries * opened.mechanism.epsilon_exact)
    prior = float(opened.epsilon_exact) - labels
    yield "epsilon", f"{opened.epsilon:g} = {prior:.4g} prior + {labels:.4g} labels, which adds up exactly"
    if (persons := opened.header.persons) is not None:
        times = "" if persons.entries == 1 else f": {persons.entries} times what the mechanism proves for a label"
        yield "unit", f"a person, with at most {count_of(persons.entries, 'label')} in the message{times}"


def _weighted(persons: int | None) -> Iterator[tuple[str, Cell]]:
    """Return what ε is for, if it is for persons whose rows are weighted."""
    if persons is not None:
        yield "unit", f"a person: {persons:,}, each of whom counts as one, whatever the number of rows"


def show_figures(figures: Score | Report) -> None:
    """Print the table of a score or of a report."""
    from labeldp.cli.report import show_report
    from labeldp.cli.score import show_score
    from labeldp.evaluate.report import Report

    if isinstance(figures, Report):
        show_report(figures)
    else:
        show_score(figures)


def _sums_record(proof: SumsProof) -> dict[str, Any]:
    return {
        "kind": "private sums",
        "epsilon_claimed": proof.epsilon_claimed,
        "epsilon_proven": float(proof.total),
        "answers": [
            asdict(one) | {"sensitivity": str(one.sensitivity), "epsilon": str(one.epsilon)} for one in proof.lines
        ],
        "holds": proof.holds,
    }


def _sums_proven(proof: SumsProof) -> Iterator[tuple[str, Cell]]:
    yield "claimed", f"ε = {float(proof.epsilon_claimed):.12g}"
    for number, one in enumerate(proof.lines):
        yield "" if number else "answers", str(one)
    yield "in all", f"ε = {float(proof.total):.12g}"
    yield "verdict", Text.assemble(("proven", "green"), ": the exact costs add up to at most ε")


def _mechanism_record(mechanism: FiniteMechanism, proof: Proof) -> dict[str, Any]:
    return {
        "mechanism": mechanism.kind,
        "digest": mechanism.digest,
        "epsilon_claimed": proof.epsilon_claimed,
        "worst_ratio": str(proof.ratio),
        "epsilon_proven": proof.epsilon_proven,
        "holds": proof.holds,
    }


def _proven(mechanism: FiniteMechanism, proof: Proof) -> Iterator[tuple[str, Cell]]:
    low, high = proof.low_symbol, proof.high_symbol
    yield "mechanism", f"{mechanism.kind}, {mechanism.outputs.size:,} outputs"
    yield "digest", mechanism.digest
    yield "claimed", f"ε = {float(proof.epsilon_claimed):.12g}"
    yield "worst", str(proof.ratio)
    yield "", f"= e^{proof.epsilon_proven:.12g}: output {proof.output}, symbol {high} against symbol {low}"
    yield (
        "verdict",
        Text.assemble(("proven", "green"), ": the exact ratio is at most e^ε")
        if proof.holds
        else Text("NOT private", "red"),
    )
    prior = mechanism.prior
    if prior is not None and prior.epsilon_exact > 0:
        total, paid = prior.epsilon_exact + mechanism.epsilon_exact, prior.epsilon_exact
        yield "in all", f"ε = {float(total):.12g}, of which {float(paid):.6g} paid for the private prior"
