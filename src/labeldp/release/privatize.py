"""`privatize`: a release of the labels in files, on one machine."""

import os

from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.engines.arrow.source import LabelSource
from labeldp.errors import expect
from labeldp.randomizer import LabelRandomizer
from labeldp.release.flow import release_labels
from labeldp.release.ledger import Ledger
from labeldp.release.outcome import Phase, ReleaseOutcome


def privatize(
    source: LabelSource,
    randomizer: LabelRandomizer,
    out: str | os.PathLike[str],
    *,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    key_file: str | os.PathLike[str] | None = None,
    keep_order: bool = False,
    sign_key: str | os.PathLike[str] | None = None,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> ReleaseOutcome:
    """Randomize the labels in a file and write them as a message for the features party.

    The message is a folder that appears whole or not at all. Files of any size are processed in bounded memory.

    Parameters
    ----------
    source : LabelSource
        The labels and their ids. The file is read more than once and must not change in between.
    randomizer : LabelRandomizer
        The budget ε, the bounds of the labels, the loss and the mechanism.
    out : str or Path
        The folder to write. It must not exist yet.
    ledger : Ledger, optional
        The ledger to charge.
    dataset : str, optional
        The name of the dataset in the ledger. A ledger needs one.
    key_file : str or Path, optional
        Where the secret key is kept; a new file is made if there is none. With it, a run that failed can be repeated at no
        further cost, and `apply` can add later batches. Without it, the key is forgotten when the run ends.
    keep_order : bool, default False
        Write the rows in the order of the input. If that order follows the labels, it reveals them. Otherwise the order
        depends on the ids only. Without an id column the ids are row numbers and show the order of the input either way.
    sign_key : str or Path, optional
        Your private Ed25519 key, a PEM file without a password that only you can read. The message is signed with it, and
        whoever has the public key can tell that it is yours and as you sent it.
    phase : callable, optional
        For progress bars: called with the name and the number of rows (or None) of each phase; returns None or a function
        that is called with the number of rows done since the last call.

    Returns
    -------
    ReleaseOutcome

    Raises
    ------
    InvalidInput
        If the input, a setting or a path cannot be used; if more than 20 % of the labels lie outside the bounds; or if `out` exists and is not
        the message of this same release. Nothing is charged then.
    InsufficientBudget
        If the ledger has less than ε left for the dataset. This is checked before a label is read.
    LabelDPError
        If the message cannot be written. The text says what was charged and how to go on.

    Warns
    -----
    ClippingWarning
        If more than 5 % of the labels lie outside the bounds. The share is private: the message does not hold it.

    See Also
    --------
    apply : Adds later batches to a message.
    Message : Reads a message.
    LabelRandomizer : The same for labels in an array.

    Privacy
    -------
    The message is ε-label-DP for replacing one label, with the ε of `randomizer`. It is charged to the ledger
    before anything is drawn from the labels. Resuming a release, or repeating a finished one, charges nothing. The ids
    are in the message as they are. Without an id column they are the row numbers, so the message shows the order of the input:
    if that order follows the labels, it reveals them, and ε does not cover it.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from labeldp import LabelRandomizer, LabelSource, Ledger, privatize
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sales = pa.table({"order": range(400), "amount": [20.0, 80.0] * 200})
    ...     pq.write_table(sales, f"{folder}/sales.parquet")
    ...     ledger = Ledger.create(f"{folder}/ledger.db")
    ...     _ = ledger.add_dataset("sales", budget=3)
    ...     outcome = privatize(
    ...         LabelSource(f"{folder}/sales.parquet", "amount", "order"),
    ...         LabelRandomizer(epsilon=1, domain=(0, 100)),
    ...         f"{folder}/message",
    ...         ledger=ledger,
    ...         dataset="sales",
    ...     )
    ...     print(ledger.remaining("sales"))
    2
    >>> outcome  # doctest: +ELLIPSIS
    ReleaseOutcome(message=...Path('.../message'), records=400, resumed=False, already_held=0)
    """
    expect(source, LabelSource, "source", 'make one with LabelSource("labels.parquet", "label column", "id column")')
    return release_labels(
        ArrowInput(source),
        randomizer,
        out,
        ledger=ledger,
        dataset=dataset,
        key_file=key_file,
        keep_order=keep_order,
        sign_key=sign_key,
        phase=phase,
    )
