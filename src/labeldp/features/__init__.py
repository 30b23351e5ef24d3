"""Tables of features: any table as Arrow columns, and columns as the numbers and codes that models take. No labels here.

May import `arrays` and `errors` only. Known to every room that reads features.

| file | what it does |
|---|---|
| `tables` | reads pandas, polars and Arrow tables and arrays as Arrow columns with names |
| `vocabulary` | gives the categories of one column their codes |
| `columns` | decides what is a number and what a category, and makes the arrays |
"""
