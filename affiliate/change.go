package affiliate

import (
	"encoding/json"
	"fmt"
)

// Change describes what a patch does to one field: leave it unchanged, clear it, or set
// it.
type Change[T any] struct {
	// Given is false if the patch does not name the field.
	Given bool
	// Value is nil if the field is cleared.
	Value *T
}

// Set returns a change that sets a field to value.
func Set[T any](value T) Change[T] { return Change[T]{Given: true, Value: &value} }

// Clear returns a change that clears a field. A field that has a default value is reset
// to the default.
func Clear[T any]() Change[T] { return Change[T]{Given: true} }

// HasValue reports whether the change sets a value.
func (c Change[T]) HasValue() bool { return c.Given && c.Value != nil }

// Apply returns the value of the field after the change. The parameter fallback is the value of
// a cleared field.
func (c Change[T]) Apply(current, fallback T) T {
	switch {
	case !c.Given:
		return current
	case c.Value == nil:
		return fallback
	}
	return *c.Value
}

// ApplyOptional returns the value of the field after the change; nil if the change
// clears it.
func (c Change[T]) ApplyOptional(current *T) *T {
	if !c.Given {
		return current
	}
	return c.Value
}

// ChangedFields compares the JSON fields of two objects of one type. It returns the
// fields that differ, once with their values in before and once with their values in
// after. The field version is not compared. Both maps are nil if nothing differs.
func ChangedFields(before, after any) (oldValues, newValues map[string]json.RawMessage, err error) {
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
		if oldValues == nil {
			oldValues, newValues = map[string]json.RawMessage{}, map[string]json.RawMessage{}
		}
		oldValues[name], newValues[name] = old[name], value
	}
	return oldValues, newValues, nil
}

func jsonFields(object any) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	return fields, json.Unmarshal(text, &fields)
}

// RedactChange replaces the text of one field by redact(text) in both results of ChangedFields.
// The entries of the audit log never change, so they must not contain text that an erasure of
// personal data would have to remove. A null stays null. A field that did not change stays
// absent.
func RedactChange(oldValues, newValues map[string]json.RawMessage, field string, redact func(text string) string) error {
	for _, values := range []map[string]json.RawMessage{oldValues, newValues} {
		value, changed := values[field]
		if !changed {
			continue
		}
		var text *string
		err := json.Unmarshal(value, &text)
		if err == nil && text != nil {
			values[field], err = json.Marshal(redact(*text))
		}
		if err != nil {
			return fmt.Errorf("redact %s: %w", field, err)
		}
	}
	return nil
}
