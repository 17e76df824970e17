package partner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/partner"
)

// Each statement for a total counts at most one row more than the maximum total of its list.
func TestPartners_CountsHaveALimit(t *testing.T) {
	count := func(_, count string) string { return count }
	for name, tc := range map[string]struct {
		count    string
		maxTotal int64
	}{
		"a partner's programmes":       {count(partnerProgramsSQL(partner.ProgramFilter{})), affiliate.MaxTotal},
		"search for public programmes": {count(partnerProgramsSQL(partner.ProgramFilter{Public: true, Search: "a"})), affiliate.MaxSearchTotal},
	} {
		if limit := fmt.Sprintf(" limit %d) counted", tc.maxTotal+1); !strings.HasSuffix(tc.count, limit) {
			t.Errorf("%s: the statement does not end with %q\n%s", name, limit, tc.count)
		}
	}
}
