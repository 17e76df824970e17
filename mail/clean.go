package mail

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// urlEscapes replaces characters that are allowed in url.URL.RawQuery, but not in a URL.
var urlEscapes = strings.NewReplacer(" ", "%20", "<", "%3C", ">", "%3E", `"`, "%22")

// line returns s as one line: invisible characters are removed, and each run of line
// breaks, tabs and spaces becomes one space.
func line(s string) string {
	return strings.Join(strings.Fields(visible(s)), " ")
}

// lines is like line, but keeps single line breaks and blank lines. More than one blank
// line in a row becomes one.
func lines(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n\n").Replace(s)
	var kept []string
	for _, l := range strings.Split(s, "\n") {
		l = line(l)
		if l == "" && (len(kept) == 0 || kept[len(kept)-1] == "") {
			continue
		}
		kept = append(kept, l)
	}
	return strings.TrimRight(strings.Join(kept, "\n"), "\n")
}

// visible replaces control characters by spaces and removes characters that change the
// direction of the text around them. A name with such a character could make the rest of
// a sentence read backwards. Letters of right-to-left scripts have their direction
// without these characters. Invalid UTF-8 becomes U+FFFD.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return ' '
		case r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069', r == '\ufeff':
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
}

// shorten returns at most limit characters of s. The last one is an ellipsis if s is
// longer.
func shorten(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return strings.TrimRight(string([]rune(s)[:limit-1]), " ") + "…"
}
