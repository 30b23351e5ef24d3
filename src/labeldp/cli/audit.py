"""`labeldp audit`: check all files of a release, prove its ε, and test the sampler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from labeldp.cli.console import Cell, line, phases, print_json
from labeldp.cli.options import Json, VerifyKey
from labeldp.cli.score import show_report, show_score
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.formatting import count_of
from labeldp.json_text import read_text
from labeldp.release_kind import REPORT, SCORE, SUMS, ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from labeldp.artifact.reader import Message
    from labeldp.evaluate import Measurement
    from labeldp.evaluate.groups import FiguresAnswer
    from labeldp.mechanisms import FiniteMechanism, Mechanism
    from labeldp.release.private_sums import SumsProof
    from labeldp.release.sums import SumsAnswer

    Opened = Message | SumsAnswer | FiguresAnswer[Any]

WIDTH = 10
"""The width of the names; "mechanism" is one of the longest."""


def audit(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="MESSAGE|JSON",
            help="A message folder, a mechanism.json, a folder of labeldp sums, score or report, or a folder with several of these.",
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

    The proof is exact, for the integers that the mechanism samples or for the scales of the noise, and does not read labels.

    With --samples the sampler of a mechanism runs too, and its outputs alone give a lower bound of ε. This finds bugs.

    The figures of a score or a report are shown too. In a folder of several messages, each message is audited.

    The exit code is 2 if a check fails.

    \b
    Examples:
      labeldp audit message --verify-key sender-public.pem
      labeldp audit mechanism.json --samples 10000000
    """  # noqa: D301 - the escape keeps the lines of the examples
    from labeldp.artifact.manifest import MANIFEST, inner_releases

    inner = inner_releases(path) if path.is_dir() and not (path / MANIFEST).exists() else []
    if len(inner) < 2:
        record, holds = _audit_one(path, verify_key, samples, confidence, as_json=as_json)
    else:
        found = {}
        for place in inner:
            if not as_json:
                line("folder", str(place), width=WIDTH)
            found[place.name] = _audit_one(place, verify_key, samples, confidence, as_json=as_json)
        record = {"releases": {name: one for name, (one, _) in found.items()}}
        holds = all(one for _, one in found.values())
    if as_json:
        print_json(record)
    if not holds:
        raise PrivacyRefused("the claimed epsilon does not hold: do not release with this mechanism")


def _audit_one(
    path: Path, verify_key: Path | None, samples: int | None, confidence: float, *, as_json: bool
) -> tuple[dict[str, Any], bool]:
    """Audit a release or a mechanism. Print the result unless `as_json`; return its record, and whether ε holds."""
    if path.is_dir():
        found = _released(path, verify_key, quiet=as_json)
    elif verify_key is not None:
        raise InvalidInput(f"--verify-key is for releases, and {path} is not a folder: give the folder")
    else:
        found = _of_mechanism(_mechanism(path))
    record, lines, holds = found.record, found.lines, found.holds
    if samples is not None:
        if found.mechanism is None:
            raise InvalidInput(f"--samples is for mechanisms, and {path} is {found.noun}: leave it out")
        measured = _measured(found.mechanism, samples, confidence)
        holds = holds and not measured.refuted
        lines.append(("sampled", str(measured)))
        record["sampled"] = {
            "samples": measured.samples,
            "confidence": measured.confidence,
            "epsilon_at_least": measured.epsilon_lower,
            "smallest_excess_shown": measured.smallest_excess,
            "refuted": measured.refuted,
        }
    if not as_json:
        for name, text in lines:
            line(name, text, width=WIDTH)
        if found.show is not None:
            found.show()
    return record, holds


@dataclass(frozen=True)
class Audited:
    """What was checked and proven: for `--json`, and in words."""

    record: dict[str, Any]
    lines: list[tuple[str, Cell]]
    holds: bool
    noun: str = "a mechanism"
    mechanism: FiniteMechanism | None = None
    show: Callable[[], None] | None = None


