package landing

import (
	"testing"
	"time"
)

// The attempts of a message never end, and become so rare that they do no harm.
func TestRetryDelay_NeverEndsAndIsAtMostAnHour(t *testing.T) {
	t.Parallel()
	attempts := 0
	for age := time.Duration(0); age < 30*24*time.Hour; attempts++ {
		delay := retryDelay(age)
		if delay < time.Minute || delay > time.Hour {
			t.Fatalf("retryDelay(%s) = %s, want 1 minute to 1 hour", age, delay)
		}
		age += delay
	}
	if attempts < 30*24 || attempts > 30*24+20 {
		t.Errorf("%d attempts in 30 days, want about one each hour", attempts)
	}
	if got := retryDelay(20 * time.Minute); got != 10*time.Minute {
		t.Errorf("retryDelay(20m) = %s, want half of the age", got)
	}
}
