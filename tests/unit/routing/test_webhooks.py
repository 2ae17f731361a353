"""Webhooks without sockets: schedules under a simulated clock, rules about addresses, signatures, registration."""

from __future__ import annotations

import base64
import hashlib
import hmac
import random
from dataclasses import dataclass, field

import msgspec
import pytest

from tamis.errors import LimitError, ModelError, RefusedError, UnknownSubscriptionError
from tamis.node.effects import Answer, Persist
from tamis.routing.edge.audit import Trail
from tamis.routing.webhooks.registration import PutWebhook, SigningKey, Webhook, Webhooks
from tamis.routing.webhooks.rules import WebhookRules
from tamis.routing.webhooks.schedule import LONGEST_PAUSE, Attempt, Schedule
from tamis.routing.webhooks.signature import key_as_text, read_key, signatures


@dataclass
class World:
    """An endpoint that fails by chance, a log that grows, and a broker that crashes: time is a number."""

    chance: random.Random
    batch: int
    parallel: int
    now: float = 0.0
    last: int = 0
    acknowledged: int = 0
    arrived: list[int] = field(default_factory=list)
    under_way: list[tuple[float, Attempt]] = field(default_factory=list)

    def run(self, total: int) -> None:
        schedule = self.restart()
        while self.acknowledged < total:
            self.last = min(total, self.last + self.chance.randrange(0, 8))
            if self.chance.random() < 0.02:
                schedule = self.restart()
            while (attempt := schedule.next(self.now, self.last)) is not None:
                if attempt.number == 1 and attempt.last > attempt.first and self.chance.random() < 0.2:
                    attempt = schedule.shorten(attempt, attempt.first)
                self.under_way.append((self.now + self.chance.uniform(0.01, 2.0), attempt))
            assert len(self.under_way) <= self.parallel
            wake = schedule.wake_at(self.now)
            assert wake is None or wake > self.now  # a reader would spin
            moments = [moment for moment, _ in self.under_way] + ([] if wake is None else [wake])
            if not moments:
                assert self.acknowledged == self.last, "nothing is under way, nothing is due, and something waits"
                continue
            self.now = max(self.now, min(moments))
            self.finish(schedule)

    def restart(self) -> Schedule:
        self.under_way.clear()
        return Schedule(self.acknowledged, batch=self.batch, parallel=self.parallel, most_failures=1_000)

    def finish(self, schedule: Schedule) -> None:
        done = [(moment, attempt) for moment, attempt in self.under_way if moment <= self.now]
        for call in done:
            self.under_way.remove(call)
            _, attempt = call
            if self.chance.random() < 0.3:
                schedule.fail(attempt, self.now, self.chance.random())
            else:
                self.arrived += range(attempt.first, attempt.last + 1)
                self.acknowledged = schedule.succeed(attempt)
                assert {*range(1, self.acknowledged + 1)} <= {*self.arrived}, "acknowledged and never delivered"


@pytest.mark.parametrize("seed", range(40))
def test_everything_arrives_at_least_once_and_in_order_with_one_request_at_a_time(seed: int) -> None:
    chance = random.Random(seed)
    world = World(chance, batch=chance.choice([1, 3, 10]), parallel=chance.choice([1, 1, 4]))
    world.run(total=120)
    assert {*world.arrived} == {*range(1, 121)}
    if world.parallel == 1:
        first = list(dict.fromkeys(world.arrived))
        assert first == sorted(first)  # a repetition may go back, a new message comes in its turn


def test_retries_have_growing_pauses_with_jitter_and_end_in_a_suspension() -> None:
    schedule, now, pauses = Schedule(0, most_failures=12), 0.0, []
    while not schedule.is_worn_out:
        attempt = schedule.next(now, last=5)
        assert attempt is not None
        assert (attempt.first, attempt.last) == (1, 1)  # the same message until it arrives
        schedule.fail(attempt, now, chance=0.5)
        assert schedule.next(now, last=5) is None
        wake = schedule.wake_at(now)
        if wake is not None:
            pauses.append(wake - now)
            now = wake
    assert pauses[:5] == [0.75, 1.5, 3.0, 6.0, 12.0]
    assert pauses[-1] == LONGEST_PAUSE * 0.75
    assert (schedule.failures, schedule.next(now + 1e6, 5), schedule.wake_at(now)) == (12, None, None)


