"""The application that Streamlit serves for `labeldp explore`: the page, for requests that are addressed to this machine.

A web page that a user visits can point its own domain name at 127.0.0.1 (DNS rebinding). The browser then takes the server for a
part of that page and lets it read the answers. Such requests carry the foreign name in their `Host` header and are refused, over
HTTP and on the websocket.
"""

from pathlib import Path

from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from streamlit.starlette import App

HOSTS = ["127.0.0.1", "localhost"]

app = App(
    Path(__file__).parent / "labeldp_explore_page.py",
    middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False)],
)
