"""Drives a headless Chromium over a pipe by its DevTools protocol: messages of JSON, each ended by a zero byte. It needs
no network, no port and no library.

    with browser.Browser() as chromium:
        page = chromium.open(path.as_uri(), script="...")   # `script` runs before the page's own
        page.evaluate("document.title")
        page.troubles                                                 # what went wrong so far, one line each
"""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_LIMIT = 60  # seconds until an answer; a busy machine may take long to start the browser
_BUTTONS = {"mousePressed": 1, "mouseReleased": 0, "mouseMoved": 0, "mouseWheel": 0}


class Error(Exception):
    """The browser did not do what it was asked, in one line."""


def path():
    """The Chromium of this machine; None if there is none."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


class Browser:
    """A Chromium process with a profile of its own, which is removed with it."""

    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._next, self._received, self.pages = 0, b"", {}
        # The browser reads commands from descriptor 3 and writes answers to 4.
        commands, self._out = _pipe()
        self._in, answers = _pipe()

        def to_3_and_4():
            os.dup2(commands, 3)
            os.dup2(answers, 4)

        self._process = subprocess.Popen(
            [path(), "--headless", "--remote-debugging-pipe", "--user-data-dir=" + self._profile.name,
             "--no-sandbox",  # a container may have none to give, and all pages are ours
             "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--no-first-run", "--hide-scrollbars",
             "--disable-ipc-flooding-protection",  # a check changes addresses faster than a hand
             "--force-color-profile=srgb", "about:blank"],
            env={**os.environ, "HOME": self._profile.name}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, preexec_fn=to_3_and_4, pass_fds=(3, 4))
        for descriptor in (commands, answers):
            os.close(descriptor)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.send("Browser.close")
            self._process.wait(timeout=10)
        except (Error, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        for descriptor in (self._out, self._in):
            os.close(descriptor)
        self._profile.cleanup()

    def open(self, url, script="", width=1280, height=800, dark=False):
        """A page once it is loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(domain + ".enable")
        page.resize(width, height)
        page.prefer(dark)
        if script:
            page.call("Page.addScriptToEvaluateOnNewDocument", source=script)
        page.go(url)
        return page

    def send(self, method, session=None, **parameters):
        self._next += 1
        message = {"id": self._next, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        try:
            os.write(self._out, json.dumps(message).encode() + b"\0")
        except BrokenPipeError as error:
            raise Error("%s: the browser has ended" % method) from error
        return self._next

    def call(self, method, session=None, **parameters):
        """Sends a command and returns its result, once it is there."""
        number, deadline = self.send(method, session, **parameters), time.monotonic() + _LIMIT
        while True:
            message = self.receive(deadline, method)
            if message.get("id") != number:
                continue
            if "error" in message:
                raise Error("%s: %s" % (method, message["error"]["message"]))
            return message["result"]

    def receive(self, deadline, purpose):
        """The next message; events go to their pages as well."""
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise Error("%s: expected an answer within %d s" % (purpose, _LIMIT))
            received = os.read(self._in, 1 << 20)
            if not received:
                raise Error("%s: the browser has ended" % purpose)
            self._received += received
        text, _, self._received = self._received.partition(b"\0")
        message = json.loads(text)
        if message.get("sessionId") in self.pages:
            self.pages[message["sessionId"]].hear(message)
        return message


class Page:
    """A tab of the browser. `troubles` grows by each exception, console message, failed load and use of the network."""

    def __init__(self, browser, session, target):
        self._browser, self._session, self._target = browser, session, target
        self.troubles, self._loaded = [], False

    def call(self, method, **parameters):
        return self._browser.call(method, self._session, **parameters)

    def go(self, url):
        self._loaded = False
        failed = self.call("Page.navigate", url=url).get("errorText")
        if failed:
            raise Error("%s: %s" % (url, failed))
        deadline = time.monotonic() + _LIMIT
        while not self._loaded:
            self._browser.receive(deadline, url)

    def close(self):
        self._browser.call("Target.closeTarget", targetId=self._target)
        self._browser.pages.pop(self._session)

    def hear(self, message):
        method, about = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.troubles.append(_exception(about["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            said = " ".join(str(each.get("value", each.get("description", ""))) for each in about["args"])
            self.troubles.append("console.%s: %s" % (about["type"], said))
        elif method == "Log.entryAdded":
            self.troubles.append("log: %s" % about["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            url = about["request"]["url"]
            if not url.startswith(("file:", "data:", "blob:", "about:")):
                self.troubles.append("network: asks for %s" % url)
        elif method == "Inspector.targetCrashed":
            raise Error("the page has crashed")

    def evaluate(self, expression):
        """The value of an expression, or of its promise."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise Error(_exception(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def settle(self):
        """Waits until all that a change asks for is drawn: in the next frame, whose observers of sizes run last."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")

    def mouse(self, kind, x, y, **more):
        """`kind`: mouseMoved, mousePressed, mouseReleased or mouseWheel, with deltaX and deltaY."""
        button = "none" if kind in ("mouseMoved", "mouseWheel") else "left"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=int(button == "left"),
                  buttons=more.pop("buttons", _BUTTONS[kind]), **more)

    def click(self, x, y):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y)

    def drag(self, x, y, to_x, to_y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y)
        self.mouse("mouseMoved", (x + to_x) / 2, (y + to_y) / 2, buttons=1)
        self.mouse("mouseMoved", to_x, to_y, buttons=1)
        self.mouse("mouseReleased", to_x, to_y)

    def key(self, key):
        """Presses a key by its name: a, +, Escape, ArrowLeft."""
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, dark):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def picture(self, file, whole=False):
        """Writes what is seen as PNG; `whole`: what is below the window's edge as well."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(file, "wb") as out:
            out.write(base64.b64decode(shot["data"]))


def _pipe():
    """A pipe whose ends are neither 3 nor 4, so that neither is in the way of the other in the child."""
    ends = []
    for end in os.pipe():
        ends.append(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10))
        os.close(end)
    return ends


def _exception(details):
    thrown = details.get("exception", {}).get("description") or details.get("text", "")
    return "exception: %s at line %d" % (thrown.splitlines()[0] if thrown else "?", details.get("lineNumber", -1) + 1)