def test_an_endpoint_that_is_down_gets_one_request_at_a_time_and_counts_one_failure() -> None:
    schedule = Schedule(0, parallel=4)
    flights = [schedule.next(0.0, last=100) for _ in range(4)]
    assert schedule.next(0.0, last=100) is None
    for flight in flights:
        assert flight is not None
        schedule.fail(flight, 1.0, chance=0.0)
    assert (schedule.failures, schedule.next(1.5, 100)) == (1, None)
    probe = schedule.next(2.0, last=100)
    assert probe is not None
    assert (probe.first, schedule.next(2.0, last=100)) == (5, None)  # other messages show whether it is back
    schedule.succeed(probe)
    again = [schedule.next(2.0, last=100) for _ in range(5)]
    assert [attempt and (attempt.first, attempt.number) for attempt in again] == [(1, 2), (2, 2), (3, 2), (4, 2), None]


def test_a_request_that_always_fails_does_not_stop_parallel_ones_until_the_window_is_full() -> None:
    schedule, now, delivered = Schedule(0, parallel=2, most_failures=5), 0.0, 0
    while not schedule.is_worn_out:
        attempt = schedule.next(now, last=100_000)
        if attempt is None:
            now = schedule.wake_at(now) or now
        elif attempt.first == 1:
            schedule.fail(attempt, now, chance=0.0)
        else:
            delivered += 1
            assert schedule.succeed(attempt) == 0
    assert delivered == 4_095


def test_an_endpoint_can_ask_for_a_longer_pause_and_another_reader_can_acknowledge() -> None:
    schedule = Schedule(0)
    attempt = schedule.next(0.0, last=9)
    assert attempt is not None
    schedule.fail(attempt, 0.0, chance=0.0, pause=30.0)
    assert schedule.wake_at(0.0) == 30.0
    assert schedule.skip_to(4) == 4
    assert schedule.next(31.0, last=9) == Attempt(5, 5, 1, 1)
    schedule.fail(Attempt(5, 5, 1, 1), 31.0, chance=0.0, pause=1e9)
    assert schedule.wake_at(31.0) == 31.0 + LONGEST_PAUSE


RULES = WebhookRules(hosts=("Hooks.example.com.", "*.example.org", "10.1.2.3"), networks=("10.1.0.0/16",), http=True)


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com/a?b=c",
        "https://HOOKS.example.com./",
        "https://a.b.example.org:8443",
        "http://10.1.2.3/",
    ],
)
def test_urls_of_allowed_hosts(url: str) -> None:
    RULES.check()
    assert RULES.read_url(url).path.startswith("/")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://example.org/", "not among `hosts`"),
        ("https://evilexample.org/", "not among `hosts`"),
        ("https://hooks.example.com.evil.net/", "not among `hosts`"),
        ("https://hooks.example.com@evil.net/", "no user"),
        ("https://evil.net#hooks.example.com", "no user, password or fragment"),
        ("https://evil.net\\@hooks.example.com/", "no user"),
        ("ftp://hooks.example.com/", "expected https://"),
        ("https:///path", "expected https://"),
        ("hooks.example.com", "expected https://"),
        ("https://hooks.example.com:99999/", "url: "),
        ("https://hooks.example.com/a b", "without spaces"),
        ("https://hooks.example.com/\r\nX: y", "without spaces"),
        ("https://hooks.example.com/" + "a" * 3_000, "at most 2,048"),
        ("https://[::1", "url: "),
        ("https://hooks.example.com:0/", "a port is a number from 1 to 65,535"),
        ("https://hooks.example.com:x/", "a port is a number from 1 to 65,535"),
    ],
)
def test_other_urls_are_refused(url: str, words: str) -> None:
    with pytest.raises((ModelError, RefusedError), match=words):
        RULES.read_url(url)


NOT_PUBLIC = """127.0.0.1 127.1 0x7f000001 0x7F.1 2130706433 0177.0.0.1 10.0.0.1. 169.254.169.254
[::1] [::ffff:127.0.0.1] [fe80::1%25eth0] [64:ff9b::7f00:1]"""


