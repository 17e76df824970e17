package webhook

import (
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func TestResponseOutcome_ByStatusCode(t *testing.T) {
	for code, want := range map[int]Outcome{
		200: {200, "", 0}, 201: {201, "", 0}, 204: {204, "", 0}, 299: {299, "", 0},
		101: {101, "http_101", 0},
		300: {300, "redirect", 0}, 301: {301, "redirect", 0}, 304: {304, "redirect", 0}, 308: {308, "redirect", 0}, 399: {399, "redirect", 0},
		400: {400, "http_400", 0}, 404: {404, "http_404", 0}, 410: {410, "http_410", 0}, 500: {500, "http_500", 0}, 502: {502, "http_502", 0}, 504: {504, "http_504", 0},
		429: {429, "http_429", time.Hour}, 503: {503, "http_503", time.Hour}, // only these two use Retry-After
		999: {999, "http_999", 0},
	} {
		got := ResponseOutcome(code, time.Hour)
		if got != want || got.Succeeded() != (code/100 == 2) || got.Gone() != (code == 410) {
			t.Errorf("ResponseOutcome(%d) = %+v, succeeded %v, gone %v; want %+v", code, got, got.Succeeded(), got.Gone(), want)
		}
		if got := ResponseOutcome(code, -time.Hour); got.RetryAfter != 0 {
			t.Errorf("ResponseOutcome(%d) with a negative Retry-After has RetryAfter %s, want 0", code, got.RetryAfter)
		}
	}
}

func TestFailureOutcome_HasErrorCode(t *testing.T) {
	for code, constant := range map[string]string{
		"dns_error": DNSError, "connection_refused": ConnectionFailed, "timeout": Timeout, "tls_error": TLSError, "protocol_error": ProtocolError, "blocked_address": BlockedAddress,
	} {
		if o := (Outcome{ErrorCode: constant}); o != (Outcome{ErrorCode: code}) || o.Succeeded() || o.Gone() {
			t.Errorf("Outcome{ErrorCode: %q} = %+v, want only the error code %s", constant, o, code)
		}
	}
}

// standardDelays is the schedule of docs/merchant/webhooks.md#retries.
var standardDelays = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

func TestNext_ScheduleHasTenAttemptsInThreeDays(t *testing.T) {
	for random, want := range map[float64]time.Duration{
		0:   60*time.Hour + 28*time.Minute + 4*time.Second, // a fifth less
		0.5: 75*time.Hour + 35*time.Minute + 5*time.Second,
	} {
		s, now, attempts := State{Status: DeliveryPending}, noon, 0
		for due := &now; due != nil; attempts++ {
			now = *due
			s, due = s.Next(ResponseOutcome(500, 0), now, random)
		}
		if took := now.Sub(noon); attempts != 10 || took.Round(time.Second) != want || s != (State{Status: DeliveryDeadLettered, ScheduledAttempts: 10}) {
			t.Errorf("%d attempts in %s, then state %+v; want 10 attempts in %s, then a dead letter", attempts, took, s, want)
		}
	}
}

func TestNext_DelaysFollowTheSchedule(t *testing.T) {
	outcomes := failures()
	rapid.Check(t, func(t *rapid.T) {
		s, now := State{Status: DeliveryPending}, noon
		for number := 1; ; number++ {
			o := outcomes.Filter(func(o Outcome) bool { return !final(o) }).Draw(t, "outcome")
			random := rapid.Float64Range(0, 0.9999999999).Draw(t, "random")
			next, due := s.Next(o, now, random)
			if number == 10 {
				if due != nil || next.Status != DeliveryDeadLettered {
					t.Fatalf("after attempt 10: state %+v, due %v; want a dead letter that is not due", next, due)
				}
				return
			}
			if due == nil || next != (State{Status: DeliveryFailed, ScheduledAttempts: number}) {
				t.Fatalf("after attempt %d: state %+v, due %v; want a failed delivery that is due again", number, next, due)
			}
			delay, base := due.Sub(now), standardDelays[number-1]
			low, high := base*8/10, base*12/10
			switch {
			case o.StatusCode == http.StatusTooManyRequests, o.StatusCode == http.StatusServiceUnavailable:
				requested := min(o.RetryAfter, 24*time.Hour)
				low, high = max(low, time.Minute, requested), max(high, max(time.Minute, requested)*12/10)
			case o.StatusCode == http.StatusBadGateway, o.StatusCode == http.StatusGatewayTimeout, o.ErrorCode == Timeout:
				low, high = max(low, time.Minute), max(high, time.Minute*12/10)
			}
			// The result can differ by one nanosecond because of floating-point
			// rounding.
			if delay < low-1 || delay > high+1 {
				t.Fatalf("delay %s after attempt %d with outcome %+v; want %s to %s", delay, number, o, low, high)
			}
			s, now = next, *due
		}
	})
}

func TestNext_SpreadsDelays(t *testing.T) {
	for random, want := range map[float64]time.Duration{0: 8 * time.Hour, 0.25: 9 * time.Hour, 0.5: 10 * time.Hour, 0.75: 11 * time.Hour} {
		_, due := State{Status: DeliveryFailed, ScheduledAttempts: 5}.Next(Outcome{ErrorCode: TLSError}, noon, random)
		if due == nil || due.Sub(noon).Round(time.Millisecond) != want {
			t.Errorf("random %v: due %v, want %s later", random, due, want)
		}
	}
}

func TestNext_ShortestDelays(t *testing.T) {
	for _, tc := range []struct {
		name    string
		outcome Outcome
		want    time.Duration // 0 means the delay of the schedule, 5 s
	}{
		{"500 ignores Retry-After", ResponseOutcome(500, time.Hour), 0},
		{"429", ResponseOutcome(429, 0), time.Minute},
		{"429 with a shorter Retry-After", ResponseOutcome(429, 30*time.Second), time.Minute},
		{"429 with a longer Retry-After", ResponseOutcome(429, time.Hour), time.Hour},
		{"503 with a longer Retry-After", ResponseOutcome(503, time.Hour), time.Hour},
		{"502 ignores Retry-After", ResponseOutcome(502, time.Hour), time.Minute},
		{"504 ignores Retry-After", ResponseOutcome(504, time.Hour), time.Minute},
		{"timeout", Outcome{ErrorCode: Timeout}, time.Minute},
		{"protocol error", Outcome{ErrorCode: ProtocolError}, 0},
		{"Retry-After of a day", ResponseOutcome(503, 24*time.Hour), 24 * time.Hour},
		{"Retry-After of more than a day", ResponseOutcome(503, 24*time.Hour+1), 24 * time.Hour},
		{"Retry-After without bounds", ResponseOutcome(429, 1<<63-1), 24 * time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for random, want := range map[float64]time.Duration{0: tc.want, 0.5: tc.want * 11 / 10, 0.75: tc.want * 115 / 100} {
				if tc.want == 0 {
					want = 4*time.Second + time.Duration(random*float64(2*time.Second))
				}
				_, due := State{Status: DeliveryPending}.Next(tc.outcome, noon, random)
				if due == nil || due.Sub(noon).Round(time.Millisecond) != want {
					t.Errorf("random %v: due %v, want %s later", random, due, want)
				}
			}
		})
	}
}