def _released(path: Path, verify_key: Path | None, *, quiet: bool) -> Audited:
    """Check every file and row of a folder, and prove its ε. A kind of release is one function here."""
    from labeldp.artifact.manifest import kind_in
    from labeldp.release.sums import is_answer

    kind = SUMS if is_answer(path) else kind_in(path)
    if kind == SUMS:
        return _sums(path, verify_key)
    if kind == SCORE:
        from labeldp.evaluate.score import Score

        return _figures(path, verify_key, Score, show_score)
    if kind == REPORT:
        from labeldp.evaluate.report import Report

        return _figures(path, verify_key, Report, show_report)
    return _labels(path, verify_key, quiet=quiet)


def _labels(path: Path, verify_key: Path | None, *, quiet: bool) -> Audited:
    from labeldp.artifact.description import epsilon_parts
    from labeldp.artifact.reader import Message

    message = Message.open(path, verify_key=verify_key)
    with phases(quiet=quiet) as phase:
        tick = phase("checking", message.records)
        for _, codes in message.batches():  # checks every row, and after the last one that all ids differ
            if tick is not None:
                tick(codes.size)
    proven, header = _of_mechanism(message.mechanism), message.header
    count = len(message.manifest.batches)
    batches = f"{count} {'batch' if count == 1 else 'batches'}"
    labels = float(header.entries * message.mechanism.epsilon_exact)
    prior = float(message.epsilon_exact) - labels
    about: list[tuple[str, Cell]] = [
        ("rows", f"{message.manifest.records:,} in {batches}, as listed; every code fits the mechanism"),
        ("ids", "all different"),
        ("epsilon", f"{message.epsilon:g} = {prior:.4g} prior + {labels:.4g} labels, which adds up exactly"),
    ]
    if (persons := header.persons) is not None:
        times = "" if persons.entries == 1 else f": {persons.entries} times what the mechanism proves for a label"
        where = f"the messages of {' and '.join(persons.shared)} together" if persons.shared else "the message"
        about.append(("unit", f"a person, with at most {count_of(persons.entries, 'label')} in {where}{times}"))
    more = {"records": message.manifest.records, "ids_unique": True}
    return _audited(message, epsilon_parts(message.mechanism, header.entries) | more, about, proven)


def _sums(path: Path, verify_key: Path | None) -> Audited:
    from labeldp.release.sums import SumsAnswer

    answer = SumsAnswer.open(path, verify_key=verify_key)  # reads every row
    records, weighted = answer.manifest.records, answer.sums.weighting is not None
    about: list[tuple[str, Cell]] = [("records", f"{records:,}, all ids different")]
    about += _weighted(answer.sums.size if weighted else None)
    return _audited(answer, {"records": records, "ids_unique": True}, about, _of_sums(answer.sums.proof()))


def _figures(path: Path, verify_key: Path | None, kind: type[Any], show: Callable[[Any], None]) -> Audited:
    """Check a folder whose figures follow from noisy sums. They are shown too."""
    from labeldp.evaluate.groups import FiguresAnswer

    answer = FiguresAnswer.open(path, kind, verify_key)
    about: list[tuple[str, Cell]] = [("figures", f"{answer.manifest.records:,}, which follow from the noisy sums")]
    about += _weighted(answer.figures.persons)
    found = _audited(answer, {}, about, _of_sums(answer.figures.proof()))
    found.record["figures"] = answer.figures.to_arrow().to_pylist()
    return replace(found, show=lambda: show(answer.figures))


