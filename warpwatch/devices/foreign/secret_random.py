"""Draws what code that is not trusted must not foresee: seeds of inputs, their order, and what is proved."""

from __future__ import annotations

import hashlib
import random
import secrets

SEED_BITS = 62  # of a seed, which a saved run tells afterwards


class SecretRandom(random.Random):
    """Random numbers that follow from a secret seed, but not from each other, as those of Python's own generator do."""

    def __init__(self) -> None:
        self.seed_value, self._drawn = secrets.randbits(SEED_BITS), 0
        super().__init__()

    def getrandbits(self, k: int) -> int:
        """Return a number of ``k`` bits."""
        bits = 0
        for _ in range(-(-k // 256)):
            self._drawn += 1
            bits = bits << 256 | int.from_bytes(hashlib.sha256(b"%d %d" % (self.seed_value, self._drawn)).digest())
        return bits & ((1 << k) - 1)

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return self.getrandbits(53) * 2.0**-53

    def seed(self, *_: object, **__: object) -> None:
        """Do nothing: the seed is drawn when a generator is made."""
