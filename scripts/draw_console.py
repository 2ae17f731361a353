"""Draw the console for the README: a broker of the demonstration with storms, seen by a headless browser.

    python scripts/draw_console.py

Needs Chromium (`make setup-ci`). Writes docs/console.png.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

TARGET = Path(__file__).resolve().parents[1] / "docs" / "console.png"


def main() -> None:
    """Write the picture."""
    browser_path = shutil.which("chromium")
    if browser_path is None:
        sys.exit("Chromium is not installed: make setup-ci")
    command = [sys.executable, "-u", "-m", "tamis", "demo", "console", "--port", "0", "--rate", "40"]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert broker.stdout is not None
        url = next(address[0] for line in broker.stdout if (address := re.search(r"http://\S+", line)))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 1000})
            page.goto(f"{url}/#live")
            page.wait_for_selector("tr.pick")
            page.wait_for_timeout(20_000)  # so that the minute has something to show
            page.locator("tr.pick").nth(3).click()
            page.wait_for_selector("#matched")
            page.screenshot(path=str(TARGET))
            browser.close()
    finally:
        broker.terminate()
        broker.wait()
    print(f"wrote {TARGET}")


if __name__ == "__main__":
    main()
