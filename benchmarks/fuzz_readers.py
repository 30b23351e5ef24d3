"""The readers that are fuzzed: for each one the good files to corrupt, and how it is run on a folder of them.

To add a reader, subclass `Reader` and list it in `READERS`. `scenes` are sets of good files. One file of a scene is corrupted,
the others stay as they are. `run` reads them as a user would. It may raise `LabelDPError`; anything else is a finding. What it
leaves in the folder is searched for labels. `leftovers` says what else must hold afterwards.
"""

import contextlib
import gzip
import shutil
import sys
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import typer.main
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from pyarrow import ipc

from fuzz_sealing import with_chain, with_listed_parts, with_manifest, with_mechanism_digest, with_model_digest
from labeldp import (
    Domain,
    LabelRandomizer,
    LabelSource,
    Ledger,
    Message,
    Prior,
    PrivateSums,
    SavedModel,
    apply,
    privatize,
)
from labeldp.artifact.signing import SigningKey, VerifyKey
from labeldp.errors import LabelDPError
from labeldp.mechanisms import MECHANISMS, FiniteMechanism, Mechanism, PrivateLabels, Request
from labeldp.release.key_file import KeyFile
from labeldp.release.ledger_journal import LedgerBroken
from labeldp.release.sum_queries import SumQueries

Scene = dict[str, bytes]

MARKERS = ("817263549", "853194627", "871936254", "849273615")
"""The digits of every label that a reader sees: whoever finds them in an output has found a label."""
DOMAIN = Domain(8e8, 9e8, cells=5)
ROWS = 24
LABELS = [float(f"{MARKERS[row % 4]}.{(25, 5, 75)[row % 3]}") for row in range(ROWS)]
IDS = [101 + 7 * row for row in range(ROWS)]
RANDOMIZER = LabelRandomizer(1, DOMAIN, mechanism="randomized-response")


class Reader(ABC):
    """One thing that reads files, and good files for it."""

    name: ClassVar[str]
    weight: ClassVar[float] = 1.0
    """How often it is chosen, relative to others. Slow ones have less."""
    takes_all: ClassVar[bool] = True
    """Whether all scenes are good. Otherwise those after the first may be just beyond what it takes."""
    may_warn: ClassVar[bool] = False
    """Whether libraries may warn. A changed model that still loads may divide by zero, for instance."""

    def __init__(self) -> None:
        self.scenes = [scene for scene in self.make() if scene]

    @abstractmethod
    def make(self) -> Iterator[Scene]:
        """The sets of good files."""

    @abstractmethod
    def run(self, folder: Path) -> None:
        """Read the files in `folder`."""

    def sealed(self, scene: Scene, target: str) -> Scene:  # noqa: ARG002
        """The files with the digests that the reader compares made right again, after `target` was corrupted."""
        return scene

    def leftovers(self, folder: Path) -> Iterator[str]:
        """What is wrong with what `run` left behind."""
        for path in folder.rglob(".*"):
            if path.name not in self._given:
                yield f"{path.relative_to(folder)} was left behind"
        for path in (folder / "out", folder / "out.parquet", folder / "out.csv"):
            if path.is_dir():
                yield from _half_written(path)

    @property
    def _given(self) -> set[str]:
        return {Path(name).name for scene in self.scenes for name in scene}

    def targets(self, scene: Scene) -> list[str]:
        """The files that may be corrupted."""
        return list(scene)


def _half_written(message: Path) -> Iterator[str]:
    try:
        Message.open(message).to_arrow()
    except LabelDPError as error:
        yield f"{message.name} is there and not whole: {error}"


def published_ids(folder: Path) -> bytes:
    """The ids in the message that a run wrote, as bytes, if there is one."""
    if not (folder / "out" / "mechanism.json").is_file():
        return b""
    ids = Message.open(folder / "out").to_arrow().column(0)
    return b" ".join(
        part.to_numpy().tobytes() if pa.types.is_integer(ids.type) else "\n".join(part.to_pylist()).encode()
        for part in ids.chunks
    )


