"""Part 6 of `make bench`: what can be shown about randomizers at ε = 1, ours and those of peers.

    python benchmarks/auditing.py [--quick] [--json FILE] [--plot FILE]

Three audits, of labels from 0 to 400 or of 6 categories:

- proof: `labeldp.mechanisms.verify` on the table of integers that is sampled, in rational arithmetic. Only our discrete mechanisms have such a table.
  OpenDP samples exactly too and publishes proofs of its constructions, which no program here can check.
- outputs: `labeldp.evaluate.measure` runs the randomizer and gives a lower bound on ε that is wrong once in 100,000 audits.
- last bits: the same, but only the place of the last bit of each output is looked at. That is a function of the output, so its bound
  holds for the output too. It shows when floats tell neighbouring labels apart that the noise was meant to hide.

A bound above 1 refutes ε = 1. A bound below 1 refutes nothing: "finds from" is the ε that would have been refuted 99 times in 100.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from bench.environments import PeerUnavailableError, Worker
from bench.part import finish, parser, say
from bench.results import Column, Result, Table
from labeldp import Domain, Prior, PrivacyRefused
from labeldp.evaluate import measure
from labeldp.mechanisms import DiscreteLaplace, DiscreteStaircase, Laplace, RandomizedResponse, RROnBins, verify
from labeldp.mechanisms.bias_variance import BiasVariance

EPSILON, UPPER, CATEGORIES = 1.0, 400, 6
CONFIDENCE = 0.99999
RANGE, CLASSES = (0.0, float(UPPER)), tuple(float(c) for c in range(CATEGORIES))
Draw = Callable[[np.ndarray], np.ndarray]


@dataclass
class Audited:
    """A randomizer: the labels to compare, how many outputs it can afford, and whether outputs are floats."""

    name: str
    draw: Draw
    labels: tuple[float, ...]
    samples: int
    floats: bool
    mechanism: object = None
    ours: bool = False


def main() -> int:
    options = parser(__doc__).parse_args()
    return finish(options, lambda: run(quick=options.quick), draw_picture)


def run(*, quick: bool = False, peers: bool = True) -> Result:
    """All audits of all randomizers."""
    command = "python benchmarks/auditing.py" + (" --quick" if quick else "")
    result = Result("auditing", "What audits show about randomizers that claim ε = 1", command, quick=quick)
    table = Table(
        "audits",
        f"Randomizers that claim ε = 1: what was proven, and lower bounds on ε from outputs and from their last bits alone "
        f"(confidence {CONFIDENCE}).",
        [
            Column("name", "randomizer"),
            Column("proof", "exact proof"),
            Column("bound", "ε at least, outputs", ".3f"),
            Column("power", "finds from", ".3f"),
            Column("bits", "ε at least, last bits", ".3f"),
            Column("samples", "outputs drawn", ",d"),
            Column("verdict", "so"),
        ],
    )
    share = 0.05 if quick else 1.0
    with ExitStack() as stack:
        audited = ours() + plain_numpy() + opendp()
        if peers:
            audited += others(stack, result)
        for one in audited:
            row = audit(one, max(5_000, int(one.samples * share)))
            table.add(**row)
            say(f"auditing: {one.name}: {row['verdict']}")
    result.tables.append(table)
    result.plot = {row["name"]: max(row["bound"], row["bits"] or 0.0) for row in table.rows}
    return result


def audit(one: Audited, samples: int) -> dict:
    """The row of one randomizer."""
    settings = {"epsilon": EPSILON, "samples": samples, "confidence": CONFIDENCE}
    seen = measure(one.draw, one.labels, **settings)
    bits = measure(lambda labels: last_bit(one.draw(labels)), one.labels, **settings) if one.floats else None
    refuted = seen.refuted or (bits is not None and bits.refuted)
    proof = proven(one.mechanism)
    verdict = "refuted" if refuted else "proven" if proof.startswith("ε") else "not refuted"
    return {
        "name": one.name,
        "proof": proof,
        "bound": seen.epsilon_lower,
        "power": EPSILON + seen.smallest_excess,
        "bits": bits.epsilon_lower if bits else None,
        "samples": samples,
        "verdict": verdict,
    }


def proven(mechanism: object) -> str:
    """What `verify` says of the integers that are sampled."""
    if mechanism is None:
        return "no table of integers to check"
    try:
        proof = verify(mechanism)
    except PrivacyRefused:
        return "refused: floats decide"
    return f"ε ≤ {proof.epsilon_proven:.9f}" if proof.holds else "does not hold"


def last_bit(outputs: np.ndarray) -> np.ndarray:
    """The place of the last one among the binary digits of each output; −2000 for zero."""
    numbers, exponents = np.frexp(np.asarray(outputs, dtype=np.float64))
    whole = np.abs(numbers * 2.0**53).astype(np.int64)
    lowest = whole & -whole
    places = np.log2(np.maximum(lowest, 1)) + exponents - 53
    return np.where(whole == 0, -2000.0, places)


def ours() -> list[Audited]:
    """Our mechanisms, and our one for comparison that floats decide."""
    domain = Domain.integers(0, UPPER)
    values = np.arange(UPPER + 1.0)
    prior = Prior(values, np.exp(-values / 90))
    exact = {
        "labeldp, RR-on-Bins": RROnBins.optimal(prior, EPSILON),
        "labeldp, bias-variance": BiasVariance.optimal(prior, EPSILON, 0.01, domain=domain),
        "labeldp, discrete Laplace": DiscreteLaplace(domain, EPSILON),
        "labeldp, discrete staircase": DiscreteStaircase(domain, EPSILON),
    }
    found = [Audited(name, one.randomize, RANGE, 1_000_000, True, one, ours=True) for name, one in exact.items()]
    response = RandomizedResponse(Domain.integers(0, CATEGORIES - 1), EPSILON)
    found.insert(
        0, Audited("labeldp, randomized response", response.randomize, CLASSES, 1_000_000, False, response, True)
    )
    floats = Laplace(domain, EPSILON)
    found.append(
        Audited("labeldp, Laplace in floats (refused)", floats.randomize, RANGE, 1_000_000, True, floats, True)
    )
    return found


def plain_numpy() -> list[Audited]:
    """What a few lines of NumPy give."""
    generator = np.random.default_rng()
    scale, stop = UPPER / EPSILON, -np.expm1(-EPSILON / UPPER)
    return [
        Audited(
            "NumPy, Laplace in floats",
            lambda labels: labels + generator.laplace(0, scale, labels.size),
            RANGE,
            1_000_000,
            True,
        ),
        Audited(
            "NumPy, integers",
            lambda labels: labels + generator.geometric(stop, labels.size) - generator.geometric(stop, labels.size),
            RANGE,
            1_000_000,
            True,
        ),
    ]


def opendp() -> list[Audited]:
    """OpenDP's randomized response, integer Laplace, and Laplace for floats, which it draws on a grid."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    keep = float(np.exp(EPSILON) / (np.exp(EPSILON) + CATEGORIES - 1))
    response = dp.m.make_randomized_response(list(range(CATEGORIES)), prob=keep)
    scale = UPPER / EPSILON
    whole = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=scale)
    space = dp.vector_domain(dp.atom_domain(T="f64", nan=False)), dp.l1_distance(T="f64")
    real = dp.m.make_laplace(*space, scale=scale)

    def categories(labels: np.ndarray) -> np.ndarray:
        return np.array([response(int(label)) for label in labels], dtype=float)

    def integers(labels: np.ndarray) -> np.ndarray:
        return np.array(whole(labels.astype(np.int64)), dtype=float)

    return [
        Audited("OpenDP, randomized response", categories, CLASSES, 60_000, False),
        Audited("OpenDP, integer Laplace", integers, RANGE, 200_000, True),
        Audited("OpenDP, Laplace on a grid of floats", lambda labels: np.array(real(labels)), RANGE, 100_000, True),
    ]


