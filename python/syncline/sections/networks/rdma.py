"""RoCE: what its settings are, and what they come to for the engine."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Final

from pydantic import Field

from syncline.base.section import Section
from syncline.fabric.fields import Rate, Share, Size, Time

MBPS: Final = 125_000
US: Final = 1_000_000


class Dcqcn(Section):
    """The parameters of DCQCN: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section
    5.2 and Figure 14. The paper gives no `hyper` and no `least`: ten times `additive`, as in 802.1Qau, and one of it.
    """

    gain: Share = Fraction(1, 256)
    """g: the weight of a notification in the estimate of congestion."""
    notification: Time = 50 * US
    """N: a receiver tells of marked frames once in this time at most."""
    alpha_timer: Time = 55 * US
    """K: the estimate falls when no notification has come for this time."""
    rate_timer: Time = 55 * US
    """T: the rate grows each time that this time is over."""
    byte_counter: Size = 10_000_000
    """B: the rate grows each time that so much was sent."""
    rounds: Annotated[int, Field(ge=1, le=1000)] = 5
    """F: rounds of fast recovery, before the target of the rate grows."""
    additive: Rate = 40 * MBPS
    """R_AI: what the target grows by in additive increase."""
    hyper: Rate = 400 * MBPS
    """R_HAI: what it grows by in hyper increase, times the rounds of that."""
    least: Rate = 40 * MBPS
    """The least rate of a connection."""

    def specification(self) -> dict[str, Any]:
        """The engine's description (`DcqcnSpec`)."""
        return {
            "gain": float(self.gain),
            "notification_ps": self.notification,
            "alpha_timer_ps": self.alpha_timer,
            "rate_timer_ps": self.rate_timer,
            "byte_counter_bytes": self.byte_counter,
            "rounds": self.rounds,
            "additive_bytes_per_s": self.additive,
            "hyper_bytes_per_s": self.hyper,
            "least_bytes_per_s": self.least,
        }
