package postgres

import (
	"encoding/json"
	"fmt"
)

// redact puts other words for the text of one field into both sides of a change:
// a log that nothing is deleted from must not hold what erasure has to reach. A
// field that was absent, or is, stays null; one that did not change is not there.
func redact(was, is map[string]json.RawMessage, field string, shown func(text string) string) error {
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
			return fmt.Errorf("%s in a log: %w", field, err)
		}
	}
	return nil
}
