package conversion

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// findFraudFacts reads facts for the fraud rules, for any number of conversions in one
// statement. The candidates of a conversion are the participants to whom it may be
// attributed. The statement makes a few index searches per candidate. Each reads a
// limited number of rows. The counted conversions never include the conversion itself,
// which is not stored or attributed yet.
//
// The arguments are fraudQuery.args: the candidates, and the networks, devices and e-mail
// addresses of the buyers. In each of them, n is the index of the conversion.
//
// For the rule conversion_velocity, another conversion counts only if it was reported in the
// hour before this conversion was reported, and also occurred in the hour before this
// conversion occurred. Otherwise all sales of a day that are reported at once would look like a
// burst. The rule examines only the latest conversions of the hour (@max_examined).
//
// For the rule duplicate_customer, the participants before and after the candidate are searched
// separately. So a customer with many conversions of one participant, such as an address that
// the merchant reports for all guests, costs no more than any other customer.
var findFraudFacts = `
	select t.n, t.participant_id, hour.conversions, recent.conversions as recent, recent.refunded,
		exists (
			select from unnest(@network_n::integer[], @network_prefixes::text[]) as b (n, ip_prefix)
			join user_origins o on o.user_id = t.partner_id and o.ip_prefix = b.ip_prefix
			where b.n = t.n and o.seen_at >= t.reported_at - @network_window::interval
		) as same_network,
		exists (
			select from unnest(@device_n::integer[], @device_prefixes::text[], @device_agents::bytea[]) as b (n, ip_prefix, ua_hash)
			join user_origins o on o.user_id = t.partner_id and o.ip_prefix = b.ip_prefix and o.ua_hash = b.ua_hash
			where b.n = t.n and o.seen_at >= t.reported_at - @device_window::interval
		) as same_device,
		exists (
			select from conversions c
			where c.workspace_id = t.workspace_id and c.mode = t.mode and c.customer_ref = t.customer_ref and c.program_id = t.program_id
				and c.participant_id < t.participant_id and c.created_at <= t.reported_at
		) or exists (
			select from conversions c
			where c.workspace_id = t.workspace_id and c.mode = t.mode and c.customer_ref = t.customer_ref and c.program_id = t.program_id
				and c.participant_id > t.participant_id and c.created_at <= t.reported_at
		) or exists (
			select from conversions c
			where c.workspace_id = t.workspace_id and c.mode = t.mode and c.customer_email_hash = t.email_hash and c.program_id = t.program_id
				and c.participant_id < t.participant_id and c.created_at <= t.reported_at
		) or exists (
			select from conversions c
			where c.workspace_id = t.workspace_id and c.mode = t.mode and c.customer_email_hash = t.email_hash and c.program_id = t.program_id
				and c.participant_id > t.participant_id and c.created_at <= t.reported_at
		) as duplicate_customer,
		exists (
			select from unnest(@email_n::integer[], @email_digests::bytea[]) as b (n, digest)
			join former_emails f on f.user_id = t.partner_id and f.digest = b.digest
			where b.n = t.n
		) as former_email
	from ` + postgres.Unnest[fraudCandidate]("t") + `
	cross join lateral (
		select count(*) as conversions
		from (
			select c.occurred_at from conversions c
			where c.workspace_id = t.workspace_id and c.mode = t.mode and c.participant_id = t.participant_id
				and c.created_at > t.reported_at - interval '1 hour' and c.created_at <= t.reported_at
			order by c.created_at desc, c.id desc
			limit @max_examined
		) as c
		where c.occurred_at > t.occurred_at - interval '1 hour' and c.occurred_at <= t.occurred_at
	) as hour
	cross join lateral (
		select count(*) as conversions, count(*) filter (where c.refunded_amount_cents > 0) as refunded
		from (
			select c.refunded_amount_cents from conversions c
			where c.workspace_id = t.workspace_id and c.mode = t.mode and c.participant_id = t.participant_id and c.created_at <= t.reported_at
			order by c.created_at desc, c.id desc
			limit @max_recent
		) as c
	) as recent`

// countFromAddress counts, for each given click, the clicks from the same IP address in
// the hour before the given click, including this click. The time of a click is the time
// in its id. $6 is the start of the earliest of these hours and $7 is the end of the
// latest. Postgres uses these bounds to select the partitions.
const countFromAddress = `
	select t.n, c.clicks
	from unnest($1::integer[], $2::uuid[], $3::text[], $4::bytea[], $5::timestamptz[]) as t (n, workspace_id, mode, ip_hash, clicked_at)
	cross join lateral (
		select count(*) as clicks
		from (
			select from clicks c
			where c.workspace_id = t.workspace_id and c.mode = t.mode and c.ip_hash = t.ip_hash
				and c.clicked_at > t.clicked_at - interval '1 hour' and c.clicked_at <= t.clicked_at
				and c.clicked_at > $6 and c.clicked_at <= $7
			limit $8
		) as c
	) as c`

