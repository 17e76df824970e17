package postgres

import (
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
)

// findFraudFacts learns about candidates in one statement: a few probes of an
// index each, bounded whatever a participant has brought. It counts what came
// before a conversion, which is itself not among it: it is not stored yet, or not
// attributed.
//
//	$1, $2  workspace and mode        $6      when the conversion was reported
//	$3–$5   participants, programmes, partners
//	$7–$9   networks; devices as networks and agents
//	$10     the customer              $11     the hash of the buyer's e-mail address
//	$12–$14 since when conversions of an hour, networks and devices count
//	$17–$18 the hour in which they happened: a day's sales that are reported at
//	        once are no burst
const findFraudFacts = `
	select t.participant_id, hour.conversions, recent.conversions as recent, recent.refunded,
		exists (
			select from user_origins o
			where o.user_id = t.partner_id and o.ip_prefix = any($7) and o.seen_at >= $13
		) as same_network,
		exists (
			select from unnest($8::text[], $9::bytea[]) as d (ip_prefix, ua_hash)
			join user_origins o on o.user_id = t.partner_id and o.ip_prefix = d.ip_prefix and o.ua_hash = d.ua_hash
			where o.seen_at >= $14
		) as same_device,
		exists (
			select from conversions c
			where c.workspace_id = $1 and c.mode = $2 and c.customer_ref = $10 and c.program_id = t.program_id
				and c.participant_id <> t.participant_id and c.created_at <= $6
		) or exists (
			select from conversions c
			where c.workspace_id = $1 and c.mode = $2 and c.customer_email_hash = $11 and c.program_id = t.program_id
				and c.participant_id <> t.participant_id and c.created_at <= $6
		) as brought_by_another
	from unnest($3::uuid[], $4::uuid[], $5::uuid[]) as t (participant_id, program_id, partner_id)
	cross join lateral (
		select count(*) as conversions
		from (
			select from conversions c
			where c.workspace_id = $1 and c.mode = $2 and c.participant_id = t.participant_id
				and c.created_at > $12 and c.created_at <= $6 and c.occurred_at > $17 and c.occurred_at <= $18
			limit $15
		) as c
	) as hour
	cross join lateral (
		select count(*) as conversions, count(*) filter (where c.refunded_amount_cents > 0) as refunded
		from (
			select c.refunded_amount_cents from conversions c
			where c.workspace_id = $1 and c.mode = $2 and c.participant_id = t.participant_id and c.created_at <= $6
			order by c.created_at desc, c.id desc
			limit $16
		) as c
	) as recent`

// countFromAddress counts clicks from one address in the hour before a click. The
// hour is one of ids' times, which pick the partitions.
const countFromAddress = `
	select count(*)
	from (
		select from clicks
		where workspace_id = $1 and mode = $2 and ip_hash = $3 and clicked_at > $4 and clicked_at <= $5
		limit $6
	) as c`

// queueFraudFacts learns what fraud rules look at of those who may earn. Nothing
// is read where no programme's rules would be asked.
func queueFraudFacts(batch *pgx.Batch, c affiliate.Conversion, in *affiliate.AttributionInputs) {
	candidates := in.MayEarn()
	if len(candidates) == 0 {
		return
	}
	in.FraudFacts = map[affiliate.ParticipantID]fraud.Facts{}
	participants := make([]affiliate.ParticipantID, len(candidates))
	programs := make([]affiliate.ProgramID, len(candidates))
	partners := make([]affiliate.UserID, len(candidates))
	for i, earner := range candidates {
		participants[i], programs[i], partners[i] = earner.Participant, earner.Program, earner.Partner
		in.FraudFacts[earner.Participant] = addressFacts(c, earner)
	}
	b := buyerOf(c, in.FoundClick)
	batch.Queue(findFraudFacts, c.Scope.Workspace, c.Scope.Mode, participants, programs, partners, c.CreatedAt,
		b.networks, b.deviceNetworks, b.deviceAgents, c.CustomerRef, c.CustomerEmailHash,
		c.CreatedAt.Add(-time.Hour), c.CreatedAt.Add(-fraud.NetworkWindow), c.CreatedAt.Add(-fraud.DeviceWindow),
		fraud.MaxConversionsInHour, fraud.RecentConversions, c.OccurredAt.Add(-time.Hour), c.OccurredAt).
		Query(func(rows pgx.Rows) error { return collectFraudFacts(rows, in.FraudFacts) })

	if click := in.FoundClick; click != nil && click.Mode == in.Mode && len(click.Traits.IPHash) > 0 {
		// A copy: the click may be used for another try.
		counted := *click
		in.FoundClick = &counted
		at, _ := in.Click.Time()
		batch.Queue(countFromAddress, c.Scope.Workspace, c.Scope.Mode, counted.Traits.IPHash, at.Add(-time.Hour), at, fraud.MaxClicksInHour+1).
			QueryRow(func(row pgx.Row) error { return row.Scan(&counted.FromAddress) })
	}
}

func collectFraudFacts(rows pgx.Rows, into map[affiliate.ParticipantID]fraud.Facts) error {
	type factsRow struct {
		ParticipantID    affiliate.ParticipantID
		Conversions      int
		Recent           int
		Refunded         int
		SameNetwork      bool
		SameDevice       bool
		BroughtByAnother bool
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[factsRow])
	for _, row := range found {
		facts := into[row.ParticipantID]
		facts.ConversionsInHour = row.Conversions + 1
		facts.Recent, facts.Refunded = row.Recent, row.Refunded
		facts.SameNetwork, facts.SameDevice = row.SameNetwork, row.SameDevice
		facts.BroughtByAnother = row.BroughtByAnother
		into[row.ParticipantID] = facts
	}
	return err
}

// addressFacts compare the e-mail addresses of buyer and partner.
func addressFacts(c affiliate.Conversion, earner affiliate.Earner) fraud.Facts {
	var facts fraud.Facts
	if _, domain, ok := affiliate.FoldEmail(earner.PartnerEmail); ok {
		facts.PartnerDomain = domain
	}
	if c.CustomerEmailDomain != nil {
		facts.BuyerDomain = strings.ToLower(*c.CustomerEmailDomain)
	}
	if c.Buyer.HasAddress != nil {
		facts.SameAddress = c.Buyer.HasAddress(earner.PartnerEmail)
	}
	return facts
}

// buyerOrigins is from where the buyer came, as far as it can be compared with
// the origins of partners: what the merchant reported, and what the edge saw.
type buyerOrigins struct {
	networks       []string
	deviceNetworks []string // each with the agent in the same place of the next
	deviceAgents   [][]byte
}

func buyerOf(c affiliate.Conversion, click *affiliate.FoundClick) buyerOrigins {
	b := buyerOrigins{networks: []string{}, deviceNetworks: []string{}, deviceAgents: [][]byte{}}
	b.add(c.Buyer.IPPrefix, c.Buyer.AgentHashes...)
	if click != nil && click.Mode == c.Scope.Mode {
		b.add(click.Traits.IPPrefix, click.Traits.UAHash)
		// The address of a conversion is not kept: its agent is looked for where the
		// click came from.
		if c.Buyer.IPPrefix == "" {
			b.add(click.Traits.IPPrefix, c.Buyer.AgentHashes...)
		}
	}
	return b
}

func (b *buyerOrigins) add(network string, agents ...[]byte) {
	if network == "" {
		return
	}
	b.networks = append(b.networks, network)
	for _, agent := range agents {
		if len(agent) > 0 {
			b.deviceNetworks, b.deviceAgents = append(b.deviceNetworks, network), append(b.deviceAgents, agent)
		}
	}
}
