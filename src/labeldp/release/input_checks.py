"""What an input and the places of message and key must be like before anything is read."""

from pathlib import Path

from labeldp.engines.passes import LabelInput
from labeldp.errors import InvalidInput
from labeldp.message.labels_file import check_id_name


def check_input(labels: LabelInput, message: Path, key_file: Path | None, *, keep_order: bool = False) -> None:
    """Refuses what the engine cannot do, and places that would mix up input, message and key."""
    if keep_order and not labels.keeps_order:
        raise InvalidInput(
            "this engine cannot write rows in the order of the input: leave out keep_order (--keep-order)"
        )
    check_id_name(labels.id_name)
    folder = message.absolute().parent
    if not folder.is_dir():
        raise InvalidInput(f"the folder {folder} for the message does not exist: make it first")
    labels.check_places(message, key_file)
    if key_file is not None and key_file.resolve().is_relative_to(folder.resolve() / message.name):
        raise InvalidInput(
            f"the key file {key_file} is inside the message {message} and would be sent along with it. Whoever has both can "
            "undo the noise: move the key file out first"
        )
