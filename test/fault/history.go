package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// clickRoute is the route to which a client sends a click, and whether it chooses the
// click id.
type clickRoute uint8

const (
	// postWithID is POST /v1/clicks with an id that the client chose.
	postWithID clickRoute = iota
	// postWithoutID is POST /v1/clicks without an id.
	postWithoutID
	// getShortLink is GET /r/{key}, a short link.
	getShortLink
)

// outcome is the result of an attempt from the client's point of view.
type outcome uint8

const (
	// acknowledged means status 200 or 201, or 302 with a click id. The click must be
	// stored.
	acknowledged outcome = iota
	// redirected means status 302 without a click id. The click may be stored, but the
	// client does not know its id.
	redirected
	// refused means status 503. The click may still be stored.
	refused
	// noResponse means that the connection was closed, or the client's timeout expired,
	// before the response.
	noResponse
	// unsent means that no connection could be opened, so the click cannot be stored.
	unsent
	// unexpected means that the status is never correct for a valid click.
	unexpected
	outcomeCount
)

var outcomeNames = [outcomeCount]string{"acknowledged", "redirected without a click", "refused (503)", "no response", "no connection", "wrong response"}

// attempt is one HTTP request of a client. If the client repeats a click with a proposed
// id, all attempts have the same Request and the same Proposed.
type attempt struct {
	Request   int        `json:"request"`
	Route     clickRoute `json:"route"`
	Outcome   outcome    `json:"outcome"`
	Collector int        `json:"collector"`
	Target    int        `json:"target"`
	Status    int        `json:"status,omitempty"`
	// Start and End are Unix milliseconds.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// Proposed is the click id that the client chose. It is set only if Route is
	// postWithID. ResponseID is the click id of the response. It is set only if Outcome
	// is acknowledged.
	Proposed   uuid.UUID `json:"proposed,omitzero"`
	ResponseID uuid.UUID `json:"response_id,omitzero"`
	// WithoutDirectory means that a collector acknowledged the click although it could
	// not read the edge directory. The response to such a click has no programme id.
	WithoutDirectory bool `json:"without_directory,omitempty"`
	// CutOff means that a collector closed the connection before it sent the response,
	// while it was stopping gracefully.
	CutOff bool `json:"cut_off,omitempty"`
	// Error is the error message.
	Error string `json:"error,omitempty"`
}

// id returns the click id of the attempt, or zero if the client does not know it.
func (a *attempt) id() uuid.UUID {
	if a.ResponseID != uuid.Nil {
		return a.ResponseID
	}
	return a.Proposed
}

// plantedRecord is a record that a fault of the kind poison has appended to the click
// stream. The fault appends valid records and records that cannot be stored as clicks.
type plantedRecord struct {
	// ID is the click id. It is zero if the record is not a valid message, and so has no
	// id.
	ID     uuid.UUID `json:"id,omitzero"`
	SubID  string    `json:"sub_id,omitempty"`
	Target int       `json:"target"`
	// DeadLetterReason is the reason with which the record must be stored as a dead
	// letter. If it is empty, the record must be stored as a click.
	DeadLetterReason string `json:"dead_letter_reason,omitempty"`
	Record           []byte `json:"record,omitempty"`
	// At is the time of the record in Unix milliseconds.
	At int64 `json:"at"`
	// Acknowledged means that Redis acknowledged the record.
	Acknowledged bool `json:"acknowledged"`
}

// subIDOf returns the sub id that the click of a request gets. If a stored click has an
// id that is not in the history, its sub id shows which request has sent it.
func subIDOf(request int) string { return "f" + strconv.Itoa(request) }

// requestOf returns the request number in a sub id. It is the inverse of subIDOf.
func requestOf(subID string) (int, bool) {
	digits, ok := strings.CutPrefix(subID, "f")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && subIDOf(n) == subID
}

// recorder stores the history in memory for the checker. It also writes each entry to a
// file, which helps to find the cause of a violation.
type recorder struct {
	mu       sync.Mutex
	file     *os.File
	buffer   *bufio.Writer
	err      error
	attempts []attempt
	planted  []plantedRecord
	sales    []saleAttempt
	requests int
}

func newRecorder(path string) (*recorder, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &recorder{file: file, buffer: bufio.NewWriterSize(file, 1<<20)}, nil
}

// nextRequest returns a new request number.
func (r *recorder) nextRequest() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	return r.requests
}

func (r *recorder) add(a attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts = append(r.attempts, a)
	r.write(a)
}

func (r *recorder) addPlanted(records []plantedRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.planted = append(r.planted, records...)
	for _, p := range records {
		r.write(p)
	}
}

func (r *recorder) addSale(a saleAttempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sales = append(r.sales, a)
	r.write(a)
}

// addArrival writes a webhook request that has arrived at the receiver to the file. The
// recorder does not keep it in memory, because the receiver does.
func (r *recorder) addArrival(a arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(a)
}

func (r *recorder) write(line any) {
	text, err := json.Marshal(line)
	if err == nil {
		_, err = r.buffer.Write(append(text, '\n'))
	}
	r.err = errors.Join(r.err, err)
}

// progress returns the number of attempts and of acknowledged attempts.
func (r *recorder) progress() (attempts, acked int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.attempts {
		if r.attempts[i].Outcome == acknowledged {
			acked++
		}
	}
	return len(r.attempts), acked
}

// since returns the attempts that ended at or after a time.
func (r *recorder) since(at time.Time) []attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := len(r.attempts)
	for first > 0 && r.attempts[first-1].End >= at.UnixMilli() {
		first--
	}
	return append([]attempt(nil), r.attempts[first:]...)
}

// requestKinds contains the kinds of request of clients and sellers.
var requestKinds = []string{
	"click with a proposed id", "click without a proposed id", "visit to a short link", "sale with a promo code", "sale with a click id",
}

// acknowledgedSince counts the acknowledged requests that ended at or after a time, by
// kind. A report of a sale counts only if its status is 201.
func (r *recorder) acknowledgedSince(at time.Time) map[string]int {
	counts := make(map[string]int)
	for _, a := range r.since(at) {
		if a.Outcome == acknowledged {
			counts[requestKinds[a.Route]]++
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.sales {
		switch {
		case a.End < at.UnixMilli() || a.Status != http.StatusCreated:
		case a.Click == uuid.Nil:
			counts["sale with a promo code"]++
		default:
			counts["sale with a click id"]++
		}
	}
	return counts
}

func (r *recorder) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := errors.Join(r.err, r.buffer.Flush(), r.file.Close()); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}
