"""Exact mechanisms: an encoder, a table of integers, and the values that its codes stand for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cached_property
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp import audit
from labeldp.arrays import Floats, label_array
from labeldp.budget import Epsilon, decimal_text, exact
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.losses import get_loss
from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.encoders import Encoder
from labeldp.sampling import OsEntropy, Table

if TYPE_CHECKING:
    from labeldp.mechanisms.base import LossLike
    from labeldp.prior import Prior
    from labeldp.sampling import IdDigests, Randomness

FORMAT = "labeldp-mechanism"
FORMAT_VERSION = 1
CHUNK = 1 << 18
MATRIX_CELLS = 20_000_000


class FiniteMechanism(Mechanism):
    """A mechanism with finitely many outputs whose every probability is an integer over 2^64.

    Building one proves ε for its table in rational arithmetic (`audit.verify`) and refuses it otherwise, so an object
    of this class is a proof. It is immutable.
    """

    exact: ClassVar[bool] = True
    encoder: Encoder
    table: Table
    prior: Prior | None
    loss: str | None
    details: dict[str, Any]

    def __init__(
        self,
        *,
        encoder: Encoder,
        table: Table,
        outputs: Floats,
        epsilon: Epsilon,
        domain: Domain | None = None,
        prior: Prior | None = None,
        loss: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        values = np.array(outputs, np.float64)
        values.flags.writeable = False
        if values.ndim != 1 or not np.isfinite(values).all():
            raise InvalidInput("outputs must be a flat list of finite numbers")
        if not isinstance(loss, (str, NoneType)) or not isinstance(details, (dict, NoneType)):
            raise InvalidInput("the loss must be a name and the details a record")
        if encoder.symbols > table.inputs or values.size != table.outputs:
            raise InvalidInput(
                f"the parts do not fit: {encoder.symbols} symbols for {table.inputs} rows, "
                f"{values.size} outputs for {table.outputs} columns"
            )
        self.__dict__.update(
            encoder=encoder,
            table=table,
            outputs=values,
            epsilon_exact=exact(epsilon),
            domain=domain,
            prior=prior,
            loss=loss,
            details=dict(details or {}),
        )
        audit.verify(self).require()

    def codes(self, labels: Any, ids: Any = None, randomness: Randomness | None = None) -> NDArray[np.uint32]:
        """The number of the output drawn for each label; `outputs[codes]` are the private labels.

        Privacy: ε-DP for each label, by the integer table. `OsEntropy` (the default) draws afresh in every call;
        `KeyedRandomness` needs `ids`, refuses duplicates, and gives the same record the same draw every time.
        """
        values = label_array(labels)
        source = OsEntropy() if randomness is None else randomness
        if source.needs_ids and ids is None:
            raise InvalidInput(f"{type(source).__name__} needs ids: one per label, all different")
        records = source.identify(ids, digest=self.digest_bytes)
        if records is not None and len(records) != values.size:
            raise InvalidInput(f"one id per label is needed: got {len(records)} ids for {values.size} labels")
        result = np.empty(values.size, np.uint32)
        for start in range(0, values.size, CHUNK):
            rows = slice(start, start + CHUNK)
            result[rows] = self.draw(values[rows], source, None if records is None else records[rows])
        return result

    def draw(self, labels: Floats, source: Randomness, records: IdDigests | None) -> NDArray[np.uint32]:
        """One chunk of `codes`, its ids identified already: what streaming engines call."""
        symbols = self.encoder.encode(labels)
        if self.table.outputs == 1:
            return np.zeros(symbols.size, np.uint32)
        words, second = source.draw(symbols, ids=records, digest=self.digest_bytes, rounding=self.table.needs_rounding)
        return self.table.sample(symbols, words, second)

    def randomize(self, labels: Any, ids: Any = None, randomness: Randomness | None = None) -> Floats:
        """One private label for each label: `outputs[codes(...)]`."""
        return self.outputs[self.codes(labels, ids, randomness)]

    def matrix(self, values: Any) -> Floats:
        """P[output j | label i], a row for each of `values`; rows sum to one."""
        points = label_array(values, "values")
        if points.size * self.outputs.size > MATRIX_CELLS:
            raise InvalidInput(
                f"a matrix of {points.size:,} × {self.outputs.size:,} is too large; ask for fewer values at a time"
            )
        return self.table.probabilities(self.encoder.encode(points))

    def conditional_loss(self, values: Floats, loss: LossLike = "squared") -> Floats:
        """E[ℓ(ŷ, y) | y] from the integer table."""
        measure = get_loss(loss)
        measure.valid_labels.check(values, "labels")
        measure.valid_outputs.check(self.outputs, "outputs")
        return np.concatenate(
            [
                (rows * measure(self.outputs[None, :], points[:, None])).sum(axis=1)
                for points, rows in self._rows(values)
            ]
        )

    def conditional_moments(self, values: Floats, decoded: Floats | None = None) -> tuple[Floats, Floats]:
        """Mean and variance of ŷ, or of `decoded[code]`, given each label, from the integer table."""
        numbers = self.outputs if decoded is None else decoded
        means, variances = [], []
        for _, rows in self._rows(values):
            mean = rows @ numbers
            means.append(mean)
            variances.append((rows * (numbers[None, :] - mean[:, None]) ** 2).sum(axis=1))
        return np.concatenate(means), np.concatenate(variances)

    def _rows(self, values: Floats) -> Iterator[tuple[Floats, Floats]]:
        """Values and their probability rows, in pieces of bounded size."""
        points = np.atleast_1d(np.asarray(values, np.float64))
        step = max(1, (1 << 22) // self.outputs.size)
        for start in range(0, points.size, step):
            part = points[start : start + step]
            yield part, self.table.probabilities(self.encoder.encode(part))

    @cached_property
    def digest_bytes(self) -> bytes:
        """SHA-256 of exactly what decides a draw: the encoder's numbers, the outputs and the integer weights."""
        state = hashlib.sha256(b"labeldp mechanism 1")
        for part in (self.encoder.canonical(), self.outputs.astype("<f8").tobytes(), self.table.canonical()):
            state.update(len(part).to_bytes(8, "little"))
            state.update(part)
        return state.digest()

    @property
    def digest(self) -> str:
        """`digest_bytes` in hexadecimal."""
        return self.digest_bytes.hex()

    def to_record(self) -> dict[str, Any]:
        """The public description as plain data, for JSON."""
        record: dict[str, Any] = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "kind": self.kind,
            "epsilon": decimal_text(self.epsilon_exact, places=400),
            "loss": self.loss,
            "domain": None if self.domain is None else self.domain.record,
            "details": self.details,
            "outputs": self.outputs.tolist(),
            "encoder": self.encoder.to_json(),
            "table": self.table.to_json(),
            "digest": self.digest,
        }
        if self.prior is not None:
            record["prior"] = {
                "epsilon": decimal_text(self.prior.epsilon_exact, places=400),
                "values": self.prior.values.tolist(),
                "masses": self.prior.masses.tolist(),
            }
        return record

    def to_json(self) -> str:
        """The complete public description; integers are strings, floats round-trip."""
        return json.dumps(self.to_record(), indent=1, ensure_ascii=False) + "\n"

    def proof(self) -> audit.Proof:
        """The exact worst ratio of the table that is sampled."""
        return audit.verify(self)

    def _facts(self) -> dict[str, str]:
        facts = super()._facts() | {"outputs": _few(self.outputs)}
        if self.loss is not None:
            facts["loss"] = self.loss
        return facts

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FiniteMechanism):
            return NotImplemented
        return (self.kind, self.epsilon_exact, self.digest) == (other.kind, other.epsilon_exact, other.digest)

    def __hash__(self) -> int:
        return hash(self.digest_bytes)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a mechanism is immutable: cannot set {name!r}; build a new one")


def _few(values: Floats, most: int = 6) -> str:
    if values.size <= most:
        return "[" + ", ".join(f"{v:.4g}" for v in values) + "]"
    return f"{values.size} values from {values[0]:.4g} to {values[-1]:.4g}"