func TestNext_StatesAndDueTimes(t *testing.T) {
	const (
		pending, delivered, failed = DeliveryPending, DeliveryDelivered, DeliveryFailed
		dead, canceled             = DeliveryDeadLettered, DeliveryCanceled
	)
	ok, notFound, gone, blocked := ResponseOutcome(200, 0), ResponseOutcome(404, 0), ResponseOutcome(410, 0), Outcome{ErrorCode: BlockedAddress}
	never, immediately, later := "never", "now", "later"
	for name, tc := range map[string]struct {
		before State
		o      Outcome
		after  State
		due    string
	}{
		"the first attempt succeeds":                 {State{pending, 0, 0}, ok, State{delivered, 1, 0}, never},
		"the first attempt fails":                    {State{pending, 0, 0}, notFound, State{failed, 1, 0}, later},
		"the ninth attempt fails":                    {State{failed, 8, 0}, notFound, State{failed, 9, 0}, later},
		"the tenth attempt fails":                    {State{failed, 9, 0}, notFound, State{dead, 10, 0}, never},
		"the tenth attempt succeeds":                 {State{failed, 9, 0}, ok, State{delivered, 10, 0}, never},
		"the endpoint responds with 410":             {State{pending, 0, 0}, gone, State{dead, 1, 0}, never},
		"the address is blocked":                     {State{failed, 4, 0}, blocked, State{dead, 5, 0}, never},
		"one requested attempt, which fails":         {State{failed, 2, 1}, notFound, State{failed, 3, 0}, later},
		"first of two requested attempts fails":      {State{failed, 2, 2}, notFound, State{failed, 3, 1}, immediately},
		"first of two requested attempts succeeds":   {State{failed, 2, 2}, ok, State{delivered, 3, 1}, immediately},
		"requested twice, the tenth fails":           {State{failed, 9, 2}, notFound, State{dead, 10, 1}, immediately},
		"first of two requested attempts is blocked": {State{failed, 2, 2}, blocked, State{dead, 3, 1}, immediately},
		"first of two requested attempts gets 410":   {State{failed, 2, 2}, gone, State{dead, 3, 0}, never},
		"a dead letter fails again":                  {State{dead, 10, 1}, notFound, State{dead, 10, 0}, never},
		"a dead letter succeeds":                     {State{dead, 10, 1}, ok, State{delivered, 10, 0}, never},
		"a dead letter with three requests":          {State{dead, 3, 3}, notFound, State{dead, 3, 2}, immediately},
		"delivered, requested, succeeds":             {State{delivered, 1, 1}, ok, State{delivered, 1, 0}, never},
		"delivered, requested, fails":                {State{delivered, 1, 1}, notFound, State{delivered, 1, 0}, never},
		"delivered, requested three times, gone":     {State{delivered, 1, 3}, gone, State{delivered, 1, 0}, never},
		"delivered, requested, blocked":              {State{delivered, 1, 1}, blocked, State{delivered, 1, 0}, never},
		"canceled during the attempt, fails":         {State{canceled, 2, 0}, notFound, State{canceled, 2, 0}, never},
		"canceled during the attempt, succeeds":      {State{canceled, 2, 0}, ok, State{delivered, 2, 0}, never},
		"canceled, requested twice":                  {State{canceled, 2, 2}, notFound, State{canceled, 2, 1}, immediately},
	} {
		after, due := tc.before.Next(tc.o, noon, 0.5)
		when := later
		switch {
		case due == nil:
			when = never
		case due.Equal(noon):
			when = immediately
		case due.Before(noon):
			when = "before"
		}
		if after != tc.after || when != tc.due {
			t.Errorf("%s: state %+v, due %s; want %+v, %s", name, after, when, tc.after, tc.due)
		}
	}
}

