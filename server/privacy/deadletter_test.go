package privacy_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// deadLetters is the stream of dead letters of a Redis server. The calls of Delete can crash
// after they have deleted records.
type deadLetters struct {
	*clickstream.DeadLetters

	redis redis.UniversalClient
	fails int // number of calls that crash
}

func newDeadLetters(t *testing.T) *deadLetters {
	t.Helper()
	client, err := clickstream.Connect(clickstream.Endpoint{URL: redistest.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return &deadLetters{DeadLetters: clickstream.NewDeadLetters(client), redis: client}
}

func (d *deadLetters) Delete(
	ctx context.Context, search affiliate.DeadLetterSearch, after affiliate.StreamPosition,
) (affiliate.StreamPosition, bool, error) {
	last, more, err := d.DeadLetters.Delete(ctx, search, after)
	if err == nil && d.fails > 0 {
		d.fails--
		err = errCrash
	}
	return last, more, err
}

// add appends n dead letters of each participant, in turn.
func (d *deadLetters) add(t *testing.T, n int, participants ...pgtest.Participant) {
	t.Helper()
	var letters []clickstream.DeadLetter
	for range n {
		for _, p := range participants {
			record, err := proto.Marshal(&edgev1.Click{WorkspaceId: p.Scope.Workspace.UUID[:], ParticipantId: p.ID.UUID[:], ReferralCode: p.Code})
			if err != nil {
				t.Fatal(err)
			}
			letters = append(letters, clickstream.DeadLetter{Entry: "1-1", Reason: "rejected", Record: record})
		}
	}
	reader := clickstream.NewReader(d.redis, d.redis, clickstream.ReaderConfig{Shards: 1, Consumer: "test"})
	if err := reader.DeadLetter(t.Context(), letters); err != nil {
		t.Fatal(err)
	}
}

// want checks the number of dead letters with each code.
func (d *deadLetters) want(t *testing.T, want map[string]int) {
	t.Helper()
	messages, err := d.redis.XRange(t.Context(), clickstream.DeadLetterStream, "-", "+").Result()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, message := range messages {
		var click edgev1.Click
		if err := proto.Unmarshal([]byte(message.Values["b"].(string)), &click); err != nil {
			t.Fatal(err)
		}
		found[click.ReferralCode]++
	}
	for code, n := range want {
		if found[code] != n {
			t.Errorf("the stream has %d dead letters of %s, want %d", found[code], code, n)
		}
	}
}
