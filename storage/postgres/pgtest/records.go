package pgtest

import (
	"encoding/json"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// AuditActions returns the actions on a resource in the audit log, oldest first.
func (f *Fixture) AuditActions(resourceType, id string) []string {
	f.Helper()
	return f.Texts(`select action from audit_log where resource_type = $1 and resource_id::text = $2 order by at, id`, resourceType, id)
}

// CountJobs returns the number of jobs of a kind that were inserted.
func (f *Fixture) CountJobs(kind string) int {
	f.Helper()
	return f.Count(`select count(*) from river.river_job where kind = $1`, kind)
}

// Events returns the types and the objects of events in the order of publication. If
// ids are given, it returns only the events about objects with these ids.
func (f *Fixture) Events(ids ...string) (types []string, objects []map[string]any) {
	f.Helper()
	rows, _ := f.SQL.Query(f.Context(), `select type, body from events order by created_at, ctid`)
	var name string
	var body []byte
	_, err := pgx.ForEachRow(rows, []any{&name, &body}, func() error {
		object, _, err := eventData(body)
		if id, _ := object["id"].(string); len(ids) == 0 || slices.Contains(ids, id) {
			types, objects = append(types, name), append(objects, object)
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return types, objects
}

// LastEvent returns the data of the newest event of a type: the object, and the
// previous values of its changed attributes.
func (f *Fixture) LastEvent(name affiliate.EventName) (object, previous map[string]any) {
	f.Helper()
	var body []byte
	err := f.SQL.QueryRow(f.Context(), `select body from events where type = $1 order by created_at desc, ctid desc limit 1`, name).Scan(&body)
	if err == nil {
		object, previous, err = eventData(body)
	}
	if err != nil {
		f.Fatalf("%s: %v", name, err)
	}
	return object, previous
}

// eventData decodes the data of an event's body.
func eventData(event []byte) (object, previous map[string]any, err error) {
	var envelope struct {
		Data struct {
			Object   map[string]any `json:"object"`
			Previous map[string]any `json:"previous_attributes"`
		} `json:"data"`
	}
	err = json.Unmarshal(event, &envelope)
	return envelope.Data.Object, envelope.Data.Previous, err
}
