"""What the client sessions share: waiting on a condition with a deadline."""

import time


def eventually(what, condition, seconds=40):
    """Calls `condition` until it gives something true, and gives that; fails with `what` when time is up."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def equal(got, expected, what):
    assert got == expected, f"{what}: got {got!r:.2000}, expected {expected!r:.2000}"
