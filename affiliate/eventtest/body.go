package eventtest

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/gen/openapi"
)

// Schemas returns the published schemas, by event name.
var Schemas = sync.OnceValues(func() (map[affiliate.EventName]*jsonschema.Schema, error) {
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	compiled := map[affiliate.EventName]*jsonschema.Schema{}
	files, err := fs.Glob(openapi.Events, "events/*.json")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := openapi.Events.ReadFile(file)
		if err != nil {
			return nil, err
		}
		tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		if err := compiler.AddResource(file, tree); err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if compiled[affiliate.EventName(name)], err = compiler.Compile(file); err != nil {
			return nil, err
		}
	}
	return compiled, nil
})

// ValidationError returns an error if a body does not satisfy the schema of the event with the given name.
func ValidationError(t interface {
	Helper()
	Fatal(...any)
}, name affiliate.EventName, body []byte,
) error {
	t.Helper()
	compiled, err := Schemas()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if compiled[name] == nil {
		t.Fatal("no schema for " + name)
	}
	return compiled[name].Validate(tree)
}

// EncodedBody returns the body of an event. The test fails if a second encoding is different.
func EncodedBody(t interface {
	Helper()
	Fatal(...any)
}, event affiliate.Event,
) []byte {
	t.Helper()
	first, err := event.Body()
	if err != nil {
		t.Fatal(event.Name, err)
	}
	if second, err := event.Body(); err != nil || !bytes.Equal(first, second) {
		t.Fatal(event.Name, "has two different bodies:", string(first), string(second), err)
	}
	return first
}
