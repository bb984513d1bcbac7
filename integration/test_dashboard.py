"""The dashboard in a real browser, beside a live cluster: what it shows, how soon, and what it refuses."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from axe_core_python.selenium import Axe
from confluent_kafka import Consumer, Producer, TopicPartition
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from integration.conftest import AGAINST_KAFKA, TEST_OVERRIDES
from integration.harness.browser import REQUIRED, chromium, missing_browser
from integration.harness.commands import command, process
from integration.harness.wait import wait_for
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.znodes import ZnodeReader
from kafkalite.zk.blocking import BlockingLoop
from kafkalite.zk.kazoo_client import KazooZkClient
from kafkalite.zk.znodes.consumers import group_path

pytestmark = pytest.mark.kafkalite_only
RECORDS = 500
SCREENSHOTS = os.environ.get("KAFKALITE_SCREENSHOTS", "")
"""Folder for pictures of the page; empty: none are taken."""
PICTURES = ((1200, "light"), (1200, "dark"), (360, "light"))
"""Width and scheme of each picture in docs/."""
HOSTILE = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers; the topic ``orders`` with records, and the group ``billing`` that has read some of them."""
    assert not AGAINST_KAFKA
    directory = tmp_path_factory.mktemp("dashboard")
    with closing(LocalCluster(directory, overrides=TEST_OVERRIDES, metrics=True, relayed=True)) as started:
        started.start()
        topic = ("--topic", "orders", "--partitions", 2, "--replication-factor", 3)
        command("topics", "--bootstrap-server", started.bootstrap, "--create", *topic)
        producer = Producer({"bootstrap.servers": started.bootstrap, "acks": "all"})
        for number in range(RECORDS):
            producer.produce("orders", str(number).encode(), partition=0)
        assert producer.flush(60) == 0
        consumer = Consumer({"bootstrap.servers": started.bootstrap, "group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 120)], asynchronous=False)
        consumer.close()
        yield started


@contextmanager
def dashboard(*flags: str) -> Iterator[str]:
    """A dashboard of its own process; its address."""
    words = ("dashboard", *flags, "--listen", "127.0.0.1:0")
    served = subprocess.Popen(
        [sys.executable, "-m", "kafkalite.cli.main", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert served.stdout is not None
        address = served.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), f"the dashboard ended with {served.wait()}"
        yield address
    finally:
        served.terminate()
        assert served.wait(60) == 0


@pytest.fixture(scope="module")
def address(cluster: LocalCluster) -> Iterator[str]:
    with dashboard("--zookeeper", cluster.zookeeper) as address:
        yield address


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[webdriver.Chrome]:
    """The page in a browser, live."""
    missing = missing_browser()
    if missing:
        (pytest.fail if REQUIRED else pytest.skip)(f"no browser: {missing}")
    with chromium() as browser:
        browser.get(address)
        wait_for(lambda: text(browser, "connection") == "live", "the page is live", timeout=60)
        yield browser


def text(page: webdriver.Chrome, section: str) -> str:
    """The visible text of a section, read at once, because it may be drawn again at any time."""
    return str(page.execute_script("return document.getElementById(arguments[0]).innerText", section))


def rows(page: webdriver.Chrome, section: str) -> list[list[str]]:
    """The cells of the section's tables, by rows."""
    script = """return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)]
        .map((row) => [...row.cells].map((cell) => cell.innerText))"""
    found: list[list[str]] = page.execute_script(script, section)
    return found


def offsets(page: webdriver.Chrome) -> list[list[str]]:
    """The rows of the groups' offsets."""
    return [row for row in rows(page, "groups") if row[1].isdecimal()]


def bars(page: webdriver.Chrome) -> list[str]:
    """What each replica's bar says to those who cannot see it."""
    script = "return [...document.querySelectorAll('svg.replica')].map((bar) => bar.getAttribute('aria-label'))"
    found: list[str] = page.execute_script(script)
    return found


def test_the_page_shows_what_zookeeper_and_the_brokers_hold(cluster: LocalCluster, page: webdriver.Chrome) -> None:
    described = command("topics", "--bootstrap-server", cluster.bootstrap, "--describe", "--topic", "orders", "--json")
    [topic] = described.json
    listed = {row[0]: row for row in rows(page, "brokers")}
    assert {number: row[1] for number, row in listed.items()} == {
        str(each): f"PLAINTEXT://{cluster.address(each)}" for each in cluster.broker_ids
    }
    assert [row[3] for row in listed.values()].count("controller") == 1
    wait_for(lambda: len(bars(page)) == 6 and "does not answer" not in str(bars(page)), "all replicas have a bar")
    shown = rows(page, "topics")
    for partition in topic["partitions"]:
        row = shown[partition["partition"]]
        assert row[1].startswith(f"{partition['leader']}, epoch")
        assert row[4] == f"/brokers/topics/orders/partitions/{partition['partition']}/state"
    assert [row[3] for row in shown] == [str(RECORDS), "0"]
    for broker_id in cluster.broker_ids:
        assert f"replica on broker {broker_id}: offsets 0 to {RECORDS}, in sync" in bars(page)
    assert offsets(page) == [["orders", "0", "120", str(RECORDS - 120), "/consumers/billing/offsets/orders/0"]]


def test_a_click_on_a_source_shows_the_znode_and_what_it_means(page: webdriver.Chrome) -> None:
    page.execute_script("document.querySelector('button.source[data-znode=\"/controller\"]').focus()")
    page.switch_to.active_element.send_keys(Keys.ENTER)
    wait_for(lambda: '"brokerid"' in text(page, "znode"), "the controller's znode is shown")
    assert "Lifetime\nephemeral" in text(page, "znode")
    assert "Written by\nthe broker that wins it" in text(page, "znode")


def test_a_number_that_no_znode_holds_names_its_request(page: webdriver.Chrome) -> None:
    lag = page.find_element(By.CSS_SELECTOR, "#groups button[data-told]")
    lag.send_keys(Keys.ENTER)
    wait_for(lambda: "ListOffsets v7 to the leader" in text(page, "znode"), "the lag is explained")
    page.find_element(By.CSS_SELECTOR, "#topics button[data-told]").send_keys(Keys.ENTER)
    wait_for(lambda: f"-1 gives high watermark {RECORDS}" in text(page, "znode"), "the request is shown")


def test_the_tree_is_walked_by_arrow_keys(page: webdriver.Chrome) -> None:
    tree = page.find_element(By.ID, "tree")
    tree.send_keys(Keys.HOME, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    active = "return document.getElementById(document.getElementById('tree').getAttribute('aria-activedescendant'))"
    assert page.execute_script(f"{active}.dataset.row") == "/admin"
    assert page.execute_script(f"{active}.getAttribute('aria-expanded')") == "true"
    assert page.execute_script(f"return getComputedStyle({active.removeprefix('return ')}).outlineStyle") == "solid"
    tree.send_keys(Keys.ARROW_RIGHT, Keys.ENTER)
    wait_for(lambda: "The topics that are to be deleted." in text(page, "znode"), "the znode's meaning is shown")
    tree.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert page.execute_script(f"{active}.getAttribute('aria-expanded')") == "false"


def test_the_focus_stays_where_it_is_while_values_change(cluster: LocalCluster, page: webdriver.Chrome) -> None:
    page.execute_script("document.querySelector('#groups button[data-told]').focus()")
    loop = BlockingLoop()
    client = KazooZkClient(loop.call_from_thread, cluster.zookeeper)
    loop.run(client.start())
    try:
        for offset in (b"130", b"120"):
            loop.run(client.set("/consumers/billing/offsets/orders/0", offset))
            wait_for(lambda: [row[2].encode() for row in offsets(page)] == [offset], "the offset is new")  # noqa: B023
    finally:
        loop.run(client.close())
    assert page.execute_script("return document.activeElement.closest('#groups') !== null")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200, 1920])
def test_axe_finds_nothing_and_the_page_fits_its_window(page: webdriver.Chrome, width: int, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.find_element(By.ID, "tree").send_keys(Keys.HOME, Keys.ENTER)
        found = Axe().run(page)
        assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]] == []
        assert {each["id"] for each in found["passes"]} >= {"color-contrast", "aria-required-children"}
        assert page.execute_script("return innerWidth") == width
        fits = "return document.documentElement.scrollWidth === document.documentElement.clientWidth"
        assert page.execute_script(fits), "the page itself is not scrolled sideways"
        script = "return parseFloat(getComputedStyle(document.querySelector('td')).fontSize)"
        assert page.execute_script(script) == (20 if width == 1920 else 16)
        if SCREENSHOTS and (width, scheme) in PICTURES:
            Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
            page.execute_script(
                f"document.getElementById('{'tree-section' if scheme == 'dark' else 'brokers'}').scrollIntoView()"
            )
            page.save_screenshot(f"{SCREENSHOTS}/dashboard-{width}-{scheme}.png")
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_tree_is_searched_by_path_and_by_data(page: webdriver.Chrome) -> None:
    search = page.find_element(By.ID, "search")
    search.send_keys("controller_epo")
    # The state of a partition has the epoch of its controller in its data.
    wait_for(lambda: text(page, "tree-count") == "3 znodes", "the search has its result")
    assert "/brokers/topics/orders/partitions/1/state" in text(page, "tree")
    search.clear()
    search.send_keys(Keys.SPACE, Keys.BACKSPACE)
    wait_for(lambda: text(page, "tree-count") != "3 znodes", "the whole tree is shown again")


def test_a_change_in_zookeeper_is_seen_without_a_reload(cluster: LocalCluster, page: webdriver.Chrome) -> None:
    loop = BlockingLoop()
    client = KazooZkClient(loop.call_from_thread, cluster.zookeeper)
    loop.run(client.start())
    try:
        loop.run(client.set("/consumers/billing/offsets/orders/0", b"400"))
        wait_for(lambda: [row[2:4] for row in offsets(page)] == [["400", "100"]], "offset and lag are new")
        loop.run(client.set("/consumers/billing/offsets/orders/0", b"many"))
        wait_for(lambda: "not an offset" in text(page, "groups"), "the malformed offset is shown as a fault")
        loop.run(client.set("/consumers/billing/offsets/orders/0", b"120"))
        wait_for(lambda: [row[2] for row in offsets(page)] == ["120"], "the offset is back")
    finally:
        loop.run(client.close())


def test_names_are_never_taken_for_markup(cluster: LocalCluster, page: webdriver.Chrome) -> None:
    loop = BlockingLoop()
    client = KazooZkClient(loop.call_from_thread, cluster.zookeeper)
    loop.run(client.start())
    group, more = group_path(HOSTILE), "/consumers/hostile"
    try:
        loop.run(client.create(group))
        loop.run(client.create(more, HOSTILE.encode()))
        wait_for(lambda: HOSTILE in text(page, "groups"), "the group is shown by its name")
        page.execute_script("document.getElementById('search').value = 'onerror'")
        page.find_element(By.ID, "search").send_keys(Keys.SPACE, Keys.BACKSPACE)
        wait_for(lambda: text(page, "tree-count") == "2 znodes", "both znodes are found, one by its data")
        assert page.execute_script("return document.images.length + document.scripts.length") == 1
        assert page.title == "kafkalite dashboard"
    finally:
        loop.run(client.delete(group))
        loop.run(client.delete(more))
        loop.run(client.close())


def test_no_request_leaves_the_origin_and_nothing_is_refused(address: str, page: webdriver.Chrome) -> None:
    loaded = page.execute_script("return performance.getEntriesByType('resource').map((each) => each.name)")
    assert {name.rpartition("/")[0] for name in loaded if not name.startswith("data:")} == {address.rstrip("/")}
    assert [entry["message"] for entry in page.get_log("browser")] == []  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    "headers", [{"Host": "attacker.example"}, {"Host": "attacker.example:80"}, {"Origin": "http://attacker.example"}]
)
def test_requests_through_another_site_are_refused(address: str, headers: dict[str, str]) -> None:
    for path in ("", "changes", "main.js"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(address + path, headers=headers), timeout=30)
        assert refused.value.code == 403


