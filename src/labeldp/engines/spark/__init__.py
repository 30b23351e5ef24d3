"""The engine for a cluster: Apache Spark reads, draws, shuffles and writes. It needs the extra `spark`.

`spark_input` makes the passes over a frame. What runs on the workers is in `checking` (pass one), `drawing` (pass two, before
the shuffle) and `ordering` (after it); `records` says how they read a record, `rows` how a drawn one travels and `sealed` how
counts do. `guard` keeps labels out of their errors. `jobs` runs them and turns their failures into our errors, `parts` takes
what Spark's writer left, `columns` and `places` name columns and folders so that Spark finds them, `cluster` asks whether a
session may carry secrets, `session` starts one for the command line.
"""