// queueFraudFacts queues the statements that read the facts that the fraud rules need
// about the candidates. It queues nothing if there are no candidates. A participant is
// not a candidate if the fraud rules of the programme are disabled.
func queueFraudFacts(batch *pgx.Batch, all []*signals) {
	var query fraudQuery
	for n, s := range all {
		query.add(n, s)
	}
	if len(query.candidates) == 0 {
		return
	}
	batch.Queue(findFraudFacts, query.args()).
		Query(func(rows pgx.Rows) error { return collectFraudFacts(rows, all) })
	queueClicksFromAddress(batch, all)
}

// fraudQuery has the arguments of findFraudFacts. emailN and emailDigests have one element per
// buyer and hash key (attribution.Buyer.EmailDigests).
type fraudQuery struct {
	candidates        []fraudCandidate
	networks, devices buyerOrigins
	emailN            []int
	emailDigests      [][]byte
}

// fraudCandidate is a candidate of the conversion with the index N, with one hash of the buyer's e-mail address.
type fraudCandidate struct {
	N int
	affiliate.Scope
	ParticipantID affiliate.ParticipantID
	ProgramID     affiliate.ProgramID
	PartnerID     affiliate.UserID
	ReportedAt    time.Time
	OccurredAt    time.Time
	CustomerRef   *string
	EmailHash     []byte
}

func (q *fraudQuery) args() pgx.NamedArgs {
	args := pgx.NamedArgs{
		"network_n": q.networks.n, "network_prefixes": q.networks.prefixes, "network_window": fraud.NetworkWindow,
		"device_n": q.devices.n, "device_prefixes": q.devices.prefixes, "device_agents": q.devices.agents, "device_window": fraud.DeviceWindow,
		"email_n": q.emailN, "email_digests": q.emailDigests,
		"max_examined": fraud.ExaminedInHour, "max_recent": fraud.RecentConversions,
	}
	maps.Copy(args, postgres.Arrays(affiliate.Scope{}, q.candidates))
	return args
}

func (q *fraudQuery) add(n int, s *signals) {
	c, candidates := s.conversion, s.inputs.FraudCandidates()
	if len(candidates) == 0 {
		return
	}
	s.inputs.FraudFacts = map[affiliate.ParticipantID]fraud.Facts{}
	for _, earner := range candidates {
		s.inputs.FraudFacts[earner.Participant] = emailFacts(c, earner)
		// Other conversions of the buyer can have a hash under another hash key.
		for _, hash := range append([][]byte{c.CustomerEmailHash}, c.Buyer.EarlierEmailHashes...) {
			q.candidates = append(q.candidates, fraudCandidate{
				n, c.Scope, earner.Participant, earner.Program, earner.Partner, c.CreatedAt, c.OccurredAt, c.CustomerRef, hash,
			})
		}
	}
	q.addBuyer(n, c, s.inputs.FoundClick)
}

// addBuyer adds the digests of the buyer's e-mail address and the networks and devices of the
// buyer. The statement compares them with the same data of the candidates' partners. The
// buyer's networks and devices come from two sources: the merchant's report and the click.
func (q *fraudQuery) addBuyer(n int, c conversion.Conversion, click *attribution.FoundClick) {
	for _, digest := range c.Buyer.EmailDigests {
		q.emailN, q.emailDigests = append(q.emailN, n), append(q.emailDigests, digest)
	}
	q.addOrigin(n, c.Buyer.IPPrefix, c.Buyer.AgentHashes...)
	if click == nil || click.Mode != c.Mode {
		return
	}
	q.addOrigin(n, click.IPPrefix, click.UAHash)
	// If the merchant has reported user agents of the buyer but no IP address, the
	// reported user agents are combined with the network of the click.
	if c.Buyer.IPPrefix == "" {
		q.addOrigin(n, click.IPPrefix, c.Buyer.AgentHashes...)
	}
}

func (q *fraudQuery) addOrigin(n int, network string, agents ...[]byte) {
	if network == "" {
		return
	}
	q.networks.add(n, network, nil)
	for _, agent := range agents {
		if len(agent) > 0 {
			q.devices.add(n, network, agent)
		}
	}
}

