"""What a message, its key file, its ledger and a later batch must have in common before `apply` draws anything."""

from dataclasses import replace
from pathlib import Path

from labeldp.domain import Domain
from labeldp.engines.passes import LabelInput
from labeldp.errors import InvalidInput
from labeldp.json_text import parse_json
from labeldp.mechanisms import FiniteMechanism
from labeldp.message.reader import Message
from labeldp.release.fixed_mechanism import check_charge
from labeldp.release.key_file import KeptRelease, KeyFile
from labeldp.release.ledger import Ledger, expect_mechanism


def kept_release(message: Message, keys: KeyFile, key_file: Path) -> KeptRelease:
    """What the key file knows of the message's release. Refuses a message of another key, and one that cannot grow."""
    if not message.header.keyed:
        raise InvalidInput(
            f"{message.path} was made without --key-file, so its key is gone and nothing can be added. Make a new release"
        )
    kept = keys.find(message.header.release)
    if kept is None or (own := FiniteMechanism.from_json(kept.mechanism)) != message.mechanism:
        raise InvalidInput(
            f"{key_file} is not the key of {message.path}: it does not know release {message.header.release}. Give the key "
            "file that privatize was given"
        )
    if own.to_json() != message.mechanism.to_json():  # its bounds or its prior, which no draw depends on
        raise InvalidInput(
            f"{message.path} does not describe the mechanism as {key_file} recorded it: it was changed. Use the message as it was"
        )
    if message.header.row_numbers or _requested_id(kept, key_file) is None:
        raise InvalidInput(
            f"the ids in {message.path} are row numbers, and a later batch would use the same numbers again: nothing can be "
            "added. Make a new release with --id"
        )
    return kept


def refuse_changes(message: Message, kept: KeptRelease, key_file: Path) -> None:
    """Refuses a message whose texts or signature are not those that were released: a new signature would cover the change."""
    signed_by = None if message.signature is None else message.signature.key
    if kept.papers and kept.papers != message.manifest.papers:
        raise InvalidInput(
            f"{message.path} has another mechanism.json or PRIVACY.md than {key_file} recorded: they were changed. Use the "
            "message as it was"
        )
    if kept.signed_by not in (None, signed_by):
        raise InvalidInput(
            f"{message.path} was signed with the key {kept.signed_by} when it was released, and its signature is gone: "
            "somebody changed it. Use the message as it was"
        )


def with_ledger(kept: KeptRelease, ledger: Ledger | None, message: Message) -> KeptRelease:
    """The release, with the note that it has a ledger. Refuses a batch without that ledger, or with another one."""
    if ledger is None:
        if kept.ledger:
            raise InvalidInput(
                f"{message.path} was charged to a ledger, which has to record each later batch: give --ledger, the file that "
                "privatize was given"
            )
        return kept
    charged = ledger.release(kept.id)
    expect_mechanism(charged, message.mechanism.digest)
    check_charge(message.mechanism, charged.epsilon)
    return replace(kept, ledger=True)


def check_columns(message: Message, labels: LabelInput) -> Domain:
    """The bounds of the message's labels. Refuses a batch whose columns are not called as those of the message."""
    if message.mechanism.domain is None:
        raise InvalidInput(
            f"{message.path} does not say which bounds its labels had, so nothing can be added. Make a new release"
        )
    if labels.id_column != message.header.id_column:
        raise InvalidInput(
            f"the message's id column is {message.header.id_column!r}, not {labels.id_column!r}: give --id "
            f"{message.header.id_column}, and rename the column in the new file if it has another name"
        )
    known = message.header.label_column
    if labels.label_column != known:
        raise InvalidInput(
            f"the labels of this message are called {known!r}, you gave {labels.label_column!r}: another quantity must not be "
            f"added to it. Give --label {known}, and rename the column in the new file if it is the same quantity"
        )
    return message.mechanism.domain


def other_ids(labels: LabelInput, kind: str) -> str:
    """Why ids of another kind than the message's are refused, and what to do. Reads the ids again, as that kind."""
    words = {"int": "whole numbers", "str": "text"}
    these = words["str" if kind == "int" else "int"]
    if labels.readable_as(kind):
        advice = f"Give --id-type {kind}"
    else:
        advice = f"Not all of them could be {words[kind]}: is {labels.id_column!r} the right column?"
    return f"the message's ids are {words[kind]}, these are {these}: they would never be the same records. {advice}"


def other_copy(message: Path, key_file: Path, held: int, known: int) -> str:
    """Why a message with other batches than the key file knows is refused."""
    if held < known:
        return (
            f"{message} is an outdated copy: it has {held} of the {known} batches that were released. Adding to it could "
            "release a record twice: use the newest copy"
        )
    if held > known:
        return (
            f"{message} has {held} batches, but {key_file} knows of {known}: the key file is an outdated copy. Adding could "
            "release a record twice: use the newest key file"
        )
    return (
        f"the batches in {message} are not those that {key_file} recorded: they were changed. Use the message as it was"
    )


def _requested_id(kept: KeptRelease, key_file: Path) -> str | None:
    """The id column that `privatize` was given for the release."""
    request = parse_json(kept.request, f"a request in the key file {key_file}")
    if not isinstance(request, dict) or not isinstance(request.get("id"), str | None):
        raise InvalidInput(f"the key file {key_file} is damaged (a request in it). Restore it from a backup")
    return request.get("id")
