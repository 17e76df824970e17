package affiliate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// personalFields are the fields of a participant's objects whose text tells who
// it is, or may: names, codes that are made of them, and what people typed. They
// stand under the nouns of their events. Every event that has a Subject has to be
// here.
var personalFields = map[string][]string{
	"participant": {"partner_name", "referral_code", "reason"},
	"link":        {"code", "destination_url", "sub_id", "utm"},
	"promo_code":  {"code"},
}

// RedactBody puts the pseudonym in the place of all personal text of an event's
// body, as it is and as it was. Null stays null, and everything else stays byte
// for byte; so does the whole body of an event that tells nothing personal.
func RedactBody(body []byte, pseudonym string) ([]byte, error) {
	var head struct {
		Type EventName `json:"type"`
	}
	// Everything is read here, so that what follows meets well-formed JSON only.
	if err := json.Unmarshal(body, &head); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	fields := personalFields[head.Type.Noun()]
	if fields == nil {
		return slices.Clone(body), nil
	}
	text, err := json.Marshal(pseudonym)
	if err != nil {
		return nil, err
	}
	r := redaction{body: body, text: text, fields: fields, in: json.NewDecoder(bytes.NewReader(body))}
	r.in.UseNumber()
	if err := r.value(nil, false); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return append(r.out, body[r.copied:]...), nil
}

// redaction is a walk through a body that copies all but the strings which are
// to go.
type redaction struct {
	body, text []byte
	fields     []string
	in         *json.Decoder
	out        []byte
	copied     int // of body, into out
}

// fieldDepth is how many keys lead to a field of an event's object: data, object
// and its own. What follows does not matter.
const fieldDepth = 3

// value reads the value at a path of keys, whose strings are personal or not.
func (r *redaction) value(path []string, personal bool) error {
	before := r.in.InputOffset()
	token, err := r.in.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case json.Delim:
		return r.members(token == '{', path, personal)
	case string:
		if personal {
			r.replace(int(before), int(r.in.InputOffset()))
		}
	}
	return nil
}

func (r *redaction) members(object bool, path []string, personal bool) error {
	for r.in.More() {
		key := "" // of a list's members
		if object {
			token, err := r.in.Token()
			if err != nil {
				return err
			}
			var ok bool
			if key, ok = token.(string); !ok {
				return errors.New("a key that is no string")
			}
		}
		at := path
		if len(path) < fieldDepth {
			at = append(slices.Clip(path), key)
		}
		if err := r.value(at, personal || r.names(at)); err != nil {
			return err
		}
	}
	_, err := r.in.Token() // the closing bracket
	return err
}

// names reports whether the path is that of a personal field.
func (r *redaction) names(path []string) bool {
	return len(path) == fieldDepth && path[0] == "data" &&
		(path[1] == "object" || path[1] == "previous_attributes") && slices.Contains(r.fields, path[2])
}

// replace puts the pseudonym for the string that ends at an offset. Between the
// value before it and its first quote stand space, a colon or a comma.
func (r *redaction) replace(from, to int) {
	start := from + bytes.IndexByte(r.body[from:to], '"')
	r.out = append(append(r.out, r.body[r.copied:start]...), r.text...)
	r.copied = to
}
