package export_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestDownloadExport_NegotiatesTheEncoding(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	link, err := f.exportParticipant(f.ada)
	if err != nil {
		t.Fatal(err)
	}
	plain := f.text(link)
	if !json.Valid([]byte(plain)) || !strings.HasPrefix(plain, `{"schema_version":1,`) || !strings.HasSuffix(plain, "}\n") {
		t.Errorf("the bundle is not a JSON document: %.100s", plain)
	}
	for accept, want := range map[string]string{
		"gzip": "gzip", "x-gzip": "gzip", "GZIP": "gzip", "gzip, deflate, br": "gzip", "*": "gzip", "gzip;q=0.5, identity;q=0.4": "gzip", "gzip;q=0.1": "gzip",
		"identity;q=0, *": "gzip", "br, gzip;q=0.001, *;q=0": "gzip",
		"": "identity", "identity": "identity", "deflate, br": "identity", "gzip;q=0": "identity", "gzip;q=0, *": "identity", "identity, gzip;q=0.9": "identity",
		"gzip;q=0.5, identity": "identity", "gzip; q=zero": "identity", "br;q=1.0": "identity",
		"identity;q=0": "", "*;q=0": "", "br, identity;q=0": "", "gzip;q=0, identity;q=0": "", "gzip;q=0, *;q=0": "",
	} {
		d, err := f.download(link, accept)
		if want == "" {
			pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "Accept-Encoding")
			continue
		}
		if err != nil {
			t.Errorf("Accept-Encoding %q: %v", accept, err)
			continue
		}
		got, text := "identity", d.Text()
		if encodings := d.Header.Get("x-content-encoding"); len(encodings) == 1 && encodings[0] == "gzip" {
			got, text = "gzip", gunzip(t, text)
		}
		if got != want || text != plain {
			t.Errorf("Accept-Encoding %q: the encoding is %s, want %s, and the same text", accept, got, want)
		}
		if name := d.Header.Get("content-disposition"); len(name) != 1 || name[0] != `attachment; filename="`+link.GetFilename()+`"` {
			t.Errorf("Content-Disposition is %q", name)
		}
		if d.Chunks[0].GetContentType() != "application/json" || d.Header.Get("x-vary")[0] != "Accept-Encoding" {
			t.Errorf("the content type is %s, the header is %v", d.Chunks[0].GetContentType(), d.Header)
		}
	}
}

// The token is checked before the header.
func TestDownloadExport_ChecksTheTokenFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	link, err := f.exportParticipant(f.ada)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.download(link)
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "Accept-Encoding")
	for _, token := range []string{"", "x", "exp_", strings.Repeat("x", 5000), "exp_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		url := publicURL + privacy.ExportPath + token
		for _, accept := range [][]string{nil, {"gzip"}} {
			if _, err := f.download(&affiliatev1.Export{DownloadUrl: &url}, accept...); pgtest.ReasonOf(t, err) != affiliate.ReasonExportExpired {
				t.Errorf("the token %.20q returned %v, want EXPORT_EXPIRED", token, err)
			}
		}
	}
}

// Pieces are encrypted, and a piece cannot be exchanged for another one.
func TestDownloadExport_PiecesAreSealed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fillMany(f.ada, 4000)
	link, err := f.exportParticipant(f.ada)
	if err != nil {
		t.Fatal(err)
	}
	other, err := f.exportParticipant(f.bob)
	if err != nil {
		t.Fatal(err)
	}
	if n := f.Count(`select count(*) from export_chunks c join exports e on e.id = c.export_id where e.subject_id = $1`, f.ada.ID); n < 3 {
		t.Fatalf("the bundle has %d pieces, want at least 3", n)
	}
	f.WantCount(0, "pieces that are larger than 1 MiB or not encrypted", `
		select count(*) from export_chunks where octet_length(data) > 1048576 or encode(data, 'escape') like '%schema_version%' or substring(data for 3) = '\x1f8b08'`)
	for name, change := range map[string]string{
		"two pieces of a bundle":   `update export_chunks c set number = case number when 1 then 2 else 1 end + 100 from exports e where e.id = c.export_id and e.subject_id = $1 and number in (1, 2)`,
		"a piece of another one":   `update export_chunks c set data = o.data from exports e, exports oe join export_chunks o on o.export_id = oe.id where e.id = c.export_id and e.subject_id = $1 and oe.subject_id <> $1 and c.number = 0 and o.number = 0`,
		"a piece that was changed": `update export_chunks c set data = set_byte(data, 100, 255 - get_byte(data, 100)) from exports e where e.id = c.export_id and e.subject_id = $1 and number = 0`,
	} {
		f.Exec(`create table saved as select * from export_chunks`)
		f.Exec(change, f.ada.ID)
		f.Exec(`update export_chunks set number = number - 100 where number >= 100`)
		if _, err := f.download(link, "gzip"); err == nil {
			t.Errorf("%s: the download succeeded, want an error", name)
		}
		f.Exec(`truncate export_chunks`)
		f.Exec(`insert into export_chunks select * from saved`)
		f.Exec(`drop table saved`)
	}
	f.text(link)
	f.text(other)
}
