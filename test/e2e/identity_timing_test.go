package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate/notification"
)

const (
	// timingAddresses is the number of addresses in a round, half of which have an account.
	timingAddresses = 40
	// A client that compares the durations of responses should not find a difference. If the
	// machine is busy, the medians of equal durations can be outside of these bounds, so the
	// test then adds the durations of another round, up to timingRounds. A lookup of the
	// account, the creation of a token or a hash of the password in only one case would change
	// the medians of all rounds.
	minMedianRatio, maxMedianRatio = 0.67, 1.5
	timingRounds                   = 10
)

// Neither a response nor its duration must say whether an account has an address.
func TestIdentity_DoesNotTellWhichAddressesAreKnown(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	sys.recordMails(t)
	owner := sys.newPartner(t)
	sys.exec(t, `
		insert into users (id, kind, email, password_hash, name, created_at)
		select gen_random_uuid(), 'partner', 'known-' || i || '@example.com', password_hash, name, created_at
		from users, generate_series(1, $2::int) i
		where id = $1`, owner.id, timingRounds*timingAddresses/2)
	changes := 0
	for _, route := range []struct {
		name string
		want outcome
		call func(email string) response
	}{
		{"login", outcome{http.StatusUnauthorized, "INVALID_CREDENTIALS"}, func(email string) response {
			return sys.client().post(t, "/api/v1/auth/partner/login", object{"email": email, "password": "wrong password"})
		}},
		{"forgot-password", ok, func(email string) response {
			return sys.client().post(t, "/api/v1/auth/partner/forgot-password", object{"email": email})
		}},
		{"change of address", outcome{status: http.StatusAccepted}, func(email string) response {
			changes++
			return owner.post(t, "/api/v1/auth/partner/email/change", object{"newEmail": email, "password": password})
		}},
	} {
		t.Run(route.name, func(t *testing.T) {
			durations, bodies := map[bool][]time.Duration{}, map[string]bool{}
			equal := false
			for round := 0; round < timingRounds && !equal; round++ {
				for _, i := range rand.Perm(timingAddresses) {
					known := i%2 == 0
					email := fmt.Sprintf("%s-%d@example.com", map[bool]string{true: "known", false: "other"}[known], (round*timingAddresses+i)/2+1)
					start := time.Now()
					got := route.call(email)
					duration := time.Since(start)
					got.wantOutcome(route.want)
					durations[known] = append(durations[known], duration)
					bodies[got.body] = true
				}
				ratio := median(durations[true]).Seconds() / median(durations[false]).Seconds()
				equal = ratio >= minMedianRatio && ratio <= maxMedianRatio
			}
			if !equal {
				t.Errorf("the median duration is %v for known and %v for unknown addresses, want equal durations", median(durations[true]), median(durations[false]))
			}
			if len(bodies) != 1 {
				t.Errorf("the responses have %d different bodies, want 1: %v", len(bodies), bodies)
			}
		})
	}
	if n := sys.countMails(t, notification.MailPasswordReset, "known-1@example.com"); n != 1 {
		t.Errorf("%d mails to a known address, want 1", n)
	}
	for recipient, want := range map[string]int{"known-2@example.com": 0, "other-2@example.com": 1} {
		if n := sys.countMails(t, notification.MailEmailChange, recipient); n != want {
			t.Errorf("%d tokens for a change of address to %s, want %d", n, recipient, want)
		}
	}
	if n := sys.countMails(t, notification.MailEmailChangeNotice, owner.email); n != changes {
		t.Errorf("%d notices to the old address, want %d", n, changes)
	}
}

func median(durations []time.Duration) time.Duration {
	slices.Sort(durations)
	return durations[len(durations)/2]
}