@pytest.fixture(scope="module")
def changing(cluster: LocalCluster) -> Iterator[str]:
    """The address of a dashboard that may change the cluster."""
    with dashboard("--dir", str(cluster.directory), "--allow-changes") as address:
        yield address


@pytest.fixture
def forms(changing: str, page: webdriver.Chrome) -> Iterator[webdriver.Chrome]:
    """The page of that dashboard in a tab of its own."""
    former = page.current_window_handle
    page.switch_to.new_window("tab")
    try:
        page.get(changing)
        wait_for(lambda: text(page, "connection") == "live", "the page is live", timeout=60)
        wait_for(lambda: text(page, "actions") != "", "the forms are shown", timeout=60)
        yield page
    finally:
        page.close()
        page.switch_to.window(former)


def fill(page: webdriver.Chrome, action: str, **fields: str) -> None:
    """Choose ``action`` and type ``fields`` into its form."""
    Select(page.find_element(By.ID, "action")).select_by_value(action)
    for name, value in fields.items():
        field = page.find_element(By.CSS_SELECTOR, f"#actions .fields [name={name}]")
        if field.tag_name == "select":
            Select(field).select_by_value(value)
        else:
            field.clear()
            field.send_keys(value)


def carry_out(page: webdriver.Chrome, line: str) -> str:
    """Wait until the page shows the command ``line``, run it by the keyboard, and return what the page says then."""
    wait_for(lambda: line in text(page, "action-command"), f"the page shows the command {line}", timeout=60)
    page.find_element(By.CSS_SELECTOR, "#actions button[type=submit]").send_keys(Keys.ENTER)
    wait_for(lambda: text(page, "action-outcome") not in ("", "running …"), "the command has ended", timeout=60)
    return text(page, "action-outcome")


