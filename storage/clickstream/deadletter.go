package clickstream

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/click"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

// DeadLetter is a record that ingestion could not store in the database.
type DeadLetter struct {
	// Entry is the id of the stream entry that contained the record.
	Entry  string
	Reason string
	// Record is a marshalled edge.v1.Click, or bytes that cannot be decoded.
	Record []byte
}

// DeadLetter appends records to DeadLetterStream, so that records that the database
// rejects are not lost. If an entry is processed twice, its records are appended twice.
func (r *Reader) DeadLetter(ctx context.Context, records []DeadLetter) error {
	if len(records) == 0 {
		return nil
	}
	_, err := r.cfg.DeadLetters.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, record := range records {
			pipe.XAdd(ctx, &redis.XAddArgs{
				Stream: DeadLetterStream,
				Values: []any{"entry", record.Entry, "reason", record.Reason, fieldBatch, record.Record},
			})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("append to %s: %w", DeadLetterStream, err)
	}
	return nil
}

// TrimDeadLetters deletes all dead letters that are older than the given time and returns
// their number. They must be deleted because they contain the same personal data as
// clicks.
func (r *Reader) TrimDeadLetters(ctx context.Context, before time.Time) (int64, error) {
	// The trim must be exact. An approximate trim could leave about a hundred old records
	// in the stream until new records are appended.
	trimmed, err := r.cfg.DeadLetters.XTrimMinID(ctx, DeadLetterStream, strconv.FormatInt(before.UnixMilli(), 10)).Result()
	if err != nil {
		return 0, fmt.Errorf("trim %s: %w", DeadLetterStream, err)
	}
	return trimmed, nil
}

// deadLetterPage is the number of dead letters that one command reads. A dead letter usually
// has less than a kilobyte. It has at most the size of a batch, which is 256 KiB.
const deadLetterPage = 64

// DeadLetters deletes records from DeadLetterStream. It is safe for concurrent use.
type DeadLetters struct{ client redis.UniversalClient }

// NewDeadLetters returns a DeadLetters. The client must come from Connect.
func NewDeadLetters(client redis.UniversalClient) *DeadLetters { return &DeadLetters{client: client} }

// Delete reads a page of the records after a position and deletes the records that the search
// selects. It returns the position of the last record of the page. more is false if the page
// was the last one. The call can be repeated at any time.
func (d *DeadLetters) Delete(
	ctx context.Context, search affiliate.DeadLetterSearch, after affiliate.StreamPosition,
) (last affiliate.StreamPosition, more bool, err error) {
	from := fmt.Sprintf("(%d-%d", after.Time, after.Sequence)
	messages, err := d.client.XRangeN(ctx, DeadLetterStream, from, "+", deadLetterPage).Result()
	if err != nil {
		return after, false, fmt.Errorf("read %s: %w", DeadLetterStream, err)
	}
	if len(messages) == 0 {
		return after, false, nil
	}
	var found []string
	for _, message := range messages {
		record, _ := message.Values[fieldBatch].(string)
		if selects(search, []byte(record)) {
			found = append(found, message.ID)
		}
	}
	if len(found) > 0 {
		if err := d.client.XDel(ctx, DeadLetterStream, found...).Err(); err != nil {
			return after, false, fmt.Errorf("delete from %s: %w", DeadLetterStream, err)
		}
	}
	if _, err := fmt.Sscanf(messages[len(messages)-1].ID, "%d-%d", &last.Time, &last.Sequence); err != nil {
		return after, false, fmt.Errorf("read %s: %w", DeadLetterStream, err)
	}
	return last, len(messages) == deadLetterPage, nil
}

// selects reports whether a search selects a record. If the record names no workspace, or cannot be
// decoded, selects compares its bytes. It can then select a record that only contains the same bytes
// by chance. This loses no click that could be stored, because ingestion has rejected the record.
func selects(s affiliate.DeadLetterSearch, record []byte) bool {
	var decoded edgev1.Click
	if proto.Unmarshal(record, &decoded) != nil || !namesWorkspace(&decoded) {
		return selectsBytes(s, record)
	}
	ofKey := slices.Contains(s.PublicKeys, decoded.PublicKey)
	ofWorkspace := bytes.Equal(decoded.WorkspaceId, s.Workspace.UUID[:]) && (s.Mode == "" || decoded.Mode == modes[s.Mode])
	if !ofKey && !ofWorkspace {
		return false
	}
	return s.Participant == nil ||
		bytes.Equal(decoded.ParticipantId, s.Participant.UUID[:]) || slices.Contains(s.Texts, click.FoldCode(decoded.ReferralCode))
}

var modes = map[affiliate.Mode]edgev1.Mode{
	affiliate.ModeTest: edgev1.Mode_MODE_TEST,
	affiliate.ModeLive: edgev1.Mode_MODE_LIVE,
}

func namesWorkspace(click *edgev1.Click) bool {
	_, isKey := account.ParseKey(click.PublicKey)
	_, isID := affiliate.IDFromBytes[affiliate.WorkspaceID](click.WorkspaceId)
	return isKey || isID
}

// selectsBytes does the same as selects for a record that names no workspace. The mode of such
// a record is known only from its public key.
func selectsBytes(s affiliate.DeadLetterSearch, record []byte) bool {
	contains := func(text string) bool { return text != "" && bytes.Contains(record, []byte(text)) }
	switch {
	case s.Participant != nil:
		return bytes.Contains(record, s.Participant.UUID[:]) || slices.ContainsFunc(s.Texts, contains)
	case s.Mode == "" && bytes.Contains(record, s.Workspace.UUID[:]):
		return true
	}
	return slices.ContainsFunc(s.PublicKeys, contains)
}
