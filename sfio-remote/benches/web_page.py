#!/usr/bin/env python3
"""The page of `sfio demo --web` in a real browser: how it looks, what it loads, how soon it shows a death, what it costs.

Drives Chromium by ChromeDriver (Debian: chromium, chromium-driver) and says that it is skipped where they are missing.
The screenshots of three widths, light and dark, are for looking at; everything else is checked, and one failed check
ends with code 1:

- the page is as wide as the window, at 380 pixels too, and what can be chosen can be reached by keyboard;
- while a link of the demo is dead the page says so, within a second of the kill, and so it does of the return;
- nothing was asked of any other machine, and without the token nothing is answered;
- the accessibility rules of axe-core hold, if a copy of axe.min.js is given (npm: axe-core; PyPI: axe-core-python);
- ten viewers of `sfio status --web` cost the member at most 2 % of a core.

    cargo build --release --bin sfio
    python3 sfio-remote/benches/web_page.py --sfio target/release/sfio --pictures /tmp/page --axe axe.min.js
"""

import argparse
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

WIDTHS = {"phone": (380, 800), "desk": (1280, 900), "4k": (3840, 2160)}
# A death, or a return, must be seen within so many seconds.
SOON = 1.0


class Browser:
    """Chromium without a window, told what to do by the WebDriver protocol."""

    def __init__(self, driver, chromium, profile):
        self.driver = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, text=True)
        port = next(match.group(1) for match in (re.search(r"successfully on port (\d+)", line) for line in self.driver.stdout) if match)
        threading.Thread(target=self.driver.stdout.read, daemon=True).start()
        self.root = f"http://127.0.0.1:{port}/session"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
                     "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}"]
        options = {"binary": chromium, "args": arguments}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"performance": "ALL"}}
        answer = self.ask("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self.root += "/" + answer["sessionId"]

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def run(self, script, *arguments):
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script, *arguments):
        return self.ask("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def tell(self, command, **parameters):
        return self.ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def resize(self, width, height):
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)

    def picture(self, path):
        shot = self.tell("Page.captureScreenshot", format="png", captureBeyondViewport=False)
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

    def asked_for(self):
        """The addresses of everything that the page has asked for since the last call."""
        entries = self.ask("POST", "/se/log", {"type": "performance"})
        messages = (json.loads(entry["message"])["message"] for entry in entries)
        return {message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"}

    def close(self):
        self.ask("DELETE", "")
        self.driver.terminate()
        self.driver.wait()


class Demo:
    """`sfio demo --web`, which waits for a viewer and stays."""

    def __init__(self, sfio, size):
        command = [sfio, "demo", "--web", "127.0.0.1:0", "--stay", "--size", size]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.url = next(match.group(0) for match in (re.search(r"http://\S+/", line) for line in self.process.stderr) if match)
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def close(self):
        self.process.terminate()
        self.process.wait()


class Checks:
    """What was checked, a line each."""

    def __init__(self):
        self.failed = 0

    def note(self, holds, words):
        print(("holds  " if holds else "FAILS  ") + words)
        self.failed += not holds


def looks(browser, pictures, checks):
    for name, (width, height) in WIDTHS.items():
        browser.resize(width, height)
        for scheme in ("light", "dark"):
            browser.tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            time.sleep(0.3)
            browser.picture(pictures / f"{name}-{scheme}.png")
        wide = browser.run("return document.scrollingElement.scrollWidth - window.innerWidth")
        checks.note(wide <= 0, f"{name}: {width} x {height}, {max(wide, 0)} pixels wider than the window")
    browser.resize(*WIDTHS["desk"])


def keyboard(browser, checks):
    """Tab goes through everything that can be chosen, and comes back."""
    reachable = browser.run("""return [...document.querySelectorAll('a[href], button, select, [tabindex="0"]')]
        .filter(element => element.getClientRects().length).length""")
    reached = set()
    for _ in range(reachable + 5):
        for kind in ("rawKeyDown", "keyUp"):
            browser.tell("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        reached.add(browser.run("""const here = document.activeElement;
            if (!window.numbers) { window.numbers = new Map(); }
            if (!window.numbers.has(here)) { window.numbers.set(here, window.numbers.size); }
            return here === document.body ? -1 : window.numbers.get(here)"""))
    reached.discard(-1)
    checks.note(len(reached) >= reachable > 0, f"keyboard: Tab reaches {len(reached)} of {reachable} things")


# Notes when the page first shows each line of what has happened, by the browser's clock.
WATCH = """
window.shown = [];
const list = document.getElementById('happenings');
const note = () => {
  for (const item of list.children) {
    if (!item.dataset.noted) { item.dataset.noted = 1; window.shown.push([item.textContent.replace(/\\s+/g, ' ').trim(), Date.now()]); }
  }
};
new MutationObserver(note).observe(list, {childList: true, subtree: true, characterData: true});
note();
"""


def happenings(browser):
    return browser.run("return window.shown")


def deaths(browser, checks, patience):
    """The demo tells of its kill as it kills; the paths over the link must be shown as dead soon after, and its return."""
    until, back = time.monotonic() + patience, "is back"
    while time.monotonic() < until and not any(back in words for words, _ in happenings(browser)):
        time.sleep(0.2)
    shown = happenings(browser)

    def when(pattern):
        return next((at for words, at in shown if re.search(pattern, words)), None)

    def soon(begin, end, words):
        known = begin is not None and end is not None
        checks.note(known and (end - begin) / 1000 <= SOON, f"{words} after {(end - begin) / 1000:.3f} s" if known else f"{words}: never")

    soon(when("the demo kills"), when("link .* died"), "the killed link is shown as dead")
    soon(when("the demo kills"), when("paths? .*died|path .* died"), "its paths are shown as dead")
    soon(when("the demo restores"), when("link .* is back"), "the restored link is shown as alive")


def foreign(browser, url, checks):
    own = urllib.parse.urlsplit(url).netloc
    addresses = (urllib.parse.urlsplit(address) for address in browser.asked_for())
    asked = {address for address in addresses if address.scheme in ("http", "https", "ws", "wss")}
    others = sorted({address.netloc for address in asked} - {own})
    checks.note(asked and not others, f"requests: {len(asked)} addresses of the program, {others or 'none'} of others")


def without_token(url, checks):
    parts = urllib.parse.urlsplit(url)
    answers = {}
    for path in ("/", "/page.js", "/events", "/" + "0" * 32 + "/", parts.path[:-2] + "/"):
        try:
            with urllib.request.urlopen(f"{parts.scheme}://{parts.netloc}{path}", timeout=5) as answer:
                answers[path] = (answer.status, len(answer.read()))
        except urllib.error.HTTPError as error:
            answers[path] = (error.code, len(error.read()))
    checks.note(all(status == 404 for status, _ in answers.values()), f"without the token: {sorted(set(answers.values()))}")


def accessible(browser, axe, checks):
    if not axe:
        print("skipped axe-core: no --axe FILE")
        return
    for width in ("phone", "desk"):
        browser.resize(*WIDTHS[width])
        source = pathlib.Path(axe).read_text()
        # The page's policy lets no script in but its own; the protocol's evaluation is not bound by it.
        browser.tell("Runtime.evaluate", expression=source)
        found = browser.run_async("""const done = arguments[arguments.length - 1];
            axe.run(document).then(result => done(result.violations.map(one => [one.impact, one.id, one.nodes.length])))""")
        serious = [one for one in found if one[0] in ("serious", "critical")]
        checks.note(not serious, f"axe-core, {width}: {found or 'nothing found'}")
    browser.resize(*WIDTHS["desk"])


def processor_seconds(process):
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def viewers(sfio, scratch, checks, seconds=10):
    """What ten viewers of `sfio status --web` cost the member and the program that asks it."""
    folder = os.path.join(scratch, "overlay")
    new = [sfio, "overlay", "new", folder, "--relays", "1", "--io-nodes", "1"]
    subprocess.run(new, check=True, stdout=subprocess.DEVNULL)
    up = subprocess.Popen([sfio, "overlay", "up", folder], stdout=subprocess.PIPE, text=True)
    next(line for line in up.stdout if line.startswith("ready: "))
    config = os.path.join(folder, "io1", "config.toml")
    page = subprocess.Popen([sfio, "status", "--config", config, "--web", "127.0.0.1:0"], stdout=subprocess.PIPE,
                            stdin=subprocess.DEVNULL, text=True)
    url = next(match.group(0) for match in (re.search(r"http://\S+/", line) for line in page.stdout) if match)
    member = next(int(process) for process in os.listdir("/proc") if process.isdigit() and is_member(process, config))

    def cost():
        before = [processor_seconds(process) for process in (member, page.pid)]
        time.sleep(seconds)
        return [(processor_seconds(process) - then) / seconds for process, then in zip((member, page.pid), before)]

    nobody, streams = cost(), []
    for _ in range(10):
        streams.append(urllib.request.urlopen(urllib.parse.urljoin(url, "events"), timeout=30))
        threading.Thread(target=streams[-1].read, daemon=True).start()
    ten = cost()
    page.terminate()
    up.send_signal(2)
    up.wait()
    words = [f"{100 * before:.1f} -> {100 * after:.1f} % of a core" for before, after in zip(nobody, ten)]
    checks.note(ten[0] - nobody[0] <= 0.02, f"ten viewers: the member {words[0]}, the program that shows it {words[1]}")


def is_member(process, config):
    try:
        command = pathlib.Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"member" in command and config.encode() in command


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sfio", default="target/release/sfio")
    arguments.add_argument("--pictures", default=None, type=pathlib.Path, help="where screenshots go")
    arguments.add_argument("--axe", default=None, help="axe.min.js")
    arguments.add_argument("--size", default="64MiB", help="how much the demo sends")
    options = arguments.parse_args()
    driver, chromium = shutil.which("chromedriver"), shutil.which("chromium") or shutil.which("google-chrome")
    if not driver or not chromium:
        print("skipped: there is no chromedriver and chromium")
        return 0
    checks = Checks()
    with tempfile.TemporaryDirectory() as scratch:
        pictures = options.pictures or pathlib.Path(scratch)
        pictures.mkdir(parents=True, exist_ok=True)
        browser = Browser(driver, chromium, os.path.join(scratch, "profile"))
        demo = Demo(options.sfio, options.size)
        try:
            browser.resize(*WIDTHS["desk"])
            browser.ask("POST", "/url", {"url": demo.url})
            browser.run(WATCH)
            deaths(browser, checks, 60)
            looks(browser, pictures, checks)
            keyboard(browser, checks)
            accessible(browser, options.axe, checks)
            foreign(browser, demo.url, checks)
            without_token(demo.url, checks)
            viewers(options.sfio, scratch, checks)
        finally:
            demo.close()
            browser.close()
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
