package privacy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tributary-hq/tributary/affiliate"
)

// personalFields lists the fields of events that contain personal data of a
// participant: names, codes that may be derived from them, and texts that people typed.
// The keys are the nouns of the events. Every event that has a Subject must be listed.
var personalFields = map[string][]string{
	"participant": {"external_id", "partner_name", "referral_code", "reason"},
	"link":        {"code", "destination_url", "sub_id", "utm"},
	"promo_code":  {"code"},
}

// buyerPaths lists the paths of event fields that refer to a buyer. An element of a list has an
// empty key. Evidence of a fraud rule can contain properties of the buyer's address, network
// and click. Every event that has a Sale must have one of these fields.
var buyerPaths = [][]string{
	{"data", "object", "external_transaction_id"},
	{"data", "object", "signals", "", "evidence"},
}

// RedactBuyer replaces the texts that refer to a buyer in the body of an event by the
// pseudonym of the sale. All other bytes stay unchanged.
func RedactBuyer(body []byte, pseudonym string) ([]byte, error) {
	if !json.Valid(body) {
		return nil, errors.New("body: not valid JSON")
	}
	return redact(body, pseudonym, buyerPaths)
}

// RedactBody replaces all personal texts in the body of an event by the pseudonym, in
// the object and in its previous attributes. Null stays null, and all other bytes stay
// unchanged. A body without personal data is returned unchanged.
func RedactBody(body []byte, pseudonym string) ([]byte, error) {
	var head struct {
		Type affiliate.EventName `json:"type"`
	}
	// The whole body is parsed once here, so that the code below only sees valid JSON.
	if err := json.Unmarshal(body, &head); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	var paths [][]string
	for _, field := range personalFields[head.Type.Noun()] {
		paths = append(paths, []string{"data", "object", field}, []string{"data", "previous_attributes", field})
	}
	return redact(body, pseudonym, paths)
}

// redact replaces all strings in the values at the given paths by the pseudonym. A path is a
// list of keys.
func redact(body []byte, pseudonym string, paths [][]string) ([]byte, error) {
	if paths == nil {
		return slices.Clone(body), nil
	}
	text, err := json.Marshal(pseudonym)
	if err != nil {
		return nil, err
	}
	r := redaction{body: body, text: text, paths: paths, in: json.NewDecoder(bytes.NewReader(body))}
	for _, path := range paths {
		r.depth = max(r.depth, len(path))
	}
	r.in.UseNumber()
	if err := r.readValue(nil, false); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return append(r.out, body[r.copied:]...), nil
}

// redaction walks through a body and copies everything except the strings that it
// replaces.
type redaction struct {
	body, text []byte
	paths      [][]string
	depth      int // number of keys in the longest path
	in         *json.Decoder
	out        []byte
	copied     int // number of bytes of body that were copied to out
}

// readValue reads the value at path, which is a list of keys. If personal is true, it
// replaces all strings in the value. Otherwise it replaces only the strings of personal
// fields inside the value.
func (r *redaction) readValue(path []string, personal bool) error {
	before := r.in.InputOffset()
	token, err := r.in.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case json.Delim:
		return r.readMembers(token == '{', path, personal)
	case string:
		if personal {
			r.replace(int(before), int(r.in.InputOffset()))
		}
	}
	return nil
}

// readMembers reads the members of an object, or the elements of a list, up to and
// including the closing bracket.
func (r *redaction) readMembers(isObject bool, path []string, personal bool) error {
	for r.in.More() {
		key := "" // elements of a list have no key
		if isObject {
			token, err := r.in.Token()
			if err != nil {
				return err
			}
			var ok bool
			if key, ok = token.(string); !ok {
				return errors.New("a key is not a string")
			}
		}
		memberPath := path
		if len(path) < r.depth {
			memberPath = append(slices.Clip(path), key)
		}
		if err := r.readValue(memberPath, personal || r.isPersonalField(memberPath)); err != nil {
			return err
		}
	}
	_, err := r.in.Token() // the closing bracket
	return err
}

// isPersonalField reports whether path is the path of a personal field.
func (r *redaction) isPersonalField(path []string) bool {
	return slices.ContainsFunc(r.paths, func(p []string) bool { return slices.Equal(p, path) })
}

// replace replaces a string by the pseudonym. end is the offset after the closing quote,
// and previousEnd is the offset after the previous token. Only white space, a colon or a
// comma can be between the previous token and the opening quote.
func (r *redaction) replace(previousEnd, end int) {
	start := previousEnd + bytes.IndexByte(r.body[previousEnd:end], '"')
	r.out = append(append(r.out, r.body[r.copied:start]...), r.text...)
	r.copied = end
}
