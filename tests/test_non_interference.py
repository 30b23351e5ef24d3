"""Nothing that leaves the labels party depends on a label, but through an ε-DP step.

The same commands run on data sets that differ in labels only. Both ε-DP steps are pinned to the same results
(`pinned_release`), so every byte that leaves must be the same: files with their names, sizes, modes and dates, what Parquet says
of them, standard output, exit codes, and standard error without the lines that are marked as the labels party's own.

What may differ stands in `FOR_THE_LABELS_PARTY`. Beyond that SECURITY.md promises nothing about data sets that are refused:
a missing label, a label that is no number or lies between whole numbers where the bounds say so, all labels outside, any label
outside with `--out-of-range error`. All data sets here are valid.
"""

from __future__ import annotations

import os
import pickle
import re
import warnings
from functools import cache

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from labeldp import Domain, LabelDPRegressor, LabelRandomizer, LabelSource, Message, apply, privatize
from labeldp.sampling import KeyedRandomness
from pinned_release import FOR_THE_LABELS_PARTY, World, arrow_file, csv_file, leaks, pinned

RECORDS = 230
IDS = [(7919 * place) % 100_003 for place in range(RECORDS)]
TEXT_IDS = [f"order-{number}" for number in IDS]
WIDE_IDS = [f"{number:06d}" * 12 for number in IDS]
BASE = [round(100 * ((place * 0.618) % 1), 1) for place in range(RECORDS)]

TWINS = {
    "permuted": BASE[::-1],
    "sorted": sorted(BASE),
    "one label with more digits": [*BASE[:3], 12.345678901, *BASE[4:]],
    "one label with fewer digits": [*BASE[:3], 1, *BASE[4:]],
    "the same labels, written longer": [f"{label:.9f}" for label in BASE],
    "all the same": [50] * RECORDS,
    "at a bound": [0] * RECORDS,
    "at both bounds": [0, 100] * (RECORDS // 2),
    "many digits": [repr(label / 7) for label in BASE],
    "some outside the bounds": [*BASE[:5], 1e9, -1e9, *BASE[7:]],
    "many outside the bounds": [1e6 if place % 6 == 0 else label for place, label in enumerate(BASE)],
}
"""Other labels for the same ids in the same order; some of them are the same numbers in another spelling."""

BOUNDS = ["--epsilon", "2", "--lower", "0", "--upper", "100", "--cells", "8"]
PAPER = [*BOUNDS, "--mechanism", "rr-on-bins"]
CREATE = ["ledger", "create", "ledger.db", "--dataset", "d", "--budget", "5"]
CHARGE = ["--ledger", "ledger.db", "--dataset", "d"]


def command(*more, name="labels.csv", ids="id", settings=PAPER):
    """`labeldp privatize` with these options."""
    return ["privatize", name, "--label", "y", *(["--id", ids] if ids else []), *settings, "--out", "message", *more]


LEDGER = [["ledger", word, "ledger.db", *more] for word in ("show", "history") for more in ([], ["--json"])]
COMMANDS = {
    "plain": [command()],
    "keep order": [command("--keep-order")],
    "row numbers": [command(ids=None)],
    "row numbers, keep order": [command("--keep-order", ids=None)],
    "quiet": [command("--quiet")],
    "json": [command("--json")],
    "dry run": [command("--dry-run")],
    "dry run, json": [command("--dry-run", "--json")],
    "text ids": [command("--id-type", "str")],
    "auto": [command(settings=BOUNDS)],
    "no prior": [command("--mechanism", "randomized-response", settings=BOUNDS)],
    "key": [command("--key-file", "key")],
    "key, again": [command("--key-file", "key")] * 2,
    "ledger": [CREATE, command(*CHARGE), *LEDGER],
    "ledger and key": [CREATE, command(*CHARGE, "--key-file", "key"), *LEDGER, ["audit", "message"]],
    "too little budget": [[*CREATE[:-1], "1"], command(*CHARGE), *LEDGER],
    "in the way": [command(), command()],
    "clip all": [command("--out-of-range", "clip-all")],
}
TEXT_FILES = {"labels.csv": ",", "labels.tsv": "\t", "labels.csv.gz": ",", "labels.txt": "|"}
ARROW_FILES = ("labels.parquet", "labels.arrow", "labels.arrows")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("non-interference"))


