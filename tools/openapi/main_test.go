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
	return parse(t, doc)
}

// parse returns a document as a reader sees it.
func parse(t *testing.T, doc object) map[string]any {
	t.Helper()
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
			t.Fatalf("path %v: the value that should contain %q is not an object", path, key)
		}
		value = object[key]
	}
	return value
}

func TestDocument_TakesDescriptionsFromSwaggerFile(t *testing.T) {
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
			t.Errorf("%v = %v, want %q", path, got, want)
		}
	}
	page := at(t, doc, "paths", "/api/v1/programs", "get").(map[string]any)["parameters"].([]any)[0]
	if got := at(t, page, "description"); got != "From 1." {
		t.Errorf("description of the parameter page = %v, want %q", got, "From 1.")
	}
}

// A message can have two schemas: in a response all fields are present, in a request they
// are optional.
func TestDocument_HasDifferentSchemasForRequestAndResponse(t *testing.T) {
	schemas := at(t, sampleDocument(t), "components", "schemas").(map[string]any)
	response, request := schemas["CommissionRules"].(map[string]any), schemas["CommissionRulesInput"].(map[string]any)
	if len(response["required"].([]any)) != len(response["properties"].(map[string]any)) || response["additionalProperties"] != nil {
		t.Errorf("the schema for responses should require every field and allow unknown ones: %v", response)
	}
	if request["required"] != nil || request["additionalProperties"] != false {
		t.Errorf("the schema for requests should require no field and reject unknown ones: %v", request)
	}
	if got := at(t, schemas, "CreateProgramRequest", "required").([]any); len(got) != 1 || got[0] != "name" {
		t.Errorf("CreateProgramRequest requires %v, want only name", got)
	}
	if got := at(t, schemas, "LineItem", "properties", "quantity", "maximum"); got != 1e6 {
		t.Errorf("the maximum of LineItem.quantity is %v, want 1e6 as in the validation rules", got)
	}
	if schemas["AdmitRequest"] != nil || schemas["LogoutResponse"] != nil {
		t.Error("the document has schemas of messages that no client sends or receives")
	}
}

func TestDocument_ReferencesExist(t *testing.T) {
	doc := sampleDocument(t)
	var check func(value any)
	check = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				if at(t, doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...) == nil {
					t.Errorf("%s does not exist in the document", ref)
				}
			}
			for _, child := range v {
				check(child)
			}
		case []any:
			for _, child := range v {
				check(child)
			}
		}
	}
	check(doc)
}

// The test does not compare descriptions, because gen/openapi/openapi.swagger.json is not
// committed. CI compares them: it generates the document again.
func TestDocument_CommittedFileIsCurrent(t *testing.T) {
	prose, err := readTexts([]byte(sampleSwagger))
	if err != nil {
		t.Fatal(err)
	}
	landing, err := buildLanding(prose)
	if err != nil {
		t.Fatal(err)
	}
	for path, doc := range map[string]map[string]any{documentFile: sampleDocument(t), landingFile: parse(t, landing)} {
		text, err := os.ReadFile("../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		var committed any
		if err := json.Unmarshal(text, &committed); err != nil {
			t.Fatal(err)
		}
		got, _ := json.Marshal(withoutProse(committed))
		want, _ := json.Marshal(withoutProse(doc))
		if string(got) != string(want) {
			t.Errorf("%s is out of date: run buf generate and go run ./tools/openapi", path)
		}
	}
	embed, err := os.ReadFile("../../" + embedFile)
	if err != nil || string(embed) != embedding {
		t.Errorf("%s is out of date (error: %v): run go run ./tools/openapi", embedFile, err)
	}
}

// withoutProse removes summaries and descriptions from a part of the document. A reference
// cannot have a description of its own, so the document wraps such a reference in an
// allOf. withoutProse replaces the allOf by the reference.
func withoutProse(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, child := range v {
			if _, isText := child.(string); isText && (key == "summary" || key == "description") {
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
