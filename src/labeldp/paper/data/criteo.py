"""The Criteo Sponsored Search Conversion log: reading the genuine file with the paper's preprocessing, and generating data in its form.

Generated rows are made in chunks of a fixed size with a random stream each, so no row depends on how many follow it. Identifiers look like
the genuine file's: 32 upper-case hexadecimal digits, `-1` where missing.

**How features are drawn.** The label's normal score z (its rank in the calibrated prior, as a standard normal number) has
correlation ρ with a signal s. The signal is a weighted sum of four independent standard normal parts, and each part decides some
columns:

    price   product_price, product_id, product_title, product_category2
    shop    partner_id, product_category1, product_brand, product_country
    delay   time_delay_for_conversion
    device  device_type

All other columns are independent of the label. Labels are drawn first and features given them, so labels follow the
prior exactly, for any features. The catalogue of shops and prices is fixed: seeds draw purchases from it and do not
change it.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from labeldp.errors import InvalidInput
from labeldp.paper.data.dataset import MIN_COUNT, Dataset, reading, with_vocabulary
from labeldp.paper.published import CRITEO_CLIP, criteo_prior
from labeldp.sampling.ids import mix

CRITEO_NUMERIC = ("time_delay_for_conversion", "nb_clicks_1week", "product_price")
CRITEO_CATEGORICAL = (
    "product_age_group",
    "device_type",
    "audience_id",
    "product_gender",
    "product_brand",
    *(f"product_category{level}" for level in range(1, 8)),
    "product_country",
    "product_id",
    "product_title",
    "partner_id",
    "user_id",
)
CRITEO_SCHEMA = pa.schema(
    [
        ("Sale", pa.int64()),
        ("SalesAmountInEuro", pa.float64()),
        ("time_delay_for_conversion", pa.int64()),
        ("click_timestamp", pa.int64()),
        ("nb_clicks_1week", pa.int64()),
        ("product_price", pa.float64()),
        *((name, pa.string()) for name in CRITEO_CATEGORICAL),
    ]
)
"""Names, order and types of the fields in the file."""


def load_criteo(
    path: str | PathLike[str], *, min_count: int = MIN_COUNT, clip: float = CRITEO_CLIP, generated: bool = False
) -> Dataset:
    """Load the purchases of a Criteo log (`CriteoSearchData`) as the paper did.

    Rows without a sale amount are dropped. `-1` (missing) is a category like any other and stays -1 in numeric columns.
    The file is streamed: memory grows with the purchases kept (one row in nine), not with the file.

    Parameters
    ----------
    path : str or path
        The log: tab-separated, 23 fields, no header. It may be compressed (.gz).
    min_count : int
        Values of a categorical column that fewer purchases have become one item.
    clip : float
        Amounts above this become this.
    generated : bool
        Whether the file was made by `write_criteo_like`. The data set's name and description then state this.

    Returns
    -------
    Dataset
        Sale amounts, three numeric and 17 categorical columns.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged or another one (see `criteo_batches`), or contains no purchases.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from labeldp.paper.data import load_criteo, write_criteo_like
    >>> with TemporaryDirectory() as folder:
    ...     write_criteo_like(Path(folder, "log.tsv"), 1000, sales=0.5)
    ...     purchases = load_criteo(Path(folder, "log.tsv"), generated=True)
    >>> purchases.description
    'generated Criteo-like purchases, 513 rows from log.tsv'

    """
    path = Path(path)
    kept = [batch for batch in map(_purchases, criteo_batches(path)) if batch.num_rows]
    if not kept:
        raise InvalidInput(
            f"{path.name} contains no row with a sale amount (field 2 is -1 everywhere): there is nothing to train on"
        )
    table = pa.Table.from_batches(kept)
    features = {name: table[name].cast(pa.float64()) for name in CRITEO_NUMERIC}
    features |= {name: with_vocabulary(table[name], min_count) for name in CRITEO_CATEGORICAL}
    kind = "generated Criteo-like purchases" if generated else "purchases of the genuine Criteo log"
    return Dataset(
        name="criteo-like" if generated else "criteo",
        features=pa.table(features),
        labels=np.minimum(table["SalesAmountInEuro"].to_numpy(), clip),
        numeric=CRITEO_NUMERIC,
        categorical=CRITEO_CATEGORICAL,
        upper=clip,
        description=f"{kind}, {table.num_rows:,} rows from {path.name}",
    )


def criteo_batches(path: str | PathLike[str]) -> Iterator[pa.RecordBatch]:
    """Read every row of a Criteo log, one batch at a time, in constant memory.

    Parameters
    ----------
    path : str or path
        The log: tab-separated, 23 fields, no header. It may be compressed (.gz).

    Yields
    ------
    pyarrow.RecordBatch
        The next rows, with the 23 columns of the log.

    Raises
    ------
    InvalidInput
        If the file is missing, or a line does not have 23 fields or holds text where a number belongs. The message names
        the line.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from labeldp.paper.data import criteo_batches, write_criteo_like
    >>> with TemporaryDirectory() as folder:
    ...     write_criteo_like(Path(folder, "log.tsv"), 1000, sales=0.5)
    ...     sum(batch.num_rows for batch in criteo_batches(Path(folder, "log.tsv")))
    1000

    """
    path = Path(path)
    with reading(path, "the Criteo log, 23 tab-separated fields in each line", lambda text: _explained(path, text)):
        reader = pa.csv.open_csv(
            path,
            # With one thread only do errors of pyarrow carry the row number.
            read_options=pa.csv.ReadOptions(column_names=CRITEO_SCHEMA.names, use_threads=False, block_size=1 << 23),
            parse_options=pa.csv.ParseOptions(delimiter="\t", quote_char=False, ignore_empty_lines=False),
            convert_options=pa.csv.ConvertOptions(
                column_types=CRITEO_SCHEMA, strings_can_be_null=False, null_values=[], check_utf8=True
            ),
        )
        first_line = 1
        for batch in reader:
            _check(path, batch, first_line)
            yield batch
            first_line += batch.num_rows


def _purchases(batch: pa.RecordBatch) -> pa.RecordBatch:
    batch = batch.filter(pc.greater_equal(batch["SalesAmountInEuro"], 0.0))
    columns = {name: batch[name] for name in ("SalesAmountInEuro", *CRITEO_NUMERIC)}
    for name in CRITEO_CATEGORICAL:
        # Missing is spelled both ways in the log.
        values = pc.if_else(pc.equal(batch[name], "-1.0"), "-1", batch[name])
        columns[name] = values.dictionary_encode()
    return pa.record_batch(columns)


def _check(path: Path, batch: pa.RecordBatch, first_line: int) -> None:
    sale, amount = batch["Sale"], batch["SalesAmountInEuro"]
    tests = (
        (pc.is_in(sale, pa.array([0, 1])), "field 1 (Sale) should be 0 or 1"),
        (
            pc.and_(pc.is_finite(amount), pc.or_(pc.greater_equal(amount, 0.0), pc.equal(amount, -1.0))),
            "field 2 (SalesAmountInEuro) should be an amount of at least 0, or -1 without a sale",
        ),
    )
    for valid, expected in tests:
        wrong = np.flatnonzero(~valid.to_numpy(zero_copy_only=False))
        if len(wrong):
            raise InvalidInput(f"{path.name}, line {first_line + int(wrong[0])}: {expected}")


def _explained(path: Path, message: str) -> str:
    """Return an error of pyarrow, in words that a user can act on."""
    row = re.search(r"Row #(\d+)", message)
    where = f"{path.name}, line {row[1]}" if row else path.name
    if fields := re.search(r"Expected 23 columns, got (\d+)", message):
        found = int(fields[1])
        more = " Is it comma-separated, or another file?" if found == 1 else " The file may be damaged or cut off."
        return f"{where}: expected 23 tab-separated fields (the Criteo log, no header), found {found}.{more}"
    if value := re.search(r"column #(\d+):.* to (\w+): invalid value '(.*)'", message, re.DOTALL):
        field = CRITEO_SCHEMA.field(int(value[1]))
        kind = "a whole number" if field.type == pa.int64() else "a number"
        header = " The file should not have a header line." if value[3] == field.name else ""
        return f"{where}: field {int(value[1]) + 1} ({field.name}) should be {kind}.{header}"
    return f"{where}: not a Criteo log of 23 tab-separated fields"


CHUNK_ROWS = 65_536

MISSING = -1
_TITLE_WORDS = 5000
_HEX = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), dtype=np.uint16)
Columns = dict[str, NDArray[Any]]
# ρ is set so that histogram gradient boosting reaches a test error near 4,140 at 4·10⁵ rows (see docs/research/reproduction.md#data).
CORRELATION = 0.8465
# Price has most of the weight: a model needs more rows to find the parts that only show in columns of many values.
_WEIGHTS = np.sqrt([0.92, 0.04, 0.025, 0.015])
_PRICES, _SHOPS, _CATEGORIES, _COUNTRIES = 1500, 200, 20, 12
_USERS = 200_000
_MONTH = 2_592_000
# Quantiles of the delay, in seconds, near the quantiles of the genuine sample: most buy at once, the others within 30 days.
_DELAY_SHARES = (0.0, 0.25, 0.5, 0.6, 0.75, 1.0)
_DELAY_LOGS = np.log([20.0, 280.0, 870.0, 5_000.0, 377_000.0, _MONTH])
_DEVICE_EDGES = ndtri(np.array([0.57, 0.98]))
_LARGEST_SALE = 62_458.773

SALES, CLICKS = "sales.parquet", "clicks.parquet"
SAMPLE_SEED = 12


def chunks(n: int) -> Iterator[tuple[int, int]]:
    """Yield each chunk's number, and how many of its rows are wanted: all of them, except in the last chunk."""
    if n < 1:
        raise InvalidInput(f"the number of rows should be at least 1, not {n}")
    for chunk in range(-(-n // CHUNK_ROWS)):
        yield chunk, min(CHUNK_ROWS, n - chunk * CHUNK_ROWS)


def chunk_generator(seed: int, chunk: int, stream: int) -> np.random.Generator:
    """Return the random generator for one purpose (`stream`) in one chunk. It is fast and repeatable, and not for releases."""
    if seed < 0:
        raise InvalidInput(f"the seed should be a whole number of at least 0, not {seed}")
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence((seed, chunk, stream))))


