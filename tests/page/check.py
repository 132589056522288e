"""The admin page as a person meets it, in a headless Chromium: `make page`.

Starts a gateway with a nats-server of its own, fills it with records and names that would like to be markup, walks through
every view by mouse-free means, and leaves screenshots below target/page.
"""

import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from browser import Browser
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / "target" / "page"
TAB, ENTER, SHIFT = "\ue004", "\ue007", "\ue008"
EVIL = '<img src=x onerror="window.caught=1"><script>window.caught=1</script>'
EVIL_GROUP = EVIL + "\"'`${1}"


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Gateway:
    def __init__(self, folder, binary):
        self.kafka, self.admin = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        command = [binary, "--embedded", "--data-dir", folder, "--nats-server", ROOT / ".tools" / "nats-server", "--host", "127.0.0.1",
                   "--port", self.kafka.split(":")[1], "--admin-port", self.admin.split(":")[1], "--group-initial-rebalance-delay", "0s"]
        self.process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert "is ready" in self.process.stdout.readline(), "the gateway does not start"

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def fill(gateway):
    admin = AdminClient({"bootstrap.servers": gateway.kafka})
    topics = [NewTopic("orders", 3, 1), NewTopic("clicks.raw", 1, 1), NewTopic("evil", 1, 1), NewTopic("quiet", 1, 1)]
    for made in admin.create_topics(topics).values():
        made.result(60)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({"bootstrap.servers": gateway.kafka, "compression.type": codec, "linger.ms": 50})
        for n in range(30):
            producer.produce("orders", partition=0, key=f"customer-{n % 7}", value=json.dumps({"codec": codec, "n": n, "note": "x" * 50}))
        producer.flush(30)
    producer = Producer({"bootstrap.servers": gateway.kafka})
    producer.produce("evil", key=EVIL, value=EVIL, headers=[(EVIL, EVIL), ("trace", b"\x00\xff\x7f")])
    producer.produce("evil", key=b"\x00\x01\xfe", value=json.dumps({"html": EVIL, "big": 9007199254740993}))
    producer.produce("evil", key="gone", value=None)
    for n in range(40):
        producer.produce("clicks.raw", value=bytes([n, 0, 255]) * 20)
    producer.flush(30)
    for group, topic, count in (("billing", "orders", 100), (EVIL_GROUP, "evil", 2)):
        consumer = Consumer({"bootstrap.servers": gateway.kafka, "group.id": group, "client.id": EVIL if topic == "evil" else "invoices"})
        consumer.commit(offsets=[TopicPartition(topic, 0, count, metadata=EVIL)], asynchronous=False)
        consumer.close()


class Traffic:
    """A producer and a consumer group that go on until stopped: something to see."""

    def __init__(self, gateway):
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=life, args=(gateway,)) for life in (self.produce, self.consume)]
        for thread in self.threads:
            thread.start()

    def produce(self, gateway):
        producer = Producer({"bootstrap.servers": gateway.kafka, "linger.ms": 5})
        n = 0
        while not self.stopped.wait(0.01 if n % 700 < 350 else 0.03):
            producer.produce("orders", key=f"customer-{n % 50}", value=json.dumps({"order": n, "items": n % 5 + 1, "total": n * 1.5}))
            producer.poll(0)
            n += 1
        producer.flush(30)

    def consume(self, gateway):
        consumer = Consumer({"bootstrap.servers": gateway.kafka, "group.id": "shipping", "auto.offset.reset": "latest", "auto.commit.interval.ms": 1000, "client.id": "warehouse-1"})
        consumer.subscribe(["orders"])
        while not self.stopped.is_set():
            consumer.poll(0.1)
        consumer.close()

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