def content_of(folder: Path) -> Scene:
    """All files below a folder, by their relative names."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("labeldp-lock")
    }


@cache
def label_table() -> pa.Table:
    """Good labels, with a column that nobody asked for."""
    return pa.table({"id": IDS, "y": LABELS, "note": [f"n{row}" for row in range(ROWS)]})


def _written(write: Callable[[Path], None], name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, name))
        return Path(folder, name).read_bytes()


def _text(table: pa.Table, delimiter: str) -> bytes:
    options = pyarrow.csv.WriteOptions(delimiter=delimiter, quoting_style="none")
    return _written(lambda path: pyarrow.csv.write_csv(table, path, options), "t")


def _parquet(table: pa.Table, **options: Any) -> bytes:
    return _written(lambda path: pq.write_table(table, path, **options), "t")


def _arrow(table: pa.Table, make: Any = ipc.new_file) -> bytes:
    def write(path: Path) -> None:
        with pa.OSFile(str(path), "wb") as sink, make(sink, table.schema) as writer:
            writer.write_table(table)

    return _written(write, "t")


def _odd_tables() -> Iterator[pa.Table]:
    """Labels and ids of types that are allowed, or nearly."""
    good = label_table()
    ids, labels = good["id"], good["y"]
    for kind in (
        pa.uint64(),
        pa.int8(),
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ):
        with contextlib.suppress(pa.ArrowException):
            text = pc_text(ids) if not pa.types.is_integer(kind) else ids
            yield pa.table({"id": text.cast(kind, safe=False), "y": labels})
    for kind in (pa.float32(), pa.decimal128(20, 2), pa.int64(), pa.duration("s"), pa.string()):
        with contextlib.suppress(pa.ArrowException):
            whole = labels.cast(pa.int64(), safe=False) if pa.types.is_duration(kind) else labels
            yield pa.table({"id": ids, "y": whole.cast(kind, safe=False)})


def pc_text(column: Any) -> Any:
    """Integers as text."""
    return column.cast(pa.string())


@cache
def label_files() -> tuple[Scene, ...]:
    """One scene for each format that labels may have."""
    good = label_table()
    scenes = [
        {"labels.csv": _text(good, ",")},
        {"labels.tsv": _text(good, "\t")},
        {"labels.csv": _text(good, ";")},
        {"labels.csv.gz": gzip.compress(_text(good, ","), mtime=0)},
        {"labels.parquet": _parquet(good)},
        {"labels.parquet": _parquet(good, row_group_size=5, compression="none", use_dictionary=False)},
        {"labels.parquet": _parquet(good, compression="zstd", data_page_version="2.0", write_page_checksum=True)},
        {"labels.arrow": _arrow(good)},
        {"labels.arrows": _arrow(good, ipc.new_stream)},
    ]
    scenes += [{"labels.parquet": _parquet(table)} for table in _odd_tables() if "string_view" not in str(table.schema)]
    scenes += [{"labels.arrow": _arrow(table)} for table in _odd_tables()]
    return tuple(scenes)


def _source(folder: Path) -> LabelSource:
    (file,) = folder.glob("labels.*")
    return LabelSource(file, "y", "id")


class Labels(Reader):
    """Labels in all formats, read as `privatize` reads them, without a release."""

    name = "labels"
    weight = 14
    takes_all = False

    def make(self) -> Iterator[Scene]:
        yield from label_files()

    def run(self, folder: Path) -> None:
        for _ in _source(folder).batches():
            pass


class Privatize(Labels):
    """A release of corrupted labels."""

    name = "privatize"
    weight = 1

    def run(self, folder: Path) -> None:
        privatize(_source(folder), RANDOMIZER, folder / "out")


class PrivatizeCommand(Labels):
    """The same through the command line."""

    name = "cli privatize"
    weight = 0.1

    def run(self, folder: Path) -> None:
        (file,) = folder.glob("labels.*")
        bounds = ("--lower", "8e8", "--upper", "9e8", "--cells", "5", "--mechanism", "randomized-response")
        command("privatize", file, "--label", "y", "--id", "id", "--epsilon", "1", *bounds, "--out", folder / "out")


@cache
def released() -> Scene:
    """A message, and the key file and the ledger of its release."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pq.write_table(label_table(), folder / "labels.parquet")
        ledger = Ledger.create(folder / "ledger.db")
        ledger.add_dataset("sales", 10)
        source = LabelSource(folder / "labels.parquet", "y", "id")
        privatize(source, RANDOMIZER, folder / "out", ledger=ledger, dataset="sales", key_file=folder / "key.json")
        (folder / "labels.parquet").unlink()
        return content_of(folder)