def others(stack: ExitStack, result: Result) -> list[Audited]:
    """The peers that have environments of their own."""
    wanted = {
        "diffprivlib": ("diffprivlib_worker.py", [
            ("diffprivlib, Laplace", {"name": "Laplace"}, RANGE, True),
            ("diffprivlib, LaplaceTruncated", {"name": "LaplaceTruncated"}, RANGE, True),
            ("diffprivlib, Staircase", {"name": "Staircase"}, RANGE, True),
            ("diffprivlib, Snapping", {"name": "Snapping"}, RANGE, True),
            ("diffprivlib, Geometric", {"name": "Geometric"}, RANGE, True),
        ]),
        "multi-freq-ldpy": ("multi_freq_ldpy_worker.py", [
            ("multi-freq-ldpy, GRR", {"name": "compiled loop", "categories": CATEGORIES}, CLASSES, False),
        ]),
        "pure-ldp": ("pure_ldp_worker.py", [
            ("pure-ldp, direct encoding", {"categories": CATEGORIES}, CLASSES, False),
        ]),
    }  # fmt: skip
    found: list[Audited] = []
    for peer, (script, randomizers) in wanted.items():
        try:
            worker = stack.enter_context(Worker(peer, script))
            result.peers[peer] = ", ".join(f"{package} {number}" for package, number in worker.ask("versions").items())
            for name, given, labels, floats in randomizers:
                answer = worker.ask("draw", epsilon=EPSILON, count=10, label=labels[-1], **given)
                assert answer["outputs"].size == 10
                samples = 200_000 if peer == "diffprivlib" else 500_000
                found.append(Audited(name, partial(drawn, worker, given), labels, samples, floats))
        except PeerUnavailableError as error:
            result.peers[peer] = f"no figures: {error}"
    return found


def drawn(worker: Worker, given: dict, labels: np.ndarray) -> np.ndarray:
    """Outputs of a peer; an audit asks for one label at a time."""
    return worker.ask("draw", epsilon=EPSILON, count=labels.size, label=float(labels[0]), **given)["outputs"]


def draw_picture(result: Result, path: Path) -> None:
    """The largest bound of each randomizer."""
    from bench.pictures import dots

    mine = {name: value for name, value in result.plot.items() if name.startswith("labeldp")}
    rest = {name: value for name, value in result.plot.items() if name not in mine}
    dots(
        {"Ours": mine, "Peers": rest},
        path,
        title="Largest ε that an audit showed, ε = 1 claimed",
        xlabel="lower bound on ε",
        ours="labeldp",
        claim=EPSILON,
    )


if __name__ == "__main__":
    raise SystemExit(main())