class Page:
    def __init__(self, gateway):
        self.address = f"http://{gateway.admin}/v1/stream/"
        self.browser = Browser()

    def go(self, hash):
        self.browser.run("location.hash = arguments[0]", hash)

    def sees(self, *texts, seconds=30):
        for text in texts:
            self.browser.eventually(f"the page shows {text!r}", lambda: text in self.browser.text(), seconds)

    def is_clean(self, where):
        """Nothing ran, nothing became markup, and the browser had nothing to complain of."""
        browser = self.browser
        assert browser.run("return window.caught") is None, f"{where}: a script ran"
        assert browser.run("return document.querySelectorAll('main img, main script, main iframe, main object').length") == 0, where
        assert browser.run("return document.scripts.length") == 1, where
        complaints = browser.console()
        assert not complaints, f"{where}: {complaints}"

    def focus(self):
        return self.browser.run("const at = document.activeElement; return at === document.body ? '' : (at.id || at.textContent)")

    def shot(self, name):
        self.browser.screenshot(SHOTS / f"{name}.png")


def every_view(page):
    page.browser.open(page.address)
    page.sees("Overview", "connected to JetStream", "Greatest lag", "billing", "orders")
    grown = "return [...document.querySelectorAll('.chart path.first')].filter((path) => (path.getAttribute('d') || '').includes('L')).length"
    page.browser.eventually("charts are drawn", lambda: page.browser.run(grown) >= 4)
    page.is_clean("overview")
    for hash, texts in (
        ("#/topics", ["clicks.raw", "orders", "quiet", "Records per second"]),
        ("#/topic/orders", ["kafka-orders-0", "kafka.orders.2", "shipping", "Groups that read it", "all settings have their defaults"]),
        ("#/groups", ["billing", "shipping", EVIL_GROUP]),
        ("#/group/shipping", ["Stable", "warehouse-1", "Committed at"]),
        ("#/activity", ["Workers busy, on average", "Waiting requests", "worker-0", "Fetch"]),
    ):
        page.go(hash)
        page.sees(*texts)
        page.is_clean(hash)


def hostile_content_stays_text(page):
    quoted = page.browser.run("return encodeURIComponent(arguments[0])", EVIL_GROUP)
    page.go("#/group/" + quoted)
    page.sees("Group " + EVIL_GROUP, EVIL, "1")
    page.is_clean("a group")
    page.go("#/records?topic=evil&partition=0")
    page.sees("Offsets 0 to 3", EVIL, "tombstone", '"big": 9007199254740993', EVIL + ": " + EVIL, "trace: 00 ff 7f")
    page.is_clean("records")
    page.shot("hostile")
    for nowhere in ("#/topic/" + quoted, "#/group/" + quoted + "x", "#/records?topic=" + quoted, "#/topic/%", "#/" + EVIL):
        page.go(nowhere)
        page.sees("Hanzo Kafka")
        time.sleep(0.3)
        assert page.browser.run("return window.caught") is None, nowhere
    # What is not there is refused with 404 and said: those are the only complaints.
    assert all("404" in complaint for complaint in page.browser.console())
    page.browser.run("const script = document.createElement('script'); script.textContent = 'window.caught = 1'; document.body.append(script); script.remove()")
    assert page.browser.run("return window.caught") is None, "the policy lets inline scripts run"
    assert any("Content Security Policy" in complaint for complaint in page.browser.console())
    entries = page.browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    outside = [name for name in entries if not name.startswith(page.address.removesuffix("v1/stream/"))]
    assert entries and not outside, outside


def records_are_inflated_and_shown_in_each_way(page):
    page.go("#/records?topic=orders&partition=0&offset=0")
    page.sees("offset 0", '"codec": "none"')
    choose = "const [id, value] = arguments; const field = document.getElementById(id); field.value = value; field.dispatchEvent(new Event('change'))"
    page.browser.run(choose, "count", "200")
    page.browser.run("document.getElementById('offset').value = '0'; document.querySelector('main form').requestSubmit()")
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        page.sees(f'"codec": "{codec}"')
    show_as = "document.querySelector(`input[name=as][value=${arguments[0]}]`).click()"
    page.browser.run(show_as, "text")
    page.sees('{"codec": "lz4", "n": 3')
    page.browser.run(show_as, "hex")
    page.sees("7b 22 63 6f 64 65 63 22")
    page.is_clean("records in each way")
    page.go("#/records?topic=clicks.raw&partition=0")
    page.sees("Offsets 0 to 40; shown from 20", "offset 39", "27 00 ff 27 00 ff")
    button = "[...document.querySelectorAll('main button')].find((button) => button.textContent === arguments[0])"
    page.browser.run(f"{button}.click()", "Older")
    page.sees("shown from 0", "offset 0")
    assert page.browser.run(f"return {button}.disabled", "Older")
    page.browser.run(f"{button}.click()", "Newest")
    page.sees("shown from 20")