def named(commands, name):
    """The same commands on an input of another name."""
    return [[name if word == "labels.csv" else word for word in one] for one in commands]


def ends_well(seen):
    return all(code == 0 for name, code in seen.items() if name.startswith("exit code"))


def from_csv(world, case, labels):
    ids = None if "row numbers" in case else IDS
    return world.run({"labels.csv": csv_file(ids, labels)}, COMMANDS[case])


@cache
def of_the_base(world, case):
    return from_csv(world, case, BASE)


def some_of(names, *fast):
    """Parameters of which only some run in `make test`. The others are in the group of slow tests."""
    return [name if name in fast else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("case", some_of(["plain", "keep order", "row numbers", "json"], "plain", "keep order"))
def test_labels(world, case, twin):
    assert leaks(of_the_base(world, case), from_csv(world, case, TWINS[twin])) == {}


@pytest.mark.parametrize(
    "twin",
    some_of(["one label with more digits", "at both bounds", "many outside the bounds"], "many outside the bounds"),
)
@pytest.mark.parametrize("case", COMMANDS)
def test_commands(world, case, twin):
    first = of_the_base(world, case)
    assert leaks(first, from_csv(world, case, TWINS[twin])) == {}
    assert ends_well(first) == (case not in ("too little budget", "in the way"))
    written = any(name.startswith("message/labels") for name in first)
    assert written == (case not in ("dry run", "dry run, json", "too little budget"))


@pytest.mark.parametrize("twin", ["one label with more digits"])
@pytest.mark.parametrize("name", TEXT_FILES)
def test_other_text_files(world, name, twin):
    commands = named([command("--keep-order"), ["audit", "message"]], name)
    first, second = (
        world.run({name: csv_file(TEXT_IDS, labels, TEXT_FILES[name])}, commands) for labels in (BASE, TWINS[twin])
    )
    assert ends_well(first)
    assert leaks(first, second) == {}


@pytest.mark.parametrize("twin", some_of(["all the same", "some outside the bounds"], "all the same"))
@pytest.mark.parametrize("rows", [0, 37], ids=["whole", "in pieces"])
@pytest.mark.parametrize("ids", [IDS, TEXT_IDS, WIDE_IDS], ids=["integers", "text", "wide rows"])
@pytest.mark.parametrize("name", some_of(ARROW_FILES, "labels.parquet"))
def test_arrow_files(world, name, ids, rows, twin):
    """Parquet packs a column of few values tightly, so the size of a label column says much about it."""
    for more in ([], ["--keep-order"]):
        commands = named([command(*more)], name)
        first, second = (
            world.run({name: arrow_file(ids, labels, rows=rows)}, commands) for labels in (BASE, TWINS[twin])
        )
        assert ends_well(first)
        assert leaks(first, second) == {}


LATER_IDS = [*IDS[:90], *range(200_000, 200_140)]
APPLY = ["apply", "message", "later.csv", "--label", "y", "--key-file", "key", "--ledger", "ledger.db"]
LATER = [
    CREATE,
    command(*CHARGE, "--key-file", "key"),
    APPLY,
    [*APPLY, "--json"],
    ["audit", "message"],
    ["ledger", "history", "ledger.db"],
]


@pytest.mark.parametrize("twin", some_of(TWINS, "permuted", "one label with more digits", "some outside the bounds"))
def test_a_later_batch(world, twin):
    """Some of its ids are in the message already. The second run of `apply` has nothing but those."""
    first, second = (
        world.run({"labels.csv": csv_file(IDS, BASE), "later.csv": csv_file(LATER_IDS, labels)}, LATER)
        for labels in (BASE, TWINS[twin])
    )
    assert ends_well(first)
    assert leaks(first, second) == {}


def label_texts():
    """Labels within the bounds, in as many spellings as CSV allows."""
    spelled = st.sampled_from(["{:.0f}", "{:.1f}", "{:.3f}", "{:.12f}", "{:.4e}", "{:g}"])
    return st.builds(lambda form, value: form.format(value), spelled, st.floats(0, 100))


PAIRS = given(
    twins=st.tuples(*[st.lists(label_texts(), min_size=5, max_size=5)] * 2),
    case=st.sampled_from(["plain", "keep order", "row numbers", "text ids", "key, again", "ledger and key"]),
)
UNSHRUNK = [Phase.explicit, Phase.reuse, Phase.generate]
"""To shrink a failure would take many minutes."""


def compare(world, twins, case):
    first, second = (from_csv(world, case, labels * (RECORDS // 5)) for labels in twins)
    assert ends_well(first)
    assert leaks(first, second) == {}


@settings(max_examples=8, phases=UNSHRUNK)
@PAIRS
def test_any_two_sets_of_labels(world, twins, case):
    compare(world, twins, case)


@pytest.mark.slow
@settings(max_examples=60, phases=UNSHRUNK)
@PAIRS
def test_any_two_of_many_sets_of_labels(world, twins, case):
    compare(world, twins, case)


def test_the_type_of_ids_is_read_off_the_ids_alone(world):
    """The file's first block decides whether ids are numbers. How many rows that is must not depend on labels."""
    ids = [*range(40), *(f"A{place}" for place in range(40, 80))]
    twins = [5] * 80, ["5.000000000000000"] * 80
    first, second = (world.run({"labels.csv": csv_file(ids, labels)}, [command()]) for labels in twins)
    assert leaks(first, second) == {}


# Which order the records come in must not count either, unless it is kept.


@pytest.mark.parametrize("ids", [IDS, TEXT_IDS], ids=["integers", "text"])
@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet"])
@pytest.mark.parametrize("mechanism", some_of(["rr-on-bins", "auto", "discrete-laplace"], "auto"))
def test_the_same_records_in_another_order(world, name, ids, mechanism):
    """Nothing but the randomness is pinned here: the codes are drawn from the labels as in real life."""
    made = csv_file if name.endswith("csv") else arrow_file
    commands = named([CREATE, command(*CHARGE, settings=[*BOUNDS, "--mechanism", mechanism]), *LEDGER], name)
    order = np.argsort(BASE, kind="stable")
    first = world.run({name: made(ids, BASE)}, commands, codes=False)
    second = world.run({name: made([ids[row] for row in order], [BASE[row] for row in order])}, commands, codes=False)
    assert ends_well(first)
    assert leaks(first, second) == {}


# The same from Python.


def in_python(labels, randomness, path):
    """What `LabelRandomizer` gives others: a file, a table, what is printed, and warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ids = None if randomness is None else IDS
        private = LabelRandomizer(2, Domain(0, 100, 8), mechanism="auto").randomize(labels, ids, randomness)
    private.save(path)
    return {
        "file": path.read_bytes(),
        "table": private.to_arrow(),
        "shown": repr(private),
        "pickle": pickle.dumps(private),
        "warnings": [str(one.message) for one in caught],
    }


@pytest.mark.parametrize("twin", [name for name in TWINS if "outside" not in name])
@pytest.mark.parametrize("randomness", [None, KeyedRandomness(bytes(32), bytes(16))], ids=["fresh", "keyed"])
def test_label_randomizer(tmp_path, randomness, twin):
    with pinned():
        first, second = (
            in_python(np.asarray(labels, float), randomness, tmp_path / "private.parquet")
            for labels in (BASE, TWINS[twin])
        )
    assert first == second


@pytest.mark.parametrize("twin", ["permuted", "all the same", "at both bounds"])
def test_regressor(twin):
    """A model that was fitted holds nothing of the labels: its pickle is the same."""
    from sklearn.linear_model import Ridge

    features = np.random.default_rng(0).normal(size=(RECORDS, 3))
    with pinned():
        first, second = (
            LabelDPRegressor(Ridge(), epsilon=2, domain=Domain(0, 100, 8)).fit(features, np.asarray(labels, float))
            for labels in (BASE, TWINS[twin])
        )
    assert (first.predict(features) == second.predict(features)).all()
    assert pickle.dumps(first) == pickle.dumps(second)


@pytest.mark.parametrize("twin", ["permuted", "one label with more digits", "some outside the bounds"])
def test_release_functions(tmp_path, twin):
    """`ReleaseOutcome` says in public how many records there were. `clipped` is the labels party's own and not shown."""

    def released(labels, folder):
        folder.mkdir()
        phases = []
        source, later = LabelSource(folder / "a.csv", "y", "id"), LabelSource(folder / "b.csv", "y", "id")
        csv_file(IDS, labels)(folder / "a.csv")
        csv_file(LATER_IDS, labels)(folder / "b.csv")
        randomizer = LabelRandomizer(2, Domain(0, 100, 8), mechanism="rr-on-bins")
        options = {"key_file": folder / "key", "phase": lambda name, rows: phases.append((name, rows))}
        outcomes = [
            privatize(source, randomizer, folder / "message", **options),
            apply(folder / "message", later, **options),
        ]
        message = Message.open(folder / "message")
        shown = repr([outcomes, message, message.labels]).replace(str(folder), "")
        return shown, phases, [(one.records, one.resumed, one.already_held) for one in outcomes], message.to_arrow()

    with pinned():
        assert released(BASE, tmp_path / "first") == released(TWINS[twin], tmp_path / "second")


# Would all this notice a leak? Each control plants one.


def planted(world, labels, plant):
    return world.run({"labels.csv": csv_file(IDS, labels)}, [command()], disturb=plant)


@pytest.mark.parametrize(
    ("plant", "channel"),
    [
        (lambda out, label: (out / "PRIVACY.md").open("a").write(" " * label), "message/PRIVACY.md: size"),
        (lambda out, label: (out / f"labels-{label}").touch(), "message/labels-1: mode"),
        (lambda out, label: (out / "PRIVACY.md").chmod(0o600 + label), "message/PRIVACY.md: mode"),
        (lambda out, label: os.utime(out / "PRIVACY.md", (label, label)), "message/PRIVACY.md: date"),
        (lambda out, label: print(label), "standard output 1"),
        (lambda out, label: warnings.warn(str(label), stacklevel=1), "standard error 1"),
        (lambda out, label: (out.parent / ".left").write_text(str(label)), ".left: bytes"),
    ],
    ids=["bytes", "name", "mode", "date", "output", "warning", "beside"],
)
def test_a_planted_leak_is_found(world, plant, channel):
    first, second = (planted(world, BASE, lambda out, label=label: plant(out, label)) for label in (1, 4))
    assert channel in leaks(first, second)


def test_no_leak_without_one(world):
    assert leaks(planted(world, BASE, lambda out: None), planted(world, BASE, lambda out: None)) == {}


def test_what_may_differ_does_differ(world):
    """An excuse that nothing needs would hide the next leak."""
    commands = [CREATE, command(*CHARGE, "--key-file", "key")]
    first, second = (
        world.run({"labels.csv": csv_file(IDS, labels)}, commands)
        for labels in (BASE, TWINS["some outside the bounds"])
    )
    differ = {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)}
    assert all(any(re.fullmatch(excused, name) for name in differ) for excused in FOR_THE_LABELS_PARTY)
