// Package csv writes tables that spreadsheets open (RFC 4180), row by row, in a
// memory that does not grow with their length.
//
// It guarantees that every text cell is quoted, that a reader finds the columns
// that were written, and that no text cell is taken for a formula: one that
// starts like a formula, also after spaces or quotes, gets a leading apostrophe.
// Numbers are neither quoted nor touched.
//
// It does not check that rows have as many cells as the header.
package csv

import (
	"encoding/hex"
	"strconv"
	"time"
	"unicode"

	"github.com/tributary-hq/tributary/affiliate"
)

// ContentType is what the tables are served as.
const ContentType = "text/csv; charset=utf-8"

// chunkSize is about how much is handed on at a time. A chunk ends with a row, so
// it is as much longer as its last row.
const chunkSize = 32 << 10

// Writer collects rows into chunks. Its methods are not safe for concurrent use.
type Writer struct {
	send func(chunk []byte) error
	buf  []byte
	// row is where the current row starts in buf.
	row int
}

// NewWriter makes a writer that hands chunks of about 32 KiB to send, which keeps
// them: the writer never looks at one again.
func NewWriter(send func(chunk []byte) error) *Writer {
	return &Writer{send: send, buf: newChunk()}
}

func newChunk() []byte { return make([]byte, 0, chunkSize+chunkSize/4) }

// Header writes the first row. Names are the program's own words, so they are
// written as they are.
func (w *Writer) Header(names ...string) error {
	for _, name := range names {
		w.cell()
		w.buf = append(w.buf, name...)
	}
	return w.EndRow()
}

// Text adds a text cell.
func (w *Writer) Text(s string) { appendText(w, s) }

// Bytes adds a text cell; s is not kept.
func (w *Writer) Bytes(s []byte) { appendText(w, s) }

func appendText[S string | []byte](w *Writer, s S) {
	w.cell()
	w.buf = append(w.buf, '"')
	if formula(s) {
		w.buf = append(w.buf, '\'')
	}
	start := 0
	for i := range len(s) {
		if s[i] == '"' {
			w.buf = append(w.buf, s[start:i+1]...)
			start = i // once more
		}
	}
	w.buf = append(w.buf, s[start:]...)
	w.buf = append(w.buf, '"')
}

// ID adds a UUID in its canonical form.
func (w *Writer) ID(id [16]byte) {
	b := w.fixed(`"00000000-0000-0000-0000-000000000000"`)
	hex.Encode(b[1:], id[:4])
	hex.Encode(b[10:], id[4:6])
	hex.Encode(b[15:], id[6:8])
	hex.Encode(b[20:], id[8:10])
	hex.Encode(b[25:], id[10:])
}

// fixed adds a cell and returns it to be filled in.
func (w *Writer) fixed(cell string) []byte {
	w.cell()
	at := len(w.buf)
	w.buf = append(w.buf, cell...)
	return w.buf[at:]
}

// OptionalText adds a text cell, or an empty one.
func (w *Writer) OptionalText(s *string) {
	if s == nil {
		w.Empty()
		return
	}
	w.Text(*s)
}

// Int adds a number.
func (w *Writer) Int(n int64) {
	w.cell()
	w.buf = strconv.AppendInt(w.buf, n, 10)
}

// OptionalInt adds a number, or an empty cell.
func (w *Writer) OptionalInt(n *int64) {
	if n == nil {
		w.Empty()
		return
	}
	w.Int(*n)
}

// Bool adds true or false.
func (w *Writer) Bool(b bool) {
	w.cell()
	w.buf = strconv.AppendBool(w.buf, b)
}

// Time adds an instant as affiliate.FormatTime prints it, which for the years of
// four digits it does by itself: it is half of what most tables are made of.
func (w *Writer) Time(t time.Time) {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		w.Text(affiliate.FormatTime(t))
		return
	}
	hour, minute, second := t.Clock()
	b := w.fixed(`"0000-00-00T00:00:00.000Z"`)
	millis := t.Nanosecond() / int(time.Millisecond)
	twoDigits(b[1:], year/100)
	twoDigits(b[3:], year%100)
	twoDigits(b[6:], int(month))
	twoDigits(b[9:], day)
	twoDigits(b[12:], hour)
	twoDigits(b[15:], minute)
	twoDigits(b[18:], second)
	twoDigits(b[21:], millis/10)
	b[23] = '0' + byte(millis%10)
}

// twoDigits writes n, of at most two, to the start of to.
func twoDigits(to []byte, n int) {
	to[0], to[1] = '0'+byte(n/10), '0'+byte(n%10)
}

// OptionalTime adds an instant, or an empty cell.
func (w *Writer) OptionalTime(t *time.Time) {
	if t == nil {
		w.Empty()
		return
	}
	w.Time(*t)
}

// Empty adds a cell without a value.
func (w *Writer) Empty() {
	w.cell()
	if len(w.buf) == w.row {
		// Something has to tell the first cell from none, and a row of one empty
		// cell from a blank line.
		w.buf = append(w.buf, '"', '"')
	}
}

// cell separates the next cell from the one before it. Every cell leaves at
// least one byte, its own or the comma before it.
func (w *Writer) cell() {
	if len(w.buf) > w.row {
		w.buf = append(w.buf, ',')
	}
}

// EndRow ends the row, and hands on a chunk when one is full. The error is
// send's.
func (w *Writer) EndRow() error {
	w.buf = append(w.buf, '\r', '\n')
	w.row = len(w.buf)
	if len(w.buf) < chunkSize {
		return nil
	}
	return w.Flush()
}

// Flush hands on what is left, after the end of the last row.
func (w *Writer) Flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	chunk := w.buf
	w.buf, w.row = newChunk(), 0
	return w.send(chunk)
}

// formula reports whether a spreadsheet could take a cell for a formula.
func formula[S string | []byte](s S) bool {
	if len(s) == 0 || '0' <= s[0] && s[0] <= '9' || 'a' <= s[0]|0x20 && s[0]|0x20 <= 'z' {
		return false
	}
	for _, r := range string(s) {
		switch r {
		case '=', '+', '-', '@', '\t', '\r':
			return true
		case '"', '\'':
		default:
			if !unicode.IsSpace(r) {
				return false
			}
		}
	}
	return false
}