def the_keyboard_is_enough(page):
    page.browser.open(page.address)
    page.sees("Overview", "orders")
    page.browser.press(TAB)
    assert page.focus() == "Skip to content"
    page.browser.press(TAB, TAB)
    assert page.focus() == "Topics"
    page.browser.press(ENTER)
    page.sees("Filter by name", "clicks.raw")
    assert page.focus() == "Topics" and page.browser.run("return document.activeElement.tagName") == "H2"
    page.browser.press(TAB)
    assert page.focus() == "filter"
    page.browser.press(*"ord")
    page.browser.eventually("the filter works", lambda: "clicks.raw" not in page.browser.text())
    for _ in range(20):
        page.browser.press(TAB)
        if page.focus() == "Partitions":
            break
    page.browser.press(ENTER)
    assert page.browser.run("return document.activeElement.closest('th').getAttribute('aria-sort')") == "descending"
    for _ in range(20):
        page.browser.press(TAB)
        if page.focus() == "orders":
            break
    # The lists are read again meanwhile: what has the focus keeps it.
    page.browser.run("window.kept = document.activeElement")
    time.sleep(6)
    assert page.browser.run("return document.activeElement === window.kept && window.kept.isConnected")
    page.browser.press(ENTER)
    page.sees("Topic orders", "kafka-orders-0")
    assert page.browser.run("return document.title") == "Topic orders – Hanzo Kafka"
    page.is_clean("the keyboard's way")


def light_and_dark_and_small(page):
    media = lambda scheme: {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    path = page.browser.session + "/goog/cdp/execute"
    emulate = lambda command, parameters: page.browser.call("POST", path, {"cmd": command, "params": parameters})
    colours = []
    for scheme in ("light", "dark"):
        emulate("Emulation.setEmulatedMedia", media(scheme))
        page.go("#/")
        page.sees("Topics that grow most", "shipping")
        colours.append(page.browser.run("const style = getComputedStyle(document.body); return [style.backgroundColor, style.color]"))
        for name, hash, text in (("overview", "#/", "orders"), ("topic", "#/topic/orders", "kafka-orders-2"), ("group", "#/group/shipping", "warehouse-1"),
                                 ("records", "#/records?topic=orders&partition=0", "offset "), ("activity", "#/activity", "worker-0")):
            page.go(hash)
            page.sees(text)
            time.sleep(1)
            page.shot(f"{name}-{scheme}")
    bright = lambda colour: sum(int(part) for part in colour[4:-1].split(",")) > 384
    assert [[bright(colour) for colour in pair] for pair in colours] == [[True, False], [False, True]], colours
    emulate("Emulation.setDeviceMetricsOverride", {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True})
    for hash in ("#/", "#/topics", "#/topic/orders", "#/groups", "#/records?topic=evil&partition=0", "#/activity"):
        page.go(hash)
        time.sleep(1)
        wide = page.browser.run("return document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{hash} is {wide} pixels too wide for a telephone"
    page.shot("small")


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else ROOT / "target" / "debug" / "hanzo-kafka"
    SHOTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(folder, binary)
        traffic = page = None
        try:
            fill(gateway)
            traffic = Traffic(gateway)
            page = Page(gateway)
            for check in (every_view, hostile_content_stays_text, records_are_inflated_and_shown_in_each_way, the_keyboard_is_enough, light_and_dark_and_small):
                check(page)
                print(f"{check.__name__.replace('_', ' ')} ... ok", flush=True)
        except BaseException:
            if page is not None:
                page.shot("failed")
                print(page.browser.text(), file=sys.stderr)
            raise
        finally:
            if page is not None:
                page.browser.close()
            if traffic is not None:
                traffic.stop()
            gateway.stop()
    print(f"5 passed, 0 failed; screenshots are in {SHOTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
