package affiliate

import (
	"strings"
	"testing"
)

func TestViolation_FieldNamesAndSentence(t *testing.T) {
	inItem := func(path string) string { return strings.TrimSuffix("conversions[3]."+path, ".") }
	for _, c := range []struct {
		violation Violation
		field     string
		sentence  string
	}{
		{
			Violation{"amount_cents", "is required with {currency}"},
			"conversions[3].amount_cents", "conversions[3].amount_cents is required with conversions[3].currency.",
		},
		{Violation{"", "must be an object"}, "conversions[3]", "conversions[3] must be an object."},
		{Violation{"a", "must match the pattern ^[a-z]{1,40}$"}, "conversions[3].a", "conversions[3].a must match the pattern ^[a-z]{1,40}$."},
		{Violation{"a", "must be absent with {b[0].c_d}"}, "conversions[3].a", "conversions[3].a must be absent with conversions[3].b[0].c_d."},
	} {
		if got := c.violation.WithFieldNames(inItem); got.Field != c.field || got.Sentence() != c.sentence {
			t.Errorf("WithFieldNames of %+v has field %q and sentence %q, want %q and %q", c.violation, got.Field, got.Sentence(), c.field, c.sentence)
		}
	}
	for field, want := range map[string]string{"": "The request must be good.", WholeBody: "The body must be good.", "name": "name must be good."} {
		if got := (Violation{field, "must be good"}).Sentence(); got != want {
			t.Errorf("the sentence for the field %q is %q, want %q", field, got, want)
		}
	}
}
