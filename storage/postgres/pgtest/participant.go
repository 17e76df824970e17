package pgtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/storage/postgres"
	links "github.com/tributary-hq/tributary/storage/postgres/link"
	promocodes "github.com/tributary-hq/tributary/storage/postgres/promocode"
)

// Participant is a participant that the fixture has inserted.
type Participant struct {
	Scope   affiliate.Scope
	Program affiliate.ProgramID
	ID      affiliate.ParticipantID
	Link    affiliate.LinkID // the default link
	Partner affiliate.UserID
	Code    string // referral code
}

// NewParticipant makes a partner an approved participant in a programme. It inserts the
// same rows as the service does when a partner applies to the programme: the participant,
// its totals, its default link and referral code, and the counts of the lists that
// contain it.
func (f *Fixture) NewParticipant(scope affiliate.Scope, program affiliate.ProgramID, partner affiliate.UserID, changes ...Row) Participant {
	f.Helper()
	now := f.Now()
	p := Participant{
		Scope: scope, Program: program, Partner: partner,
		ID: affiliate.NewID[affiliate.ParticipantID](now), Link: affiliate.NewID[affiliate.LinkID](now),
	}
	var name, email string
	if err := f.SQL.QueryRow(f.Context(), `select name, email from users where id = $1`, partner).Scan(&name, &email); err != nil {
		f.Fatal(err)
	}
	row := merged(append([]Row{{
		"workspace_id": scope.Workspace, "id": p.ID, "program_id": program, "mode": scope.Mode, "partner_id": partner,
		"partner_name": name, "partner_email": email, "status": participant.Approved, "referral_code": p.ID.String(),
		"application_answers": "{}", "applied_at": now, "created_at": now, "updated_at": now,
	}}, changes...)...)
	p.Code = row["referral_code"].(string)
	f.Insert("participants", row)
	f.Insert("participant_totals", Row{"workspace_id": scope.Workspace, "participant_id": p.ID, "program_id": program})
	f.Insert("links", Row{
		"workspace_id": scope.Workspace, "id": p.Link, "program_id": program, "participant_id": p.ID, "mode": scope.Mode, "code": p.Code,
		"short_key": link.NewShortKey(), "is_default": true, "created_at": now, "updated_at": now,
	})
	f.Insert("link_totals", Row{"workspace_id": scope.Workspace, "link_id": p.Link})
	f.Insert("referral_codes", Row{
		"workspace_id": scope.Workspace, "mode": scope.Mode, "code": p.Code, "program_id": program, "participant_id": p.ID,
		"link_id": p.Link, "created_at": now,
	})
	for _, list := range []string{"links", fmt.Sprintf("participants.%s", row["status"])} {
		f.Exec(`insert into list_counts as c (workspace_id, program_id, what, slot, n) values ($1, $2, $3, 0, 1)
			on conflict (workspace_id, program_id, what, slot) do update set n = c.n + 1`, scope.Workspace, program, list)
	}
	return p
}

// NewLink inserts a participant's link that leads to https://shop.example/. The given
// functions change the link before it is stored.
func (f *Fixture) NewLink(p Participant, code string, change ...func(*link.Link)) link.Link {
	f.Helper()
	now, page := f.Now().UTC().Truncate(time.Millisecond), "https://shop.example/"
	l := link.Link{
		ID: affiliate.NewID[affiliate.LinkID](now), Scope: p.Scope, Program: p.Program, Participant: p.ID, Code: code,
		ShortKey: link.NewShortKey(), Destination: &page, Version: 1, CreatedAt: now, UpdatedAt: now,
	}
	apply(&l, change)
	err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) (err error) {
		if _, err = links.ReserveFirst(f.Context(), tx, l, slices.Values([]string{l.Code})); err == nil {
			l, err = links.Insert(f.Context(), tx, l)
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return l
}

// NewPromoCode inserts an active promo code of a participant, with a discount of 10
// percent. The given functions change the promo code before it is stored.
func (f *Fixture) NewPromoCode(p Participant, code string, change ...func(*promocode.PromoCode)) promocode.PromoCode {
	f.Helper()
	now := f.Now().UTC().Truncate(time.Millisecond)
	c := promocode.PromoCode{
		ID: affiliate.NewID[affiliate.PromoCodeID](now), Scope: p.Scope, Program: p.Program, Participant: p.ID, Code: code,
		DiscountType: promocode.DiscountPercentage, DiscountValue: 1000, Active: true, SyncStatus: promocode.SyncNone,
		Version: 1, CreatedAt: now, UpdatedAt: now,
	}
	apply(&c, change)
	err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error { return promocodes.Insert(f.Context(), tx, c) })
	if err != nil {
		f.Fatal(err)
	}
	return c
}
