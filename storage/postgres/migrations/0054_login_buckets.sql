-- +goose Up

-- Failed logins delay only attempts of the same bucket: of a session, of the known devices in a
-- network, or of a network. Rows of earlier binaries have no bucket.
alter table login_failures add column bucket bytea; -- HMAC of kind, address and caller
create index login_failures_by_bucket on login_failures (bucket, failed_at);

-- Wrong codes in a row. Codes are refused after 100.
alter table second_factors add column failures integer not null default 0;

-- +goose Down
alter table second_factors drop column failures;
drop index login_failures_by_bucket;
alter table login_failures drop column bucket;