def _audited(opened: Opened, more: dict[str, Any], about: list[tuple[str, Cell]], proven: Audited) -> Audited:
    """Add what holds for every folder to what was proven. Anything that does not hold was refused before."""
    manifest, signature = opened.manifest, opened.signature
    noun = next(kind.noun for kind in ReleaseKind if kind == manifest.kind)
    what = "these sums" if manifest.kind == SUMS else f"this {noun.split()[-1]}"
    signed = f"none: nothing shows who wrote {what}"
    if signature is not None:
        signed = f"signed by {signature.key}, {'verified' if signature.verified else 'not verified: give --verify-key'}"
    ignored = manifest.ignored_files(opened.path)
    others = f"no other file but {', '.join(ignored)}, left by a desktop and ignored" if ignored else "no other file"
    lines: list[tuple[str, Cell]] = [
        ("release", manifest.release),
        ("signature", signed),
        ("files", f"{len(manifest.files)}, each with the size and SHA-256 in manifest.json, and {others}"),
    ]
    message = {
        **asdict(manifest),
        **more,
        "signed_by": None if signature is None else signature.key,
        "signature_verified": signature is not None and signature.verified,
    }
    record = proven.record | {"message": message}
    return replace(proven, record=record, lines=[*lines, *about, *proven.lines], noun=noun)


def _mechanism(path: Path) -> Mechanism:
    from labeldp.artifact.manifest import release_folder
    from labeldp.mechanisms import Mechanism

    if not path.is_file():
        raise InvalidInput(f"there is no file or folder {path}: give the folder of a release, or a mechanism.json")
    try:
        text = read_text(path)
    except InvalidInput:
        if path.suffix.lower() != ".json":
            release_folder(path)  # for a zip file or a labels file, this error names what to give instead
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


def _weighted(persons: int | None) -> Iterator[tuple[str, Cell]]:
    """Return what ε is for, if it is for persons whose rows are weighted."""
    if persons is not None:
        yield "unit", f"a person: {persons:,}, each of whom counts as one, whatever the number of rows"


def _of_sums(proof: SumsProof) -> Audited:
    """Return the proof of noisy sums, which adds up the costs of their answers."""
    record = {
        "kind": "private sums",
        "epsilon_claimed": proof.epsilon_claimed,
        "epsilon_proven": float(proof.total),
        "answers": [
            asdict(one) | {"sensitivity": str(one.sensitivity), "epsilon": str(one.epsilon)} for one in proof.lines
        ],
        "holds": proof.holds,
    }
    lines: list[tuple[str, Cell]] = [("claimed", f"ε = {float(proof.epsilon_claimed):.12g}")]
    lines += [("" if number else "answers", str(one)) for number, one in enumerate(proof.lines)]
    lines += [
        ("in all", f"ε = {float(proof.total):.12g}"),
        ("verdict", Text.assemble(("proven", "green"), ": the exact costs add up to at most ε")),
    ]
    return Audited(record, lines, proof.holds)


def _of_mechanism(mechanism: Mechanism) -> Audited:
    """Return the proof of a mechanism, which bounds the ratio of its integers."""
    from labeldp.mechanisms import FiniteMechanism, verify

    proof = verify(mechanism)
    assert isinstance(mechanism, FiniteMechanism), "others were refused by verify"
    record = {
        "mechanism": mechanism.kind,
        "digest": mechanism.digest,
        "epsilon_claimed": proof.epsilon_claimed,
        "worst_ratio": str(proof.ratio),
        "epsilon_proven": proof.epsilon_proven,
        "holds": proof.holds,
    }
    low, high = proof.low_symbol, proof.high_symbol
    proven = Text.assemble(("proven", "green"), ": the exact ratio is at most e^ε")
    lines: list[tuple[str, Cell]] = [
        ("mechanism", f"{mechanism.kind}, {mechanism.outputs.size:,} outputs"),
        ("digest", mechanism.digest),
        ("claimed", f"ε = {float(proof.epsilon_claimed):.12g}"),
        ("worst", str(proof.ratio)),
        ("", f"= e^{proof.epsilon_proven:.12g}: output {proof.output}, symbol {high} against symbol {low}"),
        ("verdict", proven if proof.holds else Text("NOT private", "red")),
    ]
    prior = mechanism.prior
    if prior is not None and prior.epsilon_exact > 0:
        total, paid = prior.epsilon_exact + mechanism.epsilon_exact, prior.epsilon_exact
        lines.append(("in all", f"ε = {float(total):.12g}, of which {float(paid):.6g} paid for the private prior"))
    return Audited(record, lines, proof.holds, mechanism=mechanism)
