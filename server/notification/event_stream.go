package notification

import (
	"encoding/json"
	"strconv"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// eventStreamType is the media type of server-sent events.
const eventStreamType = "text/event-stream"

// retryMillis is the time after which an EventSource reconnects.
const retryMillis = 5000

// streamVersion is the version of the data of the events.
const streamVersion = "v1"

// item is a notification in an event. It has the fields of the feed.
type item struct {
	ID          string        `json:"id"`
	Category    string        `json:"category"`
	Type        string        `json:"type"`
	Title       string        `json:"title"`
	Body        string        `json:"body"`
	Severity    string        `json:"severity"`
	Resource    *itemResource `json:"resource"`
	ActionURL   *string       `json:"actionUrl"`
	Read        bool          `json:"read"`
	ReadAt      *string       `json:"readAt"`
	DismissedAt *string       `json:"dismissedAt"`
	Mode        *string       `json:"mode"`
	CreatedAt   string        `json:"createdAt"`
}

type itemResource struct {
	Type      string  `json:"type"`
	ID        string  `json:"id"`
	ProgramID *string `json:"programId"`
}

// itemOf returns a notification as an event shows it. It is not dismissed.
func (s *Service) itemOf(entry notification.Entry) item {
	rule := entry.Rule()
	out := item{
		ID: entry.ID.String(), Category: string(rule.Category), Type: string(entry.Type), Severity: string(rule.Severity),
		ActionURL: entry.ActionURL(s.appURL), CreatedAt: affiliate.FormatTime(entry.CreatedAt()), Mode: (*string)(entry.Mode),
	}
	if entry.ReadAt != nil {
		at := affiliate.FormatTime(*entry.ReadAt)
		out.Read, out.ReadAt = true, &at
	}
	out.Title, out.Body = entry.Text(entry.Names)
	if entry.Resource != nil && rule.Resource != notification.NoResource {
		out.Resource = &itemResource{Type: string(rule.Resource), ID: entry.Resource.String()}
		if entry.Program != nil {
			program := entry.Program.String()
			out.Resource.ProgramID = &program
		}
	}
	return out
}

// eventData is the data of every event. Fields that an event does not have are absent.
type eventData struct {
	Type         string `json:"type"`
	APIVersion   string `json:"api_version"`
	Notification *item  `json:"notification,omitempty"`
	UnreadCount  *int64 `json:"unreadCount,omitempty"`
}

// appendEvent appends an event. If seq is not negative, it is the id of the event, from
// which a client can continue.
func appendEvent(frame []byte, seq int64, name string, data eventData) []byte {
	data.APIVersion = streamVersion
	encoded, err := json.Marshal(data)
	if err != nil {
		panic(err) // the type has no values that cannot be encoded
	}
	if seq >= 0 {
		frame = append(frame, "id: "...)
		frame = strconv.AppendInt(frame, seq, 10)
		frame = append(frame, '\n')
	}
	frame = append(append(append(frame, "event: "...), name...), '\n')
	return append(append(append(frame, "data: "...), encoded...), "\n\n"...)
}

func appendReady(frame []byte, seq, unread int64) []byte {
	frame = append(strconv.AppendInt(append(frame, "retry: "...), retryMillis, 10), '\n')
	return appendEvent(frame, seq, "ready", eventData{Type: "ready", UnreadCount: &unread})
}

func appendResync(frame []byte, seq int64) []byte {
	return appendEvent(frame, seq, "resync", eventData{Type: "resync"})
}

func appendNotification(frame []byte, seq int64, n item, unread int64) []byte {
	return appendEvent(frame, seq, "notification", eventData{Type: "notification.created", Notification: &n, UnreadCount: &unread})
}

func appendUnreadCount(frame []byte, unread int64) []byte {
	return appendEvent(frame, -1, "unread_count", eventData{Type: "unread_count", UnreadCount: &unread})
}

func appendReauth(frame []byte) []byte {
	return appendEvent(frame, -1, "reauth", eventData{Type: "reauth"})
}

// appendPing appends a comment with an id. A client ignores the comment, and continues
// from the id when it connects again. The last event that the client has received can be
// much older, because a stream does not send the notifications that its user does not see.
func appendPing(frame []byte, seq int64) []byte {
	return append(strconv.AppendInt(append(frame, "id: "...), seq, 10), "\n: ping\n\n"...)
}