@cache
def extended() -> Scene:
    """The same after a later batch, and signed, with the public key beside it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fresh(folder, released())
        for file, content in signing_pems().items():
            (folder / file).write_bytes(content)
        (folder / "private.pem").chmod(0o600)
        pq.write_table(_later(), folder / "labels.parquet")
        ledger, key = Ledger(folder / "ledger.db"), folder / "private.pem"
        apply(folder / "out", _source(folder), key_file=folder / "key.json", ledger=ledger, sign_key=key)
        (folder / "labels.parquet").unlink()
        key.unlink()
        return content_of(folder)


@cache
def in_parts() -> Scene:
    """The first message as a cluster writes it: parts with signed codes, one of them empty. The key file knows them by one digest."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fresh(folder, released())
        labels = folder / "out" / "labels.parquet"
        table = pq.read_table(labels)
        labels.unlink()
        labels.mkdir()
        table = table.set_column(1, "code", table["code"].cast(pa.int16()))
        for part, (start, end) in enumerate(((0, 10), (10, 10), (10, ROWS))):
            pq.write_table(table.slice(start, end - start), labels / f"part-{part:05d}.parquet")
        return with_listed_parts(content_of(folder), "labels.parquet")


SIGNING_KEY = Ed25519PrivateKey.from_private_bytes(b"a key for fuzzing that all know.")


def signing_pems() -> Scene:
    """The files of that key."""
    private = SIGNING_KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = SIGNING_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return {"private.pem": private, "public.pem": public}


def message_of(scene: Scene) -> Scene:
    """The files of the message alone."""
    return {name: content for name, content in scene.items() if name.startswith("out/")}


def _later() -> pa.Table:
    return label_table().set_column(0, "id", pa.array([row + 1 for row in IDS]))


class ApplyLabels(Reader):
    """A later batch with a corrupted file of labels."""

    name = "apply labels"
    weight = 0.3

    def make(self) -> Iterator[Scene]:
        later = _later()
        for name, content in (
            ("labels.csv", _text(later, ",")),
            ("labels.parquet", _parquet(later)),
            ("labels.arrow", _arrow(later)),
        ):
            yield {name: content} | released()
        yield {"labels.parquet": _parquet(later)} | in_parts()

    def targets(self, scene: Scene) -> list[str]:
        return [name for name in scene if name.startswith("labels.")]

    def run(self, folder: Path) -> None:
        (folder / "key.json").chmod(0o600)
        ledger = Ledger(folder / "ledger.db", timeout=0.1)
        apply(folder / "out", _source(folder), key_file=folder / "key.json", ledger=ledger)


class ApplyRecords(ApplyLabels):
    """A later batch with a corrupted key file or ledger."""

    name = "apply key, ledger"

    def targets(self, scene: Scene) -> list[str]:
        return [name for name in scene if name in ("key.json", "ledger.db")]

    def sealed(self, scene: Scene, target: str) -> Scene:
        return scene | {target: with_chain(scene[target])} if target == "ledger.db" else scene


class ApplyMessage(ApplyLabels):
    """A later batch for a corrupted message."""

    name = "apply message"

    def targets(self, scene: Scene) -> list[str]:
        return list(message_of(scene))

    def sealed(self, scene: Scene, target: str) -> Scene:
        return with_manifest(scene, target)

    def leftovers(self, folder: Path) -> Iterator[str]:
        yield from (f"{path.name} was left behind" for path in folder.rglob(".*"))


class SigningKeys(Reader):
    """PEM files of a sender's keys."""

    name = "signing key"
    weight = 6

    def make(self) -> Iterator[Scene]:
        yield signing_pems()

    def run(self, folder: Path) -> None:
        (folder / "private.pem").chmod(0o600)
        public = VerifyKey.read(folder / "public.pem")
        private = SigningKey.read(folder / "private.pem", folder / "out")
        assert public.accepts(private.sign(b"x"), b"x") == (public.fingerprint == private.verify_key.fingerprint)


class KeyFiles(Reader):
    """A key file alone."""

    name = "key file"
    weight = 8

    def make(self) -> Iterator[Scene]:
        yield {"key.json": released()["key.json"]}

    def run(self, folder: Path) -> None:
        (folder / "key.json").chmod(0o600)
        with KeyFile.use(folder / "key.json") as keys:
            for kept in keys.releases:
                keys.find(kept.id)
            keys.resumable("0" * 64, "{}")


