"""Tables in files, read in batches: Parquet, CSV and TSV (also gzip-compressed) and Arrow IPC (Feather).

`files` detects the format of a file and reads some of its columns. `csv_text` and `parquet` handle the peculiarities of
these two formats. `feature_file` reads columns with one type each. Errors name files, columns and rows and never show a
value: it may be a label.
"""
