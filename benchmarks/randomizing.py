"""Part 2 of `make bench`: labels per second of exact randomizers, beside peers, insecure NumPy and what the machine allows.

    python benchmarks/randomizing.py [--quick] [--json FILE] [--plot FILE]

Three groups of work on labels from 0 to 400, ε = 1: randomized response over 6 categories, integer Laplace noise, and staircase
noise. Every contender runs on one label after another or on an array, whichever is its fastest documented way. All take turns in every round.
Ours also encode the labels and look the outputs up. Slow contenders get fewer labels, because their time is proportional.

The column "decided by" says what a release would rest on: integers or floats, and which randomness.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from bench.environments import PeerUnavailableError, Worker
from bench.part import finish, parser, say
from bench.results import PLAIN, Column, Contest, Result, Table, Target, written
from bench.timing import Times, alternately
from labeldp import Domain
from labeldp.mechanisms import DiscreteLaplace, DiscreteStaircase, RROnBins
from labeldp.sampling import KeyedRandomness, OsEntropy

EPSILON = 1.0
OUTPUTS = [20.0, 60.0, 120.0, 180.0, 240.0, 320.0]
CATEGORIES, UPPER = len(OUTPUTS), 400
GROUPS = {
    "response": "Randomized response over 6 categories",
    "laplace": "Laplace noise for labels from 0 to 400",
    "staircase": "Staircase noise for labels from 0 to 400",
}
EXACT, FLOATS = "integers", "floats"


@dataclass
class Entrant:
    """A contender: its group, name, work on `count` labels, and what decides its outputs."""

    group: str
    name: str
    count: int
    job: Callable[[], object]
    decided: str
    ours: bool = False


def main() -> int:
    options = parser(__doc__).parse_args()
    return finish(options, lambda: measure(quick=options.quick), draw)


def measure(*, quick: bool = False, peers: bool = True) -> Result:
    """All contenders, turn by turn within their group."""
    command = "python benchmarks/randomizing.py" + (" --quick" if quick else "")
    result = Result("randomizing", "Labels per second of randomizers", command, quick=quick)
    many, few, rounds = (200_000, 3_000, 3) if quick else (5_000_000, 50_000, 5)
    with ExitStack() as stack:
        entrants = ours(many) + numpy_entrants(many) + opendp(few)
        if peers:
            entrants += others(stack, few, many // 5, result)
        limits = machine_limits(many)
        taken = {}
        for group in (*GROUPS, "limit"):
            members = [one for one in (*entrants, *limits) if one.group == group]
            jobs = {one.name: one.job for one in members}
            times = alternately(jobs, rounds)
            taken[group] = {
                one.name: Times(tuple(second / one.count for second in times[one.name].seconds)) for one in members
            }
            say(f"randomizing: {group}, {len(members)} contenders")
    tabulate(result, entrants, limits, taken)
    return result


def ours(count: int) -> list[Entrant]:
    """Labeldp's mechanisms, with the randomness of arrays and of releases."""
    generator = np.random.default_rng(1)
    labels = generator.uniform(0, UPPER, count)
    ids = generator.permutation(count)
    fewer = count // 5
    texts = pa.array([f"customer-{number:012d}" for number in ids[:fewer]])
    bins, keyed = RROnBins(OUTPUTS, EPSILON), KeyedRandomness.generate()
    domain = Domain.integers(0, UPPER)
    laplace, staircase = DiscreteLaplace(domain, EPSILON), DiscreteStaircase(domain, EPSILON)
    whole = np.floor(labels)
    fresh, by_key = f"{EXACT}, AES stream keyed by the OS", f"{EXACT}, AES of id and symbol"
    return [
        Entrant("response", "labeldp, array", count, lambda: bins.randomize(labels, randomness=OsEntropy()), fresh, True),
        Entrant("response", "labeldp, integer ids", count, lambda: bins.randomize(labels, ids, keyed), by_key, True),
        Entrant("response", "labeldp, text ids", fewer, lambda: bins.randomize(labels[:fewer], texts, keyed), by_key, True),
        Entrant("laplace", "labeldp, array", count, lambda: laplace.randomize(whole, randomness=OsEntropy()), fresh, True),
        Entrant("laplace", "labeldp, integer ids", count, lambda: laplace.randomize(whole, ids, keyed), by_key, True),
        Entrant("staircase", "labeldp, array", count, lambda: staircase.randomize(whole, randomness=OsEntropy()), fresh, True),
    ]  # fmt: skip