class Ledgers(Reader):
    """A ledger: what is in it, a release against it, and its tables."""

    name = "ledger"
    weight = 2

    def make(self) -> Iterator[Scene]:
        yield {"ledger.db": extended()["ledger.db"]}
        yield {"ledger.db": released()["ledger.db"]}

    def sealed(self, scene: Scene, target: str) -> Scene:
        return {target: with_chain(scene[target])}

    def run(self, folder: Path) -> None:
        ledger = Ledger(folder / "ledger.db", timeout=0.1)
        repr(ledger)
        ledger.to_arrow()
        for dataset in ledger.datasets():
            ledger.remaining(dataset.name)
        for release in ledger.history("sales"):
            repr(release)
            ledger.batches(release.id)
        self._verify(ledger)
        ledger.require("sales", 1)
        ledger.reserve("sales", 1)
        self._verify(ledger)

    @staticmethod
    def _verify(ledger: Ledger) -> None:
        """Whoever goes on after a bad check reaches what is behind it."""
        with contextlib.suppress(LedgerBroken):
            ledger.verify()

    def leftovers(self, folder: Path) -> Iterator[str]:  # noqa: ARG002 - nothing is written
        return iter(())


class Messages(Reader):
    """A message, every file of it, as a reader of it goes through it."""

    name = "message"
    weight = 6

    def make(self) -> Iterator[Scene]:
        yield message_of(released())
        yield self._with_prior()
        yield message_of(extended())
        yield message_of(in_parts())

    @staticmethod
    def _with_prior() -> Scene:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            many = pa.table({"id": [f"r{row}" for row in range(400)], "y": LABELS * 16 + LABELS[:16]})
            pq.write_table(many, folder / "labels.parquet")
            source = LabelSource(folder / "labels.parquet", "y", "id")
            privatize(source, LabelRandomizer(2, DOMAIN), folder / "out")
            (folder / "labels.parquet").unlink()
            return content_of(folder)

    def sealed(self, scene: Scene, target: str) -> Scene:
        return with_manifest(scene, target, SIGNING_KEY)

    def run(self, folder: Path) -> None:
        key = folder / "public.pem"
        message = Message.open(folder / "out", verify_key=key if key.exists() else None)
        repr(message)
        message._repr_html_()
        table = message.to_arrow()
        assert table.num_rows == len(message), "the rows that are read are not those that were counted"
        message.labels.values()

    def leftovers(self, folder: Path) -> Iterator[str]:  # noqa: ARG002 - nothing is written
        return iter(())


class Private(Reader):
    """Private labels in a file of their own."""

    name = "private labels"
    weight = 3

    def make(self) -> Iterator[Scene]:
        made = RANDOMIZER.randomize(LABELS)
        yield {"private.parquet": _written(made.save, "private.parquet")}

    def run(self, folder: Path) -> None:
        PrivateLabels.load(folder / "private.parquet").values()


class SignedMessages(Messages):
    """A signed message and the key to verify it with."""

    name = "signed message"
    weight = 2

    def make(self) -> Iterator[Scene]:
        yield message_of(extended()) | {"public.pem": signing_pems()["public.pem"]}


class AuditMessageCommand(SignedMessages):
    """`labeldp audit` of it."""

    name = "cli audit message"
    weight = 0.1

    def run(self, folder: Path) -> None:
        command("audit", folder / "out", "--verify-key", folder / "public.pem")


class Mechanisms(Reader):
    """Descriptions of all mechanisms."""

    name = "mechanism"
    weight = 12

    def make(self) -> Iterator[Scene]:
        prior = Prior.uniform(DOMAIN)
        for name in MECHANISMS.names:
            mechanism = MECHANISMS[name].make(Request(DOMAIN, 2, "squared", prior, 10_000))
            yield {"mechanism.json": mechanism.to_json().encode()}

    def sealed(self, scene: Scene, target: str) -> Scene:
        return {target: with_mechanism_digest(scene[target])}

    def run(self, folder: Path) -> None:
        text = (folder / "mechanism.json").read_bytes().decode("utf-8", "replace")
        mechanism = Mechanism.from_json(text)
        repr(mechanism)
        if isinstance(mechanism, FiniteMechanism):
            mechanism.proof()
        mechanism.randomize([8.1e8, 8.9e8])
        assert Mechanism.from_json(mechanism.to_json()) == mechanism


