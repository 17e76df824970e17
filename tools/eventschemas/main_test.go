package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/event"
)

const root = "../.."

func TestRun_CommittedFilesAreCurrent(t *testing.T) {
	events, err := catalogue(root)
	if err != nil {
		t.Fatal(err)
	}
	files, err := schemaFiles(events)
	if err != nil {
		t.Fatal(err)
	}
	if files[pageFile], err = document(root, events); err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(got) != want {
			t.Errorf("%s is out of date (error: %v): run go run ./tools/eventschemas", name, err)
		}
	}
	found, err := filepath.Glob(filepath.Join(root, schemaDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if files[schemaDir+"/"+filepath.Base(path)] == "" {
			t.Errorf("%s is the schema of an event that does not exist", path)
		}
	}
}

func TestPage_HasEveryEventAndField(t *testing.T) {
	events, err := catalogue(root)
	if err != nil {
		t.Fatal(err)
	}
	text, err := document(root, events)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if !strings.Contains(text, "\n### "+string(e.Name)+"\n") {
			t.Errorf("the page has no section %s", e.Name)
		}
	}
	for _, line := range []string{
		"| [`gdpr.export_ready`](#gdprexport_ready) | An export of personal data is ready for download. |",
		"| `status` | string: `draft`, `pending`, `processing`, `paid`, `failed`, `canceled` | The current status. |",
		"| `hold_until` | timestamp? | End of the hold period; null if there is none. |",
		"| `commission_ids` | list of uuid | The first 200 commissions of the payout. |",
		"| `destination_url` | string? | destination_url is null for a default link that leads to the programme's page. |",
		"| `commission_rules.products[].percentage` | number? | The rate in percent, with at most two decimals; null for a flat amount. |",
		"## The object of commission.refunded",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("the page does not contain\n%s", line)
		}
	}
}

// allKinds has a field of every kind that payloads can have.
type allKinds struct {
	event.PingObject
	ID     affiliate.ProgramID `json:"id"`
	Mode   *affiliate.Mode     `json:"mode"`
	At     string              `json:"created_at"`
	Until  *string             `json:"hold_until"`
	Share  *json.Number        `json:"percentage"`
	Counts []int64             `json:"counts"`
	Items  []struct {
		Valid bool `json:"valid"`
	} `json:"items"`
	Currency string `json:"currency"`
}

func TestObjectOf_DescribesEveryKindOfField(t *testing.T) {
	src, err := readSource([]string{filepath.Join(root, "affiliate"), filepath.Join(root, "affiliate/event")})
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"ID", "Mode", "At", "Until", "Share", "Counts", "Items", "Currency"} {
		src.comments[typeName(reflect.TypeFor[allKinds]())+"."+field] = "the meaning"
	}
	meanings["items.valid"] = "Whether it is valid."
	defer delete(meanings, "items.valid")
	got, err := objectOf(reflect.TypeFor[allKinds](), "", src)
	if err != nil {
		t.Fatal(err)
	}
	text, err := encode(got)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"object","properties":{` +
		`"webhook_id":{"description":"The endpoint.","type":"string","format":"uuid"},` +
		`"description":{"description":"As the merchant entered it; null if there is none.","type":["string","null"]},` +
		`"id":{"description":"The meaning.","type":"string","format":"uuid"},` +
		`"mode":{"description":"The meaning.","type":["string","null"],"enum":["test","live",null]},` +
		`"created_at":{"description":"The meaning.","type":"string","format":"date-time"},` +
		`"hold_until":{"description":"The meaning.","type":["string","null"],"format":"date-time"},` +
		`"percentage":{"description":"The meaning.","type":["number","null"]},` +
		`"counts":{"description":"The meaning.","type":"array","items":{"type":"integer"}},` +
		`"items":{"description":"The meaning.","type":"array","items":{"type":"object","properties":{` +
		`"valid":{"description":"Whether it is valid.","type":"boolean"}},"required":["valid"],"additionalProperties":false}},` +
		`"currency":{"description":"The meaning.","type":"string","pattern":"^[A-Z]{3}$"}},` +
		`"required":["webhook_id","description","id","mode","created_at","hold_until","percentage","counts","items","currency"],` +
		`"additionalProperties":false}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestObjectOf_RejectsUnsupportedTypes(t *testing.T) {
	type enumeration string
	for name, object := range map[string]any{
		"a field that can be absent": struct {
			A string `json:"id,omitempty"`
		}{},
		"a field without a JSON name": struct{ ID string }{},
		"a field without a description": struct {
			A string `json:"unknown"`
		}{},
		"an enumeration without values": struct {
			A enumeration `json:"status"`
		}{},
		"a map": struct {
			A map[string]string `json:"status"`
		}{},
	} {
		if s, err := objectOf(reflect.TypeOf(object), "", source{}); err == nil {
			t.Errorf("%s: objectOf returned no error, but the schema %+v", name, s)
		}
	}
}

func TestMeaning_IsSentenceWithJSONName(t *testing.T) {
	src := source{comments: map[string]string{
		"p.T.A": "null: no limit", "p.T.B": "B is null at first.", "p.T.C": "Bees", "p.T.E": "école",
	}}
	for field, want := range map[string]string{"A": "Null: no limit.", "B": "bee_count is null at first.", "C": "Bees.", "D": "", "E": "École."} {
		if got := src.meaning("p.T", field, "bee_count"); got != want {
			t.Errorf("meaning of %s = %q, want %q", field, got, want)
		}
	}
}
