package main

import (
	"encoding/json"
	"strings"
)

// texts contains the comments of the protos.
type texts struct {
	// operations maps a verb and a path with JSON names, such as "post /api/v1/programs",
	// to the comment of the RPC.
	operations map[string]string
	// parameters has keys of verb, path and parameter.
	parameters map[string]string
	// bodies has keys of verb, path and property.
	bodies map[string]string
	// messages has the names of messages as keys.
	messages map[string]string
	// fields has keys such as "Program.createdAt": the message and the JSON name.
	fields map[string]string
	// tags has the names of services as keys.
	tags map[string]string
}

type swaggerText struct {
	Title       string `json:"title"`
	Summary     string `json:"summary"`
	Description string `json:"description"`
}

// text returns the whole comment. The plugin splits a comment at its first blank line or
// full stop into a title or summary and a description.
func (t swaggerText) text() string {
	return strings.TrimSpace(strings.TrimSpace(t.Title+t.Summary) + "\n\n" + strings.TrimSpace(t.Description))
}

type swaggerSchema struct {
	swaggerText
	Ref        string                   `json:"$ref"`
	Properties map[string]swaggerSchema `json:"properties"`
}

type swagger struct {
	Tags []struct {
		Name string `json:"name"`
		swaggerText
	} `json:"tags"`
	Paths map[string]map[string]struct {
		swaggerText
		Parameters []struct {
			Name string `json:"name"`
			swaggerText
			Schema swaggerSchema `json:"schema"`
		} `json:"parameters"`
	} `json:"paths"`
	Definitions map[string]swaggerSchema `json:"definitions"`
}

func readTexts(data []byte) (*texts, error) {
	var doc swagger
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	t := &texts{
		operations: map[string]string{}, parameters: map[string]string{}, bodies: map[string]string{},
		messages: map[string]string{}, fields: map[string]string{}, tags: map[string]string{},
	}
	for _, tag := range doc.Tags {
		t.tags[tag.Name] = tag.text()
	}
	for path, verbs := range doc.Paths {
		for verb, operation := range verbs {
			key := verb + " " + path
			t.operations[key] = operation.text()
			for _, parameter := range operation.Parameters {
				t.parameters[key+" "+parameter.Name] = parameter.text()
				body := parameter.Schema
				if name, ok := strings.CutPrefix(body.Ref, "#/definitions/"); ok {
					body = doc.Definitions[name]
				}
				for property, schema := range body.Properties {
					t.bodies[key+" "+property] = schema.text()
				}
			}
		}
	}
	for name, definition := range doc.Definitions {
		// The plugin adds the last part of the proto package to the name as a prefix. If
		// two messages have the same name, it adds the whole package.
		name = strings.TrimPrefix(strings.TrimPrefix(name, "affiliateV1"), "v1")
		t.messages[name] = definition.text()
		for property, schema := range definition.Properties {
			t.fields[name+"."+property] = schema.text()
		}
	}
	return t, nil
}