@pytest.mark.parametrize("host", NOT_PUBLIC.split())
def test_an_address_that_is_not_public_is_refused_when_it_is_set(host: str) -> None:
    with pytest.raises(RefusedError, match=r"not public; see `networks` of \[webhooks\]") as refused:
        WebhookRules(hosts=("*",)).read_url(f"https://{host}/")
    assert refused.value.code == 403
    with pytest.raises(RefusedError, match="stays within them"):
        WebhookRules(hosts=("*",), networks=("10.1.0.0/16",), http=True).read_url("http://8.8.8.8/")


@pytest.mark.parametrize(
    "host", ["8.8.8.8", "10.1.2.3", "[2606:4700::1111]", "127.1.example", "0x.example", "999.1.1.1"]
)
def test_public_addresses_named_networks_and_names_may_be_set(host: str) -> None:
    assert WebhookRules(hosts=("*",), networks=("10.1.0.0/16",)).read_url(f"https://{host}/").port == 443


def test_without_hosts_nothing_is_called_and_http_must_be_allowed() -> None:
    with pytest.raises(RefusedError, match="calls no webhooks"):
        WebhookRules().read_url("https://hooks.example.com/")
    with pytest.raises(RefusedError, match="http = true"):
        WebhookRules(hosts=("*",)).read_url("http://hooks.example.com/")


PRIVATE = """127.0.0.1 127.9.9.9 0.0.0.0 10.0.0.1 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 224.0.0.1
255.255.255.255 198.18.0.1 192.0.2.1 :: ::1 fe80::1 fe80::1%eth0 fc00::1 fd00:ec2::254 fec0::1 ff02::1 2001:db8::1
::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::808:808 2002:7f00:1::
2002:a9fe:a9fe::1 2001:0:7f00:1::"""


