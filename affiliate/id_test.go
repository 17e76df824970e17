package affiliate

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestNewID_ContainsTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMilli(rapid.Int64Range(0, 1<<48-1).Draw(t, "ms")).UTC()
		id := NewID[ProgramID](now)
		if got, ok := id.Time(); !ok || !got.Equal(now) {
			t.Fatalf("Time() = %v, %v; want %v", got, ok, now)
		}
		if id.Version() != 7 || id.Variant().String() != "RFC4122" {
			t.Fatalf("version %d and variant %s, want 7 and RFC4122", id.Version(), id.Variant())
		}
		text, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		var back ProgramID
		if err := json.Unmarshal(text, &back); err != nil || back != id {
			t.Fatalf("%s decodes to %v, error %v; want %v", text, back, err, id)
		}
	})
}

func TestParseID_AcceptsOnlyCanonicalForm(t *testing.T) {
	id := NewID[ClickID](time.Now())
	if got, ok := ParseID[ClickID](id.String()); !ok || got != id {
		t.Errorf("ParseID(%q) = %v, %v; want the same id", id, got, ok)
	}
	for _, s := range []string{"", "x", "{" + id.String() + "}", "urn:uuid:" + id.String(), id.String()[:35] + "g", id.String() + "0"} {
		if _, ok := ParseID[ClickID](s); ok {
			t.Errorf("ParseID(%q) succeeded", s)
		}
	}
	v4, ok := ParseID[ClickID]("9b2f1a52-4a3c-4c39-8f2e-6f6f1a2b3c4d")
	if !ok {
		t.Fatal("a version 4 UUID was rejected")
	}
	if _, has := v4.Time(); has {
		t.Error("Time returned a time for a version 4 UUID")
	}
}
