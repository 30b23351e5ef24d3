"""`labeldp explore`: a page on this machine that shows what ε, a distribution and a mechanism mean. It reads no label.

What the page shows is computed by plain functions here: each takes a frozen `Question` and returns frozen results. `page/` puts them
on the screen with Streamlit, one file an idea, `app/` holds the script that Streamlit runs, and `server.py` starts it.
"""
