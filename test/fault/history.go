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
	// proposing: POST /v1/clicks with an id of the client's own.
	proposing way = iota
	// minting: POST /v1/clicks without one.
	minting
	// following: GET /r/{key}, a short link.
	following
)

// outcome is what a client learned of an attempt.
type outcome uint8

const (
	// acknowledged: 200, 201 or 302 with a click id. The click must be stored.
	acknowledged outcome = iota
	// sentOn: 302 without a click id. The click may be stored, nobody was told.
	sentOn
	// refused: 503. The click may be stored all the same.
	refused
	// lost: the connection ended, or the client's patience, before an answer.
	lost
	// unsent: no connection could be made, so there is nothing to store.
	unsent
	// wrong: an answer that a good click never gets.
	wrong
	outcomes
)

var outcomeNames = [outcomes]string{"acknowledged", "sent on without a click", "refused (503)", "no answer", "no connection", "wrong answer"}

// attempt is one request of a client. Several attempts of one proposal have the
// same request number and the same proposed id.
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
	// Proposed is zero unless Way is proposing, Answered unless acknowledged.
	Proposed uuid.UUID `json:"proposed,omitzero"`
	Answered uuid.UUID `json:"answered,omitzero"`
	// Blind: acknowledged by a collector that could not read the directory.
	Blind bool `json:"blind,omitempty"`
	// CutOff: the connection was ended by a collector that was stopping gracefully.
	CutOff bool `json:"cut_off,omitempty"`
	// Error is what went wrong, for people.
	Error string `json:"error,omitempty"`
}

// id is the click that an attempt is about, as far as the client knows.
func (a *attempt) id() uuid.UUID {
	if a.Answered != uuid.Nil {
		return a.Answered
	}
	return a.Proposed
}

// planted is one record that the storm itself put into the stream.
type planted struct {
	// ID is zero when the bytes are no click.
	ID     uuid.UUID `json:"id,omitzero"`
	SubID  string    `json:"sub_id,omitempty"`
	Target int       `json:"target"`
	// Dead is the reason with which it has to end as a dead letter; empty: it has to
	// be stored as a click.
	Dead   string `json:"dead,omitempty"`
	Record []byte `json:"record,omitempty"`
	// At is when it was made, Unix milliseconds.
	At int64 `json:"at"`
	// Acknowledged: Redis said that the stream has it.
	Acknowledged bool `json:"acknowledged"`
}

// subIDOf marks the clicks of a request, so that a row whose id no client was
// told can be traced to it.
func subIDOf(request int) string { return "f" + strconv.Itoa(request) }

func requestOf(subID string) (int, bool) {
	digits, ok := strings.CutPrefix(subID, "f")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && subIDOf(n) == subID
}

// recorder keeps the history in memory, for the checker, and writes it to a file
// as it goes, for people.
type recorder struct {
	mu       sync.Mutex
	file     *os.File
	buffer   *bufio.Writer
	fault    error
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

// request gives out a number.
func (r *recorder) request() int {
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

func (r *recorder) plant(records []planted) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.planted = append(r.planted, records...)
	for _, p := range records {
		r.write(p)
	}
}

func (r *recorder) sell(a saleAttempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sales = append(r.sales, a)
	r.write(a)
}

// arrived writes for people what the receiver keeps.
func (r *recorder) arrived(a arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(a)
}

func (r *recorder) write(line any) {
	text, err := json.Marshal(line)
	if err == nil {
		_, err = r.buffer.Write(append(text, '\n'))
	}
	r.fault = errors.Join(r.fault, err)
}

// progress counts what was recorded so far.
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

// since finds the attempts that ended at or after an instant.
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
	if err := errors.Join(r.fault, r.buffer.Flush(), r.file.Close()); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}
