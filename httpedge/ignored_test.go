package httpedge_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/httpedge"
)

func TestIgnoredFieldsHeader(t *testing.T) {
	long := strings.Repeat("k", 600)
	for name, c := range map[string]struct {
		paths []string
		want  string
	}{
		"none":     {nil, ""},
		"paths":    {[]string{"plan", "line_items[0].colour"}, "plan, line_items[0].colour"},
		"encoded":  {[]string{"a b", "x,y", "é\r\n"}, "a%20b, x%2Cy, %C3%A9%0D%0A"},
		"too long": {[]string{long, long, "a"}, long + ", ..."},
	} {
		h := http.Header{}
		httpedge.SetIgnoredFields(h, c.paths)
		if got := h.Get("Ignored-Fields"); got != c.want {
			t.Errorf("%s: header %q, want %q", name, got, c.want)
		}
	}
}
