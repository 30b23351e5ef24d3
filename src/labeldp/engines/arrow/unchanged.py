"""Notices an input that is no longer the one that was scanned."""

from collections.abc import Iterator

from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.arrow.steps import with_step
from labeldp.engines.batches import LabelBatch
from labeldp.engines.fingerprint import InputFingerprint
from labeldp.engines.scan import Scan
from labeldp.errors import InvalidInput


def unchanged(source: LabelSource, scanned: Scan, key: bytes, advice: str) -> LabelSource:
    """The source, which refuses if it differs from what was scanned, before anything drawn from it can be published.

    Under one release, an id must never be drawn with two labels. A release is resumed by the fingerprint from its scan, so
    the labels that are randomized must be those that were scanned, even if somebody writes to the file in between. The same
    goes for the labels that are counted: a prior of other labels than those that are checked is not what was asked for.
    `key` is the key of the scan, and `advice` says what to do after a refusal.
    """

    def check(batches: Iterator[LabelBatch]) -> Iterator[LabelBatch]:
        changed = InvalidInput(f"{source.path} changed while it was read. Nothing was released. {advice}")
        fingerprint = InputFingerprint(key)
        for batch in batches:
            if batch.ids.type != scanned.id_type:  # what comes next was made for the type that was scanned
                raise changed
            fingerprint.add(batch)
            yield batch
        if fingerprint.hexdigest() != scanned.input_hmac:
            raise changed

    return with_step(source, check)
