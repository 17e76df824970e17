package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// way is how a client registers a click.
type way uint8

const (
	// postWithID is POST /v1/clicks with an id that the client chose.
	postWithID way = iota
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
	// refused means status 503. The click may be stored nevertheless.
	refused
	// noResponse means that the connection was closed, or the client's timeout expired,
	// before the response.
	noResponse
	// unsent means that no connection could be opened, so there is nothing to store.
	unsent
	// unexpected means a response that a valid click must never get.
	unexpected
	outcomeCount
)

var outcomeNames = [outcomeCount]string{"acknowledged", "redirected without a click", "refused (503)", "no response", "no connection", "wrong response"}

// attempt is one HTTP request of a client. All attempts to register one proposed click
// have the same request number and the same proposed id.
type attempt struct {
	Request   int     `json:"request"`
	Way       way     `json:"way"`
	Outcome   outcome `json:"outcome"`
	Collector int     `json:"collector"`
	Target    int     `json:"target"`
	Status    int     `json:"status,omitempty"`
	// Start and End are Unix milliseconds.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// Proposed is set only if Way is proposing. Answered is the click id of the
	// response; it is set only if the outcome is acknowledged.
	Proposed uuid.UUID `json:"proposed,omitzero"`
	Answered uuid.UUID `json:"answered,omitzero"`
	// Blind means that the click was acknowledged by a collector that could not read the
	// edge directory.
	Blind bool `json:"blind,omitempty"`
	// CutOff means that a collector closed the connection while it was stopping
	// gracefully.
	CutOff bool `json:"cut_off,omitempty"`
	// Error is the error message.
	Error string `json:"error,omitempty"`
}

// id returns the click id of the attempt, or zero if the client does not know it.
func (a *attempt) id() uuid.UUID {
	if a.Answered != uuid.Nil {
		return a.Answered
	}
	return a.Proposed
}

// planted is one record that the storm itself wrote to the stream.
type planted struct {
	// ID is zero if the bytes are not a click.
	ID     uuid.UUID `json:"id,omitzero"`
	SubID  string    `json:"sub_id,omitempty"`
	Target int       `json:"target"`
	// Dead is the reason with which the record must become a dead letter. If it is
	// empty, the record must be stored as a click.
	Dead   string `json:"dead,omitempty"`
	Record []byte `json:"record,omitempty"`
	// At is the time of the record in Unix milliseconds.
	At int64 `json:"at"`
	// Acknowledged means that Redis acknowledged the record.
	Acknowledged bool `json:"acknowledged"`
}

// subIDOf returns the sub id of a request's clicks. It identifies the request if a row
// has a click id that no response contained.
func subIDOf(request int) string { return "f" + strconv.Itoa(request) }

func requestOf(subID string) (int, bool) {
	digits, ok := strings.CutPrefix(subID, "f")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && subIDOf(n) == subID
}

// recorder stores the history in memory for the checker. It also writes each entry to a
// file for people.
type recorder struct {
	mu       sync.Mutex
	file     *os.File
	buffer   *bufio.Writer
	err      error
	attempts []attempt
	planted  []planted
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

func (r *recorder) addPlanted(records []planted) {
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

// addArrival writes an arrival to the file. The receiver stores the arrivals in memory.
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

func (r *recorder) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := errors.Join(r.err, r.buffer.Flush(), r.file.Close()); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}
