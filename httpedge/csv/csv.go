// Package csv writes tables in CSV format (RFC 4180) for spreadsheets, row by row. Its
// memory use does not depend on the number of rows.
//
// The package guarantees that a CSV reader finds the cells that were written, with one
// exception: a text that a spreadsheet could treat as a formula gets a leading
// apostrophe, so that the spreadsheet shows it as text. Text cells are quoted. Numbers
// are written without quotes.
//
// The package does not check that a row has as many cells as the header.
package csv

import (
	"encoding/hex"
	"strconv"
	"time"
	"unicode"

	"github.com/tributary-hq/tributary/affiliate"
)

// ContentType is the media type of CSV files.
const ContentType = "text/csv; charset=utf-8"

// chunkSize is the size in bytes at which a chunk is sent. A chunk ends with a complete row, so it can be longer than
// chunkSize.
const chunkSize = 32 << 10

// Writer collects rows in chunks and sends the chunks. Its methods are not safe for
// concurrent use.
type Writer struct {
	send func(chunk []byte) error
	buf  []byte
	// row is the offset in buf at which the current row begins.
	row int
}

// NewWriter returns a Writer that passes chunks of about 32 KiB to the function send. The
// function may keep a chunk, because the Writer does not use the chunk again.
func NewWriter(send func(chunk []byte) error) *Writer {
	return &Writer{send: send, buf: newChunk()}
}

func newChunk() []byte { return make([]byte, 0, chunkSize+chunkSize/4) }

// Header writes the first row. It writes the names without quotes, so they must not
// contain special characters.
func (w *Writer) Header(names ...string) error {
	for _, name := range names {
		w.cell()
		w.buf = append(w.buf, name...)
	}
	return w.EndRow()
}

// Text adds a text cell.
func (w *Writer) Text(s string) { appendText(w, s) }

// Bytes adds a text cell with a copy of s.
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
			start = i // the next append writes the quote a second time
		}
	}
	w.buf = append(w.buf, s[start:]...)
	w.buf = append(w.buf, '"')
}

// ID adds a UUID in its canonical text form.
func (w *Writer) ID(id [16]byte) {
	b := w.fixed(`"00000000-0000-0000-0000-000000000000"`)
	hex.Encode(b[1:], id[:4])
	hex.Encode(b[10:], id[4:6])
	hex.Encode(b[15:], id[6:8])
	hex.Encode(b[20:], id[8:10])
	hex.Encode(b[25:], id[10:])
}

// fixed adds a cell with the given content. It returns the bytes of the cell in the
// buffer, so that the caller can overwrite them.
func (w *Writer) fixed(cell string) []byte {
	w.cell()
	at := len(w.buf)
	w.buf = append(w.buf, cell...)
	return w.buf[at:]
}

// OptionalText adds a text cell, or an empty cell if s is nil.
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

// Float adds a number with the fewest digits from which the same number can be read.
func (w *Writer) Float(n float64) {
	w.cell()
	w.buf = strconv.AppendFloat(w.buf, n, 'f', -1, 64)
}

// Bool adds true or false.
func (w *Writer) Bool(b bool) {
	w.cell()
	w.buf = strconv.AppendBool(w.buf, b)
}

// Time adds a time in the format of affiliate.FormatTime.
func (w *Writer) Time(t time.Time) {
	w.cell()
	w.buf = append(affiliate.AppendTime(append(w.buf, '"'), t), '"')
}

// OptionalTime adds a time, or an empty cell if t is nil.
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
		// The first cell of a row must not be zero bytes long. Otherwise cell would not
		// write a comma before the second cell, and a row with one empty cell would be a
		// blank line.
		w.buf = append(w.buf, '"', '"')
	}
}

// cell begins a cell. It writes a comma unless the cell is the first of its row. The row
// has a cell already if buf contains bytes of the row.
func (w *Writer) cell() {
	if len(w.buf) > w.row {
		w.buf = append(w.buf, ',')
	}
}

// EndRow ends the row. If the chunk has reached chunkSize, EndRow sends it and returns
// the error of send.
func (w *Writer) EndRow() error {
	w.buf = append(w.buf, '\r', '\n')
	w.row = len(w.buf)
	if len(w.buf) < chunkSize {
		return nil
	}
	return w.Flush()
}

// Flush sends the rows that have not been sent yet. It must be called after the last
// EndRow.
func (w *Writer) Flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	chunk := w.buf
	w.buf, w.row = newChunk(), 0
	return w.send(chunk)
}

// formula reports whether a spreadsheet could treat a text as a formula. This is the case
// if the text begins with a character such as = or + or its full-width form, even if
// spaces, quotes or invisible format characters precede this character.
func formula[S string | []byte](s S) bool {
	if len(s) == 0 || '0' <= s[0] && s[0] <= '9' || 'a' <= s[0]|0x20 && s[0]|0x20 <= 'z' {
		return false
	}
	for _, r := range string(s) {
		switch r {
		case '=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠':
			return true
		case '"', '\'':
		default:
			if !unicode.IsSpace(r) && !unicode.Is(unicode.Cf, r) {
				return false
			}
		}
	}
	return false
}
