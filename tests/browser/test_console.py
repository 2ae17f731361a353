"""The console as people use it: a real browser, a real broker, every number compared with the broker's own answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SHOTS, quakes
from tests.server.processes import BrokerProcess, ask, running

pytestmark = pytest.mark.browser

expect.set_options(timeout=30_000)

VIEWS = ("live", "subscriptions", "network", "explain")

#: Text that would do something if any of it were read as markup.
XSS = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(2)</script>",
    '"><svg onload=alert(3)>',
    "javascript:alert(4)",
    "'-alert(5)-'",
    "<iframe srcdoc='<script>parent.alert(6)</script>'>",
    "{{constructor.constructor('alert(7)')()}}",
)


def statistics(broker: BrokerProcess) -> Any:
    return ask(f"{broker.url}/v1/statistics").json


def test_live_shows_the_numbers_of_the_interface(page: Any, broker: BrokerProcess) -> None:
    page.goto(f"{broker.url}/#live")
    expect(page.locator("[data-number=events]")).not_to_have_attribute("data-value", "0")
    numbers = statistics(broker)
    for name, value in {
        "events": numbers["totals"]["events"],
        "deliveries": numbers["totals"]["deliveries"],
        "subscriptions": numbers["now"]["subscriptions"],
        "waiting": numbers["now"]["waiting"],
    }.items():
        assert page.get_attribute(f"[data-number={name}]", "data-value") == str(value), name
    assert page.complaints == []


def test_a_delivery_is_inspected(page: Any, broker: BrokerProcess) -> None:
    page.goto(f"{broker.url}/#live")
    page.wait_for_selector("tr.pick")
    page.focus("tr.pick")
    page.keyboard.press("Enter")
    page.wait_for_selector("#matched")
    newest = ask(f"{broker.url}/v1/deliveries?limit=1").json["deliveries"][0]
    question = {"event": newest["event"], "namespace": newest["namespace"]}
    count = ask(f"{broker.url}/v1/matches", "POST", question).json["count"]
    assert page.inner_text("#matched") == f"{count} subscriptions match"
    assert page.locator("#inspected .condition.good").count() > 0
    assert page.get_attribute("button[aria-pressed]", "aria-pressed") == "true", "it pauses while an event is shown"


def test_a_filter_is_tried_while_it_is_written(page: Any, broker: BrokerProcess) -> None:
    page.goto(f"{broker.url}/#subscriptions")
    page.fill("textarea", "mag >= 2.5 AND depth < 10")
    page.wait_for_selector("#matched-count")
    reply = ask(f"{broker.url}/v1/trial", "POST", {"filter": "mag >= 2.5 AND depth < 10"}).json
    assert page.get_attribute("#matched-count", "data-value") == str(reply["matched"])
    assert reply["matched"] == sum(q.get("mag", 0) >= 2.5 and q.get("depth", 99) < 10 for q in quakes(400))
    page.fill("textarea", "mag >= 5.5")
    expect(page.locator("#covered-by")).to_contain_text("moderate")
    page.fill("textarea", "mag >> 5")
    expect(page.locator(".problem")).to_contain_text("^")
    assert "expected" in page.inner_text(".problem")
    expect(page.locator("#matched-count")).to_have_count(0)


def test_a_filter_in_another_dialect_is_corrected_by_a_click(page: Any, broker: BrokerProcess) -> None:
    page.goto(f"{broker.url}/#subscriptions")
    page.fill("textarea", "mag == 5 && depth != 3")
    expect(page.locator(".problem")).to_contain_text("mag = 5 AND depth <> 3")
    page.click(".problem button")
    page.wait_for_selector("#matched-count")
    assert page.input_value("textarea") == "mag = 5 AND depth <> 3"
    expect(page.locator(".problem button")).to_have_count(0)
    page.fill("textarea", "")
    expect(page.locator("#matched-count")).to_have_count(0)


def test_a_region_is_drawn_subscribed_and_receives_a_live_event(page: Any, broker: BrokerProcess) -> None:
    page.goto(f"{broker.url}/#subscriptions")
    page.wait_for_selector("select option", state="attached")
    page.click("main button:has-text('Draw a region')")
    box = page.locator(".map").bounding_box()
    for x, y in ((0.2, 0.2), (0.9, 0.2), (0.9, 0.8), (0.2, 0.8)):
        page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])
    page.click("main button:has-text('Finish the region')")
    page.wait_for_selector("#matched-count")
    assert page.input_value("textarea").startswith("S_INTERSECTS(epicentre, POLYGON((")
    page.fill("[aria-label=Id]", "drawn")
    page.click("main button:has-text('Subscribe')")
    expect(page.locator("main")).to_contain_text("Subscribed as drawn")
    made = ask(f"{broker.url}/v1/subscriptions/drawn").json
    assert made["filter"] == page.input_value("textarea")
    page.goto(f"{broker.url}/#live")
    page.wait_for_selector("tr.pick")
    event = {"id": "new", "mag": 1.25, "epicentre": "POINT (-100 25)", "place": "in the middle of the map"}
    assert ask(f"{broker.url}/v1/events", "POST", event).status == 200
    expect(page.locator("tr.pick").first).to_contain_text("drawn")
    page.goto(f"{broker.url}/#subscriptions")
    page.fill("[aria-label=Search]", "drawn")
    expect(page.locator("[aria-label^='Delete ']")).to_have_count(1)
    page.click("[aria-label='Delete drawn']")
    expect(page.locator("[aria-label^='Delete ']")).to_have_count(0)
    assert ask(f"{broker.url}/v1/subscriptions/drawn").status == 404


def test_explain_is_green_and_red(page: Any, broker: BrokerProcess) -> None:
    page.goto(f"{broker.url}/#explain")
    page.fill("[aria-label='Event as JSON']", json.dumps({"mag": 5.2, "depth": 100}))
    page.fill("[aria-label=Filter]", "mag >= 4 AND depth < 70")
    page.click("main button:has-text('Explain')")
    expect(page.locator(".condition.good code")).to_have_text("✓ mag >= 4")  # not that of what was explained before
    expect(page.locator(".condition.bad code")).to_have_text("✗ depth < 70")
    expect(page.locator("[data-matched=false]")).to_have_count(1)
    page.fill("[aria-label=Filter]", "NOT (mag >= 6)")
    page.click("main button:has-text('Explain')")
    expect(page.locator(".condition.good > code")).to_have_text("✓ NOT (mag >= 6)")
    expect(page.locator("[data-matched=true]")).to_have_count(1)
    assert page.inner_text(".condition.good .condition > code") == "✗ mag >= 6"
    assert page.locator(".condition.bad").count() == 0, "nothing that matches is red"
    page.fill("[aria-label='Event as JSON']", "{not json")
    page.click("main button:has-text('Explain')")
    expect(page.locator("#explanation")).to_contain_text("not JSON")


def test_policies_are_compared(page: Any, broker: BrokerProcess) -> None:
    page.goto(f"{broker.url}/#network")
    page.fill("[aria-label=Brokers]", "3")
    page.click("main button:has-text('Compare policies')")
    page.wait_for_selector("#comparison tbody tr", timeout=120_000)
    rows = [row.split("\t") for row in page.inner_text("#comparison tbody").strip().split("\n")]
    shown = {cells[0]: [int(cell.replace(",", "")) for cell in cells[2:]] for cells in rows}
    policies = ask(f"{broker.url}/v1/comparison", "POST", {"brokers": 3}).json["policies"]
    fields = ("delivered", "lost", "subscription_messages", "subscription_bytes", "event_messages", "false_positives")
    assert {policy["policy"]: [policy[name] for name in fields] for policy in policies} == {
        k: v[:6] for k, v in shown.items()
    }
    assert {cells[1] for cells in shown.values()} == {0}
    assert {cells[0] for cells in shown.values()} == {policies[0]["delivered"]}, "all deliver the same"
    on, off = ({policy["policy"]: policy for policy in policies}[name] for name in ("covering", "every"))
    sentence = f"{on['subscription_messages']:,} updates instead of {off['subscription_messages']:,}"
    assert sentence in page.inner_text("#saved")

    check_trees(page, {policy["policy"]: policy for policy in policies})


def check_trees(page: Any, policies: dict[str, Any]) -> None:
    """The tree of covering is shown first; that of the peers when its row is chosen."""
    covering = policies["covering"]
    assert page.locator("#chosen-policy [data-node]").count() == 3
    assert page.locator("#chosen-policy line.up").count() == len(covering["links"]) // 2
    links = page.locator("#chosen-policy table").first.locator("tbody tr").all_inner_texts()
    assert [int(row.split("\t")[2].replace(",", "")) for row in links] == [
        link["table_entries"] for link in covering["links"]
    ]
    first = covering["links"][0]["because"][0]
    because = page.locator("#chosen-policy table").nth(1).locator("tbody tr").first.inner_text().split("\t")
    assert because == [first["id"], "b1 to b2", ", ".join(first["covered_by"])]
    page.click("#comparison tr:has-text('drtree')")
    seats = policies["drtree"]["seats"]
    assert {circle.get_attribute("data-seat") for circle in page.locator("[data-seat]").all()} == {
        seat["name"] for seat in seats
    }
    own = sum(len(seat["children"]) for seat in seats)
    assert page.locator("line.own").count() == own, "the owner of a node is its own child"
    assert page.locator("line.child").count() + own == sum(len(row) for seat in seats for row in seat["children"])
    assert page.complaints == []


def test_links_and_what_stands_for_a_subscription(page: Any, tmp_path: Path) -> None:
    from tests.server.processes import a_line

    with running(*a_line(tmp_path, "ab")) as (a, b):
        for id, text in (("wide", "mag >= 4"), ("narrow", "mag >= 5")):
            assert ask(f"{a.url}/v1/subscriptions", "POST", {"id": id, "filter": text}).status == 201
        page.goto(f"{a.url}/#network")
        page.wait_for_selector("line.up", state="attached")
        page.fill("[aria-label=Subscription]", "narrow")
        page.click("main button:has-text('Look')")
        expect(page.locator("#forwarding")).to_contain_text("covered by")
        links = ask(f"{a.url}/v1/explain", "POST", {"id": "narrow"}).json["links"]
        assert links[0]["reason"] in page.inner_text("#forwarding")
        assert b.url != a.url


def test_nothing_from_outside_is_read_as_markup(page: Any, broker: BrokerProcess) -> None:
    made = []
    for number, text in enumerate(XSS):
        quoted = text.replace("'", "''")
        body = {"id": f"{text}{number}"[:100], "filter": f"place = '{quoted}'", "metadata": {"note": text}}
        assert ask(f"{broker.url}/v1/subscriptions", "POST", body).status == 201
        made.append(body["id"])
        assert ask(f"{broker.url}/v1/events", "POST", {"id": text, "place": text, "mag": 9.9}).status == 200
    for view in ("live", "subscriptions"):
        page.goto(f"{broker.url}/#{view}")
        page.reload()
        if view == "subscriptions":
            page.fill("[aria-label=Search]", "alert")
            page.fill("textarea", XSS[0])
        expect(page.locator("main")).to_contain_text(XSS[0])
        for tag in ("img[src=x]", "main script", "iframe", "svg[onload]"):
            assert page.locator(tag).count() == 0
    page.goto(f"{broker.url}/#explain")
    page.fill("[aria-label=Filter]", XSS[0])
    page.click("main button:has-text('Explain')")
    page.wait_for_selector("#explanation .problem")
    assert [complaint for complaint in page.complaints if "dialog" in complaint or "Refused" in complaint] == []
    from urllib.parse import quote

    for id in made:
        assert ask(f"{broker.url}/v1/subscriptions/{quote(str(id), safe='')}", "DELETE").status in (204, 404)


def test_a_dead_broker_is_shown_as_such(page: Any, tmp_path: Path) -> None:
    with running(BrokerProcess(tmp_path / "mortal")) as (mortal,):
        page.goto(f"{mortal.url}/#live")
        page.wait_for_selector("#health.good")
        mortal.kill()
        page.wait_for_selector("#health.bad")
        assert "No answer" in page.inner_text("#health")
        mortal.start().wait_until_ready()
        page.wait_for_selector("#health.good")


def test_the_keyboard_is_enough(page: Any, broker: BrokerProcess) -> None:
    page.goto(f"{broker.url}/#live")
    page.focus("[role=tab][aria-selected=true]")
    for view in (*VIEWS[1:], "live"):
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(f"[data-view={view}][aria-selected=true]")
        assert page.evaluate("document.activeElement.dataset.view") == view


def test_a_region_is_drawn_with_keys(page: Any, broker: BrokerProcess) -> None:
    page.goto(f"{broker.url}/#subscriptions")
    page.wait_for_selector("select option", state="attached")
    page.focus("main button:has-text('Draw a region')")
    page.keyboard.press("Enter")  # the map has the focus now
    assert page.evaluate("document.activeElement.matches('.map:focus-visible')")
    status = page.locator("main p[role=status]")
    for count, key in enumerate(("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"), start=1):
        page.keyboard.press(key)
        page.wait_for_timeout(400)  # the map slides
        page.keyboard.press("Enter")
        expect(status).to_have_text("1 corner" if count == 1 else f"{count} corners")
    page.keyboard.press("Backspace")
    expect(status).to_have_text("3 corners")
    page.focus("main button:has-text('Finish the region')")
    page.keyboard.press("Enter")
    page.wait_for_selector("#matched-count")
    polygon = page.input_value("textarea").removeprefix("S_INTERSECTS(epicentre, POLYGON((")
    corners = polygon.removesuffix(")))").split(", ")
    assert corners[0] == corners[3]
    assert len(set(corners)) == 3


def events_arrive(page: Any, broker: BrokerProcess) -> None:
    """Publish, until the page has seen a rate; then choose a delivery."""
    for number in range(60):
        event = {"id": f"drawn-{number}", "type": "explosion", "epicentre": "POINT (-100 40)", "place": "Nebraska"}
        assert ask(f"{broker.url}/v1/events", "POST", [event] * (1 + number % 7)).status == 200
        if page.locator("polyline").get_attribute("points").count(" ") > 3:
            break
        page.wait_for_timeout(400)
    page.locator("tr.pick").first.click()
    page.wait_for_selector("#matched")


def a_filter_is_written(page: Any, broker: BrokerProcess) -> None:
    page.fill("textarea", "mag >= 2.5")
    page.wait_for_selector("#covers", timeout=120_000)  # the second answer: the page grows no more


def policies_are_compared(page: Any, broker: BrokerProcess) -> None:
    page.fill("[aria-label=Brokers]", "3")
    page.click("main button:has-text('Compare policies')")
    page.wait_for_selector("#chosen-policy svg", timeout=120_000)


def it_is_explained(page: Any, broker: BrokerProcess) -> None:
    page.fill("[aria-label='Event as JSON']", json.dumps({"mag": 5.2, "depth": 100, "place": "Fiji"}, indent=1))
    page.fill("[aria-label=Filter]", "mag >= 4 AND NOT (place = 'Alaska') AND (depth < 70 OR tsunami = TRUE)")
    page.click("main button:has-text('Explain')")
    page.wait_for_selector(".condition")


#: What happens in a view before it is drawn.
LIVELY = {
    "live": events_arrive,
    "subscriptions": a_filter_is_written,
    "network": policies_are_compared,
    "explain": it_is_explained,
}


#: What is wider than the box it stands in, and words of pictures that are cut or too small; [] when all is well.
TOO_WIDE = """() => {
  const wrong = [], told = (one) => `${one.tagName} ${one.className.baseVal ?? one.className}`;
  if (document.documentElement.scrollWidth > innerWidth) wrong.push("the page");
  for (const one of document.querySelectorAll("main, .panel, .scroll, table, tbody tr, #inspected, #explanation"))
    if (one.scrollWidth > one.clientWidth) wrong.push(`${told(one)}: ${one.scrollWidth} in ${one.clientWidth}`);
  for (const one of document.querySelectorAll("table, td, button, svg.tree, svg.chart, input, textarea")) {
    const box = one.getBoundingClientRect(), panel = one.closest(".panel")?.getBoundingClientRect();
    const leaves = panel && box.width && (box.right > panel.right || box.left < panel.left);
    if (leaves) wrong.push(`${told(one)} leaves its panel`);
  }
  for (const one of document.querySelectorAll("svg.tree text, svg.chart text")) {
    const box = one.getBoundingClientRect(), frame = one.closest("svg.tree, svg.chart").getBoundingClientRect();
    const across = box.left < frame.left - 1 || box.right > frame.right + 1;
    if (across || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) wrong.push(`"${one.textContent}" is cut`);
    if (box.height < 12) wrong.push(`"${one.textContent}" is ${box.height} px high`);
  }
  return wrong;
}"""


@pytest.mark.parametrize("width", [1280, 390])
def test_every_view_fits_and_is_drawn(chromium: Any, broker: BrokerProcess, width: int) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    context = chromium.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    for view in VIEWS:
        page.goto(f"{broker.url}/#{view}")
        page.wait_for_selector("main .panel")
        if view in ("live", "subscriptions"):
            page.wait_for_selector(".map path", state="attached")
        LIVELY[view](page, broker)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(TOO_WIDE) == [], f"{view} at {width} px, {scheme}"
            page.screenshot(path=str(SHOTS / f"{view}-{width}-{scheme}.png"), full_page=True)
    context.close()


def test_a_narrow_table_hides_nothing(chromium: Any, broker: BrokerProcess) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 900})
    page = context.new_page()
    page.goto(f"{broker.url}/#subscriptions")
    row = page.locator("tr", has=page.locator("[aria-label='Delete moderate']"))
    expect(row).to_contain_text("mag >= 4")
    for cell in row.locator("td").all():
        box = cell.bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390, cell.inner_text()
    titles = row.locator("td").evaluate_all("cells => cells.map(one => getComputedStyle(one, '::before').content)")
    assert titles[2:4] == ['"state "', '"waiting "']
    context.close()


def a_comparison(brokers: int) -> dict[str, Any]:
    """What a broker answers for a binary tree of brokers, and for peers in three levels of three."""
    pairs = [(f"b{number // 2}", f"b{number}") for number in range(2, brokers + 1)]
    links = [
        {"source": a, "target": b, "updates": 12, "table_entries": 10_000, "events": 12_345, "false_positives": 7}
        | {"withheld": 1, "because": [{"id": "a-rather-long-name", "covered_by": ["another-rather-long-name"]}]}
        for pair in pairs
        for a, b in (pair, pair[::-1])
    ]
    names = [f"subscription-{number}/client-{number % 5}" for number in range(27)]
    seats = []
    for number, name in enumerate(names):
        depth = next(level for level in (3, 2, 1, 0) if number % 3**level == 0)
        children = [[names[number + part * 3**level] for part in range(3)] for level in range(depth)]
        seats.append({"name": name, "parent": names[number // 3 * 3] if number else None, "children": children})
    costs = dict.fromkeys(
        ("delivered", "lost", "subscription_messages", "subscription_bytes", "event_messages", "false_positives"),
        123_456,
    )
    shown = {"covering": (links, []), "drtree": ([], seats)}
    rows = [
        {"policy": policy, "table_entries": 9, "links": links, "seats": seats, **costs}
        for policy, (links, seats) in shown.items()
    ]
    return {"brokers": brokers, "subscriptions": 27, "events": 9, "policies": rows}


@pytest.mark.parametrize("width", [1280, 390])
def test_large_trees_are_read_at_every_width(chromium: Any, broker: BrokerProcess, width: int) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    page.route("**/v1/comparison", lambda route: route.fulfill(json=a_comparison(31)))
    page.goto(f"{broker.url}/#network")
    page.click("main button:has-text('Compare policies')")
    page.wait_for_selector("#chosen-policy svg")
    assert page.locator("#chosen-policy [data-node]").count() == 31
    for policy in ("covering", "drtree"):
        page.click(f"#comparison tr:has-text('{policy}')")
        assert page.evaluate(TOO_WIDE) == [], policy
        page.screenshot(path=str(SHOTS / f"large-{policy}-{width}.png"), full_page=True)
    seats = {circle.get_attribute("data-seat") for circle in page.locator("[data-seat]").all()}
    assert len(seats) == 27
    context.close()


def test_explain_explains_at_once_and_again_when_the_broker_is_busy(page: Any, broker: BrokerProcess) -> None:
    answers = iter([503])

    def busy_at_first(route: Any) -> None:
        status = next(answers, None)
        route.continue_() if status is None else route.fulfill(status=status, json={"error": "busy", "status": status})

    page.route("**/v1/explain", busy_at_first)
    page.goto(f"{broker.url}/#explain")
    expect(page.locator("#explanation .problem")).to_have_text("busy")
    expect(page.locator("#explanation [data-matched]")).to_have_count(1)  # without a click
    assert page.input_value("[aria-label=Filter]")
