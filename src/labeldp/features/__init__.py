"""Tables of features: any table as Arrow columns, and columns as the numbers and codes that models take. No labels here.

May import `arrays` and `errors` only. Known to every room that reads features.

| file | what it does |
|---|---|
| `tables` | reads pandas, polars and Arrow tables and arrays as Arrow columns with names; compact tables filled in batches |
| `records` | checks stored records, which may contain anything |
| `columns` | decides what is a number and what is a category, codes the categories, and makes the arrays |
"""