def mixed(codes: NDArray[np.int64], salt: int) -> NDArray[np.uint64]:
    """Return a fixed pseudo-random 64-bit word for each code, by SplitMix64. Each salt gives other words."""
    return mix(codes.astype(np.uint64) + np.uint64(salt * 0x9E3779B97F4A7C15 % 2**64))


def uniform(codes: NDArray[np.int64], salt: int) -> NDArray[np.float64]:
    """Return a fixed pseudo-random number in [0, 1) for each code."""
    return np.asarray((mixed(codes, salt) >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


def hex_digits(codes: NDArray[np.int64], salt: int) -> NDArray[np.uint8]:
    """Return the 32 characters of each code's identifier, as a byte matrix."""
    words = np.column_stack([mixed(codes, salt), mixed(codes, salt + 0x5851F42D)])
    return _HEX[words.view(np.uint8)].view(np.uint8).reshape(len(codes), 32)


def identifiers(codes: NDArray[np.int64], salt: int) -> pa.StringArray:
    """Return each code's identifier; negative codes are missing."""
    text = hex_digits(codes, salt)
    missing = codes < 0
    lengths = np.where(missing, 2, 32)
    if missing.any():
        text[missing, :2] = np.frombuffer(b"-1", dtype=np.uint8)
        text = text[np.arange(32) < lengths[:, None]]
    return _strings(text, lengths)


def titles(codes: NDArray[np.int64], salt: int) -> pa.StringArray:
    """Return each code's title: zero or more identifiers separated by spaces; negative codes are missing.

    Most titles have one to three words, as in the genuine sample. Some words are much more frequent than others.
    """
    shares = np.cumsum([0.01, 0.04, 0.66, 0.19, 0.08, 0.015])
    words = np.searchsorted(shares, uniform(codes, salt), side="right")
    words[codes < 0] = 1
    first = np.cumsum(words) - words
    place = np.arange(words.sum()) - np.repeat(first, words)
    each = np.repeat(codes, words)
    word = (_TITLE_WORDS ** uniform(each * 8 + place, salt + 1)).astype(np.int64)
    text = np.full((len(word), 33), ord(" "), dtype=np.uint8)
    text[:, :32] = hex_digits(word, salt + 2)
    lengths = np.full(len(word), 33)
    lengths[(place + 1) == np.repeat(words, words)] = 32
    missing = each < 0
    text[missing, :2] = np.frombuffer(b"-1", dtype=np.uint8)
    lengths[missing] = 2
    flat = text[np.arange(33) < lengths[:, None]]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return _strings(flat, ends[first + words] - ends[first])


def _strings(text: NDArray[np.uint8], lengths: NDArray[np.int64]) -> pa.StringArray:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text)))


