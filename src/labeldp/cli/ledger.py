"""`labeldp ledger`: create a budget ledger, show the rest of the budget, list every release, check the whole file."""

import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from labeldp.budget import decimal_text
from labeldp.cli.console import line, out, print_json, print_table
from labeldp.cli.options import Json
from labeldp.release.ledger import Ledger
from labeldp.release.ledger_rows import Dataset, Release, dataset_name, exact_budget

app = typer.Typer(
    name="ledger",
    no_args_is_help=True,
    help="Keep privacy budgets: what each dataset may spend, and what it has spent.",
)

DATASET_FIELDS = "name unit budget spent remaining releases uncommitted created_at batches batch_records"
RELEASE_FIELDS = "id dataset kind epsilon entries state reserved_at committed_at mechanism_digest batches batch_records"
BATCH_HEADINGS = ("later batches", "records in later batches")

LedgerPath = Annotated[Path, typer.Argument(metavar="DB", help="The ledger's file, for instance ledger.db.")]


@app.command(epilog="Example: labeldp ledger create ledger.db --dataset sales --budget 3")
def create(
    path: LedgerPath,
    dataset: Annotated[str, typer.Option(metavar="NAME", help="The dataset's name; privatize refers to it.")],
    budget: Annotated[str, typer.Option(metavar="B", help="The total ε of all its releases, for instance 3 or 0.5.")],
    unit: Annotated[
        Literal["record", "person"],
        typer.Option(help="What the budget is for: each record, or each person with all records (privatize --person)."),
    ] = "record",
) -> None:
    """Enter a dataset and its budget, in a new ledger or in one that exists.

    The budget is the ε that all releases of this dataset may cost together, for ever.

    It cannot be changed afterwards, and no release is ever refunded.
    """
    name, amount = dataset_name(dataset), exact_budget(budget)  # before a file is made
    entered = Ledger.create(path, exist_ok=True).add_dataset(name, amount, unit=unit)
    budget_line = (
        f"Dataset {entered.name!r} may spend ε = {decimal_text(entered.budget)} in all{_per(entered)}, kept in {path}."
    )
    out.print(Text(budget_line), soft_wrap=True)
    options = shlex.join(["--ledger", str(path), "--dataset", entered.name])
    out.print(Text(f"Charge a release to it with: labeldp privatize … {options}"), soft_wrap=True)


@app.command(epilog="Example: labeldp ledger show ledger.db")
def show(path: LedgerPath, as_json: Json = False) -> None:
    """Show the budget of every dataset, the part that is spent and the rest.

    Batches are what labeldp apply has added to its releases since, or has begun to. They charge nothing.
    """
    datasets = Ledger(path).datasets()
    if as_json:
        print_json({"datasets": [_fields(dataset, DATASET_FIELDS) for dataset in datasets]})
        return
    print_table(
        f"Budgets in {path}",
        ("dataset", "budget ε", "spent", "remaining", "releases", "unfinished releases", *BATCH_HEADINGS),
        [
            (
                f"{dataset.name}{_per(dataset)}",
                decimal_text(dataset.budget),
                decimal_text(dataset.spent),
                Text(decimal_text(dataset.remaining), style="red" if dataset.remaining == 0 else "green"),
                str(dataset.releases),
                str(dataset.uncommitted),
                str(dataset.batches),
                f"{dataset.batch_records:,}",
            )
            for dataset in datasets
        ],
        left=[0],
    )
    if any(dataset.uncommitted for dataset in datasets):
        out.print(
            "Unfinished release: charged, but its run has not ended or was stopped. To resume it at no further cost, run the same "
            "command again with the same key file and input.",
            soft_wrap=True,
        )
    if any(dataset.batches for dataset in datasets):
        out.print(
            "Later batch: a file that labeldp apply read to add records to a release, at no further cost. All records of the "
            "file are counted, including records that the message had already.",
            soft_wrap=True,
        )


