package participant

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
)

// Each statement for a total counts at most one row more than the maximum total of its list.
func TestParticipants_CountsHaveALimit(t *testing.T) {
	for name, tc := range map[string]struct {
		count    string
		maxTotal int64
	}{
		"a group's participants":           {countInGroup, affiliate.MaxTotal},
		"a group's participants by status": {countInGroupAndStatus, affiliate.MaxTotal},
		"open invitations of a programme":  {countInvites, affiliate.MaxTotal},
	} {
		if limit := fmt.Sprintf(" limit %d) counted", tc.maxTotal+1); !strings.HasSuffix(tc.count, limit) {
			t.Errorf("%s: the statement does not end with %q\n%s", name, limit, tc.count)
		}
	}
}
