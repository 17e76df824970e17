package notification

import (
	"cmp"
	"strings"
)

// Names holds the current names that the text of a notification contains. A
// name is empty if it is not known.
type Names struct {
	Program string
	Partner string // of the participant
	User    string
}

// Text returns the title and the body of a notification.
func (n Notification) Text(names Names) (title, body string) {
	rule := n.Rule()
	return n.fill(rule.Title, names), n.fill(rule.Body, names)
}

// fill replaces the placeholders of a template. A part in square brackets is left out if
// one of its placeholders has no value. Parts are not nested.
func (n Notification) fill(template string, names Names) string {
	var text strings.Builder
	for template != "" {
		before, rest, found := strings.Cut(template, "[")
		filled, _ := n.fillPart(before, names, text.Len() == 0)
		text.WriteString(filled)
		if !found {
			break
		}
		optional, after, _ := strings.Cut(rest, "]")
		if filled, complete := n.fillPart(optional, names, false); complete {
			text.WriteString(filled)
		}
		template = after
	}
	return text.String()
}

// fillPart replaces the placeholders of a part without brackets. start says that the part
// begins a sentence. complete is false if a placeholder has no value.
func (n Notification) fillPart(part string, names Names, start bool) (text string, complete bool) {
	var out strings.Builder
	complete = true
	for {
		before, rest, found := strings.Cut(part, "{")
		out.WriteString(before)
		if !found {
			return out.String(), complete
		}
		placeholder, after, _ := strings.Cut(rest, "}")
		value, ok := n.value(placeholder, names, start && out.Len() == 0)
		complete = complete && ok
		out.WriteString(value)
		part = after
	}
}

// value returns the value of a placeholder. start says that it begins a sentence.
func (n Notification) value(placeholder string, names Names, start bool) (value string, ok bool) {
	article := "a "
	if start {
		article = "A "
	}
	switch placeholder {
	case "program":
		return cmp.Or(names.Program, article+"programme"), true
	case "partner":
		return cmp.Or(names.Partner, article+"partner"), true
	case "credited": // like partner, but without a value if there is no participant
		return cmp.Or(names.Partner, article+"partner"), n.Participant != nil
	case "user":
		return cmp.Or(names.User, article+"user"), true
	}
	value = n.Facts[placeholder]
	return value, value != ""
}
