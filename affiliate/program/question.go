package program

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tributary-hq/tributary/affiliate"
)

// QuestionType says which answers a question accepts.
type QuestionType string

// The types of questions.
const (
	TextQuestion     QuestionType = "text"      // one line
	LongTextQuestion QuestionType = "long_text" // several lines
	URLQuestion      QuestionType = "url"       // an http or https URL
	SelectQuestion   QuestionType = "select"    // one of Options
	CheckboxQuestion QuestionType = "checkbox"  // Checked or Unchecked; a required one must be Checked
)

// The answers to a CheckboxQuestion.
const (
	Checked   = "true"
	Unchecked = "false"
)

// maxLine is the greatest length of the answer to a TextQuestion in characters.
const maxLine = 200

// Question is a question of a programme to partners who apply.
type Question struct {
	Key      string       `json:"key"` // unique in the programme
	Label    string       `json:"label"`
	Type     QuestionType `json:"type"`
	Required bool         `json:"required"`
	Options  []string     `json:"options,omitempty"` // of a SelectQuestion only
}

var questionKey = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

// CheckQuestions returns what is wrong with the questions of a programme. The proto file bounds
// the lengths of texts and lists.
func CheckQuestions(questions []Question) affiliate.Violations {
	var found affiliate.Violations
	keys := map[string]bool{}
	for i, q := range questions {
		path := fmt.Sprintf("application_questions[%d].", i)
		switch {
		case !questionKey.MatchString(q.Key):
			found.Add(path+"key", "must be 1 to 40 lower-case letters, digits and underscores, with a letter first")
		case keys[q.Key]:
			found.Add(path+"key", "must not be the key of an earlier question")
		}
		keys[q.Key] = true
		if strings.TrimSpace(q.Label) == "" {
			found.Add(path+"label", affiliate.IsRequired)
		}
		switch {
		case q.Type == "":
			found.Add(path+"type", affiliate.IsRequired)
		case q.Type != SelectQuestion && len(q.Options) > 0:
			found.Add(path+"options", "must be empty unless the type is select")
		case q.Type == SelectQuestion && len(q.Options) == 0:
			found.Add(path+"options", affiliate.MustNotBeEmpty)
		}
		for j, option := range q.Options {
			if strings.TrimSpace(option) == "" || slices.Contains(q.Options[:j], option) {
				found.Add(fmt.Sprintf("%soptions[%d]", path, j), "must not be empty or an earlier option")
			}
		}
	}
	return found
}

// CheckAnswers validates the answers to the questions of a programme, and returns them without empty
// answers. A programme without questions accepts all answers.
func CheckAnswers(questions []Question, answers map[string]string) (map[string]string, affiliate.Violations) {
	given := map[string]string{}
	for key, answer := range answers {
		if answer = strings.TrimSpace(answer); answer != "" {
			given[key] = answer
		}
	}
	if len(questions) == 0 {
		return given, nil
	}
	var found affiliate.Violations
	for _, q := range questions {
		answer, answered := given[q.Key]
		switch {
		case answered:
			if message := q.refuse(answer); message != "" {
				found.Add("answers["+q.Key+"]", message)
			}
		case q.Required:
			found.Add("answers["+q.Key+"]", affiliate.IsRequired)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		if !slices.ContainsFunc(questions, func(q Question) bool { return q.Key == key }) {
			found.Add("answers["+key+"]", "must be the answer to a question of the programme")
		}
	}
	return given, found
}

// refuse says what is wrong with an answer that is not empty. It returns "" if nothing is.
func (q Question) refuse(answer string) string {
	switch q.Type {
	case TextQuestion:
		if utf8.RuneCountInString(answer) > maxLine || strings.ContainsAny(answer, "\r\n") {
			return fmt.Sprintf("must be one line of at most %d characters", maxLine)
		}
	case URLQuestion:
		if _, ok := affiliate.ParseWebURL(answer); !ok {
			return affiliate.MustBeWebURL
		}
	case SelectQuestion:
		if !slices.Contains(q.Options, answer) {
			return "must be one of " + strings.Join(q.Options, ", ")
		}
	case CheckboxQuestion:
		switch {
		case answer != Checked && answer != Unchecked:
			return "must be true or false"
		case answer == Unchecked && q.Required:
			return "must be true"
		}
	case LongTextQuestion:
	}
	return ""
}
