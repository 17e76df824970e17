package inflight

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// A request must not receive the result of a read that started before the request.
func TestGroup_SharesOnlyCallsThatStartLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Group[int64]
		var reads atomic.Int64
		request := func(release <-chan struct{}, results chan<- int64) {
			value, _, err := l.Do("anna", func(int64) (int64, error) {
				n := reads.Add(1)
				<-release
				return n, nil
			})
			if err != nil {
				t.Errorf("Do returned the error %v, want none", err)
			}
			results <- value
		}
		releaseFirst, releaseSecond := make(chan struct{}), make(chan struct{})
		before, during, late := make(chan int64, 1), make(chan int64, 5), make(chan int64, 1)
		go request(releaseFirst, before)
		synctest.Wait() // the first read has started
		for range 5 {
			go request(releaseSecond, during)
		}
		synctest.Wait()
		if reads.Load() != 1 {
			t.Fatalf("%d reads run at the same time, want 1", reads.Load())
		}
		close(releaseFirst)
		if got := <-before; got != 1 {
			t.Errorf("the first request received the result of read %d, want 1", got)
		}
		synctest.Wait() // the second read has started
		go request(releaseSecond, late)
		synctest.Wait()
		close(releaseSecond)
		for range 5 {
			if got := <-during; got != 2 {
				t.Errorf("a request that arrived during the first read received the result of read %d, want 2", got)
			}
		}
		if got := <-late; got != 3 || reads.Load() != 3 {
			t.Errorf("a request that arrived during the second read received the result of read %d of %d, want 3 of 3", got, reads.Load())
		}
		synctest.Wait()
		if len(l.last) != 0 {
			t.Errorf("%d finished reads are still stored, want 0", len(l.last))
		}
	})
}

// If a read fails, all requests that wait for it must fail without another read.
// Otherwise a request could wait for more than one timeout.
func TestGroup_RequestsFailTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Group[int64]
		var reads atomic.Int64
		errFailed := errors.New("failed")
		release := make(chan struct{})
		var requests sync.WaitGroup
		for range 10 {
			requests.Go(func() {
				_, _, err := l.Do("anna", func(int64) (int64, error) {
					reads.Add(1)
					<-release
					return 0, errFailed
				})
				if !errors.Is(err, errFailed) {
					t.Errorf("Do returned the error %v, want errFailed", err)
				}
			})
			synctest.Wait()
		}
		close(release)
		requests.Wait()
		if reads.Load() != 1 {
			t.Errorf("%d reads were made, want 1", reads.Load())
		}
	})
}

// The call gets the number of its requests, and each request a position of its own.
func TestGroup_NumbersTheRequestsOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[int64]
		release := make(chan struct{})
		go func() { _, _, _ = g.Do("anna", func(int64) (int64, error) { <-release; return 0, nil }) }()
		synctest.Wait()
		positions := make(chan int64, 5)
		for range 5 {
			go func() {
				n, position, _ := g.Do("anna", func(requests int64) (int64, error) { return requests, nil })
				if n != 5 {
					t.Errorf("the call has %d requests, want 5", n)
				}
				positions <- position
			}()
		}
		synctest.Wait()
		close(release)
		seen := map[int64]bool{}
		for range 5 {
			seen[<-positions] = true
		}
		if len(seen) != 5 || !seen[0] || !seen[4] {
			t.Errorf("the positions are %v, want 0 to 4", seen)
		}
	})
}
