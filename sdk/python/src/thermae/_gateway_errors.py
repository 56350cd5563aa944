"""What goes wrong on the way to a gateway, or at it."""

from thermae._error import ThermaeError


class GatewayUnreachable(ThermaeError, ConnectionError):
    """Nothing answered at the gateway's address, or a proxy on the way to it gave up."""

    code = "gateway_unreachable"
    advice = (
        "Check the URL's host and port, that `thermae serve` runs there, and HTTPS_PROXY if there is a proxy. Jobs "
        "that were under way go on: run them again under the same job_id, and they do not run twice."
    )


class TlsFailed(ThermaeError, ConnectionError):
    """TLS with the gateway failed: as a rule, its certificate is not trusted."""

    code = "tls_failed"
    advice = (
        "Check the URL's host name against the certificate. For a certificate authority of your own, pass "
        "ssl_context=ssl.create_default_context(cafile=…), or set SSL_CERT_FILE."
    )


class NotAGateway(ThermaeError):
    """Something answered at the address, but not as a gateway does."""

    code = "not_a_gateway"
    advice = (
        "Check the URL's scheme, port and path. A proxy in front of the gateway must pass on WebSockets (the headers "
        "`Connection` and `Upgrade`). A gateway of an older release has no such connections: update it."
    )


class ApiKeyRefused(ThermaeError, PermissionError):
    """The gateway does not know the API key."""

    code = "bad_token"
    advice = "Check api_key= or THERMAE_API_KEY: it is the token that `thermae serve` was given or has printed."
    default_message = "the gateway does not know the API key"


class ApiKeyMissing(ApiKeyRefused):
    """The gateway wants an API key, and none was shown."""

    code = "unauthorized"
    advice = "Pass api_key=, or set THERMAE_API_KEY, to the token that `thermae serve` was given or has printed."
    default_message = "the gateway wants an API key"


class ApiKeyMalformed(ApiKeyRefused):
    """What was shown is no API key."""

    code = "key_malformed"
    advice = "Pass the whole key as api_key= or in THERMAE_API_KEY: thm_, its id and its secret."


class ApiKeyUnknown(ApiKeyRefused):
    """There is no such API key."""

    code = "key_unknown"
    advice = "Check api_key= or THERMAE_API_KEY, or ask the gateway's operator for a key."


class ApiKeyRevoked(ApiKeyRefused):
    """The API key is revoked."""

    code = "key_revoked"
    advice = "Ask the gateway's operator for another key."


class ApiKeyExpired(ApiKeyRefused):
    """The API key has expired."""

    code = "key_expired"
    advice = "Ask the gateway's operator for another key."


class ScopeMissing(ThermaeError, PermissionError):
    """The API key may not do this."""

    code = "missing_scope"
    advice = (
        "Ask the gateway's operator for a key with the scopes run, read, answer, sessions and artifacts; "
        "approve= needs the scope approve, too."
    )


class RateLimited(ThermaeError):
    """The API key has made as many requests as it may."""

    code = "rate_limited"
    advice = "Use one Sandbox for all runs of a process, or try again later."
    safe_to_retry = True


class KeysUnavailable(ThermaeError):
    """The gateway can't look up API keys, so it lets nobody in."""

    code = "keys_unavailable"
    advice = "Try again later. If it stays, tell the gateway's operator."
    safe_to_retry = True


class TenantUnavailable(ThermaeError):
    """The gateway can't act for the API key's tenant."""

    code = "tenant_unavailable"
    advice = "Tell the gateway's operator: the gateway has no credentials for the tenant, or they can't be used."


class TooManyConnections(ThermaeError):
    """As many SDKs are connected as the gateway takes, in all or of one tenant."""

    code = "too_many_connections"
    advice = "Use one Sandbox for all runs of a process, and close those that you don't need. Or try again later."


class GatewayFull(ThermaeError):
    """The gateway holds as many bytes as it may. Nothing of the job ran."""

    code = "gateway_full"
    advice = "Wait until some jobs have ended. A batch keeps to its concurrency=."
    safe_to_retry = True


class GatewayStopping(ThermaeError):
    """The gateway stops. Jobs under way go on, unless the fleet is the gateway's own."""

    code = "draining"
    advice = (
        "On a real fleet, run the job again under the same job_id, at this gateway when it is back or at another one: "
        "it does not run twice."
    )


class TooSlow(ThermaeError):
    """This process took its answers too slowly, and the gateway has ended the connection."""

    code = "too_slow"
    advice = (
        "Have fewer runs under way at once, and don't block the event loop. Run the jobs again under the same job_id."
    )


GATEWAY_ERRORS: tuple[type[ThermaeError], ...] = (
    GatewayUnreachable,
    TlsFailed,
    NotAGateway,
    ApiKeyRefused,
    ApiKeyMissing,
    ApiKeyMalformed,
    ApiKeyUnknown,
    ApiKeyRevoked,
    ApiKeyExpired,
    ScopeMissing,
    RateLimited,
    KeysUnavailable,
    TenantUnavailable,
    TooManyConnections,
    GatewayFull,
    GatewayStopping,
    TooSlow,
)
"""All of them."""