@pytest.mark.parametrize("address", PRIVATE.split())
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    rules = WebhookRules(hosts=("*",))
    with pytest.raises(RefusedError, match="not public"):
        rules.demand_address(address, rules.read_url("https://a.example/"))


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses_and_named_networks_are_called(address: str) -> None:
    target = RULES.read_url("https://hooks.example.com/")
    RULES.demand_address(address, target)
    RULES.demand_address("10.1.2.3", target)
    with pytest.raises(RefusedError, match="outside `networks`"):
        RULES.demand_address(address, RULES.read_url("http://hooks.example.com/"))


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (WebhookRules(networks=("10.1.2.3/8",)), "host bits"),
        (WebhookRules(hosts=("https://a.example/",)), "without a port"),
        (WebhookRules(hosts=("a.example:8443",)), "without a port"),
        (WebhookRules(hosts=("a*.example",)), r"\*\.name"),
        (WebhookRules(most=-1), "most: expected a whole number of at least 0"),
    ],
)
def test_rules_that_cannot_be_read(rules: WebhookRules, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        rules.check()


def test_a_signature_is_that_of_standard_webhooks() -> None:
    """The values are those of the libraries of Standard Webhooks."""
    key = read_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    signed = signatures([key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    other = bytes(range(32))
    mine = base64.b64encode(hmac.digest(other, b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330." + body, hashlib.sha256))
    assert signatures([other, key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == f"v1,{mine.decode()} {signed}"
    assert read_key(key_as_text(other)) == other


@pytest.mark.parametrize("secret", ["", "secret", "whsec_", "whsec_AAAA", "whsec_" + "A" * 400, "whsec_?" + "A" * 31])
def test_a_secret_that_cannot_be_read_is_not_in_the_error(secret: str) -> None:
    with pytest.raises(ModelError, match="expected whsec_") as caught:
        read_key(secret)
    assert len(secret) < 8 or secret not in str(caught.value)


def make_hook(**changes: object) -> Webhook:
    hook = Webhook("4a", "https://hooks.example.com/T0/very-secret", (SigningKey(b"k" * 32),))
    return msgspec.structs.replace(hook, **changes)


def test_webhooks_are_registered_in_one_step_with_a_record_that_shows_no_secret() -> None:
    hooks, trail = Webhooks(lambda link: {"default"} if link in ("s:1", "s:3") else ()), Trail()

    def change(before: Webhook | None, after: Webhook | None, link: str = "s:1", most: int = 1) -> object:
        request = PutWebhook(link, "webhook set", before, after, "1", "default", None, most)
        effects = hooks.handle(request, trail, now=1.0)
        stored.update({effect.key: effect.value for effect in effects if isinstance(effect, Persist)})
        [answer] = [effect.value for effect in effects if isinstance(effect, Answer)]
        return answer

    stored: dict[tuple[str, ...], bytes | None] = {}
    hook = make_hook()
    assert isinstance(change(None, hook, link="s:2"), UnknownSubscriptionError)
    assert change(None, hook) is True
    assert change(None, make_hook(batch=9)) is False  # another request was first
    assert isinstance(change(None, hook, link="s:3"), LimitError)
    assert change(hook, make_hook(suspended="20 requests in a row failed")) is True
    noted = b"".join(change.value or b"" for change in trail.take())
    assert b"hooks.example.com: 20 requests" in noted
    assert b"very-secret" not in noted
    assert "very-secret" not in f"{hook!r} {hook.keys!r}"
    assert "kkk" not in f"{hook!r} {hook.keys!r}"
    again = Webhooks(lambda link: {"default"})
    again.restore({key: value for key, value in stored.items() if value is not None})
    assert again.all == hooks.all
    assert change(hooks.all["s:1"], None) is True
    assert (hooks.all, stored[("webhook", "s:1")]) == ({}, None)


def test_a_former_key_signs_until_its_moment() -> None:
    hook = make_hook(keys=(SigningKey(b"new"), SigningKey(b"old", until=5)))
    assert (hook.live_keys(4), hook.live_keys(5)) == ((b"new", b"old"), (b"new",))


def test_messages_of_a_refused_request_are_tried_one_by_one_and_in_order() -> None:
    schedule = Schedule(0, batch=3)
    attempt = schedule.next(0.0, 5)
    assert attempt == Attempt(1, 3)
    schedule.split(attempt, 0.0, 0.0)
    assert schedule.next(0.5, 5) is None
    first = schedule.next(1.0, 5)
    assert first is not None
    assert (first.first, first.last, first.number) == (1, 1, 2)
    schedule.succeed(first)
    second = schedule.next(1.0, 5)
    assert second is not None
    assert (second.first, second.last) == (2, 2)
    schedule.fail(second, 1.0, 0.0)
    assert schedule.next(1.5, 5) is None, "the third waits for the second"
    assert schedule.give_up(second) == 2
    third = schedule.next(9.0, 5)
    assert third is not None
    assert (third.first, third.last) == (3, 3)
    assert schedule.succeed(third) == 3
    assert schedule.next(9.0, 5) == Attempt(4, 5, 1, 2)


def test_messages_that_were_given_up_before_they_were_sent_leave_room_for_others() -> None:
    schedule = Schedule(0, parallel=2)
    assert schedule.next(0.0, 4) == Attempt(1, 1)
    settled = schedule.next(0.0, 4)
    assert settled == Attempt(2, 2)
    assert schedule.give_up(settled) == 0
    assert schedule.next(0.0, 4) == Attempt(3, 3)
    assert schedule.succeed(Attempt(1, 1)) == 2


@pytest.mark.parametrize("pauses", [(120.0, 0.0), (0.0, 120.0), (120.0, 30.0), (30.0, 120.0)])
def test_parallel_requests_keep_the_longest_pause_that_an_endpoint_asks_for(pauses: tuple[float, float]) -> None:
    schedule = Schedule(0, parallel=3)
    attempts = [schedule.next(0.0, last=9) for _ in range(3)]
    for attempt, pause in zip(attempts, pauses, strict=False):
        assert attempt is not None
        schedule.fail(attempt, 0.0, chance=0.0, pause=pause)
    assert attempts[2] is not None
    schedule.succeed(attempts[2])  # it was under way before the endpoint asked for a pause
    assert schedule.next(119.0, last=9) is None
    assert schedule.wake_at(119.0) == 120.0
    assert schedule.next(120.0, last=9) is not None


@pytest.mark.parametrize("parallel", [1, 4])
def test_new_messages_are_sent_when_the_pause_after_a_dead_letter_is_over(parallel: int) -> None:
    schedule = Schedule(0, parallel=parallel)
    attempt = schedule.next(0.0, last=1)
    assert attempt is not None
    schedule.fail(attempt, 0.0, chance=0.0)
    assert schedule.give_up(attempt) == 1
    assert (schedule.next(0.5, last=2), schedule.wake_at(0.5)) == (None, 1.0)
    assert schedule.next(1.0, last=2) == Attempt(2, 2, 1, 1)
