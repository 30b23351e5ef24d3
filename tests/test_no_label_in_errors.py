"""No error shows a label: neither its text, nor what it was raised from, nor what the command line prints."""

from __future__ import annotations

import traceback
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import (
    Domain,
    LabelDPRegressor,
    LabelRandomizer,
    LabelSource,
    Ledger,
    Prior,
    PrivateSums,
    SavedModel,
    apply,
    privatize,
)
from labeldp.cli import main
from labeldp.errors import LabelDPError
from labeldp.evaluate import noise_corrected_scorer
from labeldp.learn import BoostingRegressor, ConditionalRegressor
from labeldp.losses import get_loss
from labeldp.mechanisms import BiasVariance, PrivateLabels, RROnBins, Staircase
from labeldp.paper.data.census import load_census
from labeldp.paper.data.criteo import load_criteo
from labeldp.priors import private_prior
from labeldp.priors.prior import NoisyCounts
from labeldp.release.sum_queries import SumQueries
from labeldp.sampling import KeyedRandomness

SECRET = "77123"
NUMBER = float(SECRET)
TEXT = f"x{SECRET}y"
GOOD = [10.0, 20.0, 30.0, 40.0] * 10
FEATURES = np.arange(41.0).reshape(-1, 1)


def shown(error):
    """All that Python would print of an error, its causes included."""
    return "".join(traceback.format_exception(error))


class Talkative:
    """An array of the user's own, whose error quotes a label."""

    def __len__(self):
        return 41

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError(f"cannot convert {TEXT}")


ARRAYS = {
    "an array that quotes a label": Talkative(),
    "a list of arrays that quote a label": [Talkative()],
    "text in a list": [*GOOD, TEXT],
    "text in an array": np.array([*GOOD, TEXT]),
    "text among objects": np.array([*GOOD, TEXT], object),
    "text in pandas": pd.Series([*GOOD, TEXT]),
    "text in a pandas category": pd.Series([*map(str, GOOD), TEXT], dtype="category"),
    "text in polars": pl.Series([*map(str, GOOD), TEXT]),
    "text in Arrow": pa.array([*map(str, GOOD), TEXT]),
    "text under a mask": np.ma.array([*GOOD, TEXT], mask=[False] * 41),
    "bytes": [TEXT.encode()] * 41,
    "a list in a list": [*GOOD, [NUMBER, 1.0]],
    "lists in Arrow": pa.array([[NUMBER]] * 41),
    "a complex number": np.array([*GOOD, complex(NUMBER, 1)]),
    "a date": pd.Series(np.array([f"{SECRET}-01-01"] * 41, "datetime64[s]")),
    "a number beyond floats": [*GOOD, int(SECRET) * 10**400],
    "a number beyond floats in pandas": pd.Series([*GOOD, int(SECRET) * 10**400], dtype=object),
    "a signalling NaN": [*GOOD, Decimal(f"sNaN{SECRET}")],
    "a record": np.array([(NUMBER,)] * 41, dtype=[("y", float)]),
}


@pytest.mark.parametrize("labels", ARRAYS.values(), ids=ARRAYS)
@pytest.mark.parametrize(
    "use",
    [
        Domain(0, 400).check,
        LabelRandomizer(1, (0, 400)).randomize,
        RROnBins([10, 100], epsilon=1).randomize,
        lambda labels: private_prior(labels, (0, 400), 1),
        lambda labels: LabelDPRegressor(domain=(0, 400)).fit(np.zeros((41, 1)), labels),
        lambda labels: PrivateSums.over_cells(labels, [0] * 41, 1, (0, 400)),
    ],
    ids=["domain", "randomizer", "mechanism", "prior", "regressor", "sums"],
)
def test_labels_that_are_no_numbers(use, labels):
    with pytest.raises(ValueError) as refusal:
        use(labels)
    assert isinstance(refusal.value, LabelDPError)
    assert SECRET not in shown(refusal.value)


