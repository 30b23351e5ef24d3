"""Exact mechanisms: an encoder, a table of integers and the values of its codes."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import NoneType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats, frozen, label_array, number_array
from labeldp.budget import exact_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.json_text import fields_of, read_fields
from labeldp.losses import LossLike, get_loss
from labeldp.mechanisms.mechanism import LARGEST_OUTPUT, Encoder, Mechanism
from labeldp.mechanisms.proof import Proof, verify
from labeldp.mechanisms.registry import MECHANISMS, Entry, Request
from labeldp.priors import Prior
from labeldp.sampling import IdDigests, Randomness, Table
from labeldp.sampling.randomness import source_of

CHUNK = 1 << 18
MATRIX_CELLS = 20_000_000
Parameters = tuple[tuple[str, float], ...]
"""Parameters of a mechanism, by name."""
AUTO = "auto"
"""The name of the rule that chooses a mechanism for training a model (`labeldp.mechanisms.auto`)."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FiniteMechanism(Mechanism):
    """A mechanism with finitely many outputs whose probabilities are all integers over 2^64.

    The constructor proves ε for the table in rational arithmetic (`labeldp.mechanisms.verify`) and raises an error
    otherwise, so every object of this class is proven. It is immutable.

    Attributes
    ----------
    encoder : Encoder
        Maps a label to the symbol that its private version depends on.
    table : Table
        The distribution over codes for each symbol, in integers.
    outputs : array
        The private label of each code.
    epsilon_exact : Fraction
        The ε of one label.
    domain, prior, loss : optional
        The domain, prior and loss that it was designed for.
    parameters : tuple of pairs
        Its parameters, by name.

    Examples
    --------
    >>> from labeldp.mechanisms import FiniteMechanism, RROnBins
    >>> mechanism = RROnBins([10, 100], epsilon=1)
    >>> isinstance(mechanism, FiniteMechanism), mechanism.matrix([0, 200]).round(2).tolist()
    (True, [[0.73, 0.27], [0.27, 0.73]])
    """

    exact: ClassVar[bool] = True
    encoder: Encoder
    table: Table
    outputs: Floats
    epsilon_exact: Fraction
    domain: Domain | None = None
    prior: Prior | None = None
    loss: str | None = None
    parameters: Parameters = ()

    def __post_init__(self) -> None:
        values = np.asarray(self.outputs, np.float64)
        if values.ndim != 1 or not (np.abs(values) <= LARGEST_OUTPUT).all():
            raise InvalidInput(f"outputs must be a flat list of numbers, none of them beyond {LARGEST_OUTPUT:g}")
        if not isinstance(self.loss, (str, NoneType)):
            raise InvalidInput("the loss must be a name")
        if self.encoder.symbols > self.table.inputs or values.size != self.table.outputs:
            raise InvalidInput(
                f"the parts do not fit: {self.encoder.symbols} symbols for {self.table.inputs} rows, "
                f"{values.size} outputs for {self.table.outputs} columns"
            )
        object.__setattr__(self, "outputs", frozen(values))
        object.__setattr__(self, "epsilon_exact", exact_epsilon(self.epsilon_exact))
        object.__setattr__(self, "parameters", tuple((name, float(value)) for name, value in self.parameters))
        verify(self).require()

    @classmethod
    def from_parts(cls, **parts: Any) -> Self:
        """Make a mechanism from its parts, which are the attributes of `FiniteMechanism`. ε is proven for them.

        Subclasses have constructors that design the parts. A stored mechanism is made here, without a new design.

        Parameters
        ----------
        **parts : Any
            The attributes.

        Returns
        -------
        FiniteMechanism
        """
        made = cls.__new__(cls)
        FiniteMechanism.__init__(made, **parts)
        return made

    def parameter(self, name: str) -> float:
        """Return one of the parameters.

        Parameters
        ----------
        name : str
            The name, for instance "tau".

        Returns
        -------
        float
        """
        return dict(self.parameters)[name]

    def codes(self, labels: Any, ids: Any = None, randomness: Randomness | None = None) -> NDArray[np.uint32]:
        """Draw an output code for each label; `outputs[codes]` are the private labels.

        Parameters
        ----------
        labels : array-like
            The true labels. If the domain has a unit, durations are converted to it, and plain numbers are assumed to
            be in it. Labels outside the domain are moved to its bounds, as in `Domain.check`.
        ids : array-like, optional
            One id per record, all different, for `KeyedRandomness`.
        randomness : OsEntropy or KeyedRandomness, optional
            `OsEntropy`, the default, draws fresh words in every call. `KeyedRandomness` gives a record the same draw every time.

        Returns
        -------
        array of uint32

        Privacy
        -------
        ε-DP for each label, by the integer table.
        """
        source = source_of(randomness, ids)
        values = self._checked(labels)
        records = source.identify(ids, digest=self.digest_bytes)
        if records is not None and len(records) != values.size:
            raise InvalidInput(f"one id per label is needed: got {len(records)} ids for {values.size} labels")
        result = np.empty(values.size, np.uint32)
        for start in range(0, values.size, CHUNK):
            rows = slice(start, start + CHUNK)
            result[rows] = self.draw(values[rows], source, None if records is None else records[rows])
        return result

    def draw(self, labels: Floats, source: Randomness, records: IdDigests | None) -> NDArray[np.uint32]:
        """Draw one chunk of `codes` for records that are already identified, for streaming engines.

        Parameters
        ----------
        labels : array of float64
            Checked labels.
        source : Randomness
            Where the random bits come from.
        records : IdDigests or None
            The result of `source.identify`.

        Returns
        -------
        array of uint32
        """
        symbols = self.encoder.encode(labels)
        if self.table.outputs == 1:
            return np.zeros(symbols.size, np.uint32)
        words, second = source.draw(symbols, ids=records, digest=self.digest_bytes, rounding=self.table.needs_rounding)
        return self.table.sample(symbols, words, second)

    def randomize(self, labels: Any, ids: Any = None, randomness: Randomness | None = None) -> Floats:
        return self.outputs[self.codes(labels, ids, randomness)]

    def _checked(self, labels: Any) -> Floats:
        values = label_array(labels, unit=None if self.domain is None else self.domain.unit)
        if self.domain is not None:
            outside = (values < self.domain.lower) | (values > self.domain.upper)
            self.domain.judge_clipping(int(np.count_nonzero(outside)), values.size, stacklevel=4)
        return values

    def matrix(self, values: Any) -> Floats:
        """Return P[output j | label i] as a matrix.

        Parameters
        ----------
        values : array-like
            Labels.

        Returns
        -------
        array of float64
            One row per label; rows sum to one.
        """
        points = label_array(values, "values")
        if points.size * self.outputs.size > MATRIX_CELLS:
            raise InvalidInput(
                f"a matrix of {points.size:,} × {self.outputs.size:,} is too large; ask for fewer values at a time"
            )
        return self.table.probabilities(self.encoder.encode(points))

    def conditional_loss(self, values: Floats, loss: LossLike = "squared") -> Floats:
        measure = get_loss(loss)
        measure.valid_labels.check(values, "labels")
        measure.valid_outputs.check(self.outputs, "outputs")
        return np.concatenate(
            [
                (rows * measure(self.outputs[None, :], points[:, None])).sum(axis=1)
                for points, rows in self._rows(values)
            ]
        )

    def output_rows(self, values: Floats, edges: Floats) -> tuple[Floats, Floats]:  # noqa: ARG002
        return np.broadcast_to(self.outputs, (values.size, self.outputs.size)), self.matrix(values)

    def conditional_moments(self, values: Floats, decoded: Floats | None = None) -> tuple[Floats, Floats]:
        """Return the mean and variance of ŷ given each label, from the integer table.

        Parameters
        ----------
        values : array
            Labels.
        decoded : array, optional
            Values for the codes, in place of the outputs.

        Returns
        -------
        means, variances : arrays of float64
        """
        numbers = self.outputs if decoded is None else decoded
        means, variances = [], []
        for _, rows in self._rows(values):
            mean = rows @ numbers
            means.append(mean)
            variances.append((rows * (numbers[None, :] - mean[:, None]) ** 2).sum(axis=1))
        return np.concatenate(means), np.concatenate(variances)

    def _rows(self, values: Floats) -> Iterator[tuple[Floats, Floats]]:
        """Yield values and their probability rows, in pieces of bounded size."""
        points = np.atleast_1d(number_array(values, "values"))
        step = max(1, (1 << 22) // self.outputs.size)
        for start in range(0, points.size, step):
            part = points[start : start + step]
            yield part, self.table.probabilities(self.encoder.encode(part))

    def without_counts(self) -> Self:
        """Return the same mechanism with a prior without noisy counts, for labels that were not counted.

        Returns
        -------
        FiniteMechanism
            With the same digest and the same draws.
        """
        if self.prior is None or self.prior.counts is None:
            return self
        bare = copy.copy(self)
        object.__setattr__(bare, "prior", Prior(self.prior.values, self.prior.masses, self.prior.epsilon_exact))
        return bare

    @cached_property
    def digest_bytes(self) -> bytes:
        """SHA-256 of everything that determines a draw: the encoder's numbers, the outputs and the integer weights."""
        state = hashlib.sha256(b"labeldp mechanism 1")
        for part in (self.encoder.canonical(), self.outputs.astype("<f8").tobytes(), self.table.canonical()):
            state.update(len(part).to_bytes(8, "little"))
            state.update(part)
        return state.digest()

    @property
    def digest(self) -> str:
        """`digest_bytes` in hexadecimal."""
        return self.digest_bytes.hex()

    def _description(self) -> dict[str, Any]:
        return fields_of(self) | {"digest": self.digest}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        made = cls.from_parts(**read_fields(FiniteMechanism, record, "the mechanism"))
        if made.digest != record.get("digest"):
            raise InvalidInput(
                "the mechanism's digest does not match its numbers: the description was edited or damaged. "
                "Ask the labels party for the message again."
            )
        return made

    def proof(self) -> Proof:
        """Prove ε again for the table that is sampled.

        Returns
        -------
        Proof
            The exact worst ratio.
        """
        return verify(self)

    def output_chances(self, prior: Prior) -> Floats:
        """Return the probability of each output for labels from a prior.

        Parameters
        ----------
        prior : Prior
            The distribution of the labels.

        Returns
        -------
        array of float64
            One probability per output.
        """
        held = prior.masses > 0
        masses, chances, done = prior.masses[held], np.zeros(self.outputs.size), 0
        for points, rows in self._rows(prior.values[held]):
            chances += masses[done : done + points.size] @ rows
            done += points.size
        return chances

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


def _few(values: Floats) -> str:
    if values.size <= 6:
        return "[" + ", ".join(f"{v:.4g}" for v in values) + "]"
    return f"{values.size} values from {values[0]:.4g} to {values[-1]:.4g}"


def releasable(name: str) -> Entry:
    """Return the catalogue entry of a mechanism that may be released.

    Raises
    ------
    InvalidInput
        If the mechanism is unknown.
    PrivacyRefused
        If it is a float mechanism, which is for comparison only.
    """
    entry, choices = MECHANISMS.get(name), [entry for entry in MECHANISMS if entry.exact]
    if entry is None:
        raise MECHANISMS.unknown(name, choices)
    if not entry.exact:
        raise PrivacyRefused(
            f"the {name} mechanism draws floats, whose low bits leak the label, so it is for comparison only. "
            f"Choose one of {', '.join(choice.name for choice in choices)}."
        )
    return entry


def design(name: str, request: Request) -> FiniteMechanism:
    """Make the exact mechanism of that name for the request."""
    entry = releasable(name)
    if entry.needs_prior and request.prior is None:
        raise InvalidInput(f"{name} is designed for a prior: give one (prior=…, on the command line --prior FILE)")
    made = entry.make(request)
    if not isinstance(made, FiniteMechanism) or made.epsilon_exact > exact_epsilon(request.epsilon):
        raise PrivacyRefused(f"{name} did not make an exact mechanism of at most epsilon = {request.epsilon}")
    return made