// buyerOrigins are networks, or pairs of a network and a user agent. An element of n is
// the index of the conversion to which the network or pair belongs.
type buyerOrigins struct {
	n        []int
	prefixes []string
	agents   [][]byte
}

func (o *buyerOrigins) add(n int, prefix string, agent []byte) {
	o.n, o.prefixes, o.agents = append(o.n, n), append(o.prefixes, prefix), append(o.agents, agent)
}

// queueClicksFromAddress queues the counts of clicks from the address of each found
// click.
func queueClicksFromAddress(batch *pgx.Batch, all []*signals) {
	var withClick []int
	for n, s := range all {
		click := s.inputs.FoundClick
		if click == nil || s.inputs.FraudFacts == nil || click.Mode != s.inputs.Mode || len(click.IPHash) == 0 {
			continue
		}
		// The caller may use the original click for another attempt.
		counted := *click
		s.inputs.FoundClick = &counted
		withClick = append(withClick, n)
	}
	timeOf := func(i int) time.Time { at, _ := all[withClick[i]].inputs.Click.Time(); return at }
	eachSpan(len(withClick), timeOf, func(indexes []int, first, last time.Time) {
		numbers, workspaces := make([]int, len(indexes)), make([]affiliate.WorkspaceID, len(indexes))
		modes, addresses, times := make([]affiliate.Mode, len(indexes)), make([][]byte, len(indexes)), make([]time.Time, len(indexes))
		for j, i := range indexes {
			s := all[withClick[i]]
			numbers[j], workspaces[j], modes[j] = withClick[i], s.conversion.Workspace, s.conversion.Mode
			addresses[j], times[j] = s.inputs.FoundClick.IPHash, timeOf(i)
		}
		batch.Queue(countFromAddress, numbers, workspaces, modes, addresses, times, first.Add(-time.Hour), last, fraud.MaxClicksInHour+1).
			Query(func(rows pgx.Rows) error {
				var n, clicks int
				_, err := pgx.ForEachRow(rows, []any{&n, &clicks}, func() error {
					all[n].inputs.FoundClick.ClicksFromAddress = clicks
					return nil
				})
				return err
			})
	})
}

func collectFraudFacts(rows pgx.Rows, all []*signals) error {
	type factsRow struct {
		N                 int
		ParticipantID     affiliate.ParticipantID
		Conversions       int
		Recent            int
		Refunded          int
		SameNetwork       bool
		SameDevice        bool
		DuplicateCustomer bool
		FormerEmail       bool
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[factsRow])
	for _, row := range found {
		factsOf := all[row.N].inputs.FraudFacts
		facts := factsOf[row.ParticipantID]
		facts.ConversionsInHour = row.Conversions + 1
		facts.ExaminedConversions, facts.RefundedConversions = row.Recent, row.Refunded
		facts.SameNetwork, facts.SameDevice, facts.FormerEmail = row.SameNetwork, row.SameDevice, row.FormerEmail
		facts.DuplicateCustomer = facts.DuplicateCustomer || row.DuplicateCustomer
		factsOf[row.ParticipantID] = facts
	}
	return err
}

// emailFacts returns the facts about the email addresses of the buyer and the partner.
func emailFacts(c conversion.Conversion, earner attribution.Earner) fraud.Facts {
	var facts fraud.Facts
	if _, domain, ok := affiliate.FoldEmail(earner.PartnerEmail); ok {
		facts.PartnerDomain = domain
	}
	if c.CustomerEmailDomain != nil {
		facts.BuyerDomain = strings.ToLower(*c.CustomerEmailDomain)
	}
	if c.Buyer.OwnsEmail != nil {
		facts.SameEmail = c.Buyer.OwnsEmail(earner.PartnerEmail)
	}
	return facts
}

// readFacts reads the facts that decisions need in addition to their signals (click,
// promo code and customer), in one round trip. It must run after lockSignals, because the
// facts depend on the participants to whom the signals lead.
func readFacts(ctx context.Context, tx pgx.Tx, all ...*signals) error {
	batch := &pgx.Batch{}
	queueFacts(batch, all...)
	return postgres.Send(ctx, tx, batch)
}

// queueFacts queues the statements that read fraud facts and exchange rates.
func queueFacts(batch *pgx.Batch, all ...*signals) {
	queueFraudFacts(batch, all)
	for _, s := range all {
		queueRates(batch, s.conversion, &s.inputs)
	}
}