def numpy_entrants(count: int) -> list[Entrant]:
    """The same distributions from floats and a predictable generator: no protection against either."""
    generator = np.random.default_rng(0)
    labels = generator.uniform(0, UPPER, count)
    whole = np.floor(labels).astype(np.int64)
    mechanism = RROnBins(OUTPUTS, EPSILON)
    thresholds, outputs = mechanism.encoder.thresholds, mechanism.outputs
    keep = float(mechanism.table.probabilities()[0, 0])
    stop = -np.expm1(-EPSILON / UPPER)

    def response() -> np.ndarray:
        bins = np.searchsorted(thresholds, labels)
        others_ = generator.integers(0, outputs.size - 1, labels.size)
        others_ += others_ >= bins
        return outputs[np.where(generator.random(labels.size) < keep, bins, others_)]

    def geometric() -> np.ndarray:
        return whole + generator.geometric(stop, whole.size) - generator.geometric(stop, whole.size)

    def laplace() -> np.ndarray:
        return labels + generator.laplace(0, UPPER / EPSILON, labels.size)

    predictable = "PCG64, not cryptographic"
    return [
        Entrant("response", "NumPy, insecure", count, response, f"{FLOATS}, {predictable}"),
        Entrant("laplace", "NumPy, insecure, integers", count, geometric, f"{FLOATS}, {predictable}"),
        Entrant("laplace", "NumPy, insecure, floats", count, laplace, f"{FLOATS}, {predictable}"),
    ]