@pytest.mark.parametrize(
    "use",
    [
        lambda labels: Domain(0, 400).check(labels, "error"),
        lambda labels: LabelRandomizer(1, (0, 400), out_of_range="error").randomize(labels),
        lambda labels: LabelDPRegressor(domain=(0, 400), out_of_range="error").fit(np.zeros((41, 1)), labels),
        lambda labels: PrivateSums.over_cells(labels, [0] * 41, 1, (0, 400), out_of_range="error"),
        lambda labels: SumQueries([*GOOD, 1.0], 1, (0, 400)).over_cells(labels.astype(int), 400, 1),
        lambda labels: SumQueries([*GOOD, 1.0], 1, (0, 400)).over_cells([*[0] * 40, -int(SECRET)], 400, 1),
        lambda labels: RROnBins([10, 100], epsilon=1).conditional_loss(np.negative(labels), "poisson"),
        lambda labels: get_loss("gamma").valid_labels.check(np.negative(labels), "labels"),
    ],
)
def test_labels_outside(use):
    with pytest.raises(LabelDPError) as refusal:
        use(np.array([*GOOD, NUMBER]))
    assert SECRET not in shown(refusal.value)
    assert "at index 0" in str(refusal.value) or "index 40" in str(refusal.value)


MISPLACED = {
    "array": np.array([*GOOD, NUMBER]),
    "list": [*GOOD, NUMBER],
    "tuple": (NUMBER,),
    "pandas": pd.Series([*GOOD, NUMBER]),
    "polars": pl.Series([*GOOD, NUMBER]),
    "Arrow": pa.array([*GOOD, NUMBER]),
    "texts": [*map(str, GOOD), SECRET],
    "text without dimensions": np.array(f"x{SECRET}"),
}


@pytest.mark.parametrize("labels", MISPLACED.values(), ids=MISPLACED)
@pytest.mark.parametrize(
    "use",
    [
        Domain.of,
        lambda labels: Domain(labels, 400),
        lambda labels: Domain(0, labels),
        lambda labels: Domain.integers(0, labels),
        lambda labels: Domain(0, 400, unit=labels),
        lambda labels: Domain(0, 400).check(GOOD, labels),
        lambda labels: private_prior((0, 400), labels, 1),
        lambda labels: private_prior(GOOD, (0, 400), labels),
        lambda labels: LabelRandomizer(labels, (0, 400)).randomize(GOOD),
        lambda labels: LabelRandomizer(1, (0, 400), loss=labels).randomize(GOOD),
        lambda labels: LabelRandomizer(1, (0, 400), mechanism=labels).randomize(GOOD),
        lambda labels: RROnBins([10, 100], epsilon=labels),
        get_loss,
        lambda labels: LabelSource(labels, "y"),
        lambda labels: Prior(labels, []),
        lambda labels: Domain(0, 400, labels),
        lambda labels: Domain(0, 400, cells=labels),
        lambda labels: LabelDPRegressor(domain=(0, 400), target_values=labels).fit(np.zeros((40, 1)), GOOD),
        lambda labels: LabelSource("a.csv", "y", id_type=labels),
        lambda labels: BiasVariance.optimal(Prior([1, 2], [1, 1]), 1, tau=labels),
        lambda labels: NoisyCounts(np.array([1]), labels, 5),
        lambda labels: NoisyCounts(np.array([1]), 1.0, labels),
        lambda labels: PrivateSums.over_cells(GOOD, labels, 1, (0, 400)),
        lambda labels: PrivateSums.over_cells(GOOD, [0] * 40, labels, (0, 400)),
        lambda labels: PrivateSums.over_cells(GOOD, [0] * 40, 1, labels),
        lambda labels: PrivateSums.over_cells(GOOD, [0] * 40, 1, (0, 400), clip=labels),
        lambda labels: PrivateSums.over_cells(GOOD, [0] * 40, 1, (0, 400), ledger=labels),
        lambda labels: PrivateSums.over_cells(GOOD, [0] * 40, 1, (0, 400), dataset=labels),
        lambda labels: PrivateSums.against_signs(GOOD, labels, 1, (0, 400)),
        PrivateSums.from_json,
        lambda labels: SumQueries(GOOD, 1, (0, 400)).over_cells([0] * 40, labels, 1),
        lambda labels: SumQueries(GOOD, 1, (0, 400)).over_cells([labels, labels], 4, 1),
        lambda labels: SumQueries(GOOD, 1, (0, 400)).histogram(labels, 1),
        lambda labels: SumQueries(GOOD, 1, (0, 400)).histogram(4, labels),
        lambda labels: SumQueries(GOOD, 1, (0, 400)).clip(labels, 400),
    ],
)
def test_labels_in_the_place_of_another_argument(use, labels):
    with pytest.raises(LabelDPError) as refusal:
        use(labels)
    assert SECRET not in shown(refusal.value)


