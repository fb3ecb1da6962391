"""``noisette studio``: a page on this machine for people who do not program (extra ``web``).

The page asks what is public, shows what a budget buys, and then runs the very command that it
shows (`runs.py`). Before that command nothing but the header of a table is read.
"""

from noisette.errors import MissingExtra

try:
    import jinja2 as _jinja2  # noqa: F401
    import python_multipart as _multipart  # noqa: F401
    import starlette as _starlette  # noqa: F401
    import uvicorn as _uvicorn  # noqa: F401
except ImportError:
    raise MissingExtra(
        "the page needs starlette, uvicorn, jinja2 and python-multipart; "
        "pip install 'noisette[web]'."
    ) from None

from noisette.app.studio.server import serve

__all__ = ["serve"]