class Sums(Reader):
    """Private sums of every kind."""

    name = "sums"
    weight = 6

    def make(self) -> Iterator[Scene]:
        queries = SumQueries(LABELS, 2, DOMAIN)
        queries.histogram(2, 0.5)
        queries.clip(1, 3)
        queries.over_cells([[row % 3 for row in range(ROWS)]] * 2, 3, 0.5)
        yield {"sums.json": queries.released.to_json().encode()}
        queries.against_signs(np.ones((ROWS, 2), np.int8), queries.remaining)
        yield {"sums.json": queries.released.to_json().encode()}

    def run(self, folder: Path) -> None:
        sums = PrivateSums.from_json((folder / "sums.json").read_bytes())
        assert sums.proof().holds
        for answer in sums.answers:
            repr(answer)
            assert answer.sums.size == answer.counts.size
        sums.card()
        assert PrivateSums.from_json(sums.to_json()) == sums


class AuditCommand(Mechanisms):
    """`labeldp audit` of them."""

    name = "cli audit"
    weight = 0.1
    takes_all = False  # some mechanisms have no finite table to prove

    def run(self, folder: Path) -> None:
        command("audit", folder / "mechanism.json")


class Priors(Reader):
    """Files of priors."""

    name = "prior"
    weight = 8

    def make(self) -> Iterator[Scene]:
        yield {"prior.csv": b"value,mass\n0,0.5\n10,0.25\n400.5,0.25\n"}
        yield {"prior.csv": b"value,mass,epsilon\n0,0.5,0.125\n10,0.25,0.125\n400.5,0.25,0.125\n"}

    def run(self, folder: Path) -> None:
        prior = Prior.from_csv(folder / "prior.csv")
        repr(prior)
        prior._repr_html_()
        prior.to_csv(folder / "again.csv")
        assert Prior.from_csv(folder / "again.csv") == prior


def _saved(model: Any, columns: list[str], **facts: Any) -> Scene:
    known = {
        "columns": columns,
        "model": "fuzzed",
        "loss": "squared",
        "epsilon": 1.0,
        "bounds": [0.0, 1e8],
        "unit": None,
    }
    with tempfile.TemporaryDirectory() as name:
        SavedModel(model, known | facts).save(Path(name, "model"))
        return content_of(Path(name))


@cache
def saved_model() -> Scene:
    """A model that was trained on features x and colour."""
    from labeldp.learn.learners import LEARNERS, LearnerRequest

    model = LEARNERS["boosting"].make(LearnerRequest(ROWS, seed=0))
    model.fit(feature_table().select(["x", "colour"]), np.asarray(LABELS) - 8e8)
    return _saved(model, ["x", "colour"])


