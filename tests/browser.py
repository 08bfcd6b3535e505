"""Headless Chromium for tests, over its own protocol and two pipes: nothing to install beside the browser.

`--remote-debugging-pipe`: messages are JSON, ended by a null byte, on the descriptors 3 (in) and 4 (out).
"""

import base64
import contextlib
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--remote-debugging-pipe",
)
NUMBERED = """
import fcntl, os, sys
first, second = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(first, 3)
os.dup2(second, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Puts the pipes where the browser looks for them; aside first, since one of the two may be 3 or 4 already."""
PATIENCE = 20
"""Seconds for one answer, on a machine that is at work on other things."""


def executable() -> str | None:
    """The browser of this machine, or the one that CHROMIUM names."""
    return os.environ.get("CHROMIUM") or next((p for n in NAMES if (p := shutil.which(n))), None)


class Page:
    """A page that is open: what it says, clicks on it, and what went wrong in it."""

    def __init__(self, write: int, read: int):
        self._write, self._read, self._rest = write, read, b""
        self._number, self._session = 0, ""
        self.faults: list[str] = []
        self.requests: list[str] = []
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    def open(self, path: pathlib.Path, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Load a file in a window of that size, and wait until it is drawn."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._ask("Emulation.setEmulatedMedia", features=scheme)
        self._ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.faults.clear()
        self.requests.clear()
        self._ask("Page.navigate", url=path.resolve().as_uri())
        self.until("document.readyState === 'complete' && location.protocol === 'file:'")

    def value(self, expression: str) -> Any:
        """What an expression gives, waited for. Raises AssertionError with what it threw."""
        answer = self._ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.value(expression):
            assert time.monotonic() < end, f"it never came to {expression}"
            time.sleep(0.02)

    def text(self, selector: str) -> str:
        """The words that are seen in an element."""
        return str(self.value(f"document.querySelector({json.dumps(selector)}).innerText"))

    def click(self, selector: str) -> None:
        """Press the mouse in the middle of an element, which has to be what lies there."""
        wanted = f"document.querySelector({json.dumps(selector)})"
        x, y = self.value(
            f"(() => {{ {wanted}.scrollIntoView({{block: 'center'}}); const b = {wanted}.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self._ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self) -> bytes:
        """What is seen, as PNG."""
        return base64.b64decode(self._ask("Page.captureScreenshot", format="png")["data"])

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._hear(answer.get("method", ""), answer.get("params", {}))

    def _hear(self, event: str, params: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.faults.append(str(params["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.faults.append(str(params["args"]))
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.faults.append(str(params["entry"]))
        elif event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._read], [], [], PATIENCE)[0], "the browser does not answer"
            part = os.read(self._read, 1 << 16)
            assert part, "the browser is gone"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer


@contextlib.contextmanager
def browser(folder: pathlib.Path) -> Iterator[Page]:
    """A page of a browser that keeps its profile in `folder`, and ends behind the block."""
    (their_in, ours_out), (ours_in, their_out) = os.pipe(), os.pipe()

    command = [str(executable()), *FLAGS, f"--user-data-dir={folder}"]
    process = subprocess.Popen(
        [sys.executable, "-c", NUMBERED, str(their_in), str(their_out), *command],
        pass_fds=(their_in, their_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(their_in)
    os.close(their_out)
    try:
        yield Page(ours_out, ours_in)
    finally:
        # Its children end with it when the pipe does.
        os.close(ours_out)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(ours_in)