@pytest.mark.full
def test_topics_offsets_and_brokers_are_changed_by_the_command_lines_that_the_page_shows(
    cluster: LocalCluster, forms: webdriver.Chrome
) -> None:
    fill(forms, "create-topic", topic="made.here", partitions="2", replicas="3")
    said = carry_out(forms, "--create --topic made.here --partitions 2 --replication-factor 3")
    assert said.startswith("done: kafkalite topics --bootstrap-server ")
    assert "Created topic made.here." in said
    wait_for(lambda: "made.here" in text(forms, "topics"), "the page shows the topic", timeout=60)
    with ZnodeReader(cluster.zookeeper) as zookeeper:
        assert zookeeper.get("/brokers/topics/made.here") is not None

        fill(forms, "set-offset", group="billing", topic="orders", partition="0", offset="77")
        said = carry_out(forms, "--path /consumers/billing/offsets/orders/0 --data 77")
        assert "set /consumers/billing/offsets/orders/0" in said
        assert zookeeper.get("/consumers/billing/offsets/orders/0") == b"77"

        fill(forms, "reset-group", group="billing", to="latest")
        assert carry_out(forms, "--all-topics --to-latest --execute").startswith("done: ")
        assert zookeeper.get("/consumers/billing/offsets/orders/0") == str(RECORDS).encode()
        fill(forms, "set-offset", group="billing", topic="orders", partition="0", offset="120")
        assert carry_out(forms, "--data 120").startswith("done: ")

        fill(forms, "delete-topic", topic="made.here")
        assert carry_out(forms, r"--delete --topic 'made\.here'").startswith("done: ")
        wait_for(lambda: zookeeper.get("/brokers/topics/made.here") is None, "the topic is deleted", timeout=60)

        session = zookeeper.owner("/brokers/ids/2")
        fill(forms, "expire", broker="2")
        assert "broker 2 lost its ZooKeeper session" in carry_out(forms, "cluster expire --dir ")
        wait_for(lambda: zookeeper.owner("/brokers/ids/2") not in (0, session), "a new session", timeout=60)
    cluster.wait_ready()

    fill(forms, "pause", broker="2")
    assert "broker 2 is paused" in carry_out(forms, "cluster pause --dir ")
    assert process_state(cluster.pid(2)) == "T"
    fill(forms, "resume", broker="2")
    assert "broker 2 goes on" in carry_out(forms, "cluster resume --dir ")
    assert process_state(cluster.pid(2)) != "T"
    cluster.wait_ready()

    fill(forms, "cut", broker="2")
    assert "broker 2 is cut off from ZooKeeper" in carry_out(forms, "cluster cut --dir ")
    with ZnodeReader(cluster.zookeeper) as zookeeper:
        wait_for(lambda: zookeeper.get("/brokers/ids/2") is None, "its session ends")
    wait_for(lambda: "2" not in [row[0] for row in rows(forms, "brokers")], "the page shows that it is gone")
    assert process_state(cluster.pid(2)) != "T"
    fill(forms, "heal", broker="2")
    assert "broker 2 reaches ZooKeeper again" in carry_out(forms, "cluster heal --dir ")
    wait_for(lambda: "2" in [row[0] for row in rows(forms, "brokers")], "and that it is back")
    cluster.wait_ready()

    fill(forms, "elect", topic="orders", partition="0", type="preferred")
    assert re.search(
        "Valid replica already elected|Successfully completed", carry_out(forms, "--election-type preferred")
    )


