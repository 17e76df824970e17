package affiliate

import (
	"encoding/json"
	"fmt"
)

// Change is what a patch does to one field: nothing, clear it, or set it.
type Change[T any] struct {
	// Given is false for a field that the patch does not name.
	Given bool
	// Value is nil to clear.
	Value *T
}

// Set changes a field to value.
func Set[T any](value T) Change[T] { return Change[T]{Given: true, Value: &value} }

// Clear takes a field's value away: what has a default goes back to it.
func Clear[T any]() Change[T] { return Change[T]{Given: true} }

// sets reports whether the change brings a value.
func (c Change[T]) sets() bool { return c.Given && c.Value != nil }

func (c Change[T]) or(current, fallback T) T {
	switch {
	case !c.Given:
		return current
	case c.Value == nil:
		return fallback
	}
	return *c.Value
}

func (c Change[T]) orNil(current *T) *T {
	if !c.Given {
		return current
	}
	return c.Value
}

// Changed compares two objects of one type by their JSON fields, and returns
// what differs as it was and as it is. The version is no difference by itself;
// nothing else: both are nil.
func Changed(before, after any) (was, is map[string]json.RawMessage, err error) {
	old, err := jsonFields(before)
	if err != nil {
		return nil, nil, err
	}
	current, err := jsonFields(after)
	if err != nil {
		return nil, nil, err
	}
	for name, value := range current {
		if name == "version" || string(old[name]) == string(value) {
			continue
		}
		if was == nil {
			was, is = map[string]json.RawMessage{}, map[string]json.RawMessage{}
		}
		was[name], is[name] = old[name], value
	}
	return was, is, nil
}

func jsonFields(object any) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	return fields, json.Unmarshal(text, &fields)
}

// RedactChange replaces the text of one field on both sides of a change, which
// Changed returned, by shown(text). The audit log is append-only, so it must not
// hold text that an erasure has to remove. A null stays null, and a field that did
// not change stays absent.
func RedactChange(was, is map[string]json.RawMessage, field string, shown func(text string) string) error {
	for _, side := range []map[string]json.RawMessage{was, is} {
		value, changed := side[field]
		if !changed {
			continue
		}
		var text *string
		err := json.Unmarshal(value, &text)
		if err == nil && text != nil {
			side[field], err = json.Marshal(shown(*text))
		}
		if err != nil {
			return fmt.Errorf("redact %s: %w", field, err)
		}
	}
	return nil
}
