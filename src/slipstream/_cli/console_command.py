"""``slipstream console``: the page in a browser."""

from __future__ import annotations

import secrets
import socket
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slipstream._cli.common.checks import check_there
from slipstream._cli.common.options import Master
from slipstream._cli.common.user_functions import load_functions
from slipstream._errors import BadArgument, Unavailable
from slipstream._spark import session
from slipstream._tools.extras import require
from slipstream._tools.progress import say

if TYPE_CHECKING:
    from slipstream._console.workspace import Workspace


def console(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLDER",
            help="What the page shows: runs and results, or folders that contain them.",
            show_default="the current folder",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on; other than loopback it requires a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 for any free one.", min=0, max=65535)] = 8321,
    name: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="Another name of this machine. Repeatable.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File containing the token. If omitted, a token is generated and printed.")
    ] = None,
    functions: Annotated[
        list[Path] | None,
        typer.Option(
            help="A Python file that registers functions of your own for networks. It is executed. Repeatable."
        ),
    ] = None,
    tiles: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Map tiles to draw below the page Map, such as https://tiles.example.org/{z}/{x}/{y}.png. Browsers "
            "then load pictures from that site; without it they load nothing from elsewhere.",
            show_default="none",
        ),
    ] = "",
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    master: Master = session.LOCAL,
) -> None:
    """Open the console: the live city, the network editor, trajectories and jobs, in a browser.

    The page shows the runs, jobs, data sets and networks below each FOLDER (by default the current
    folder), and nothing outside. It starts, pauses and stops toll engines on the runs; their results go into the first
    FOLDER, by default into `runs`. It listens on this machine only; at any other address it requires a token. Engines
    started from the page end with the console; committed results stay.

    Examples:

    `slipstream console` # everything below the current folder

    `slipstream console data/runs tolls --port 9000 --no-browser`

    `slipstream console --functions examples/networks/linear_road.py` # networks with functions of your own

    `slipstream console --host 0.0.0.0 --name city.example.org --token-file token.txt` # a screen on the wall
    """
    require("console", "The console")
    from slipstream._console.guard import AccessRules, check_tiles, is_loopback
    from slipstream._console.server import create, page_advice, serve, static

    workspace = _open_workspace(folders or [])
    check_there(token_file, option="--token-file", what="file", hint="Put a long random word into it.")
    for file in functions or ():
        load_functions(file)
    port = port or _free_port(host)
    token = "" if is_loopback(host) else _read_token(token_file)
    rules = AccessRules(host, port, token, tuple(name or ()), check_tiles(tiles) if tiles else "")
    _check_port(host, port)

    address = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}/"
    say(f"The console is at {address}  (Ctrl-C ends it)")
    if token and token_file is None:
        say(f"It is reachable from other machines and requires this token: {token}")
    if not (static() / "index.html").is_file():
        say(f"This installation has no page; the interface works without. {page_advice()}")
    if workspace.is_truncated:
        say("There are too many folders to search all of them. Name those to show: slipstream console FOLDER...")
    if browser:
        webbrowser.open(address)
    serve(create(workspace, rules, master), host, port)


def _open_workspace(folders: list[Path]) -> Workspace:
    """Return the folders that the page may read: the given ones, or the current one, with new results in ``runs``."""
    from slipstream._console.workspace import Workspace

    if missing := [str(folder) for folder in folders if not folder.is_dir()]:
        raise BadArgument(
            f"{', '.join(missing)}: no such folder.",
            hint=f"Make a run first: slipstream simulate --expressways 1 --minutes 10 --out {missing[0]}/first",
            code="no-such-file",
        )
    runs = Path("runs")
    # by its own name, too: it may be a link to a larger disk, and links in a folder are not followed
    return Workspace.over(folders or [Path(), *filter(Path.is_dir, [runs])], home=None if folders else runs)


def _read_token(file: Path | None) -> str:
    if file is None:
        return secrets.token_urlsafe(24)
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadArgument(
            f"--token-file {file}: cannot be read.", hint="Put a long random word into it.", code="unreadable-file"
        ) from error
    if len(token) < 16:
        raise BadArgument(
            f"--token-file {file}: the token is too short.",
            hint="Give at least 16 characters.",
            code="out-of-range",
            found=file,
        )
    return token


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _check_port(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Unavailable(
                f"--host {host} --port {port}: {error.strerror}.", hint="Give another --port.", code="port-unavailable"
            ) from error


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command()(console)
