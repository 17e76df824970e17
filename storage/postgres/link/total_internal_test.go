package link

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/link"
)

// Each statement for a total counts at most one row more than the maximum total of its list.
func TestLinks_CountsHaveALimit(t *testing.T) {
	count := func(_, count string) string { return count }
	for name, tc := range map[string]struct {
		count    string
		maxTotal int64
	}{
		"a participant's links":            {count(linkListSQL(link.Filter{Participant: new(affiliate.ParticipantID)})), affiliate.MaxTotal},
		"search for links":                 {count(linkListSQL(link.Filter{Search: "a"})), affiliate.MaxSearchTotal},
		"search for a participant's links": {count(linkListSQL(link.Filter{Participant: new(affiliate.ParticipantID), Search: "a"})), affiliate.MaxSearchTotal},
		"a partner's links":                {count(partnerLinksSQL(nil)), affiliate.MaxTotal},
		"a partner's links in a programme": {count(partnerLinksSQL(new(affiliate.ProgramID))), affiliate.MaxTotal},
	} {
		if limit := fmt.Sprintf(" limit %d) counted", tc.maxTotal+1); !strings.HasSuffix(tc.count, limit) {
			t.Errorf("%s: the statement does not end with %q\n%s", name, limit, tc.count)
		}
	}
}
