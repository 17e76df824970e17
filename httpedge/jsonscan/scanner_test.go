package jsonscan

import (
	"encoding/json"
	"testing"
)

// FuzzScanner compares the results for strings and numbers with encoding/json.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{`"a"`, `"\u00e9\ud83d\ude00\n\/"`, `"\ud800"`, "\"\xff\"", `"a`, `"\x"`, "\"\x01\"", `0`, `-0.5e+3`, `01`, `1.`, `-`, `1e`, `.5`, ``} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := Scanner{Data: text}
		switch c := s.SkipSpace(); {
		case c == '"':
			value, fault, ok := s.Text()
			var want string
			err := json.Unmarshal([]byte(text[:s.Pos]), &want)
			if ok != (err == nil) {
				t.Fatalf("Text of %q returns %v, but encoding/json returns the error %v", text, ok, err)
			}
			// encoding/json replaces invalid characters, but Text reports a fault.
			if ok && fault == "" && value != want {
				t.Errorf("Text of %q = %q, want %q", text, value, want)
			}
		case c == '-' || c >= '0' && c <= '9':
			literal, _, ok := s.Number()
			if ok && !json.Valid([]byte(literal)) {
				t.Errorf("Number of %q = %q, which is not a JSON number", text, literal)
			}
			if !ok && json.Valid([]byte(text)) {
				t.Errorf("Number of %q returns false, although it is a JSON number", text)
			}
		}
	})
}

func TestText_ReportsStringsThatCannotBeStored(t *testing.T) {
	for text, want := range map[string]string{
		`"a"`: "", `"\ud83d\ude00"`: "", `"\u0000"`: ContainsNUL, `"\ud800"`: LoneSurrogate, `"\udc00x"`: LoneSurrogate, "\"\xff\"": NotUTF8, "\"\xc0\x80\"": NotUTF8,
	} {
		s := Scanner{Data: text}
		if _, fault, ok := s.Text(); !ok || fault != want {
			t.Errorf("Text of %q has the fault %q, want %q", text, fault, want)
		}
	}
}

func TestText_StopsAtInvalidByte(t *testing.T) {
	for text, want := range map[string]int{
		`"a\x"`: 2, `"\u12`: 1, `"\ud83d\u+123"`: 7, "\"a\nb\"": 2, `"ab`: 3, `"ü\`: 3,
	} {
		s := Scanner{Data: text}
		if _, _, ok := s.Text(); ok || s.Pos != want {
			t.Errorf("Text of %q returns %v and stops at byte %d, want false and %d", text, ok, s.Pos, want)
		}
	}
}
