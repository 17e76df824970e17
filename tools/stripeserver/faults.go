package stripeserver

import (
	"net/http"
	"strings"
	"time"
)

// Fault describes requests that fail. At least one of Status, Hang and Half must be set.
type Fault struct {
	// Method is the method of the requests; empty for all methods.
	Method string
	// Path is the beginning of the path of the requests; empty for all paths.
	Path string
	// Status is the status of the response, which has Stripe's error body. If it is 0, the
	// response is not replaced.
	Status int
	// Code is the code of the error; empty for the code that Stripe uses with the status.
	Code string
	// Hang is the time to wait before the response. If the context of the request ends
	// first, the connection is closed without a response.
	Hang time.Duration
	// Half means that the body ends in the middle and the connection is closed. Without
	// AfterEffect and Status, the request has no effect and the body is not an object.
	Half bool
	// AfterEffect means that the request takes effect before the fault happens. If the
	// request is repeated with the same idempotency key, the answer is the result of this
	// request.
	AfterEffect bool
	// After is the number of matching requests that succeed before the first failure.
	After int
	// Times is the number of requests that fail; 0 means 1.
	Times int
	// RetryAfter is the value of the header Retry-After; empty for no header.
	RetryAfter string
}

// Fail makes the next matching requests fail. Faults are used in the order in which they
// were added. Fail panics if the fault has neither Status nor Hang nor Half.
func (s *Server) Fail(f Fault) {
	if f.Status == 0 && f.Hang == 0 && !f.Half {
		panic("stripeserver: a Fault needs Status, Hang or Half")
	}
	f.Times = max(f.Times, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// takeFault returns the first fault that matches a request, or nil. It counts the request.
func (s *Server) takeFault(r *http.Request) *Fault {
	for _, f := range s.faults {
		if f.Times > 0 && (f.Method == "" || f.Method == r.Method) && strings.HasPrefix(r.URL.Path, f.Path) {
			if f.After > 0 {
				f.After--
				return nil
			}
			f.Times--
			return f
		}
	}
	return nil
}

// serveFault answers a request that fails.
func (s *Server) serveFault(w http.ResponseWriter, r apiRequest, f *Fault) {
	onlyWaits := f.Status == 0 && !f.Half
	a := jsonAnswer(http.StatusOK, map[string]any{"object": "incomplete"})
	if f.AfterEffect {
		a = s.answer(r)
	}
	if f.Hang > 0 {
		timer := time.NewTimer(f.Hang)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler) // net/http closes the connection
		}
	}
	if onlyWaits && !f.AfterEffect {
		a = s.answer(r)
	}
	if f.Status != 0 {
		a = s.faultAnswer(r.key, f)
	}
	if f.Half {
		a.writeHalf(w, r)
		return
	}
	a.write(w, r)
}

// faultAnswer returns Stripe's error for the status of a fault.
func (s *Server) faultAnswer(key string, f *Fault) answer {
	a := s.statusAnswer(key, f)
	a.retryAfter = f.RetryAfter
	return a
}

func (s *Server) statusAnswer(key string, f *Fault) answer {
	e := apiError{Code: f.Code, Type: invalidRequest, Message: http.StatusText(f.Status)}
	switch {
	case f.Status == http.StatusUnauthorized && f.Code == "":
		return invalidKey(key)
	case f.Status == http.StatusForbidden && f.Code == "":
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.permissionError(key, "")
	case f.Status == http.StatusTooManyRequests:
		e.Message = "Request rate limit exceeded. Learn more about rate limits here https://stripe.com/docs/rate-limits."
		if e.Code == "" {
			e.Code = "rate_limit"
		}
	case f.Status >= http.StatusInternalServerError:
		e.Type = serverError
		e.Message = "Sorry! There was an error while talking to one of our backends. Support has been notified."
	}
	return failure(f.Status, e)
}
