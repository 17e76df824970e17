package csv_test

import (
	"bytes"
	stdcsv "encoding/csv"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge/csv"
)

// table returns the CSV text of the rows that the function write adds to a Writer.
func table(t testing.TB, write func(w *csv.Writer)) string {
	t.Helper()
	var out bytes.Buffer
	w := csv.NewWriter(func(chunk []byte) error {
		out.Write(chunk)
		return nil
	})
	write(w)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func endRow(t testing.TB, w *csv.Writer) {
	t.Helper()
	if err := w.EndRow(); err != nil {
		t.Fatal(err)
	}
}

func TestWriter_Cells(t *testing.T) {
	text, n, at := "a", int64(-7), time.Date(2026, 3, 1, 12, 0, 0, 5e6, time.FixedZone("", 3600))
	got := table(t, func(w *csv.Writer) {
		if err := w.Header("id", "amountCents"); err != nil {
			t.Fatal(err)
		}
		w.Text(`say "hi", twice`)
		w.Int(-5)
		endRow(t, w)
		w.OptionalText(nil)
		w.OptionalText(&text)
		w.Empty()
		w.Int(n)
		w.OptionalTime(nil)
		w.OptionalTime(&at)
		w.Bool(true)
		w.Text("")
		w.Empty()
		endRow(t, w)
		w.Empty()
		endRow(t, w)
	})
	want := "id,amountCents\r\n" +
		`"say ""hi"", twice",-5` + "\r\n" +
		`"","a",,-7,,"2026-03-01T11:00:00.005Z",true,"",` + "\r\n" +
		`""` + "\r\n"
	if got != want {
		t.Errorf("the writer wrote %q\nwant %q", got, want)
	}
}

func TestText_IsNeverAFormula(t *testing.T) {
	for text, want := range map[string]string{
		"=1+1":            "'=1+1",
		"+49":             "'+49",
		"-1":              "'-1",
		"@SUM(A1)":        "'@SUM(A1)",
		"\t=1":            "'\t=1",
		"\r=1":            "'\r=1",
		"  =1":            "'  =1",
		`"=1`:             `'""=1`,
		`' "=1`:           `'' ""=1`,
		"\n=1":            "'\n=1",
		"\u00a0=1":        "'\u00a0=1",
		"\uff1d1":         "'\uff1d1",
		"\uff0b1":         "'\uff0b1",
		"\uff0d1":         "'\uff0d1",
		"\uff20SUM(A1)":   "'\uff20SUM(A1)",
		"\u200b=1":        "'\u200b=1",
		"\u200f\ufeff=1":  "'\u200f\ufeff=1",
		"\u202e\uff1d1":   "'\u202e\uff1d1",
		"\u2066 \"=1":     "'\u2066 \"\"=1",
		"\u200ba=1":       "\u200ba=1",
		"a=1":             "a=1",
		"1-1":             "1-1",
		"'quoted'":        "'quoted'",
		"":                "",
		"   ":             "   ",
		`{"name":"=cmd"}`: `{""name"":""=cmd""}`,
		"é=":              "é=",
	} {
		got := table(t, func(w *csv.Writer) {
			w.Text(text)
			endRow(t, w)
		})
		if want := `"` + want + `"` + "\r\n"; got != want {
			t.Errorf("Text with %q wrote %q, want %q", text, got, want)
		}
	}
}

func TestWriter_SendsBoundedChunksOnce(t *testing.T) {
	var chunks [][]byte
	w := csv.NewWriter(func(chunk []byte) error {
		chunks = append(chunks, chunk)
		return nil
	})
	var want strings.Builder
	cell := strings.Repeat("x", 1000)
	for range 200 {
		w.Text(cell)
		endRow(t, w)
		want.WriteString(`"` + cell + `"` + "\r\n")
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	// A chunk is sent when it has 32 KiB. The row that reaches this size has 1004 bytes.
	const maxChunk = 32<<10 + 1004
	for i, chunk := range chunks {
		if len(chunk) == 0 || len(chunk) > maxChunk || !bytes.HasSuffix(chunk, []byte("\r\n")) {
			t.Errorf("chunk %d has %d bytes, want full rows of at most %d bytes", i, len(chunk), maxChunk)
		}
	}
	if len(chunks) != 7 {
		t.Errorf("the writer sent %d chunks, want 7", len(chunks))
	}
	if got := string(bytes.Join(chunks, nil)); got != want.String() {
		t.Errorf("the chunks have %d bytes, which are not the %d bytes that were written", len(got), want.Len())
	}
}

func TestWriter_ReturnsErrorOfSend(t *testing.T) {
	errSend := errors.New("connection closed")
	w := csv.NewWriter(func([]byte) error { return errSend })
	w.Text(strings.Repeat("x", 40<<10))
	if err := w.EndRow(); !errors.Is(err, errSend) {
		t.Errorf("EndRow of a full chunk returned the error %v, want %v", err, errSend)
	}
	w.Text("y")
	if err := w.EndRow(); err != nil {
		t.Errorf("EndRow within a chunk returned the error %v, want none", err)
	}
	if err := w.Flush(); !errors.Is(err, errSend) {
		t.Errorf("Flush returned the error %v, want %v", err, errSend)
	}
}

func TestWriter_DoesNotAllocatePerRow(t *testing.T) {
	w := csv.NewWriter(func([]byte) error { return nil })
	n := testing.AllocsPerRun(1000, func() {
		w.Text(`a "text"`)
		w.Int(12345)
		w.Empty()
		_ = w.EndRow()
	})
	if n != 0 { // a thousand rows need one new chunk, which AllocsPerRun rounds to 0
		t.Errorf("a row needs %v allocations, want none", n)
	}
}

func FuzzWriter_CanBeReadBack(f *testing.F) {
	f.Add("a", `"`, "x,y\r\nz", int64(-1))
	f.Add("", "", "", int64(0))
	f.Add("=1", " @", "\"\r\n\"", int64(7))
	f.Fuzz(func(t *testing.T, a, b, c string, n int64) {
		written := table(t, func(w *csv.Writer) {
			for range 2 {
				w.Text(a)
				w.Int(n)
				w.Text(b)
				w.Empty()
				w.Text(c)
				endRow(t, w)
			}
		})
		r := stdcsv.NewReader(strings.NewReader(written))
		rows, err := r.ReadAll()
		if err != nil || len(rows) != 2 || !slices.Equal(rows[0], rows[1]) || len(rows[0]) != 5 {
			t.Fatalf("%q is read as the rows %q, error %v, want two equal rows of 5 cells", written, rows, err)
		}
		for i, text := range map[int]string{0: a, 2: b, 4: c} {
			// The reader converts every line ending to a newline.
			want := strings.ReplaceAll(text, "\r\n", "\n")
			got := rows[0][i]
			if got != want && got != "'"+want {
				t.Fatalf("the cell %q is read as %q, want %q or the same with an apostrophe", text, got, want)
			}
			if start := strings.TrimLeft(got, ` "`); start != "" && strings.ContainsRune("=+-@\t\r", rune(start[0])) {
				t.Fatalf("the cell %q starts like a formula", got)
			}
		}
	})
}

// The writer formats UUIDs and times itself. The text must be the same as with the
// functions of the libraries.
func TestWriter_FormatsLikeTheLibraries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(-62_167_219_200, 253_402_300_799).Draw(t, "second"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond"))
		at = at.In(time.FixedZone("", rapid.IntRange(-50_000, 50_000).Draw(t, "zone")))
		id := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		cell := rapid.String().Draw(t, "text")
		row := func(write func(w *csv.Writer)) (got string) {
			w := csv.NewWriter(func(chunk []byte) error { got += string(chunk); return nil })
			write(w)
			if err := errors.Join(w.EndRow(), w.Flush()); err != nil {
				t.Fatal(err)
			}
			return got
		}
		for name, pair := range map[string][2]string{
			"instant": {row(func(w *csv.Writer) { w.Time(at) }), row(func(w *csv.Writer) { w.Text(affiliate.FormatTime(at)) })},
			"id":      {row(func(w *csv.Writer) { w.ID(id) }), row(func(w *csv.Writer) { w.Text(id.String()) })},
			"bytes":   {row(func(w *csv.Writer) { w.Bytes([]byte(cell)) }), row(func(w *csv.Writer) { w.Text(cell) })},
		} {
			if pair[0] != pair[1] {
				t.Fatalf("%s: the writer wrote %s, want %s", name, pair[0], pair[1])
			}
		}
	})
}
