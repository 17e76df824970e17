package program

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// Each statement for a total counts at most one row more than the maximum total of its list.
func TestPrograms_CountsHaveALimit(t *testing.T) {
	count := func(_, count string) string { return count }
	for name, tc := range map[string]struct {
		count    string
		maxTotal int64
	}{
		"programmes":             {count(programListSQL(program.Filter{})), affiliate.MaxTotal},
		"programmes of a status": {count(programListSQL(program.Filter{Status: program.Active})), affiliate.MaxTotal},
		"search for programmes":  {count(programListSQL(program.Filter{Search: "a"})), affiliate.MaxSearchTotal},
		"groups":                 {countGroups, affiliate.MaxTotal},
	} {
		if limit := fmt.Sprintf(" limit %d) counted", tc.maxTotal+1); !strings.HasSuffix(tc.count, limit) {
			t.Errorf("%s: the statement does not end with %q\n%s", name, limit, tc.count)
		}
	}
}
