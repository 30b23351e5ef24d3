"""The model behind the Criteo-like generator: how the features of a purchase are drawn, given its amount.

The label's normal score z (its rank in the calibrated prior, as a standard normal number) has correlation ρ with a
signal s. The signal is a weighted sum of four independent standard normal parts, and each part decides some columns:

    price   product_price, product_id, product_title, product_category2
    shop    partner_id, product_category1, product_brand, product_country
    delay   time_delay_for_conversion
    device  device_type

All other columns are independent of the label. Labels are drawn first and features given them, so labels follow the
prior exactly, whatever the features look like. The catalogue of shops and prices is fixed: seeds draw purchases from it
and do not change it.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from labeldp.paper.data.hashes import MISSING, uniform

Columns = dict[str, NDArray[Any]]

# ρ is set so that histogram gradient boosting reaches a test error near 4,140 at 4·10⁵ rows (see docs/research/data.md).
CORRELATION = 0.8465
# Price has most of the weight: a model needs more rows to find the parts that only show in columns of many values.
_WEIGHTS = np.sqrt([0.92, 0.04, 0.025, 0.015])
_PRICES, _SHOPS, _CATEGORIES, _COUNTRIES = 1500, 200, 20, 12
_USERS = 200_000
_MONTH = 2_592_000
# Quantiles of the delay, in seconds, near those of the genuine sample: most buy at once, the others within 30 days.
_DELAY_SHARES = (0.0, 0.25, 0.5, 0.6, 0.75, 1.0)
_DELAY_LOGS = np.log([20.0, 280.0, 870.0, 5_000.0, 377_000.0, _MONTH])


def signal_parts(score: NDArray[np.float64], generator: np.random.Generator) -> list[NDArray[np.float64]]:
    """The four parts of the signal, each standard normal, given the labels' normal scores."""
    signal = CORRELATION * score + np.sqrt(1 - CORRELATION**2) * generator.standard_normal(len(score))
    parts = [generator.standard_normal(len(score)) for _ in _WEIGHTS]
    rest = signal - sum(weight * part for weight, part in zip(_WEIGHTS, parts, strict=True))
    return [part + weight * rest for weight, part in zip(_WEIGHTS, parts, strict=True)]


def purchases(score: NDArray[np.float64], generator: np.random.Generator, first_row: int) -> Columns:
    """The columns of purchases with these normal scores: the price, and codes for all others (-1 is missing)."""
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
    """The fixed catalogue: cells of the price and shop parts, some more frequent than others, and what each stands for."""

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


@cache
def _world() -> _World:
    return _World()


def _cells(generator: np.random.Generator, number: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cut the normal distribution into cells with Zipf shares in random order. Returns inner edges and cell medians."""
    share = generator.permutation(_zipf(number))
    top = np.cumsum(share)
    return ndtri(top[:-1]), ndtri(top - share / 2)


def _zipf(number: int) -> NDArray[np.float64]:
    share = 1.0 / (np.arange(number) + 0.01 * number)
    return np.asarray(share / share.sum())


def _skewed(codes: NDArray[np.int64], salt: int, number: int, *, missing: float) -> NDArray[np.int64]:
    """A fixed item 0 … number−1 for each code, early items more often; missing for the given share of codes."""
    draw = uniform(codes, salt)
    item = ((number + 1) ** ((draw - missing) / (1 - missing))).astype(np.int64) - 1
    return np.where(draw < missing, MISSING, item)


_DEVICE_EDGES = ndtri(np.array([0.57, 0.98]))
