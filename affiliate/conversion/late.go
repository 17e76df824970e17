package conversion

import (
	"github.com/tributary-hq/tributary/affiliate/click"
)

// AttributeLateClick is the job that attributes conversions again when the click that
// their reports named has arrived after the reports.
type AttributeLateClick struct{ click.AwaitedClick }

// Kind returns the name of the job.
func (AttributeLateClick) Kind() string { return "attribute_awaited" }
