"""The named steps of a session that judges a broker: each is run, timed out, and told in results.txt."""

import pathlib
import random
import signal
import sys
import time
import traceback

SECONDS_MAX = 60
CODECS = ("gzip", "snappy", "lz4", "zstd")


class Skipped(Exception):
    """Raised in a step that this client does not have."""


class Session:
    """`with Session() as session: session.step("produce", function)`. Arguments of the program: bootstrap, outdir."""

    def __init__(self):
        self.bootstrap = sys.argv[1]
        self.results = open(pathlib.Path(sys.argv[2]) / "results.txt", "w", encoding="utf-8")
        self.mark = f"{random.SystemRandom().randrange(1 << 32):08x}"

    def __enter__(self):
        signal.signal(signal.SIGALRM, time_is_up)
        return self

    def __exit__(self, *_):
        self.results.close()

    def name(self, text):
        """A name for a topic or a group that no other session has."""
        return f"{text}-{self.mark}"

    def step(self, name, function, *arguments, seconds=SECONDS_MAX):
        begun = time.monotonic()
        try:
            signal.alarm(seconds)
            function(*arguments)
            verdict = "PASS"
        except Skipped:
            verdict = "SKIP"
        except Exception:
            verdict = "FAIL"
            traceback.print_exc()
        finally:
            signal.alarm(0)
        print(f"{verdict} {name} {time.monotonic() - begun:.1f} s", flush=True)
        print(verdict, name, file=self.results, flush=True)


def time_is_up(*_):
    raise TimeoutError("the step took too long")
