package clickstream_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
)

// deadRecords are records that could not be stored, by name. The participant ada of the
// workspace own has the code ada-code.
type deadRecords struct {
	own, other affiliate.WorkspaceID
	ada        affiliate.ParticipantID
	// liveKey and testKey are keys of the workspace own.
	liveKey, testKey string
	records          map[string][]byte
}

func newDeadRecords(t *testing.T) deadRecords {
	t.Helper()
	newKey := func(mode affiliate.Mode) string { return account.NewKey(account.PublicKey, mode).Reveal() }
	d := deadRecords{
		own: affiliate.WorkspaceID{UUID: newID().UUID}, other: affiliate.WorkspaceID{UUID: newID().UUID}, ada: affiliate.ParticipantID{UUID: newID().UUID},
		liveKey: newKey(affiliate.ModeLive), testKey: newKey(affiliate.ModeTest), records: map[string][]byte{},
	}
	ben := newID()
	const test, live = edgev1.Mode_MODE_TEST, edgev1.Mode_MODE_LIVE
	for name, click := range map[string]*edgev1.Click{
		"ada":                      {Mode: live, WorkspaceId: d.own.UUID[:], ParticipantId: d.ada.UUID[:], ReferralCode: "ada-code"},
		"ada in test mode":         {Mode: test, WorkspaceId: d.own.UUID[:], ParticipantId: d.ada.UUID[:]},
		"code of ada":              {Mode: live, WorkspaceId: d.own.UUID[:], ReferralCode: "ada-code"},
		"code of ada and key":      {Mode: live, PublicKey: d.liveKey, ReferralCode: "ada-code"},
		"code of ada and test key": {Mode: test, PublicKey: d.testKey, ReferralCode: "ada-code"},
		"ben":                      {Mode: live, WorkspaceId: d.own.UUID[:], ParticipantId: ben.UUID[:], ReferralCode: "ben"},
		"similar code":             {Mode: live, PublicKey: d.liveKey, ReferralCode: "ada-codes"},
		"other workspace":          {Mode: live, WorkspaceId: d.other.UUID[:], ReferralCode: "ada-code"},
		"other key":                {Mode: live, PublicKey: newKey(affiliate.ModeLive), ReferralCode: "ada-code"},
		"other test key":           {Mode: test, PublicKey: newKey(affiliate.ModeTest), ReferralCode: "ada-code"},
		"code only":                {Mode: live, ReferralCode: "ada-code"},
	} {
		record, err := proto.Marshal(click)
		if err != nil {
			t.Fatal(err)
		}
		d.records[name] = record
	}
	damaged := func(content string) []byte { return []byte("\x0a\xff\xff" + content + "\xff") }
	d.records["empty"] = nil
	d.records["damaged"] = damaged("")
	d.records["damaged, ada"] = damaged(string(d.ada.UUID[:]))
	d.records["damaged, code of ada"] = damaged("ada-code")
	d.records["damaged, workspace"] = damaged(string(d.own.UUID[:]))
	d.records["damaged, key"] = damaged(d.liveKey)
	d.records["damaged, test key"] = damaged(d.testKey)
	return d
}

// testDeadLettersAreDeleted appends all records many times, so that they fill several pages.
func testDeadLettersAreDeleted(t *testing.T, endpoint clickstream.Endpoint) {
	t.Helper()
	d := newDeadRecords(t)
	for name, test := range map[string]struct {
		search  affiliate.DeadLetterSearch
		deleted []string
	}{
		"participant": {
			affiliate.DeadLetterSearch{Workspace: d.own, PublicKeys: []string{d.liveKey, d.testKey}, Participant: &d.ada, Texts: []string{"", "Ada Lovelace", "ada-code"}},
			[]string{"ada", "ada in test mode", "code of ada", "code of ada and key", "code of ada and test key", "code only", "damaged, ada", "damaged, code of ada"},
		},
		"workspace": {
			affiliate.DeadLetterSearch{Workspace: d.own, PublicKeys: []string{d.liveKey, d.testKey}},
			[]string{
				"ada", "ada in test mode", "code of ada", "code of ada and key", "code of ada and test key", "ben", "similar code",
				"damaged, workspace", "damaged, key", "damaged, test key",
			},
		},
		"test mode": {
			affiliate.DeadLetterSearch{Workspace: d.own, PublicKeys: []string{d.testKey}, Mode: affiliate.ModeTest},
			[]string{"ada in test mode", "code of ada and test key", "damaged, test key"},
		},
	} {
		d.check(t, endpoint, name, test.search, test.deleted)
	}
}

func (d deadRecords) check(t *testing.T, endpoint clickstream.Endpoint, name string, search affiliate.DeadLetterSearch, want []string) {
	t.Helper()
	ctx, client := t.Context(), connect(t, endpoint)
	if err := client.Del(ctx, clickstream.DeadLetterStream).Err(); err != nil {
		t.Fatal(err)
	}
	var letters []clickstream.DeadLetter
	const copies = 10
	for range copies {
		for reason, record := range d.records {
			letters = append(letters, clickstream.DeadLetter{Entry: "1-1", Reason: reason, Record: record})
		}
	}
	if err := newReader(t, endpoint, "one").DeadLetter(ctx, letters); err != nil {
		t.Fatal(err)
	}
	var last affiliate.StreamPosition
	pages := 0
	for more := true; more; pages++ {
		var err error
		if last, more, err = clickstream.NewDeadLetters(client).Delete(ctx, search, last); err != nil {
			t.Fatal(err)
		}
	}
	if pages != 3 {
		t.Errorf("%s: %d records are read in %d pages, want 3", name, len(letters), pages)
	}
	left := map[string]int{}
	messages, err := client.XRange(ctx, clickstream.DeadLetterStream, "-", "+").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range messages {
		left[message.Values["reason"].(string)]++
	}
	var deleted []string
	for reason := range d.records {
		switch left[reason] {
		case 0:
			deleted = append(deleted, reason)
		case copies:
		default:
			t.Errorf("%s: %d copies of %q are left, want 0 or %d", name, left[reason], reason, copies)
		}
	}
	slices.Sort(deleted)
	slices.Sort(want)
	if !slices.Equal(deleted, want) {
		t.Errorf("%s: deleted\n%s\nwant\n%s", name, strings.Join(deleted, "\n"), strings.Join(want, "\n"))
	}
	if last, more, err := clickstream.NewDeadLetters(client).Delete(ctx, search, last); err != nil || more {
		t.Errorf("%s: the page after the last record returns %v, %t, %v", name, last, more, err)
	}
}
