"""watch_serving.py URL TOKEN FOLDER NAME WORDS...: opens the page of a server that answers with a trained model, in headless
Chromium, on a wide and on a narrow screen, light and dark. Each of WORDS is there, nothing of a training is, and times are
those that this script makes of /metrics. TOKEN "": none is asked for. Says what is not as expected; exit 1 where anything is
not, 77 without a Chromium. Screenshots go to FOLDER/NAME_*.png."""
import math
import pathlib
import re
import sys
import time
import urllib.request

sys.path.append(str(pathlib.Path(__file__).parent.parent / "monitoring"))
from browser import Browser
from watch_run import FAULTS, check, failures, only_own

OF_A_TRAINING = ("halt", "noise", "disclosure", "epoch", "step ", "leak", "bound", "gate", "loss")


def metrics_of(url, token):
    request = urllib.request.Request(url + "metrics", headers={"Authorization": "Bearer " + token})
    return urllib.request.urlopen(request, timeout=20).read().decode()


def quantile(metrics, name, share):
    """In ms, as Prometheus' histogram_quantile; None where nothing was observed."""
    buckets = [(float("inf") if end == "+Inf" else float(end), float(count))
               for end, count in re.findall(r'^splitveil_%s_bucket\{le="([^"]+)"\} (\S+)$' % name, metrics, re.M)]
    if not buckets or buckets[-1][1] == 0:
        return None
    rank, before, below = share * buckets[-1][1], 0.0, 0.0
    for end, count in buckets:
        if count >= rank:
            return 1000 * (before if math.isinf(end) else before + (end - before) * (rank - below) / (count - below))
        before, below = end, count


def check_times(browser, metrics, name):
    rows = browser.evaluate("[...document.querySelectorAll('#durations tbody tr')].map((row) => "
                            "[...row.children].map((cell) => cell.textContent))")
    shown = {row[0]: row[3:] for row in rows}
    kinds = {"Request, from its arrival": "request_seconds", "Of that, waiting": "queue_seconds",
             "A batch, computed": "compute_seconds", "Live request between the parties": "live_request_seconds"}
    expected = {words: kind for words, kind in kinds.items() if "splitveil_%s_count" % kind in metrics}
    check(set(shown) == set(expected), "%s: times of %s, found %s" % (name, sorted(expected), sorted(shown)))
    for words, kind in expected.items():
        for share, cell in zip((0.5, 0.99), shown.get(words, ())):
            value = quantile(metrics, kind, share)
            fits = cell == "–" if value is None else re.fullmatch(r"[\d.]+ ms", cell) and abs(
                float(cell[:-3]) - value) <= 0.006 * value + 0.5 * (value >= 100)
            check(fits, "%s: %s: p%g of %s ms, found %s" % (name, words, 100 * share, value, cell))


def watch(url, token, folder, name, words):
    for dark in (False, True):
        browser = Browser(1280, 900, dark=dark)
        try:
            browser.open(url)
            if token:
                check(browser.wait_for("!document.querySelector('#token-form').hidden"), name + ": asks for the token")
                browser.call("Input.insertText", text=token)
                browser.press("Enter")
            check(browser.wait_for("document.querySelectorAll('#versions tbody tr').length > 0"), name + ": shows versions")
            check(browser.evaluate("document.querySelector('#phase').textContent") == "SERVING", name + ": it serves")
            shown = browser.evaluate("document.querySelector('body').innerText")
            for word in words:
                check(word in shown, '%s: shows "%s"' % (name, word))
            for word in OF_A_TRAINING:
                check(word not in shown.lower(), '%s: shows "%s"' % (name, word))
            check(browser.evaluate("document.querySelectorAll('#halt, #raise_noise, dialog').length") == 0,
                  name + ": nothing of a training can be done")
            check_times(browser, metrics_of(url, token), name)
            for width in (1280, 400):
                browser.resize(width, 900)
                time.sleep(0.5)
                faults = browser.evaluate(FAULTS)
                check(not faults, "%s at %d px: %s" % (name, width, faults))
                browser.screenshot("%s/%s_%d%s.png" % (folder, name, width, "_dark" if dark else ""))
            only_own(browser, url, name)
            complaints = [c for c in browser.complaints() if "401" not in c]
            check(not complaints, name + ": " + "; ".join(complaints))
        finally:
            browser.close()


def main():
    url, token, folder, name, *words = sys.argv[1:]
    try:
        watch(url, token, folder, name, words)
    except FileNotFoundError:
        print("SKIPPED: no Chromium (Debian: apt-get install chromium)")
        return 77
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