def opendp(count: int) -> list[Entrant]:
    """OpenDP: vectors of integers and floats; randomized response has no vector form."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    keep = float(np.exp(EPSILON) / (np.exp(EPSILON) + CATEGORIES - 1))
    response = dp.m.make_randomized_response(list(range(CATEGORIES)), prob=keep)
    few = max(1, count // 10)
    categories = np.random.default_rng(0).integers(0, CATEGORIES, few).tolist()
    whole = np.random.default_rng(0).integers(0, UPPER, count)
    scale = UPPER / EPSILON
    integers = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=scale)
    space = dp.vector_domain(dp.atom_domain(T="f64", nan=False)), dp.l1_distance(T="f64")
    floats = dp.m.make_laplace(*space, scale=scale)
    real = whole.astype(np.float64)
    decided = f"{EXACT}, OS entropy"
    return [
        Entrant("response", "OpenDP", few, lambda: [response(label) for label in categories], decided),
        Entrant("laplace", "OpenDP, integers", count, lambda: integers(whole), decided),
        Entrant("laplace", "OpenDP, floats on a grid", count, lambda: floats(real), decided),
    ]


def others(stack: ExitStack, count: int, more: int, result: Result) -> list[Entrant]:
    """The peers that have environments of their own; those that cannot be had are noted."""
    found: list[Entrant] = []
    for name, script, make in (
        ("diffprivlib", "diffprivlib_worker.py", _diffprivlib),
        ("multi-freq-ldpy", "multi_freq_ldpy_worker.py", _multi_freq_ldpy),
        ("pure-ldp", "pure_ldp_worker.py", _pure_ldp),
    ):
        try:
            worker = stack.enter_context(Worker(name, script))
            result.peers[name] = ", ".join(f"{package} {number}" for package, number in worker.ask("versions").items())
            found += make(worker, count, more)
        except PeerUnavailableError as error:
            result.peers[name] = f"no figures: {error}"
    return found


def _diffprivlib(worker: Worker, count: int, _: int) -> list[Entrant]:
    def job(name: str) -> Callable[[], object]:
        return lambda: worker.ask("seconds", name=name, epsilon=EPSILON, count=count)["seconds"]

    decided = f"{FLOATS}, OS entropy"
    return [
        Entrant("laplace", "diffprivlib, Laplace", count, job("Laplace"), decided),
        Entrant("laplace", "diffprivlib, Geometric", count, job("Geometric"), decided),
        Entrant("staircase", "diffprivlib, Staircase", count, job("Staircase"), f"{FLOATS}, PCG64, not cryptographic"),
    ]


def _multi_freq_ldpy(worker: Worker, count: int, more: int) -> list[Entrant]:
    def job(name: str, size: int) -> Callable[[], object]:
        return lambda: worker.ask("seconds", name=name, epsilon=EPSILON, count=size, categories=CATEGORIES)["seconds"]

    decided = f"{FLOATS}, Mersenne Twister, not cryptographic"
    return [
        Entrant("response", "multi-freq-ldpy", count, job("documented", count), decided),
        Entrant("response", "multi-freq-ldpy, in a compiled loop", more, job("compiled loop", more), decided),
    ]


def _pure_ldp(worker: Worker, count: int, _: int) -> list[Entrant]:
    return [
        Entrant(
            "response",
            "pure-ldp",
            count,
            lambda: worker.ask("seconds", epsilon=EPSILON, count=count, categories=CATEGORIES)["seconds"],
            f"{FLOATS}, Mersenne Twister, not cryptographic",
        )
    ]


def machine_limits(count: int) -> list[Entrant]:
    """What one label costs at least: to be copied, encrypted, or drawn from the operating system."""
    labels, target = np.random.default_rng(0).random(count), np.empty(count)
    piece = 1 << 20
    plain, room = bytes(piece), bytearray(piece + 16)

    def encrypt(size: int, mode: Callable[[], modes.Mode]) -> Callable[[], None]:
        def job() -> None:
            encryptor = Cipher(algorithms.AES(bytes(16)), mode()).encryptor()
            for _ in range(-(-size // piece)):
                encryptor.update_into(plain, room)

        return job

    def entropy() -> None:
        for _ in range(-(-8 * count // piece)):
            os.urandom(piece)

    return [
        Entrant("limit", "memory copy, 8 bytes", count, lambda: np.copyto(target, labels), ""),
        Entrant("limit", "AES stream, 8 bytes", count, encrypt(8 * count, lambda: modes.CTR(bytes(16))), ""),
        Entrant("limit", "AES, one block of 16 bytes", count, encrypt(16 * count, modes.ECB), ""),
        Entrant("limit", "operating system's entropy, 8 bytes", count, entropy, ""),
    ]


def tabulate(
    result: Result, entrants: list[Entrant], limits: list[Entrant], taken: dict[str, dict[str, Times]]
) -> None:
    """A table for each group, and one for what the machine allows."""
    for group, title in GROUPS.items():
        table = Table(
            group,
            f"{title}: labels per second, and time per label as a multiple of ours on an array (below 1: faster than we are).",
            [
                Column("name", "randomizer"),
                Column("rate", "labels per second", ",.0f"),
                Column("ratio", "time / ours", PLAIN),
                Column("spread", "least to largest"),
                Column("decided", "decided by"),
            ],
        )
        first = taken[group]["labeldp, array"]
        for one in (one for one in entrants if one.group == group):
            times = taken[group][one.name]
            ratio = times.over(first)
            table.add(
                name=one.name,
                rate=1 / times.median,
                ratio=ratio.median,
                spread=f"{written(ratio.low, PLAIN)} to {written(ratio.high, PLAIN)}",
                decided=one.decided,
            )
        result.tables.append(table)
        rate = 1 / first.median
        rates = {one.name: rate / taken[group][one.name].over(first).median for one in entrants if one.group == group}
        peers = {one.name: rates[one.name] for one in entrants if one.group == group and not one.ours}
        for one in (one for one in entrants if one.group == group and one.ours):
            key = title if one.name == "labeldp, array" else f"{title}, {one.name.removeprefix('labeldp, ')}"
            result.contests.append(Contest(key, "high", {one.name: rates[one.name]}, peers, "labels per second"))
    table = Table(
        "limits",
        "What the machine allows: labels per second if nothing but this were done, and as a multiple of our randomized response on an array.",
        [Column("name", "limit"), Column("rate", "labels per second", ",.0f"), Column("ratio", "× ours", ".1f")],
    )
    array = 1 / taken["response"]["labeldp, array"].median
    for one in limits:
        rate = 1 / taken["limit"][one.name].median
        table.add(name=one.name, rate=rate, ratio=rate / array)
    result.tables.append(table)
    over_numpy = taken["response"]["labeldp, array"].over(taken["response"]["NumPy, insecure"]).median
    result.targets.append(Target("our time over insecure NumPy's, randomized response", 3, over_numpy, "×"))
    for name, limit in (("OpenDP, integers", 50), ("diffprivlib, Geometric", 50), ("diffprivlib, Laplace", 50)):
        if name in taken["laplace"]:
            faster = taken["laplace"][name].over(taken["laplace"]["labeldp, array"]).median
            result.targets.append(Target(f"our speed over {name}", limit, faster, "×", "high"))
    result.plot = {
        GROUPS.get(group, "Limits of the machine").split(" for ")[0]: {
            name: 1 / times.median for name, times in members.items()
        }
        for group, members in taken.items()
    }


def draw(result: Result, path: Path) -> None:
    """Labels per second, all contenders."""
    from bench.pictures import dots

    dots(
        result.plot, path, title="Labels randomized per second", xlabel="labels per second (log scale)", ours="labeldp"
    )


if __name__ == "__main__":
    raise SystemExit(main())
