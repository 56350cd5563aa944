"""Which fleet the tests reach, and how."""

import os

from thermae import Sandbox
from thermae._tools import AnyTool

FLEET = os.environ.get("THERMAE_TEST_AMQP_TENANT", "")
"""URL of the fleet of tests with the mark `fleet`: of its RabbitMQ, or of the gateway."""

PROMETHEUS = os.environ.get("THERMAE_TEST_PROMETHEUS_URL", "")
"""URL of its Prometheus."""

OVER_HTTP = os.environ.get("THERMAE_TEST_OVER") == "http"
"""Whether all tests reach that fleet, through a gateway."""


def any_fleet(tools: list[AnyTool], slots: int) -> Sandbox:
    """The fleet behind the gateway, or an embedded one."""
    return Sandbox(FLEET, tools=tools) if OVER_HTTP else Sandbox(tools=tools, slots=slots)
