package program

import (
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestCheckQuestions(t *testing.T) {
	valid := Question{Key: "site", Label: "Your site", Type: URLQuestion}
	for name, tc := range map[string]struct {
		questions []Question
		fields    []string
	}{
		"none":                    {},
		"all types":               {[]Question{valid, {Key: "a_1", Label: "A", Type: TextQuestion}, {Key: "b", Label: "B", Type: LongTextQuestion}, {Key: "c", Label: "C", Type: SelectQuestion, Options: []string{"x", "y"}}, {Key: "d", Label: "D", Type: CheckboxQuestion}}, nil},
		"invalid key":             {[]Question{{Key: "Site", Label: "S", Type: TextQuestion}, {Label: "S", Type: TextQuestion}}, []string{"[0].key", "[1].key"}},
		"key twice":               {[]Question{valid, valid}, []string{"[1].key"}},
		"no label and no type":    {[]Question{{Key: "a", Label: " "}}, []string{"[0].label", "[0].type"}},
		"options of another type": {[]Question{{Key: "a", Label: "A", Type: TextQuestion, Options: []string{"x"}}}, []string{"[0].options"}},
		"select without options":  {[]Question{{Key: "a", Label: "A", Type: SelectQuestion}}, []string{"[0].options"}},
		"option twice or empty":   {[]Question{{Key: "a", Label: "A", Type: SelectQuestion, Options: []string{"x", "x", " "}}}, []string{"[0].options[1]", "[0].options[2]"}},
	} {
		t.Run(name, func(t *testing.T) {
			found := CheckQuestions(tc.questions)
			if len(found) != len(tc.fields) {
				t.Fatalf("violations %v, want those of %v", found, tc.fields)
			}
			for i, field := range tc.fields {
				if found[i].Field != "application_questions"+field {
					t.Errorf("violation %d is of %s, want %s", i, found[i].Field, field)
				}
			}
		})
	}
}

func TestCheckAnswers(t *testing.T) {
	questions := []Question{
		{Key: "name", Label: "Name of your channel", Type: TextQuestion, Required: true},
		{Key: "plan", Label: "Your plan", Type: LongTextQuestion},
		{Key: "site", Label: "Your site", Type: URLQuestion},
		{Key: "size", Label: "Size", Type: SelectQuestion, Options: []string{"small", "large"}},
		{Key: "adult", Label: "I am of age", Type: CheckboxQuestion, Required: true},
		{Key: "news", Label: "Send me news", Type: CheckboxQuestion},
	}
	full := map[string]string{"name": " Garden TV ", "plan": "one\n\ntwo", "site": "https://garden.example", "size": "large", "adult": "true", "news": "false"}
	with := func(key, answer string) map[string]string {
		changed := map[string]string{key: answer}
		for k, v := range full {
			if k != key {
				changed[k] = v
			}
		}
		return changed
	}
	for name, tc := range map[string]struct {
		questions []Question
		answers   map[string]string
		field     string // of the violation, without answers[]
	}{
		"all":                       {questions: questions, answers: full},
		"only the required":         {questions: questions, answers: map[string]string{"name": "x", "adult": "true"}},
		"optional ones are empty":   {questions: questions, answers: with("site", " ")},
		"required is missing":       {questions, with("name", " "), "name"},
		"line break in a line":      {questions, with("name", "a\nb"), "name"},
		"long line":                 {questions, with("name", strings.Repeat("é", 201)), "name"},
		"longest line":              {questions: questions, answers: with("name", strings.Repeat("é", 200))},
		"no URL":                    {questions, with("site", "javascript:alert(1)"), "site"},
		"no option":                 {questions, with("size", "medium"), "size"},
		"no truth value":            {questions, with("news", "yes"), "news"},
		"required box is unchecked": {questions, with("adult", "false"), "adult"},
		"unknown question":          {questions, with("colour", "red"), "colour"},
		"without questions":         {answers: map[string]string{"Why us?": "Because"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, found := CheckAnswers(tc.questions, tc.answers)
			if tc.field != "" {
				if len(found) != 1 || found[0].Field != "answers["+tc.field+"]" {
					t.Fatalf("violations %v, want one of %s", found, tc.field)
				}
				return
			}
			if len(found) > 0 {
				t.Fatal(found)
			}
			for key, answer := range tc.answers {
				if got[key] != strings.TrimSpace(answer) {
					t.Errorf("the answer to %s is %q, want %q", key, got[key], strings.TrimSpace(answer))
				}
			}
		})
	}
}

func TestProgram_PatchOfTermsMakesNewVersion(t *testing.T) {
	url, text := "https://shop.example/terms", "Be honest."
	p := Program{Name: "P", Rules: DefaultRules(), Currency: "EUR"}
	for i, step := range []struct {
		patch   Patch
		version int
	}{
		{Patch{TermsURL: affiliate.Set(url)}, 1},
		{Patch{TermsURL: affiliate.Set(url)}, 1},
		{Patch{TermsURL: affiliate.Clear[string](), TermsText: affiliate.Set(text)}, 2},
		{Patch{PublicText: affiliate.Set("Welcome")}, 2},
		{Patch{TermsText: affiliate.Set(text + " Always.")}, 3},
		{Patch{TermsText: affiliate.Clear[string]()}, 4},
	} {
		after, err := p.Patch(step.patch)
		if err != nil || after.TermsVersion != step.version {
			t.Fatalf("step %d: version %d, error %v; want version %d", i, after.TermsVersion, err, step.version)
		}
		p = after
	}
	if _, err := (Program{Name: "P", Rules: DefaultRules(), TermsURL: &url}).Patch(Patch{TermsText: affiliate.Set(text)}); err == nil {
		t.Error("a programme can have a URL and a text of terms")
	}
}
