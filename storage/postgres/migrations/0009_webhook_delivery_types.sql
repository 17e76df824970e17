-- +goose Up

-- The list of deliveries has a filter by the type of the event. Most types are rare in the list of an
-- endpoint that receives all events. The index costs about 100 bytes for each delivery; an attempt does not
-- change its columns.
create index webhook_deliveries_by_type on webhook_deliveries (workspace_id, endpoint_id, event_type, id);