@cache
def saved_models() -> tuple[Scene, ...]:
    """Models of all kinds that are stored: trees, a distribution, a network, what skops holds, and one from sums."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from labeldp import LabelDPRegressor

    features, x = feature_table().select(["x", "colour"]), feature_table().select(["x"])
    labels = np.asarray(LABELS) - 8e8
    scenes = [saved_model()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in ("labels", "sums"):
            private = LabelDPRegressor(epsilon=1, domain=(0.0, 1e8), loss="absolute", method=method)
            scenes.append(_saved(private.fit(features, labels).estimator_, ["x", "colour"], loss="absolute"))
        with contextlib.suppress(ImportError):
            from labeldp.paper.network import NetworkRegressor

            network = NetworkRegressor(epochs=1).fit(features, labels)
            scenes.append(_saved(network, ["x", "colour"]))
        others = (
            make_pipeline(StandardScaler(), Ridge()),
            TransformedTargetRegressor(KernelRidge(kernel="rbf"), func=np.log1p, inverse_func=np.expm1),
        )
        scenes += [_saved(model.fit(np.asarray(x), labels), ["x"]) for model in others]
        sums = LabelDPRegressor(epsilon=20, domain=(0.0, 1e8), method="sums").fit(features, labels)
        scenes.append(_saved(sums, ["x", "colour"]))
    return tuple(scenes)


@cache
def feature_table() -> pa.Table:
    """Features, with the labels beside them as `evaluate` takes them."""
    random = Random(0)
    return pa.table(
        {
            "id": IDS,
            "x": [random.uniform(-1, 1) for _ in IDS],
            "colour": [random.choice(("red", "green", None)) for _ in IDS],
            "when": pa.array([86_400 * row for row in range(ROWS)], pa.timestamp("s")),
            "y": LABELS,
        }
    )


class Features(Reader):
    """Files of features, for `predict` and `evaluate`."""

    name = "features"
    weight = 1.5

    def make(self) -> Iterator[Scene]:
        good = feature_table()
        for name, content in (
            ("features.csv", _text(good, ",")),
            ("features.tsv", _text(good, "\t")),
            ("features.csv.gz", gzip.compress(_text(good, ","), mtime=0)),
            ("features.parquet", _parquet(good)),
            ("features.parquet", _parquet(pa.Table.from_pandas(good.to_pandas().set_index("id")))),
            ("features.arrow", _arrow(good)),
        ):
            yield {name: content} | saved_model()

    def targets(self, scene: Scene) -> list[str]:
        return [name for name in scene if name.startswith("features.")]

    def run(self, folder: Path) -> None:
        from labeldp.learn.prediction_files import predict_file, predictions_beside

        (features,) = folder.glob("features.*")
        model = SavedModel.load(folder / "model")
        predict_file(model, features, folder / "out.parquet")
        predictions_beside(model, features, "y")


class Models(Features):
    """The folder of a saved model, and what it predicts if it loads."""

    name = "model"
    weight = 8
    may_warn = True

    def make(self) -> Iterator[Scene]:
        for model in saved_models():
            yield {"features.arrow": _arrow(feature_table())} | model

    def targets(self, scene: Scene) -> list[str]:  # noqa: ARG002
        return ["model/model.json", *["model/model.safetensors"] * 4]

    def sealed(self, scene: Scene, target: str) -> Scene:
        return with_model_digest(scene) if target == "model/model.safetensors" else scene

    def run(self, folder: Path) -> None:
        from labeldp.learn.prediction_files import predict_file

        predict_file(SavedModel.load(folder / "model"), folder / "features.arrow", folder / "out.parquet")


class PredictCommand(Models):
    """`labeldp predict` with a corrupted model."""

    name = "cli predict"
    weight = 0.1

    def run(self, folder: Path) -> None:
        command("predict", folder / "model", folder / "features.arrow", "--out", folder / "out.parquet")


class EvaluateCommand(Features):
    """`labeldp evaluate` with corrupted features or model."""

    name = "cli evaluate"
    weight = 0.1
    may_warn = True

    def targets(self, scene: Scene) -> list[str]:
        return list(scene)

    def sealed(self, scene: Scene, target: str) -> Scene:
        return with_model_digest(scene) if target == "model/model.safetensors" else scene

    def run(self, folder: Path) -> None:
        (features,) = folder.glob("features.*")
        command("evaluate", folder / "model", features, "--label", "y")


class Joins(Reader):
    """A message and a file of features joined, as `train` does it before it fits a model."""

    name = "train"
    weight = 1

    def make(self) -> Iterator[Scene]:
        kept = message_of(released())
        good = feature_table().drop_columns(["y"])
        for name, content in (
            ("features.csv", _text(good, ",")),
            ("features.parquet", _parquet(good)),
            ("features.arrow", _arrow(good)),
        ):
            yield {name: content} | kept

    def sealed(self, scene: Scene, target: str) -> Scene:
        return with_manifest(scene, target) if target.startswith("out/") else scene

    def run(self, folder: Path) -> None:
        from labeldp.learn.joined_features import joined_features

        (features,) = folder.glob("features.*")
        joined_features(Message.open(folder / "out"), features, "id")

    def leftovers(self, folder: Path) -> Iterator[str]:  # noqa: ARG002 - nothing is written
        return iter(())


@cache
def one_round() -> Scene:
    """Features with their plan, the cells that were sent, the labels, and the answer with sums."""
    from labeldp.learn.sums.cells_to_send import cells_of_file
    from labeldp.release.cells_file import CellsFile, write_cells
    from labeldp.release.sums import sums_for_cells

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pq.write_table(feature_table().drop_columns(["y"]), folder / "features.parquet")
        pq.write_table(label_table(), folder / "labels.parquet")
        plan, table = cells_of_file(folder / "features.parquet", "id", 20)
        write_cells(table, folder / "cells.parquet")
        (folder / "plan.json").write_text(plan.to_json(), encoding="utf-8")
        sums_for_cells(_source(folder), CellsFile.read(folder / "cells.parquet"), folder / "sums", 20, DOMAIN)
        return content_of(folder)


class Cells(Reader):
    """Sums of labels for a corrupted file of cells."""

    name = "cells"
    weight = 3

    def make(self) -> Iterator[Scene]:
        yield {name: content for name, content in one_round().items() if name in ("cells.parquet", "labels.parquet")}

    def targets(self, scene: Scene) -> list[str]:  # noqa: ARG002
        return ["cells.parquet"]

    def run(self, folder: Path) -> None:
        from labeldp.release.cells_file import CellsFile
        from labeldp.release.sums import SumsAnswer, sums_for_cells

        cells = CellsFile.read(folder / "cells.parquet")
        sums_for_cells(_source(folder), cells, folder / "answer", 20, DOMAIN, matching=True)
        SumsAnswer.open(folder / "answer")


class TrainSums(Reader):
    """A model from a corrupted answer with sums, or with a corrupted plan."""

    name = "train sums"
    weight = 2

    def make(self) -> Iterator[Scene]:
        yield {name: content for name, content in one_round().items() if "labels" not in name}

    def targets(self, scene: Scene) -> list[str]:  # noqa: ARG002
        return ["plan.json", "sums/sums.json", "sums/records.parquet"]

    def sealed(self, scene: Scene, target: str) -> Scene:
        return with_manifest(scene, target, folder="sums") if target.startswith("sums/") else scene

    def run(self, folder: Path) -> None:
        from labeldp.learn.train import train

        result = train(folder / "sums", folder / "features.parquet", id="id", plan=folder / "plan.json")
        result.model.save(folder / "model")


class Criteo(Reader):
    """The Criteo log."""

    name = "criteo"
    weight = 2

    def make(self) -> Iterator[Scene]:
        from labeldp.paper.data import write_criteo_like

        with tempfile.TemporaryDirectory() as name:
            write_criteo_like(Path(name, "log.tsv"), 40, sales=0.5)
            rows = [row.split(b"\t") for row in Path(name, "log.tsv").read_bytes().splitlines()]
        for number, row in enumerate(rows):
            row[1] = f"{MARKERS[number % 4]}.25".encode() if row[0] == b"1" else row[1]
        text = b"\n".join(b"\t".join(row) for row in rows) + b"\n"
        yield {"log.tsv": text}
        yield {"log.tsv.gz": gzip.compress(text, mtime=0)}

    def run(self, folder: Path) -> None:
        from labeldp.paper.data import load_criteo

        (log,) = folder.glob("log.*")
        load_criteo(log, min_count=1)


class Census(Reader):
    """Census files: the archive's, an IPUMS extract with its codebook, and CSV."""

    name = "census"
    weight = 5

    def make(self) -> Iterator[Scene]:
        from labeldp.paper.data.census import ARCHIVE_LAYOUT, CENSUS_VOCABULARIES

        random = Random(1)
        people = [
            {"WKSWORK1": random.randrange(53), "AGE": random.randrange(100)}
            | {
                name: random.randrange(first, first + min(number, 9))
                for name, (first, number) in CENSUS_VOCABULARIES.items()
            }
            for _ in range(12)
        ]
        lines = []
        for person in people:
            text = ["0"] * ARCHIVE_LAYOUT.width
            text[0] = "P"
            for name, (first, last) in ARCHIVE_LAYOUT.fields.items():
                text[first - 1 : last] = f"{person[name]:0{last - first + 1}d}"
            lines += ["H" + "1" * 90, "".join(text)]
        yield {"EXT1940USCB.dat": ("\n".join(lines) + "\n").encode()}
        head = list(people[0])
        rows = [",".join(str(person[name]) for name in head) for person in people]
        yield {"extract.csv": ("\n".join([",".join(head), *rows]) + "\n").encode()}
        yield self._ipums(people)

    @staticmethod
    def _ipums(people: list[dict[str, int]]) -> Scene:
        start, variables, places = 1, [], []
        for name in people[0]:
            width = 4
            places.append(name)
            variables.append(
                f'<var ID="{name}" name="{name}" dcml="0" intrvl="discrete"><location StartPos="{start}" '
                f'EndPos="{start + width - 1}" width="{width}"/><labl>{name}</labl><txt>{name}</txt><concept>x</concept>'
                '<varFormat type="numeric"/></var>'
            )
            start += width
        codebook = (
            '<codeBook xmlns="ddi:codebook:2_5"><stdyDscr><citation><serStmt><serName abbr="usa">IPUMS USA</serName>'
            "<serInfo>DOI:10.18128/D010</serInfo></serStmt></citation><dataAccs><useStmt><citReq>x</citReq><conditions>x</conditions>"
            "</useStmt></dataAccs></stdyDscr><fileDscr><fileTxt><fileName>extract.dat</fileName><fileCont>x</fileCont>"
            '<fileStrc type="rectangular"/><fileType charset="ISO-8859-1"/><format>fixed length fields</format>'
            f"<filePlac>x</filePlac></fileTxt></fileDscr><dataDscr>{''.join(variables)}</dataDscr></codeBook>"
        )
        rows = ["".join(f"{person[name]:04d}" for name in places) for person in people]
        return {"extract.dat": ("\n".join(rows) + "\n").encode(), "extract.xml": codebook.encode()}

    def run(self, folder: Path) -> None:
        from labeldp.paper.data import load_census

        (file,) = [*folder.glob("*.dat"), *folder.glob("*.csv")]
        load_census(file)


