"""`labeldp audit`: check a whole message, prove the ε of its mechanism, and test the sampler."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from labeldp.cli.audit_sums import audit_sums
from labeldp.cli.console import Cell, line, phases, print_json
from labeldp.cli.options import Json, VerifyKey
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.json_text import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from labeldp.audit import Measurement
    from labeldp.mechanisms import FiniteMechanism, Mechanism
    from labeldp.mechanisms.finite import Proof
    from labeldp.message.reader import Message

WIDTH = 10
"""The columns for the names, of which "mechanism" is one of the longest."""


def audit(
    path: Annotated[
        Path,
        typer.Argument(metavar="MESSAGE|JSON", help="A message folder, a mechanism.json, or a folder of labeldp sums."),
    ],
    verify_key: VerifyKey = None,
    samples: Annotated[
        int | None, typer.Option(metavar="N", help="Also draw N labels and test the running sampler.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="The confidence of the lower bound from samples.")] = 0.999999,
    as_json: Json = False,
) -> None:
    """Check every file and row of a message, and prove its ε in rational arithmetic.

    The proof is exact, for the integers that the mechanism samples, and needs no data.

    With --samples the sampler runs too, and its outputs alone give a lower bound of ε. That finds bugs in the sampler.

    The exit code is 2 if anything does not hold.

    \b
    Examples:
      labeldp audit message --verify-key sender-public.pem
      labeldp audit mechanism.json --samples 10000000
    """  # noqa: D301 - the escape keeps the lines of the examples
    from labeldp.audit import measure, verify
    from labeldp.central.sums_answer import is_answer
    from labeldp.mechanisms import FiniteMechanism

    if is_answer(path):
        if verify_key is not None or samples is not None:
            raise InvalidInput(
                f"--verify-key and --samples are for messages, and {path} is an answer with sums: leave them out"
            )
        audit_sums(path, WIDTH, as_json=as_json)
        return
    message = _checked(path, verify_key, quiet=as_json)
    mechanism = _mechanism(path) if message is None else message.mechanism
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
    if message is not None:
        record["message"] = _record(message)
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
        for name, text in (*_about(message), *_proven(mechanism, proof), *_sampled(measured)):
            line(name, text, width=WIDTH)
    if not proof.holds or (measured is not None and measured.refuted):
        raise PrivacyRefused("the claimed epsilon does not hold: do not release with this mechanism")


def _checked(path: Path, verify_key: Path | None, *, quiet: bool) -> Message | None:
    """The message in a folder, after every check of its files and rows; None for the file of a mechanism."""
    from labeldp.message.reader import Message

    if not path.is_dir():
        if verify_key is not None:
            raise InvalidInput(f"--verify-key is for messages, and {path} is not a folder: give the message's folder")
        return None
    message = Message.open(path, verify_key=verify_key)
    with phases(quiet=quiet) as phase:
        tick = phase("checking", message.records)
        for _, codes in message.batches():  # checks every row, and after the last one that all ids differ
            if tick is not None:
                tick(codes.size)
    return message


def _mechanism(path: Path) -> Mechanism:
    from labeldp.mechanisms import Mechanism
    from labeldp.message.reader import message_folder

    if not path.is_file():
        raise InvalidInput(f"there is no mechanism at {path}: give a message folder or a mechanism.json")
    try:
        text = read_text(path)
    except InvalidInput:
        if path.suffix.lower() != ".json":
            message_folder(path)  # a zip file or a labels file is not one, and this says what to give instead
        raise
    try:
        return Mechanism.from_json(text)
    except PrivacyRefused:
        raise
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error


def _record(message: Message) -> dict[str, Any]:
    """What was checked, for `--json`. Whatever does not hold was refused before."""
    signature = message.signature
    return {
        **asdict(message.manifest),
        "records": message.records,
        "ids_unique": True,
        "signed_by": None if signature is None else signature.key,
        "signature_verified": signature is not None and signature.verified,
    }


def _about(message: Message | None) -> Iterator[tuple[str, Cell]]:
    """What was checked of a message, in words."""
    if message is None:
        return
    manifest, signature = message.manifest, message.signature
    signed = "none: nothing shows who wrote this message"
    if signature is not None:
        signed = f"signed by {signature.key}, {'verified' if signature.verified else 'not verified: give --verify-key'}"
    prior, labels = float(Fraction(manifest.epsilon_prior)), float(Fraction(manifest.epsilon_labels))
    ignored = manifest.ignored_files(message.path)
    others = f"no other file but {', '.join(ignored)}, left by a desktop and ignored" if ignored else "no other file"
    count = len(message.manifest.batches)
    batches = f"{count} {'batch' if count == 1 else 'batches'}"
    yield "release", manifest.release
    yield "signature", signed
    yield "files", f"{len(manifest.files)}, each with the size and SHA-256 in manifest.json, and {others}"
    yield "rows", f"{message.records:,} in {batches}, as many as listed; every code fits the mechanism"
    yield "ids", "all different"
    yield "epsilon", f"{message.epsilon:g} = {prior:.4g} prior + {labels:.4g} labels, which adds up exactly"


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


def _sampled(measured: Measurement | None) -> Iterator[tuple[str, Cell]]:
    if measured is not None:
        yield "sampled", str(measured)