def process_state(pid: int) -> str:
    """The kernel's letter for the state of a process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_hostile_names_in_a_form_stay_text_and_what_fails_says_so(forms: webdriver.Chrome) -> None:
    fill(forms, "create-topic", topic="<script>document.title='hacked'</script>")
    wait_for(lambda: "characters other than" in text(forms, "action-command"), "the name is refused", timeout=60)
    fill(forms, "reset-group", group=HOSTILE, to="earliest")
    said = carry_out(forms, HOSTILE.replace("'", "'\"'\"'"))
    assert HOSTILE.replace("'", "'\"'\"'") in said, "the page shows the command line as it is for a shell"
    fill(forms, "delete-topic", topic="no-such-topic")
    assert "failed with exit code 1" in carry_out(forms, "--topic no-such-topic")
    assert "does not exist as expected" in text(forms, "action-outcome")
    assert forms.execute_script("return document.images.length + document.scripts.length") == 1
    assert forms.title == "kafkalite dashboard"


def post(address: str, token: str, **headers: str) -> tuple[int, str]:
    """Ask for a topic, as a page does; status and body."""
    body = b'{"action": "create-topic", "fields": {"topic": "evil", "partitions": 1, "replicas": 1}, "run": true}'
    given = {"Origin": address.rstrip("/"), "X-Kafkalite-Token": token, **headers}
    try:
        request = urllib.request.Request(f"{address}actions", body, given)
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_changes_are_refused_without_permission_and_from_other_pages(
    cluster: LocalCluster, address: str, changing: str, page: webdriver.Chrome, tmp_path: Path
) -> None:
    with urllib.request.urlopen(changing, timeout=30) as response:
        found = re.search(r'name="kafkalite-token" content="([\w-]{43})"', response.read().decode())
    assert found is not None
    token = found[1]
    code, body = post(address, token)
    assert code == 403 and "start it with --allow-changes" in body
    assert page.execute_script("return document.getElementById('actions').hidden")
    assert post(changing, token, Origin="http://attacker.example")[0] == 403
    assert post(changing, "A" * 43)[0] == 403
    # A page of another site, in the browser: it can neither send the token nor read the page that has it.
    attack = f"""<script>
        const body = '{{"action":"create-topic","fields":{{"topic":"evil","partitions":1,"replicas":1}},"run":true}}';
        const send = (headers) =>
            fetch("{changing}actions", {{method: "POST", mode: headers ? "cors" : "no-cors", headers, body}});
        Promise.allSettled([send(undefined), send({{"X-Kafkalite-Token": "{token}"}}), fetch("{changing}")])
            .then((ends) => document.title = ends.map((end) => end.value?.type ?? end.status).join(" "));
        </script>"""
    foreign = tmp_path / "attack.html"
    foreign.write_text(attack)
    former = page.current_window_handle
    page.switch_to.new_window("tab")
    try:
        page.get(foreign.as_uri())
        wait_for(lambda: page.title == "opaque rejected rejected", "the attack has ended", timeout=60)
        page.get_log("browser")  # type: ignore[no-untyped-call]  # What the browser refused the attack.
    finally:
        page.close()
        page.switch_to.window(former)
    with ZnodeReader(cluster.zookeeper) as zookeeper:
        assert zookeeper.get("/brokers/topics/evil") is None


def test_a_wide_address_and_a_port_in_use_are_refused_with_one_line(cluster: LocalCluster) -> None:
    wide = command("dashboard", "--zookeeper", cluster.zookeeper, "--listen", "0.0.0.0:0", code=1)
    assert "the page has no login" in wide.err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = process("dashboard", "--zookeeper", cluster.zookeeper, "--listen", f"127.0.0.1:{port}", code=1)
    assert f"cannot listen on 127.0.0.1:{port}" in refused.err
    assert "Traceback" not in refused.err


def test_the_dashboard_of_a_local_cluster_starts_and_ends_with_it(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    started = process("cluster", "start", "--dir", directory, "--brokers", 1, "--detach", "--dashboard").out
    address = started.splitlines()[-1].removeprefix("dashboard at ")
    try:
        with urllib.request.urlopen(address, timeout=30) as response:
            assert b"<title>kafkalite dashboard</title>" in response.read()
    finally:
        process("cluster", "stop", "--dir", directory)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=30)


def test_members_with_assignments_and_transactions_are_shown(cluster: LocalCluster, page: webdriver.Chrome) -> None:
    topic = ("--topic", "payments", "--partitions", 2, "--replication-factor", 1)
    command("topics", "--bootstrap-server", cluster.bootstrap, "--create", *topic)
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "kitchen", "client.id": "the-cook"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "pay-1"})
    try:
        consumer.subscribe(["payments"])

        def member() -> bool:
            consumer.poll(0.1)
            return any(row[1] == "the-cook" and row[3] == "payments-0 payments-1" for row in rows(page, "groups"))

        wait_for(member, "the member is shown with its partitions")
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce("payments", b"5", partition=1)
        producer.flush(60)
        wait_for(lambda: transactions(page) == [["pay-1", "Ongoing", "payments-1"]], "the open transaction is shown")
        producer.abort_transaction(60)
        wait_for(lambda: transactions(page) == [["pay-1", "CompleteAbort", ""]], "and its end")
    finally:
        consumer.close()


def transactions(page: webdriver.Chrome) -> list[list[str]]:
    """Id, state and partitions of each transaction."""
    return [[row[0], row[1], row[4]] for row in rows(page, "transactions")]


# When the row of a broker left the page, by the clock of the machine.
WATCH_BROKER = """
window.gone = 0;
const look = () => {
  const ids = [...document.querySelectorAll("#brokers tbody tr")].map((row) => row.cells[0].textContent);
  if (!window.gone && !ids.includes(String(arguments[0]))) {
    window.gone = Date.now();
  }
};
const what = { childList: true, subtree: true, characterData: true };
new MutationObserver(look).observe(document.getElementById("brokers"), what);
"""


def test_a_kill_is_seen_within_a_second(cluster: LocalCluster, page: webdriver.Chrome) -> None:
    seconds: list[float] = []
    # Again on a machine that stalled meanwhile.
    while not seconds or (seconds[-1] > 1.0 and len(seconds) < 5):
        victim = next(int(row[0]) for row in rows(page, "brokers") if row[3] != "controller")
        page.execute_script(WATCH_BROKER, victim)
        killed_at = time.time()
        cluster.kill_broker(victim)
        gone = wait_for(lambda: page.execute_script("return window.gone"), "the broker is gone from the page")
        seconds.append(gone / 1000 - killed_at)
        cluster.start_broker(victim)
        wait_for(lambda: len(rows(page, "brokers")) == 3, "the broker is back")
    assert min(seconds) <= 1.0, seconds


def test_a_killed_broker_goes_from_the_page(cluster: LocalCluster, page: webdriver.Chrome) -> None:
    victim = next(int(row[0]) for row in rows(page, "brokers") if row[3] == "controller")
    cluster.kill_broker(victim)
    wait_for(lambda: str(victim) not in [row[0] for row in rows(page, "brokers")], "the broker is gone from the page")
    wait_for(lambda: "controller" in [row[3] for row in rows(page, "brokers")], "another broker is the controller")
    wait_for(lambda: f"replica on broker {victim}: does not answer, not in sync" in bars(page), "its replicas are grey")
    assert "under-replicated" in text(page, "topics")
    wait_for(lambda: tells(page, f"broker {victim} is no longer registered"), "the timeline tells of the end")
    wait_for(lambda: tells(page, "the controller has read the cluster"), "and of the next controller")


def tells(page: webdriver.Chrome, text: str) -> bool:
    """Whether the timeline says ``text``."""
    return any(text in row[3] for row in rows(page, "timeline"))
