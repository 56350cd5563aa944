"""Which fleet the tests reach, and how."""

import os
from typing import Any

from other_systems import OVER_HTTP

FLEET = os.environ.get("THERMAE_TEST_URL" if OVER_HTTP else "THERMAE_TEST_AMQP_TENANT", "")
"""URL of the fleet of tests with the mark `fleet`: of its RabbitMQ, or of the gateway."""

SERVED = OVER_HTTP and "THERMAE_TEST_GATEWAY" not in os.environ
"""Whether that gateway is `thermae serve`, in front of an embedded fleet."""

PROMETHEUS = os.environ.get("THERMAE_TEST_PROMETHEUS_URL", "")
"""URL of the fleet's Prometheus."""


def any_fleet(slots: int, **embedded: Any) -> dict[str, Any]:
    """Arguments of a sandbox that can be on any fleet: on the one behind the gateway, or on an embedded one of its own
    with these options."""
    return {"url": FLEET} if OVER_HTTP else {"slots": slots, **embedded}
