"""`labeldp explore`: a page on this machine that shows what ε, a distribution and a mechanism mean. It reads no label.

What the page shows is computed in `answers` by plain functions: each takes a frozen `Question` and returns frozen results. `sidebar`, `charts` and
`page` put them on the screen with Streamlit, `files` reads and makes files, `app/` holds the script that Streamlit runs, and `server` starts it.
"""
