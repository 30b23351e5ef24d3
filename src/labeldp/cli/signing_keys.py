"""`labeldp signing-keys`: a pair of keys for the sender of messages."""

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli.console import line, print_json
from labeldp.cli.options import Json


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
