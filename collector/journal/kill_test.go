package journal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

const (
	// childDirVariable names the environment variable with the journal folder of the child
	// process. The test kills this process.
	childDirVariable = "TRIBUTARY_TEST_JOURNAL_DIR"
	// childFirstVariable names the environment variable with the number of the first batch
	// that the child appends.
	childFirstVariable = "TRIBUTARY_TEST_JOURNAL_FROM"
	appenders          = 8
	killRounds         = 25
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDirVariable); dir != "" {
		from, err := strconv.Atoi(os.Getenv(childFirstVariable))
		if err == nil {
			err = appendUntilKilled(dir, from)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// appendUntilKilled appends numbered batches and drains the journal until the process is
// killed. It prints the number of a batch when the batch is acknowledged, and again when
// the batch is replayed.
func appendUntilKilled(dir string, from int) error {
	j, err := Open(Config{Dir: dir, SegmentBytes: 2000})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for appender := range appenders {
		go func() {
			for i := from + appender; ; i += appenders {
				if err := j.Append(context.Background(), []byte(batchText(i)), 1+i%2); err != nil {
					failed <- err
				}
				fmt.Printf("acknowledged %d\n", i)
			}
		}()
	}
	go func() {
		for round := 0; ; round++ {
			err := j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
				var i int
				if _, err := fmt.Sscanf(string(batch), "%d:", &i); err != nil {
					failed <- err
				}
				if round%3 == 2 && i%97 == 0 {
					return errDisk
				}
				fmt.Printf("replayed %d\n", i)
				return nil
			})
			if err != nil && !errors.Is(err, errDisk) {
				failed <- err
			}
			time.Sleep(3 * time.Millisecond)
		}
	}()
	return <-failed
}

func TestJournal_KillLosesNoAcknowledgedBatch(t *testing.T) {
	const seed = 20260301
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	acknowledged, replayed := map[int]bool{}, map[int]bool{}
	from, tornTails := 0, 0
	for round := range killRounds {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childDirVariable+"="+dir, childFirstVariable+"="+strconv.Itoa(from))
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		requireNoError(t, err)
		requireNoError(t, child.Start())
		killDelay := time.Duration(random.IntN(40_000)) * time.Microsecond
		var timerStarted bool
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var event string
			var i int
			if _, err := fmt.Sscanf(lines.Text(), "%s %d", &event, &i); err != nil {
				t.Fatalf("the child printed %q: %v", lines.Text(), err)
			}
			if event == "acknowledged" {
				acknowledged[i] = true
			} else {
				replayed[i] = true
			}
			from = max(from, i+1)
			if !timerStarted {
				timerStarted = true
				time.AfterFunc(killDelay, func() { _ = child.Process.Kill() })
			}
		}
		_ = child.Wait()
		if code := child.ProcessState.ExitCode(); code != -1 {
			t.Fatalf("round %d, seed %d: the child was not killed; it exited with code %d", round, seed, code)
		}

		present := map[int]bool{}
		last := make([]int, appenders)
		report, err := Read(dir, func(r Record) error {
			i := batchNumber(t, r.Batch)
			if present[i] || string(r.Batch) != batchText(i) || r.Clicks != 1+i%2 {
				t.Errorf("round %d, seed %d: record %d is duplicated or changed: %q with %d clicks", round, seed, i, r.Batch, r.Clicks)
			}
			// Each goroutine appends ascending numbers, so its records must be in that
			// order.
			if i < last[i%appenders] {
				t.Errorf("round %d, seed %d: record %d comes after record %d, want ascending numbers", round, seed, i, last[i%appenders])
			}
			present[i], last[i%appenders] = true, i
			return nil
		})
		requireNoError(t, err)
		if len(report.Damage) > 0 {
			t.Errorf("round %d, seed %d: damage %+v, want none", round, seed, report.Damage)
		}
		if report.Tail.Bytes > 0 {
			tornTails++
		}
		for i := range acknowledged {
			if !present[i] && !replayed[i] {
				t.Errorf("round %d, seed %d: record %d was acknowledged and is lost", round, seed, i)
			}
		}
		for i := range present {
			from = max(from, i+1)
		}
		// Round up to a multiple of appenders, so that each appender always uses numbers
		// with the same remainder.
		from = (from + appenders) / appenders * appenders
	}
	if len(acknowledged) < killRounds || len(replayed) == 0 {
		t.Fatalf("%d batches acknowledged and %d replayed, want at least %d and 1", len(acknowledged), len(replayed), killRounds)
	}
	t.Logf("%d kills, %d batches acknowledged, %d replayed, %d torn tails", killRounds, len(acknowledged), len(replayed), tornTails)

	j := openForTest(t, Config{Dir: dir}, nil)
	requireNoError(t, j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
		replayed[batchNumber(t, batch)] = true
		return nil
	}))
	for i := range acknowledged {
		if !replayed[i] {
			t.Errorf("record %d was acknowledged and never replayed", i)
		}
	}
}