// The test makes attempts, requests additional attempts, disables the endpoint and
// recovers the delivery in random order. The model counts the attempts that the delivery
// may have.
func TestNext_MatchesModel(t *testing.T) {
	outcomes := rapid.OneOf(failures(), rapid.Just(ResponseOutcome(204, 0)))
	rapid.Check(t, func(t *rapid.T) {
		var (
			s              = State{Status: DeliveryPending}
			now            = noon
			due            = &now
			schedules      = 1  // schedules that were started
			attemptsLeft   = 10 // attempts that are left in the schedule
			requested      = 0  // requested attempts that were not made yet
			totalRequested = 0
			made           = 0
		)
		waits := func() bool {
			return s.Status == DeliveryPending || s.Status == DeliveryFailed
		}
		t.Repeat(map[string]func(*rapid.T){
			"attempt": func(t *rapid.T) {
				if due == nil {
					return
				}
				o, before, waited := outcomes.Draw(t, "outcome"), s.Status, waits()
				now = *due
				s, due = s.Next(o, now, rapid.Float64Range(0, 0.999).Draw(t, "random"))
				made++
				requested = max(0, requested-1)
				if o.Gone() {
					requested = 0
				}
				if waited {
					attemptsLeft--
				}
				want := DeliveryFailed
				switch {
				case o.Succeeded():
					want = DeliveryDelivered
				case !waited:
					want = before
				case attemptsLeft == 0, final(o):
					want = DeliveryDeadLettered
				}
				if s.Status != want {
					t.Fatalf("outcome %+v in status %s: status %s, want %s", o, before, s.Status, want)
				}
			},
			"request an attempt": func(*rapid.T) {
				s.RequestedAttempts++
				requested++
				totalRequested++
				at := now
				due = &at
			},
			"disable": func(*rapid.T) {
				if !waits() {
					return
				}
				s.Status, s.RequestedAttempts, requested, due = DeliveryCanceled, 0, 0, nil
			},
			"recover": func(*rapid.T) {
				if waits() {
					return
				}
				s, requested, attemptsLeft, schedules = State{Status: DeliveryPending}, 0, 10, schedules+1
				at := now
				due = &at
			},
			"": func(t *rapid.T) {
				switch {
				case s.RequestedAttempts != requested || s.RequestedAttempts < 0:
					t.Fatalf("state %+v, but %d requested attempts were not made yet", s, requested)
				case waits() && (s.ScheduledAttempts != 10-attemptsLeft || attemptsLeft < 1):
					t.Fatalf("state %+v, but the schedule has %d attempts left", s, attemptsLeft)
				case (due != nil) != (waits() || requested > 0):
					t.Fatalf("state %+v is due at %v, but %d attempts are requested", s, due, requested)
				case requested > 0 && !due.Equal(now):
					t.Fatalf("state %+v is due at %s, but an attempt was requested at %s", s, due, now)
				case made > 10*schedules+totalRequested:
					t.Fatalf("%d attempts were made for %d schedules and %d requests", made, schedules, totalRequested)
				}
			},
		})
	})
}

// final reports whether an outcome ends a schedule.
func final(o Outcome) bool {
	return o.StatusCode == http.StatusGone || o.ErrorCode == "blocked_address"
}

// failures generates all outcomes except success.
func failures() *rapid.Generator[Outcome] {
	return rapid.Custom(func(t *rapid.T) Outcome {
		if rapid.Bool().Draw(t, "has response") {
			code := rapid.OneOf(
				rapid.SampledFrom([]int{301, 400, 410, 429, 500, 502, 503, 504}),
				rapid.IntRange(300, 599),
			).Draw(t, "code")
			return ResponseOutcome(code, time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "after")))
		}
		return Outcome{ErrorCode: rapid.SampledFrom([]string{DNSError, ConnectionFailed, Timeout, TLSError, ProtocolError, BlockedAddress}).Draw(t, "error code")}
	})
}