def signal_parts(score: NDArray[np.float64], generator: np.random.Generator) -> list[NDArray[np.float64]]:
    """Return the four parts of the signal, each standard normal, given the labels' normal scores."""
    signal = CORRELATION * score + np.sqrt(1 - CORRELATION**2) * generator.standard_normal(len(score))
    parts = [generator.standard_normal(len(score)) for _ in _WEIGHTS]
    rest = signal - sum(weight * part for weight, part in zip(_WEIGHTS, parts, strict=True))
    return [part + weight * rest for weight, part in zip(_WEIGHTS, parts, strict=True)]


def purchases(score: NDArray[np.float64], generator: np.random.Generator, first_row: int) -> Columns:
    """Return the columns of purchases with these normal scores: the price, and codes for all others (-1 is missing)."""
    rows = len(score)
    price_part, shop_part, delay_part, device_part = signal_parts(score, generator)
    world = _world()
    price = np.searchsorted(world.price_edges, price_part)
    shop = np.searchsorted(world.shop_edges, shop_part)
    variant = (4 ** generator.random(rows)).astype(np.int64) - 1
    product = (price * _SHOPS + shop) * 3 + variant

    codes: Columns = {}
    delay = np.exp(np.interp(ndtr(delay_part), _DELAY_SHARES, _DELAY_LOGS)).astype(np.int64)
    delay[generator.random(rows) < 0.01] = MISSING
    codes["time_delay_for_conversion"] = delay
    codes["click_timestamp"] = 1_596_439_472 + generator.integers(0, 3 * _MONTH, rows)
    clicks = np.minimum(np.exp(1.6 + 1.6 * generator.standard_normal(rows)) - 1, 493)
    codes["nb_clicks_1week"] = np.maximum(clicks, 0).astype(np.int64)
    codes["product_age_group"] = _skewed(product, 11, 4, missing=0.27)
    codes["device_type"] = np.searchsorted(_DEVICE_EDGES, device_part)
    audience = (60 ** generator.random(rows)).astype(np.int64)
    codes["audience_id"] = np.where(generator.random(rows) < 0.55, MISSING, audience)
    codes["product_gender"] = _skewed(product, 12, 3, missing=0.1)
    category = world.shop_category[shop]
    codes["product_brand"] = category * 64 + _skewed(product // 3, 13, 60, missing=0.0)
    codes["product_category1"] = category
    path = category * 4 + price * 4 // _PRICES
    codes["product_category2"] = path
    for level, missing in ((3, 0.45), (4, 0.6), (5, 0.97), (6, 0.995), (7, 0.9995)):
        child = _skewed(product, 20 + level, 6, missing=missing)
        path = np.where((child < 0) | (path < 0), MISSING, path * 8 + child)
        codes[f"product_category{level}"] = path
    codes["product_country"] = world.shop_country[shop]
    codes["product_id"] = product
    codes["product_title"] = product // 2
    codes["partner_id"] = shop
    # One purchase in four is by a returning user; all other users are seen once.
    returning = (_USERS ** generator.random(rows)).astype(np.int64)
    once = _USERS + 1 + np.arange(first_row, first_row + rows)
    codes["user_id"] = np.where(generator.random(rows) < 0.25, returning, once)

    unknown = generator.random(rows) < 0.05
    for name, column in codes.items():
        if name.startswith("product_") or name == "nb_clicks_1week":
            column[unknown] = MISSING
    return codes | {"product_price": world.prices[price]}


class _World:
    """The fixed catalogue: cells of the price and shop parts, some more frequent than others, and what each represents."""

    def __init__(self) -> None:
        generator = np.random.default_rng(1940)
        self.price_edges, middle = _cells(generator, _PRICES)
        raw = np.exp(3.9 + 1.05 * middle)
        # Prices often end in .00, .50 and .99, except where that would make two cells equal.
        ending = generator.choice([0.0, 0.5, 0.99], _PRICES)
        charming = np.floor(raw) + ending
        step = np.minimum(np.diff(raw, prepend=raw[0] / 2), np.diff(raw, append=raw[-1] * 2))
        self.prices = np.asarray(np.round(np.where(step > 2, charming, raw), 2), dtype=np.float64)
        self.shop_edges, _ = _cells(generator, _SHOPS)
        self.shop_category = np.arange(_SHOPS) * _CATEGORIES // _SHOPS
        self.shop_country = generator.choice(_COUNTRIES, _SHOPS, p=_zipf(_COUNTRIES))


_world = cache(_World)


def _cells(generator: np.random.Generator, number: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cut the normal distribution into cells with Zipf shares in random order. Returns inner edges and cell medians."""
    share = generator.permutation(_zipf(number))
    top = np.cumsum(share)
    return ndtri(top[:-1]), ndtri(top - share / 2)


def _zipf(number: int) -> NDArray[np.float64]:
    share = 1.0 / (np.arange(number) + 0.01 * number)
    return np.asarray(share / share.sum())


def _skewed(codes: NDArray[np.int64], salt: int, number: int, *, missing: float) -> NDArray[np.int64]:
    """Return a fixed item 0 … number−1 for each code, early items more often; missing for the given share of codes."""
    draw = uniform(codes, salt)
    item = ((number + 1) ** ((draw - missing) / (1 - missing))).astype(np.int64) - 1
    return np.where(draw < missing, MISSING, item)


def criteo_like(n: int, seed: int = 0, *, min_count: int = MIN_COUNT) -> Dataset:
    """Generate purchases similar to the Criteo log, with the paper's preprocessing.

    **Not genuine.** The labels, clipped and rounded to the nearest euro, follow `criteo_prior()` exactly. The features
    are drawn so that they explain as much of the label as the paper's model could. Which column explains how much is
    invented. Labels of row i do not depend on `n`; features depend on it only through which items are rare.

    Parameters
    ----------
    n : int
        The number of rows.
    seed : int
        Another seed gives other rows.
    min_count : int
        Values of a categorical column that fewer rows have become one item.

    Returns
    -------
    Dataset
        Amounts in euros, clipped at 400, three numeric and 17 categorical columns.

    Examples
    --------
    >>> from labeldp.paper.data import criteo_like
    >>> criteo_like(1000).labels[:4].round(2)
    array([61.7 , 22.65, 40.15,  5.64])

    """
    parts = list[Columns]()
    for chunk, rows in chunks(n):
        score, _ = _amounts(seed, chunk)
        parts.append({name: column[:rows] for name, column in _features(seed, chunk, score).items()})
    columns: dict[str, pa.Array] = {}
    for name in CRITEO_NUMERIC:
        columns[name] = pa.array(np.concatenate([part[name] for part in parts]).astype(np.float64))
    for name in CRITEO_CATEGORICAL:
        codes = pa.chunked_array([part[name] for part in parts], pa.int64())
        columns[name] = with_vocabulary(codes, min_count, _renderer(name))
    return Dataset(
        name="criteo-like",
        features=pa.table(columns),
        labels=criteo_like_labels(n, seed),
        numeric=CRITEO_NUMERIC,
        categorical=CRITEO_CATEGORICAL,
        upper=CRITEO_CLIP,
        description=f"generated Criteo-like purchases (seed {seed}), not the genuine Criteo log",
    )


def criteo_like_labels(n: int, seed: int = 0) -> NDArray[np.float64]:
    """Generate the labels of `criteo_like` alone, without the cost of the features.

    Parameters
    ----------
    n : int
        The number of labels.
    seed : int
        Another seed gives other labels.

    Returns
    -------
    array of float
        The labels of `criteo_like(n, seed)`.

    Examples
    --------
    >>> from labeldp.paper.data import criteo_like_labels
    >>> criteo_like_labels(100_000).max()
    np.float64(400.0)

    """
    amounts: NDArray[np.float64] = np.concatenate([_amounts(seed, chunk)[1][:rows] for chunk, rows in chunks(n)])
    return np.minimum(amounts, CRITEO_CLIP, out=amounts)


def criteo_like_batches(
    n: int, seed: int = 0, *, sales: float = 1.0, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Generate rows with the 23 columns of the genuine Criteo log, one batch at a time, in constant memory.

    Row i depends on `seed`, `sales` and i alone.

    Parameters
    ----------
    n : int
        The number of rows.
    seed : int
        Another seed gives other rows.
    sales : float
        The share of rows with a purchase; about 0.108 in the genuine log. As there, the other rows have `Sale` 0, amount
        -1 and price 0.
    columns : list of str, optional
        Make these columns only.

    Yields
    ------
    pyarrow.RecordBatch
        The next rows.

    Examples
    --------
    >>> from labeldp.paper.data import criteo_like_batches
    >>> [batch.num_rows for batch in criteo_like_batches(100_000, columns=["Sale"])]
    [65536, 34464]

    """
    wanted = CRITEO_SCHEMA if columns is None else pa.schema([CRITEO_SCHEMA.field(name) for name in columns])
    for chunk, rows in chunks(n):
        score, amount = _amounts(seed, chunk)
        sold = chunk_generator(seed, chunk, 2).random(CHUNK_ROWS) < sales
        made: Columns = {"Sale": sold.astype(np.int64), "SalesAmountInEuro": np.where(sold, amount, -1.0)}
        if set(wanted.names) - made.keys():
            made |= _features(seed, chunk, score)
            made["time_delay_for_conversion"] = np.where(sold, made["time_delay_for_conversion"], MISSING)
            made["product_price"] = np.where(sold, made["product_price"], 0.0)
        arrays = [
            _rendered(name, made[name][:rows]) if name in CRITEO_CATEGORICAL else pa.array(made[name][:rows])
            for name in wanted.names
        ]
        yield pa.record_batch(arrays, schema=wanted)


def write_criteo_like(path: str | PathLike[str], n: int, seed: int = 0, *, sales: float = 1.0) -> None:
    r"""Write the rows of `criteo_like_batches` to a file.

    Parameters
    ----------
    path : str or path
        A `.parquet` file, or a `.tsv` in exactly the format of the genuine log.
    n : int
        The number of rows.
    seed : int
        Another seed gives other rows.
    sales : float
        The share of rows with a purchase.

    Raises
    ------
    InvalidInput
        If the name of the file has another ending.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from labeldp.paper.data import write_criteo_like
    >>> with TemporaryDirectory() as folder:
    ...     write_criteo_like(Path(folder, "log.tsv"), 3)
    ...     print(Path(folder, "log.tsv").read_text().count("\n"))
    3

    """
    path = Path(path)
    batches = criteo_like_batches(n, seed, sales=sales)
    if path.suffix == ".parquet":
        words = {"labeldp": "generated Criteo-like data, not the genuine Criteo log"}
        schema = CRITEO_SCHEMA.with_metadata(words)
        with pa.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch.replace_schema_metadata(words))
    elif path.suffix == ".tsv":
        options = pa.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
        schema = pa.schema([(name, pa.string()) for name in CRITEO_SCHEMA.names])
        with pa.csv.CSVWriter(path, schema, write_options=options) as writer:
            for batch in batches:
                writer.write_batch(pa.record_batch([_text(column) for column in batch.columns], schema=schema))
    else:
        raise InvalidInput(f"cannot write {path.name}: the name should end in .parquet or .tsv")


def _amounts(seed: int, chunk: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Normal scores of a chunk's labels, and the amounts in euros before clipping."""
    generator = chunk_generator(seed, chunk, 0)
    prior = criteo_prior()
    rank = generator.random(CHUNK_ROWS)
    value = prior.values[np.searchsorted(np.cumsum(prior.masses)[:-1], rank, side="right")]
    # Spread each euro over the amounts that round to it. 0.499 so that rounding the fifth decimal does not leave that range.
    spread = 0.499 * generator.uniform(-1.0, 1.0, CHUNK_ROWS)
    amount: NDArray[np.float64] = np.abs(value + spread)
    tail = CRITEO_CLIP / np.sqrt(1.0 - generator.random(CHUNK_ROWS))
    np.copyto(amount, np.minimum(tail, _LARGEST_SALE), where=value == CRITEO_CLIP)
    return ndtri(np.clip(rank, 1e-16, 1 - 1e-16)), np.round(amount, 5)


def _features(seed: int, chunk: int, score: NDArray[np.float64]) -> Columns:
    return purchases(score, chunk_generator(seed, chunk, 1), chunk * CHUNK_ROWS)


def _renderer(name: str) -> Callable[[NDArray[np.int64]], pa.StringArray]:
    salt = 1000 * (1 + CRITEO_CATEGORICAL.index(name))
    return (lambda codes: titles(codes, salt)) if name == "product_title" else (lambda codes: identifiers(codes, salt))


def _rendered(name: str, codes: NDArray[np.int64]) -> pa.StringArray:
    """Return the strings of a column, made once for each distinct code where codes repeat often."""
    render = _renderer(name)
    if name in ("product_id", "user_id"):
        return render(codes)
    encoded = pa.array(codes).dictionary_encode()
    return render(encoded.dictionary.to_numpy()).take(encoded.indices)


def _text(column: pa.Array) -> pa.Array:
    text = column.cast(pa.string())
    if not pa.types.is_floating(column.type):
        return text
    return pc.if_else(pc.match_substring(text, "."), text, pc.binary_join_element_wise(text, ".0", ""))


def write_sample_data(folder: Path, rows: int) -> tuple[Path, Path]:
    """Write `sales.parquet` (order, amount) and `clicks.parquet` (order and features) into `folder`. Nothing is replaced."""
    sales, clicks = folder / SALES, folder / CLICKS
    for path in (sales, clicks):
        if path.exists():
            raise InvalidInput(f"{path} exists: remove it, or name another folder")
    data = criteo_like(rows, seed=SAMPLE_SEED)
    generator = np.random.default_rng(SAMPLE_SEED)
    orders = np.arange(1, rows + 1)
    shuffled = generator.permutation(rows)  # the two files have only the ids in common
    folder.mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(pa.table({"order": orders[shuffled], "amount": data.labels[shuffled]}), sales)
    pa.parquet.write_table(data.features.add_column(0, "order", pa.array(orders)), clicks)
    return sales, clicks
