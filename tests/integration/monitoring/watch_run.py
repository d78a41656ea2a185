"""watch_run.py LABEL_URL TOKEN NONLABEL_URL FOLDER: opens the pages of both parties of a run that goes on, in headless
Chromium, as their operators would: by keyboard, on a wide and on a narrow screen, light and dark; raises the noise, lowers the disclosure
and at last halts the run from the label party's page. Says what is not as expected; exit 1 where anything is not, 77 without a Chromium. Screenshots go
to FOLDER."""
import sys
import time

from browser import Browser

failures = []


def check(holds, words):
    if not holds:
        failures.append(words)
        print("FAILED: " + words)


STEP = "Number((document.querySelector('#progress-words').textContent.match(/Step ([0-9,]+)/) || [0, '0'])[1].replaceAll(',', ''))"
LAST_POINT = "charts.length ? Math.max(...charts.map((chart) => chart.data.datasets[0].data.at(-1).x)) : 0"
# Text that is wider than the screen, pictures that are blank, panels whose text sticks out.
FAULTS = """(() => {
  const faults = [];
  if (document.documentElement.scrollWidth > innerWidth) faults.push("wider than the screen");
  for (const canvas of document.querySelectorAll("canvas")) {
    const box = canvas.getBoundingClientRect(), figure = canvas.closest("figure").getBoundingClientRect();
    const copy = Object.assign(document.createElement("canvas"), { width: 80, height: 50 }).getContext("2d");
    copy.drawImage(canvas, 0, 0, 80, 50);
    if (!copy.getImageData(0, 0, 80, 50).data.some((value) => value !== 0)) faults.push("a blank chart");
    if (box.width < 200 || box.right > figure.right + 1) faults.push("a chart that does not fit");
  }
  for (const node of document.querySelectorAll("main dd, main p, main td, main th, main li span, main h2")) {
    const panel = node.closest(".panel, figure");
    if (panel && node.offsetParent && !node.closest("thead") &&
        node.getBoundingClientRect().right > panel.getBoundingClientRect().right + 1) faults.push("text beyond its panel: " + node.textContent);
  }
  return faults.join("; ");
})()"""


def only_own(browser, url, who):
    elsewhere = [each for each in browser.requested() if not each.startswith(url) and not each.startswith("data:")]
    check(not elsewhere, who + ": asks elsewhere: " + ", ".join(elsewhere[:3]))


def watch_label_party(browser, url, token, folder):
    browser.open(url)
    check(browser.wait_for("!document.querySelector('#token-form').hidden"), "label party: asks for the token")
    check(browser.evaluate("document.activeElement.id") == "token", "label party: the token's field has the focus")
    check(browser.evaluate("document.querySelector('#main').hidden"), "label party: shows nothing without the token")
    browser.call("Input.insertText", text="0123456789-not-the-token")
    browser.press("Enter")
    check(browser.wait_for("document.querySelector('#token-words').textContent.includes('not this party')"),
          "label party: says that a token is not its own")
    browser.call("Input.insertText", text=token)
    browser.press("Enter")
    check(browser.wait_for(STEP + " > 0 && document.querySelectorAll('#leak-chart canvas').length > 0"),
          "label party: shows a run that trains, with a chart of its leak")
    first_step, first_point = browser.evaluate(STEP), browser.evaluate(LAST_POINT)
    check(browser.wait_for(STEP + " > %d" % first_step), "label party: the step moves")
    check(browser.wait_for(LAST_POINT + " > %d" % first_point), "label party: the charts move")
    check(browser.evaluate("document.querySelector('#phase').textContent") == "TRAINING", "label party: it trains")
    check("about" in browser.evaluate("document.querySelector('#progress-words').textContent"), "label party: time left")
    check(browser.wait_for("document.querySelectorAll('#times dt').length >= 5"), "label party: where the time goes")
    check("Disclosure" in browser.evaluate("document.querySelector('#events').textContent"), "label party: disclosures")
    check(browser.wait_for("document.querySelectorAll('#test-chart canvas').length > 0", 60), "label party: test AUC")
    for width in (1280, 400):
        browser.resize(width, 900)
        time.sleep(1)
        faults = browser.evaluate(FAULTS)
        check(not faults, "label party at %d px: %s" % (width, faults))
        browser.screenshot("%s/label_party_%d.png" % (folder, width))
    only_own(browser, url, "label party")


def watch_nonlabel_party(url, folder):
    browser = Browser(400, 900, dark=True)
    try:
        browser.open(url)
        check(browser.wait_for(STEP + " > 0"), "non-label party: shows a run that trains")
        first_step = browser.evaluate(STEP)
        check(browser.wait_for(STEP + " > %d" % first_step), "non-label party: the step moves")
        shown = browser.evaluate("document.querySelector('#main').innerText").lower()
        for word in ("loss", "auc", "leak", "bound", "halt", "gate"):
            check(word not in shown, "non-label party: shows \"%s\"" % word)
        faults = browser.evaluate(FAULTS)
        check(not faults, "non-label party: " + faults)
        browser.screenshot(folder + "/nonlabel_party_400_dark.png")
        only_own(browser, url, "non-label party")
        shows_event(browser, "Disclosure lowered")
        check(not browser.complaints(), "non-label party: " + "; ".join(browser.complaints()))
    finally:
        browser.close()


def act(browser, action, answer):
    """By keyboard, once it is confirmed; `answer`: how what the page then says begins."""
    check(browser.wait_for("!document.querySelector('#%s').disabled" % action), action + ": can be asked for")
    browser.evaluate("document.querySelector('#%s').focus()" % action)
    browser.press("Enter")
    check(browser.wait_for("document.querySelector('#%s-dialog').open" % action), action + ": asks first")
    check(browser.evaluate("document.activeElement.id") == action + "-no", action + ": Enter once more does nothing")
    browser.press("Tab")
    check(browser.evaluate("document.activeElement.id") == action + "-yes", action + ": reached by the keyboard")
    browser.press("Enter")
    check(browser.wait_for("document.querySelector('#action-answer').textContent.startsWith('%s')" % answer),
          action + ": done")


def shows_event(browser, words):
    check(browser.wait_for("document.querySelector('#events').textContent.includes('%s')" % words), "shows: " + words)


def main():
    label_url, token, nonlabel_url, folder = sys.argv[1:]
    try:
        browser = Browser(1280, 900)
    except FileNotFoundError:
        print("SKIPPED: no Chromium (Debian: apt-get install chromium)")
        return 77
    try:
        watch_label_party(browser, label_url, token, folder)
        act(browser, "raise_noise", "Raised")
        shows_event(browser, "Operator raise noise")
        act(browser, "lower_disclosure", "Lowered")
        shows_event(browser, "Operator lower disclosure")
        check(browser.wait_for("document.querySelector('#lower_disclosure').hidden"), "nothing is left to lower")
        watch_nonlabel_party(nonlabel_url, folder)
        act(browser, "halt", "Halted")
        # The browser itself reports the two requests that lacked the token, and those after the party has gone.
        complaints = [c for c in browser.complaints() if "401" not in c and "ERR_CONNECTION" not in c]
        check(not complaints, "label party: " + "; ".join(complaints))
    finally:
        browser.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
