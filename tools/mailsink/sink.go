// Package mailsink is a mail server for development and tests. It stores each mail in
// memory and delivers none. A web page and a JSON API show the mails.
//
// Guarantees: the SMTP server accepts every sender, recipient, user name and password.
// Once it has accepted a mail, the API returns the mail. A mail cannot run scripts on the
// page or load anything from the network. HTTP requests with a Host header that does not
// name this machine are rejected, so that websites cannot read the mails with DNS
// rebinding.
//
// Not guaranteed: that a mail is kept. Mails end with the process, and if there are too
// many, the oldest are deleted. Every local user can read them. Attachments are ignored.
// The memory is limited only by the number of mails and by 2 MiB per mail.
package mailsink

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Message is a received mail, as the API returns it. All texts are UTF-8.
type Message struct {
	// ID is unique in a Sink. Later mails have larger numbers.
	ID string `json:"id"`
	// To is the first recipient of the SMTP envelope, without a display name. Other
	// recipients are not stored.
	To string `json:"to"`
	// From and Subject are the headers, with encoded words decoded.
	From    string `json:"from"`
	Subject string `json:"subject"`
	// CreatedAt is the time at which the mail was received.
	CreatedAt Time `json:"createdAt"`
	// Headers maps canonical names to values, for example Message-Id. Folded values are
	// joined to one line, encoded words are not decoded. The values of a repeated header
	// are separated by line breaks.
	Headers map[string]string `json:"headers"`
	// Text and HTML are the first parts of these types that are not attachments, with \n
	// as the line break. They are empty if the mail has no such part. If a mail cannot be
	// parsed, Text is its source.
	Text string `json:"text"`
	HTML string `json:"html"`
}

// Time is a time that is written to JSON in UTC with milliseconds, as RFC 3339 specifies.
type Time struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(t.UTC().Format(`"2006-01-02T15:04:05.000Z"`)), nil
}

// Sink stores mails. Its methods can be called concurrently.
type Sink struct {
	capacity int

	mu       sync.RWMutex
	received int       // the number of all mails, for their ids
	messages []Message // oldest first
}

// New returns an empty Sink that keeps the newest mails. capacity is their maximum
// number.
func New(capacity int) *Sink { return &Sink{capacity: capacity} }

// Messages returns the mails to an address, newest first. The address is compared without
// regard to case. If to is empty, Messages returns all mails.
func (s *Sink) Messages(to string) []Message {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found := []Message{}
	for _, m := range slices.Backward(s.messages) {
		if to == "" || strings.EqualFold(m.To, to) {
			found = append(found, m)
		}
	}
	return found
}

// message returns the mail with an id.
func (s *Sink) message(id string) (m Message, found bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := slices.IndexFunc(s.messages, func(m Message) bool { return m.ID == id })
	if i < 0 {
		return Message{}, false
	}
	return s.messages[i], true
}

// add stores a mail. It sets its id and its time.
func (s *Sink) add(m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received++
	m.ID = strconv.Itoa(s.received)
	m.CreatedAt = Time{time.Now()}
	s.messages = append(s.messages, m)
	if excess := len(s.messages) - s.capacity; excess > 0 {
		s.messages = slices.Delete(s.messages, 0, excess)
	}
}

// clear deletes all mails.
func (s *Sink) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = nil
}
