package mail

import "strings"

// text returns the text part of a cleaned document. Lines are not wrapped, because mail
// programs wrap them at the width of the window.
func (d Document) text() string {
	parts := []string{d.Heading}
	add := func(part string) {
		if part != "" {
			parts = append(parts, part)
		}
	}
	add(d.Greeting)
	for _, b := range d.Blocks {
		add(b.text())
	}
	if d.Button != nil {
		add(d.Button.Label + ":\n" + d.Button.URL)
	}
	for _, paragraph := range d.Closing {
		add(paragraph)
	}
	add(d.Footer.text(d.Brand))
	return strings.Join(parts, "\n\n") + "\n"
}

func (b Block) text() string {
	var rows []string
	for _, f := range b.Facts {
		rows = append(rows, strings.TrimRight(f.Label+": "+f.Value, " "))
	}
	for _, item := range b.Items {
		rows = append(rows, item.text())
	}
	separator := "\n"
	if len(b.Items) > 0 {
		separator = "\n\n"
	}
	return b.Paragraph + strings.Join(rows, separator) + b.More
}

func (i Item) text() string {
	rows := []string{i.Title}
	if i.Time != "" {
		rows[0] += " (" + i.Time + ")"
	}
	if i.Body != "" {
		rows = append(rows, strings.Split(i.Body, "\n")...)
	}
	if i.URL != "" {
		rows = append(rows, i.URL)
	}
	return "* " + strings.Join(rows, "\n  ")
}

// text separates the footer with a line, because the text part has no smaller font.
func (f Footer) text(brand string) string {
	rows := []string{"---"}
	if brand != "" {
		rows = append(rows, brand)
	}
	if f.Reason != "" {
		rows = append(rows, f.Reason)
	}
	if f.UnsubscribeURL != "" {
		rows = append(rows, "Unsubscribe: "+f.UnsubscribeURL)
	}
	if len(rows) == 1 {
		return ""
	}
	return strings.Join(rows, "\n")
}