@pytest.mark.parametrize(
    "use",
    [
        lambda labels: Prior(range(41), np.negative(labels)),
        lambda labels: Prior([*labels, NUMBER], [1.0] * 42),
        lambda labels: Prior(np.multiply(labels, 1e200), [1.0] * 41),
        lambda labels: LabelDPRegressor(domain=(0, 400), ledger=Ledger.create("l.db"), dataset=labels).fit(
            FEATURES, [*GOOD, 1.0]
        ),
        lambda labels: Ledger.create("l.db").add_dataset(labels, 1),
    ],
)
def test_labels_that_are_numbers_in_the_place_of_another_argument(folder, use):
    with pytest.raises(LabelDPError) as refusal:
        use([*GOOD, NUMBER])
    assert SECRET not in shown(refusal.value)
    assert "7.7123" not in shown(refusal.value)


@pytest.mark.parametrize("labels", [ARRAYS["text in a list"], ARRAYS["text among objects"], ARRAYS["bytes"], TEXT])
@pytest.mark.parametrize(
    "use",
    [
        Domain(0, 400, 41).cell,
        RROnBins([10, 100], epsilon=1).conditional_moments,
        Staircase((0, 400), 1).conditional_moments,
        lambda labels: noise_corrected_scorer(RROnBins([10, 100], epsilon=1))(None, FEATURES, labels),
    ],
)
def test_text_where_numbers_are_computed_with(use, labels):
    with pytest.raises(LabelDPError) as refusal:
        use(labels)
    assert SECRET not in shown(refusal.value)


