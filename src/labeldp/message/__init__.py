"""The message: the folder that goes from the labels party to the features party. It is written and read only here.

May import `mechanisms` and below. Known to `engines`, `release` and everything above them.

| file | what it does |
|---|---|
| `layout` | names the files in the folder |
| `manifest` | writes and reads `mechanism.json` |
| `labels_file` | writes and reads the labels; a file format is added here |
| `card` | writes `PRIVACY.md` |
| `writer` | writes a whole folder |
| `reader` | opens a folder as a `Message` |
"""

from labeldp.message.reader import Message

__all__ = ["Message"]