class TrainingLogs(Reader):
    """The log of finished trainings."""

    name = "training log"
    weight = 3

    def make(self) -> Iterator[Scene]:
        from labeldp.paper.experiments.trainings import Run, TrainedRun, TrainingLog

        def write(path: Path) -> None:
            for seed in range(3):
                TrainingLog(path, {"rows": 1}).append(TrainedRun(Run("laplace", 0.5, seed), 2.0, 3.0, 4.0, 5.0, 6.0))

        yield {"runs.jsonl": _written(write, "runs.jsonl")}

    def run(self, folder: Path) -> None:
        from labeldp.paper.experiments.trainings import TrainingLog

        TrainingLog(folder / "runs.jsonl", {"rows": 1}).read()


class LedgerCommand(Ledgers):
    """`labeldp ledger show` of a corrupted ledger."""

    name = "cli ledger show"
    weight = 0.1

    def run(self, folder: Path) -> None:
        command("ledger", "show", folder / "ledger.db")


class LedgerVerifyCommand(Ledgers):
    """`labeldp ledger verify` of it."""

    name = "cli ledger verify"
    weight = 0.1

    def run(self, folder: Path) -> None:
        command("ledger", "verify", folder / "ledger.db")


class Refused(LabelDPError):  # noqa: N818
    """The command line ended with an error message and one of its exit codes."""


