"""`labeldp audit` of an answer with sums: read it strictly and prove its ε again."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from labeldp.cli.console import line, print_json


def audit_sums(path: Path, width: int, *, as_json: bool) -> None:
    """Print the proof. An answer that contradicts itself, or costs more than it claims, was refused before."""
    from labeldp.central.sums_answer import SumsAnswer

    answer = SumsAnswer.open(path)
    proof = answer.sums.proof()
    if as_json:
        print_json(
            {
                "kind": "private sums",
                "records": answer.sums.records,
                "epsilon_claimed": proof.epsilon_claimed,
                "epsilon_proven": float(proof.total),
                "answers": [
                    {
                        "kind": one.kind,
                        "numbers": one.numbers,
                        "sensitivity": str(one.sensitivity),
                        "scale": one.scale,
                        "epsilon": str(one.epsilon),
                    }
                    for one in proof.lines
                ],
                "holds": proof.holds,
                "signature_verified": False,
            }
        )
        return
    line("records", f"{answer.sums.records:,}, all ids different", width=width)
    line("claimed", f"ε = {float(proof.epsilon_claimed):.12g}", width=width)
    for number, one in enumerate(proof.lines):
        line("" if number else "answers", str(one), width=width)
    line("in all", f"ε = {float(proof.total):.12g}", width=width)
    line(
        "signature",
        "none: nothing shows who wrote these sums, or that numbers, ids and PRIVACY.md are unchanged",
        width=width,
    )
    verdict = Text.assemble(("proven", "green"), ": the exact costs add up to at most ε")
    line("verdict", verdict, width=width)
