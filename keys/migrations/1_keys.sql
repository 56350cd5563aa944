-- Both kinds of database read this file. Times are milliseconds since 1970.
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    -- SHA-256 of the key's text, in hexadecimal digits.
    hash TEXT NOT NULL,
    name TEXT NOT NULL,
    tenant TEXT NOT NULL,
    -- Names of scopes, separated by spaces.
    scopes TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT,
    requests_per_minute BIGINT,
    runs_at_once BIGINT,
    last_used_ms BIGINT,
    revoked_ms BIGINT
);

CREATE INDEX api_keys_in_order ON api_keys (created_ms, id);
CREATE INDEX api_keys_of_tenant ON api_keys (tenant, created_ms, id);