@app.command(epilog="Example: labeldp ledger history ledger.db --dataset sales")
def history(
    path: LedgerPath,
    dataset: Annotated[str | None, typer.Option(metavar="NAME", help="Only the releases of this dataset.")] = None,
    as_json: Json = False,
) -> None:
    """List every charged release, oldest first. Ids and digests are cut short; --json has them whole.

    A release is reserved, and charged, before its first label is randomized.

    It is committed once its message is in place; a crash in between leaves it charged. Noisy sums are drawn at once.

    Batches are what labeldp apply has added since, or has begun to: how many, and how many records were in them.
    """
    releases = Ledger(path).history(dataset)
    if as_json:
        print_json({"releases": [_fields(release, RELEASE_FIELDS) for release in releases]})
        return
    if not releases:
        out.print("No release was charged yet.")
        return
    print_table(
        f"Releases in {path}",
        ("release", "dataset", "ε", "state", "reserved (UTC)", "mechanism", *BATCH_HEADINGS),
        [
            (
                release.id[:8],
                release.dataset,
                decimal_text(release.epsilon),
                Text(state := _state(release), style="yellow" if state == "reserved" else "green"),
                f"{release.reserved_at:%Y-%m-%d %H:%M}",
                (release.mechanism_digest or "not fixed")[:9] if release.kind.resumable else f"none: {release.kind}",
                str(release.batches),
                f"{release.batch_records:,}",
            )
            for release in releases
        ],
        left=[0, 1, 3, 4, 5],
    )


@app.command(epilog="Example: labeldp ledger verify ledger.db --expect 5ac9253356cc…7b5a")
def verify(
    path: LedgerPath,
    expect: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="A head that an earlier check printed. It must be in the ledger's journal."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check the whole ledger, and print the head hash of its journal. Changes nothing.

    The chain of hashes must be whole, the tables must agree with the journal, and no budget may be overspent.

    Each stored mechanism must be proven again and cost no more than its charge.

    Store the head where people with access to the ledger cannot change it, and pass it to a later check with --expect.

    That also finds a ledger that was replaced by an older copy or rewritten as a whole.

    The exit code is 3 if something does not hold; the error names the first bad entry.
    """
    checked = Ledger(path).verify(expect)
    if as_json:
        print_json({"intact": True, **vars(checked)})
        return
    line("ledger", f"{path} is intact")
    line("holds", f"datasets {checked.datasets:,}, releases {checked.releases:,}, later batches {checked.batches:,}")
    line("proven", f"mechanisms {checked.mechanisms:,}, each within its charge")
    line("entries", f"{checked.entries:,}")
    if checked.expected_at is not None:
        line("expected", f"found as entry {checked.expected_at:,}")
    line("head", checked.head)


def _per(dataset: Dataset) -> str:
    return " for each person" if dataset.unit == "person" else ""


def _state(release: Release) -> str:
    return release.state if release.kind.resumable else "drawn"


def _fields(record: Dataset | Release, names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names.split()}


def signing_keys(
    name: Annotated[
        Path, typer.Argument(metavar="NAME", help="Where to write the pair: NAME-private.pem and NAME-public.pem.")
    ],
    as_json: Json = False,
) -> None:
    """Make a pair of Ed25519 keys: a private one to sign messages with, and a public one to give away.

    The other side checks with the public key that a message is yours and as you sent it.

    Give it to them by another channel than the messages, and let them compare the fingerprint.

    Example: labeldp signing-keys sales
    """
    from labeldp.artifact.signing import write_signing_keys

    key, public, fingerprint = write_signing_keys(name)
    if as_json:
        print_json({"private_key": str(key), "public_key": str(public), "fingerprint": fingerprint})
        return
    for label, text in (
        ("private", f"{key}: keep it to yourself, and sign with privatize --sign-key {key}"),
        ("public", f"{public}: give it to the other side, for train --verify-key {public}"),
        ("fingerprint", fingerprint),
    ):
        line(label, text, width=len("fingerprint"))
