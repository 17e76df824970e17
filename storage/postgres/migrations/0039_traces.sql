-- +goose Up

-- The recorded span that caused an event: the trace id and the span id. Null for most events,
-- because few requests are recorded. The attempts to deliver the event belong to this trace.
alter table events add column trace_reference bytea;

-- +goose Down
alter table events drop column trace_reference;
