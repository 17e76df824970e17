package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/gateway/contract"
)

const sampleSwagger = `{
  "tags": [{"name": "ProgramService", "description": "Programmes."}],
  "paths": {"/api/v1/programs/{programId}": {"patch": {"summary": "UpdateProgram changes the given fields. More <here>.",
    "parameters": [{"name": "body", "in": "body", "schema": {"$ref": "#/definitions/ProgramServiceUpdateProgramBody"}}]}},
    "/api/v1/programs": {"get": {"parameters": [{"name": "page", "description": "From 1."}]}}},
  "definitions": {
    "ProgramServiceUpdateProgramBody": {"properties": {"slug": {"description": "Lower case."}}},
    "v1Program": {"description": "A programme.", "properties": {"currency": {"title": "ISO 4217"}, "commissionRules": {"$ref": "#/x", "description": "The rules."}}}
  }
}`

func sampleDocument(t *testing.T) map[string]any {
	t.Helper()
	prose, err := readTexts([]byte(sampleSwagger))
	if err != nil {
		t.Fatal(err)
	}
	routes, err := contract.Routes(contract.Files())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := build(routes, prose)
	if err != nil {
		t.Fatal(err)
	}
	text, err := render(doc)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func at(t *testing.T, value any, path ...string) any {
	t.Helper()
	for _, key := range path {
		object, ok := value.(map[string]any)
		if !ok {
			t.Fatalf("%v: no object at %s", path, key)
		}
		value = object[key]
	}
	return value
}

func TestProseComesFromTheSwaggerFile(t *testing.T) {
	doc := sampleDocument(t)
	for want, path := range map[string][]string{
		"Update a programme": {"paths", "/api/v1/programs/{programId}", "patch", "summary"},
		"Changes the given fields. More <here>.\n\nRate limit: `general`, by default 300 requests in 60 seconds per user or key. The body may have up to 64 KiB.": {"paths", "/api/v1/programs/{programId}", "patch", "description"},
		"Lower case.":  {"components", "schemas", "UpdateProgramRequest", "properties", "slug", "description"},
		"A programme.": {"components", "schemas", "Program", "description"},
		"ISO 4217":     {"components", "schemas", "Program", "properties", "currency", "description"},
		"The rules.":   {"components", "schemas", "Program", "properties", "commissionRules", "description"},
	} {
		if got := at(t, doc, path...); got != want {
			t.Errorf("%v: %v, want %q", path, got, want)
		}
	}
	page := at(t, doc, "paths", "/api/v1/programs", "get").(map[string]any)["parameters"].([]any)[0]
	if at(t, page, "description") != "From 1." {
		t.Errorf("%v", page)
	}
}

// One message can have two shapes: all there in an answer, optional in a request.
func TestARequestsShapeIsNotAnAnswers(t *testing.T) {
	schemas := at(t, sampleDocument(t), "components", "schemas").(map[string]any)
	answer, request := schemas["CommissionRules"].(map[string]any), schemas["CommissionRulesInput"].(map[string]any)
	if len(answer["required"].([]any)) != len(answer["properties"].(map[string]any)) || request["required"] != nil || request["additionalProperties"] != false || answer["additionalProperties"] != nil {
		t.Errorf("answer %v\nrequest %v", answer, request)
	}
	if got := at(t, schemas, "CreateProgramRequest", "required").([]any); len(got) != 1 || got[0] != "name" {
		t.Errorf("required to create: %v", got)
	}
	if got := at(t, schemas, "LineItem", "properties", "quantity", "maximum"); got != 1e6 {
		t.Errorf("limits of the validation rules: %v", got)
	}
	if schemas["AdmitRequest"] != nil || schemas["LogoutResponse"] != nil {
		t.Error("what no client sees is documented")
	}
}

func TestEveryReferenceLeadsSomewhere(t *testing.T) {
	doc := sampleDocument(t)
	var walk func(value any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				if at(t, doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...) == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, child := range v {
				walk(child)
			}
		case []any:
			for _, child := range v {
				walk(child)
			}
		}
	}
	walk(doc)
}

// The committed document has the shape that today's protos give; its prose is
// checked by generating anew.
func TestTheCommittedDocumentIsCurrent(t *testing.T) {
	text, err := os.ReadFile("../../" + documentFile)
	if err != nil {
		t.Fatal(err)
	}
	var committed any
	if err := json.Unmarshal(text, &committed); err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(withoutProse(committed))
	want, _ := json.Marshal(withoutProse(sampleDocument(t)))
	if string(got) != string(want) {
		t.Errorf("%s is out of date: run buf generate and go run ./tools/openapi", documentFile)
	}
	embed, err := os.ReadFile("../../" + embedFile)
	if err != nil || string(embed) != embedding {
		t.Errorf("%s is out of date: %v", embedFile, err)
	}
}

// withoutProse drops summaries and descriptions, and the allOf that stands only
// to carry one.
func withoutProse(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, child := range v {
			if _, text := child.(string); text && (key == "summary" || key == "description") {
				continue
			}
			out[key] = withoutProse(child)
		}
		if all, ok := out["allOf"].([]any); ok && len(out) == 1 && len(all) == 1 {
			return all[0]
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			out[i] = withoutProse(child)
		}
		return out
	}
	return value
}