IDS = {
    "a mixture": [1, 2, SECRET],
    "floats": [1.0, NUMBER],
    "too large": [1, int(SECRET) * 10**40],
    "lists": [[int(SECRET)], [2]],
    "no UTF-8": [1, f"{SECRET}\udcff"],
    "twice": [int(SECRET), 5, int(SECRET)],
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_labels_in_the_place_of_ids(ids):
    with pytest.raises(LabelDPError) as refusal:
        RROnBins([10, 100], epsilon=1).codes([10.0] * len(ids), ids, KeyedRandomness.generate())
    assert SECRET not in shown(refusal.value)


ID_COLUMNS = {
    "text among integers": ("id,y\n1,2\n{secret}x,3\n", "int", "line 3"),
    "beyond 64 bits": ("id,y\n1,2\n{secret}00000000000000000000,3\n", "int", "line 3"),
    "twice": ("id,y\n{secret},2\n5,3\n{secret},4\n", None, r"line 4 \(as line 2\)|rows 1 and 3 "),
    "twice as text": ("id,y\nx{secret},2\n5,3\nx{secret},4\n", None, r"line 4 \(as line 2\)|rows 1 and 3 "),
}


@pytest.mark.parametrize("early", [True, False], ids=["few rows", "many rows"])
@pytest.mark.parametrize("case", ID_COLUMNS)
def test_ids_of_a_file(folder, monkeypatch, case, early):
    """A column that was chosen wrongly as ids may hold the labels."""
    content, id_type, said = ID_COLUMNS[case]
    if not early:
        monkeypatch.setattr("labeldp.engines.arrow.input_report.EARLY_ROWS", 0)
    (folder / "a.csv").write_text(content.format(secret=SECRET))
    randomizer = LabelRandomizer(1, (0, 400), prior=Prior.uniform(Domain(0, 400, 11)))
    with pytest.raises(LabelDPError, match=said) as refusal:
        privatize(LabelSource("a.csv", "y", "id", id_type), randomizer, "message")
    assert SECRET not in shown(refusal.value)


def test_ids_that_do_not_fit(folder):
    large = pa.array([1, 2**63 + int(SECRET)], pa.uint64())
    digits = str(2**63 + int(SECRET))
    pq.write_table(pa.table({"id": large, "y": [1.0, 2.0]}), "large.parquet")
    with pytest.raises(LabelDPError, match=r"row 2 .*too large for int") as refusal:
        list(LabelSource("large.parquet", "y", "id", "int").batches())
    assert digits not in shown(refusal.value)
    pq.write_table(pa.table({"id": range(1000, 5000), "y": GOOD * 100}), "a.parquet")
    privatize(LabelSource("a.parquet", "y", "id"), LabelRandomizer(1, Domain(0, 400, 2)), "message", key_file="k")
    with pytest.raises(LabelDPError, match="do not fit into int64") as refusal:
        apply("message", LabelSource("large.parquet", "y", "id"), key_file="k")
    assert digits not in shown(refusal.value)


@pytest.mark.parametrize(
    "content", ["{secret},{secret}\n1,2\n", "value,mass\n1,1\n{secret}x,1\n", "value,mass\n{secret},1\n{secret},1\n"]
)
def test_a_file_of_labels_in_the_place_of_a_prior(tmp_path, content):
    (tmp_path / "prior.csv").write_text(content.format(secret=SECRET))
    with pytest.raises(LabelDPError, match=r"prior\.csv") as refusal:
        Prior.from_csv(tmp_path / "prior.csv")
    assert SECRET not in shown(refusal.value)


@pytest.mark.parametrize(
    ("name", "content", "load"),
    [
        ("log.tsv", f"1\t{TEXT}" + "\t1" * 21 + "\n", load_criteo),
        ("log.tsv", f"1\t-{SECRET}" + "\t1" * 21 + "\n", load_criteo),
        ("log.tsv", f"{SECRET}\t5" + "\t1" * 21 + "\n", load_criteo),
        ("log.tsv", f"1\t{SECRET}\t1\n", load_criteo),
        ("EXT1940USCB.dat", f"P{SECRET}\x1f\n", load_census),
        ("EXT1940USCB.dat", f"P{SECRET}\n", load_census),
    ],
)
def test_the_readers_of_the_papers_data(tmp_path, name, content, load):
    (tmp_path / name).write_text(content)
    with pytest.raises(LabelDPError, match="line 1") as refusal:
        load(tmp_path / name)
    assert SECRET not in shown(refusal.value)


FILES = {
    "text in a number column": ("id,y\n1,2\n2,{secret}x\n", "line 3"),
    "text behind a mark": ('id,y\n1,2\n2,"{secret} €"\n', "line 3"),
    "a decimal comma": ("id;y\n1;2\n2;{secret},5\n", "decimal comma"),
    "a field too many": ("id,y\n1,2\n2,{secret},5\n", "line 3"),
    "a field too few": ("id,note,y\n1,a,2\n{secret}\n", "line 3"),
    "no header line": ("17,{secret}\n18,20\n", "header line"),
    "an open quotation mark": ('id,y\n1,2\n2,"{secret}\n' + "3,4\n" * 5000, "cannot read"),
    "outside": ("id,y\n1,2\n2,{secret}\n", "line 3"),
    "infinity": ("id,y\n1,2\n2,inf\n", "line 3"),
    "nothing but outside": ("id,y\n1,{secret}\n2,{secret}\n", "more than 20% of the labels"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Ledger.create("ledger.db").add_dataset("sales", 3)
    return tmp_path


@pytest.mark.parametrize("case", FILES)
def test_files(folder, case, monkeypatch, capsys):
    content, said = FILES[case]
    (folder / "a.csv").write_text(content.format(secret=SECRET))
    mode = "clip" if case == "nothing but outside" else "error"
    randomizer = LabelRandomizer(1, (0, 400), out_of_range=mode)
    with pytest.raises(LabelDPError, match=said) as refusal:
        privatize(
            LabelSource("a.csv", "y", "id"),
            randomizer,
            "message",
            ledger=Ledger("ledger.db"),
            dataset="sales",
            key_file="k",
        )
    assert SECRET not in shown(refusal.value)
    options = ["--label", "y", "--id", "id", "--epsilon", "1", "--lower", "0", "--upper", "400", "--out-of-range", mode]
    charge = ["--ledger", "ledger.db", "--dataset", "sales", "--key-file", "k"]
    monkeypatch.setattr("sys.argv", ["labeldp", "privatize", "a.csv", *options, *charge, "--out", "message"])
    with pytest.raises(SystemExit) as stop:
        main()
    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert SECRET not in printed.out + printed.err
    assert Ledger("ledger.db").remaining("sales") == 3
    assert sorted(path.name for path in folder.iterdir()) == ["a.csv", "ledger.db"]


def test_a_later_batch(folder):
    pq.write_table(pa.table({"id": range(1000, 5000), "y": GOOD * 100}), "a.parquet")
    privatize(LabelSource("a.parquet", "y", "id"), LabelRandomizer(1, Domain(0, 400, 2)), "message", key_file="k")
    for content, said in FILES.values():
        (folder / "b.csv").write_text(content.format(secret=SECRET))
        mode = "clip" if said.startswith("more than 20%") else "error"
        with pytest.raises(LabelDPError, match=said) as refusal:
            apply("message", LabelSource("b.csv", "y", "id"), key_file="k", out_of_range=mode)
        assert SECRET not in shown(refusal.value)


@pytest.mark.parametrize("column", [pa.array([1.0, float("inf")]), pa.array(["1", TEXT]), pa.array([[NUMBER], [1.0]])])
def test_parquet(tmp_path, column):
    pq.write_table(pa.table({"id": [1, 2], "y": column}), tmp_path / "a.parquet")
    with pytest.raises(LabelDPError) as refusal:
        list(LabelSource(tmp_path / "a.parquet", "y", "id").batches())
    assert SECRET not in shown(refusal.value)


@pytest.mark.parametrize(
    "content", ["x,y\n1,2\n2,{secret},5\n", "x;y\n1;1,5\n2;{secret},5\n", "x,y\n1,2\n2,{secret}x\n"]
)
def test_true_labels_for_evaluate(tmp_path, content, monkeypatch, capsys):
    from sklearn.linear_model import Ridge

    model = Ridge().fit(pd.DataFrame({"x": [1.0, 2.0]}), [1.0, 2.0])
    SavedModel(model, {"columns": ["x"], "model": "ridge", "epsilon": 1}).save(tmp_path / "model")
    (tmp_path / "test.csv").write_text(content.format(secret=SECRET))
    arguments = ["labeldp", "evaluate", tmp_path / "model", tmp_path / "test.csv", "--label", "y"]
    monkeypatch.setattr("sys.argv", [str(argument) for argument in arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert SECRET not in printed.out + printed.err


def test_a_ledger_that_was_overwritten_with_labels(tmp_path):
    from labeldp import Ledger

    Ledger.create(tmp_path / "ledger.db").add_dataset("sales", 1)
    content = (tmp_path / "ledger.db").read_bytes()
    place = content.index(b"'a charged release stays") + 3
    text = f"1\t{SECRET}\n".encode()
    (tmp_path / "ledger.db").write_bytes(content[:place] + text + content[place + len(text) :].replace(b"'", b" ", 1))
    with pytest.raises(LabelDPError) as refusal:
        Ledger(tmp_path / "ledger.db").history()
    assert SECRET not in shown(refusal.value)


def test_a_model_that_does_not_fit_the_file_never_sees_its_labels(tmp_path):
    from sklearn.linear_model import Ridge

    from labeldp.learn.prediction_files import predictions_beside

    model = Ridge().fit(pd.DataFrame({"x": [1.0, 2.0], "y": [2.0, 1.0]}), [1.0, 2.0])  # another y than the labels
    (tmp_path / "test.csv").write_text(f"x,y\n1,{SECRET}\n2,{SECRET}\n")
    with pytest.raises(LabelDPError, match="which is the label here"):
        predictions_beside(SavedModel(model, {}), tmp_path / "test.csv", "y")


def refused(monkeypatch, capsys, *arguments):
    """What the command line prints when it refuses."""
    options = ["--epsilon", "1", "--lower", "0", "--upper", "400", "--out", "message"]
    monkeypatch.setattr("sys.argv", ["labeldp", "privatize", *arguments, *options])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    return "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "line", [f"A1,${SECRET}", f"A1,EUR {SECRET}", f'A1,"77,{SECRET}"', f"A1 {SECRET}", f"A1:{SECRET}:x"]
)
def test_a_file_without_a_header_line_is_not_quoted(tmp_path, monkeypatch, capsys, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(f"{line}\nA2,5\n")
    assert SECRET not in refused(monkeypatch, capsys, "t.csv", "--label", "amount", "--id", "order")


def test_ids_that_are_labels_by_mistake_are_not_quoted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"order": [1.0, 2.0], "amount": [SECRET, SECRET]}), "t.parquet")
    assert SECRET not in refused(monkeypatch, capsys, "t.parquet", "--label", "order", "--id", "amount")


PARTS = {
    "integers": (pa.array([1, 2], pa.int8()), pa.array([1, int(SECRET)], pa.int64())),
    "times": (pa.array([1, 2], pa.timestamp("ns")), pa.array([1, int(SECRET) * 86400 * 366], pa.timestamp("s"))),
    "text": (pa.array([1.0, 2.0]), pa.array(["1", TEXT])),
    "decimals": (pa.array([Decimal("1.5")] * 2), pa.array([Decimal(f"{SECRET}.5")] * 2)),
}


@pytest.mark.parametrize("column", ["x", "y", "id"])
@pytest.mark.parametrize("case", PARTS)
def test_parts_of_a_folder_with_other_types(tmp_path, case, column):
    """Every command that reads features reads them here."""
    from labeldp.tables.feature_file import FeatureFile

    for number, values in enumerate(PARTS[case]):
        parts = {"x": [0.5, 1.5], "y": [1.0, 2.0], "id": [2 * number, 2 * number + 1], column: values}
        pq.write_table(pa.table(parts), tmp_path / f"part-{number}.parquet")
    with pytest.raises(LabelDPError, match=rf"part-1\.parquet.*column '{column}'.*same types") as refusal:
        list(FeatureFile.open(tmp_path).batches(["x", "y", "id"]))
    assert SECRET not in shown(refusal.value)
    assert str(int(SECRET) * 86400 * 366) not in shown(refusal.value)


def readers(path):
    """Every way to read a table from a file."""
    from labeldp.tables.feature_file import FeatureFile

    return [
        lambda: list(LabelSource(path, "y", "id").batches()),
        lambda: list(FeatureFile.open(path).batches(["x"])),
        lambda: PrivateLabels.load(path),
    ]


@pytest.mark.parametrize("name", ["a.csv.gz", "a.tsv.gz", "a.arrow", "a.feather", "a.parquet"])
@pytest.mark.parametrize(
    "content", [b"77123,5\n20,6\n" * 9, b"PAR1" + SECRET.encode() * 20 + b"PAR1", b"ARROW1\0\0771237712377"]
)
def test_the_first_bytes_of_a_file_of_another_format(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    for read in readers(tmp_path / name):
        with pytest.raises(LabelDPError) as refusal:
            read()
        said = str(refusal.value).replace(str(tmp_path / name), "")
        assert not any(sign.isdigit() for sign in said), said
        assert "b'" not in said


NO_FEATURES = {
    "a flat array": np.full(41, NUMBER),
    "a flat list": [NUMBER] * 41,
    "a pandas series": pd.Series([NUMBER] * 41),
    "a polars series": pl.Series([NUMBER] * 41),
    "an Arrow array": pa.array([NUMBER] * 41),
    "a single number": np.array(NUMBER),
    "an array of text": np.array([[*GOOD, TEXT]]).T,
    "an array with text": np.array([[*GOOD, TEXT]], object).T,
    "a list with text": [[TEXT]] * 41,
    "complex numbers": np.full((41, 1), complex(NUMBER, 1)),
}
NO_WEIGHTS = {
    "text": np.array([*GOOD, TEXT]),
    "text among objects": np.array([*GOOD, TEXT], object),
    "text in pandas": pd.Series([*GOOD, TEXT]),
    "one text": TEXT,
}


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("given", NO_FEATURES.values(), ids=NO_FEATURES)
def test_labels_in_the_place_of_features_cost_nothing(given, loss):
    """As in `fit(y, x)`, with the arguments swapped."""
    model = LabelDPRegressor(domain=(0, 400), loss=loss)
    with pytest.raises(ValueError) as refusal:
        model.fit(given, np.array([*GOOD, 1.0]))
    assert SECRET not in shown(refusal.value)
    assert not hasattr(model, "epsilon_spent_")


@pytest.mark.parametrize("weights", NO_WEIGHTS.values(), ids=NO_WEIGHTS)
def test_labels_in_the_place_of_weights_cost_nothing(weights):
    model = LabelDPRegressor(domain=(0, 400))
    with pytest.raises(ValueError) as refusal:
        model.fit(FEATURES, np.array([*GOOD, 1.0]), sample_weight=weights)
    assert SECRET not in shown(refusal.value)
    assert not hasattr(model, "epsilon_spent_")


def test_labels_in_the_place_of_features_of_the_users_estimator():
    from sklearn.linear_model import Ridge

    with pytest.raises(LabelDPError, match="Reshape your data") as refusal:
        LabelDPRegressor(Ridge(), domain=(0, 400)).fit(np.full(41, NUMBER), np.array([*GOOD, 1.0]))
    assert SECRET not in shown(refusal.value)


@pytest.fixture(scope="module")
def fitted():
    public = Prior.uniform(Domain(0, 400, 11))
    private = LabelRandomizer(1, (0, 400), prior=public).randomize([*GOOD, 1.0])
    regressor = LabelDPRegressor(domain=(0, 400), prior=public).fit(FEATURES, [*GOOD, 1.0])
    return {
        "regressor": regressor,
        "conditional": ConditionalRegressor(None, private.mechanism, "absolute").fit(FEATURES, private),
        "boosting": BoostingRegressor().fit(FEATURES, private.values()),
        "saved": SavedModel(regressor, {"bounds": [0, 400]}),
        "saved boosting": SavedModel(BoostingRegressor().fit(FEATURES, private.values()), {}),
    }


@pytest.mark.parametrize("given", NO_FEATURES.values(), ids=NO_FEATURES)
@pytest.mark.parametrize("model", ["regressor", "conditional", "boosting", "saved", "saved boosting"])
def test_predictions_for_labels(fitted, model, given):
    with pytest.raises(ValueError) as refusal:
        fitted[model].predict(given)
    assert SECRET not in shown(refusal.value)


@pytest.mark.parametrize("labels", NO_WEIGHTS.values(), ids=NO_WEIGHTS)
@pytest.mark.parametrize("model", ["regressor", "boosting"])
def test_scores_with_labels_that_are_no_numbers(fitted, model, labels):
    for use in (
        lambda: fitted[model].score(FEATURES, labels),
        lambda: fitted[model].score(FEATURES, [*GOOD, 1.0], labels),
        lambda: fitted[model].score(np.full(41, NUMBER), FEATURES[:, 0]),
    ):
        with pytest.raises(ValueError) as refusal:
            use()
        assert SECRET not in shown(refusal.value)


@pytest.mark.parametrize("labels", NO_WEIGHTS.values(), ids=NO_WEIGHTS)
def test_boosting_on_text(labels):
    with pytest.raises(ValueError) as refusal:
        BoostingRegressor().fit(FEATURES, labels)
    assert SECRET not in shown(refusal.value)
    with pytest.raises(ValueError) as refusal:
        BoostingRegressor().fit(FEATURES, [*GOOD, 1.0], labels)
    assert SECRET not in shown(refusal.value)
