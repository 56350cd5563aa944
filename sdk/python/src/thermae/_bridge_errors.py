"""What goes wrong on the way to a fleet: the codes of the program `thermae`, as `docs/sdk-protocol.md` lists them."""

from thermae._error import ThermaeError


class BadOption(ThermaeError, ValueError):
    """An option of the embedded fleet can't be used."""

    code = "bad_option"
    advice = "Correct the option that the message names; see EmbeddedOptions."


class BadUrl(ThermaeError, ValueError):
    """The URL of the fleet, or the name of the tenant, is malformed."""

    code = "bad_url"
    advice = (
        "The URL is https://HOST for a gateway. For RabbitMQ, it is amqp://USER:PASSWORD@HOST:5672, or "
        "amqps://USER:PASSWORD@HOST:5671 for TLS."
    )


class BrokerUnreachable(ThermaeError, ConnectionError):
    """The fleet's RabbitMQ did not answer."""

    code = "broker_unreachable"
    advice = "Check the URL's host and port, and that the fleet runs. Without a URL, the fleet is embedded."


class BrokerDenied(ThermaeError):
    """The fleet's RabbitMQ refused access."""

    code = "broker_denied"
    advice = "Check the user and the password, and that the user has the tenant's permissions (docs/protocol.md)."


class NoScheduler(ThermaeError):
    """No scheduler has ever run on this RabbitMQ."""

    code = "no_scheduler"
    advice = "Start thermae-scheduler on this RabbitMQ."


class QueueFull(ThermaeError):
    """The tenant's queue is full."""

    code = "queue_full"
    advice = "Wait until some of the tenant's jobs have ended."


class FleetFailed(ThermaeError):
    """The connection to the fleet ended before the outcome came."""

    code = "fleet_failed"
    advice = "Run the job again under the same job_id: it does not run twice."


class AlreadySubmitted(ThermaeError):
    """A job with this id is under way in this sandbox."""

    code = "already_submitted"
    advice = "Make a new Job for each run, or leave job_id out."


class UnknownRun(ThermaeError, LookupError):
    """The fleet has no record of such a run: it was not submitted, still waits in its queue, or was forgotten."""

    code = "unknown_run"
    advice = (
        "Check the id and the tenant. If it may never have been submitted, submit it under the same job_id: it does "
        "not run twice."
    )
    default_message = "the fleet knows no such run of this tenant"


class UnknownCall(ThermaeError, LookupError):
    """No such tool call of the run waits for an answer."""

    code = "unknown_call"
    advice = (
        "Look at run.pending(): the call was answered, its time is over, the run has ended, or it is another run's."
    )


class TooManyRequests(ThermaeError):
    """Too many runs, commands and operations on files are under way at once."""

    code = "too_many_requests"
    advice = "Wait until some of them have ended. A batch keeps to its concurrency=."


class UnsupportedVersion(ThermaeError):
    """The program `thermae` is too old or too new for this package."""

    code = "unsupported_version"
    advice = "Install the program and the package of the same release. THERMAE_BIN may name another program."


class NoStore(ThermaeError):
    """The artifact can only be fetched from its URL, and it has none."""

    code = "no_store"
    advice = "Set url_base in the worker's configuration, so that artifacts have URLs."


class ArtifactNotFetched(ThermaeError):
    """The URL of an artifact could not be fetched."""

    code = "artifact_not_fetched"
    advice = "Check that this machine reaches the URL, and that it has not expired."


BRIDGE_ERRORS: tuple[type[ThermaeError], ...] = (
    BadOption,
    BadUrl,
    BrokerUnreachable,
    BrokerDenied,
    NoScheduler,
    QueueFull,
    FleetFailed,
    AlreadySubmitted,
    UnknownRun,
    UnknownCall,
    TooManyRequests,
    UnsupportedVersion,
    NoStore,
    ArtifactNotFetched,
)
"""All of them."""