_commands = cache(typer.main.get_command)


def command(*arguments: object) -> None:
    """Run `labeldp` in this process. What escapes from it would have been a traceback."""
    from labeldp.cli import main

    typer.main.get_command = _commands  # made once, which otherwise takes most of the time
    before = sys.argv
    sys.argv = ["labeldp", *map(str, arguments)]
    try:
        main()
    except SystemExit as stop:
        if stop.code not in (0, None, 1, 2, 3):
            raise AssertionError(f"exit code {stop.code}") from None
        if stop.code:
            raise Refused(f"exit code {stop.code}") from None
    finally:
        sys.argv = before


READERS: tuple[type[Reader], ...] = (
    *(Labels, Privatize, PrivatizeCommand, ApplyLabels, ApplyRecords, ApplyMessage, KeyFiles, SigningKeys),
    *(Ledgers, LedgerCommand, LedgerVerifyCommand, Messages, SignedMessages, AuditMessageCommand, Joins, Private),
    *(Mechanisms, Sums, AuditCommand, Priors, Features, Models, PredictCommand, EvaluateCommand),
    *(Cells, TrainSums, Criteo, Census, TrainingLogs),
)


def fresh(folder: Path, scene: Scene) -> None:
    """`folder` with nothing but these files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    for name, content in scene.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if name.endswith(("key.json", "private.pem")):
            path.chmod(0o600)
