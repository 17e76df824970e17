package webhook

import "time"

// Lateness describes the due deliveries of all active endpoints.
type Lateness struct {
	Endpoints int64      // number of active endpoints
	Late      int64      // number of endpoints with a delivery that has been due for too long
	OldestDue *time.Time // time since which the oldest delivery has been due; nil if none is due
}
