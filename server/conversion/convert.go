package conversion

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/server"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
)

func eventOf(r *affiliatev1.ReportConversionRequest) affiliate.EventType {
	return affiliate.EventType(server.EnumName(r.GetEventType()))
}

// conversionOf converts a valid request to the conversion that is recorded. It hashes the
// data that identifies the buyer, so that later steps do not have the data in clear text.
// Only the domain of the e-mail address and the network prefix of the IP address stay in
// clear text for the fraud rules. The prefix is not stored.
func (s *Service) conversionOf(
	ctx context.Context, scope affiliate.Scope, r *affiliatev1.ReportConversionRequest, now time.Time,
) (conversion.Conversion, error) {
	c := conversion.Conversion{
		ID:                    affiliate.NewID[affiliate.ConversionID](now),
		Scope:                 scope,
		ExternalTransactionID: r.GetExternalTransactionId(),
		EventType:             eventOf(r),
		Sale: attribution.Sale{
			TaxCents: r.GetTaxCents(), ShippingCents: r.GetShippingCents(), FeeCents: r.GetFeeCents(),
		},
		DiscountCents:  r.GetDiscountCents(),
		OccurredAt:     now,
		CreatedAt:      now,
		Source:         conversion.SourceAPI,
		Status:         conversion.Recorded,
		PromoCode:      server.OptionalString(conversion.FoldPromoCode(r.GetPromoCode())),
		SubscriptionID: server.OptionalString(r.GetSubscriptionId()),
		ProductIDs:     r.GetProductIds(),
		IsRecurring:    r.GetIsRecurring(),
		SubID:          server.OptionalString(r.GetSubId()),
		CustomerLabel:  server.OptionalString(r.GetCustomerLabel()),
		Version:        1,
	}
	if r.AmountCents != nil {
		// An event without an amount has no currency either.
		currency, _ := affiliate.ParseCurrency(r.GetCurrency())
		c.Money = affiliate.Money{Cents: r.GetAmountCents(), Currency: currency}
	}
	if r.GetOccurredAt() != nil {
		c.OccurredAt = r.GetOccurredAt().AsTime().Truncate(time.Millisecond)
	}
	if id, ok := affiliate.ParseID[affiliate.ClickID](r.GetClickId()); ok {
		c.Click = &id
	}
	for _, item := range r.GetLineItems() {
		line := attribution.LineItem{ProductID: item.GetProductId(), Quantity: 1, AmountCents: item.GetAmountCents()}
		if item.Quantity != nil {
			line.Quantity = item.GetQuantity()
		}
		c.LineItems = append(c.LineItems, line)
	}
	if r.GetMetadata() != nil {
		// checkMetadata has already encoded the metadata, so there is no error.
		c.Metadata, _ = encodeMetadata(r.GetMetadata())
	}
	var err error
	if c.CustomerRef, err = s.customerRef(ctx, scope, r.GetCustomerId()); err != nil {
		return c, err
	}
	earlierEmails := s.hasher.setEmail(&c, r.GetCustomerEmail())
	var agents [][]byte
	if agent := r.GetCustomerUserAgent(); agent != "" {
		agents = s.hasher.agents(agent, now)
		c.CustomerUAHash = agents[0]
	}
	c.Buyer = s.hasher.buyer(c)
	c.Buyer.AgentHashes, c.Buyer.EarlierEmailHashes = agents, earlierEmails
	c.Buyer.EmailDigests = fraud.FormerEmailDigests(affiliate.HashKeys(s.hasher.keys), r.GetCustomerEmail())
	if addr, err := netip.ParseAddr(r.GetCustomerIp()); err == nil {
		c.CustomerIPHash = s.hasher.ipAddress(scope.Workspace, addr, now)
		c.Buyer.IPPrefix = httpedge.AddressPrefix(addr.Unmap())
	}
	return c, nil
}

// responseOf converts the outcome of a report to the response. It uses no other data,
// because a repeated request gets its response from the stored outcome.
func responseOf(o conversion.ReportOutcome) *affiliatev1.ReportConversionResponse {
	c, a := o.Conversion, o.Attribution
	response := &affiliatev1.ReportConversionResponse{
		Id:                    c.ID.String(),
		EventType:             server.EnumValue[affiliatev1.EventType](c.EventType),
		ExternalTransactionId: c.ExternalTransactionID,
		AmountCents:           c.AmountCents,
		Currency:              server.OptionalString(c.Currency),
		Mode:                  server.EnumValue[affiliatev1.Mode](c.Mode),
		OccurredAt:            server.Timestamp(c.OccurredAt),
		CreatedAt:             server.Timestamp(c.CreatedAt),
		Attributed:            a.Attributed,
		Attribution: &affiliatev1.ConversionAttribution{
			ReasonCode:    string(a.Reason),
			Explanation:   a.Explanation,
			ClickId:       server.OptionalID(c.Click),
			PromoCode:     c.PromoCode,
			ProgramId:     server.OptionalID(a.Program),
			ParticipantId: server.OptionalID(a.Participant),
			ClickedAt:     server.OptionalTimestamp(a.ClickedAt),
			ExpiresAt:     server.OptionalTimestamp(a.ExpiresAt),
			DecisionId:    a.Decision.String(),
		},
		Fraud: &affiliatev1.FraudVerdict{Flagged: o.Flagged},
	}
	if a.Method != nil {
		method := string(*a.Method)
		response.Attribution.Method = &method
	}
	for _, signal := range o.Fraud {
		response.Fraud.Signals = append(response.Fraud.Signals, &affiliatev1.FraudSignal{
			Rule: signal.Rule, Score: int32(signal.Score), Evidence: signal.Evidence, // #nosec G115 -- a score is at most 100
		})
	}
	if commission := o.Commission; commission != nil {
		response.Commission = &affiliatev1.ConversionCommission{
			Id:          commission.ID.String(),
			Status:      server.EnumValue[affiliatev1.CommissionStatus](commission.Status),
			AmountCents: commission.AmountCents,
			Currency:    commission.Currency,
			HoldUntil:   server.OptionalTimestamp(commission.HoldUntil),
			NeedsReview: commission.NeedsReview,
		}
	}
	return response
}

// hasher computes keyed hashes of data that identifies a buyer. Hashes of user agents do
// not depend on the workspace, unlike the hashes that privacy.BuyerKeys computes, because
// the fraud rules compare them with the hashes of partners' and visitors' user agents.
type hasher struct{ keys privacy.BuyerKeys }

// ipAddress returns the hash of an IP address. The hash also depends on the current
// month, so that a buyer cannot be tracked for more than a month.
func (h hasher) ipAddress(workspace affiliate.WorkspaceID, addr netip.Addr, now time.Time) []byte {
	return h.keys.Sum(workspace, "customer_ip "+now.UTC().Format("2006-01"), addr.Unmap().String()).First()
}

// agents returns two hashes of a user agent for each hash key: the hash for the current
// month and the hash for the previous month. The first hash is stored with a new
// conversion. The hashes of partners' and visitors' user agents depend on the month in
// which they were stored, so hashes from both months can be compared.
func (h hasher) agents(agent string, now time.Time) [][]byte {
	year, month, _ := now.UTC().Date()
	lastMonth := time.Date(year, month, 0, 0, 0, 0, 0, time.UTC) // day 0 is the last day of the previous month
	keys := affiliate.HashKeys(h.keys)
	return append(fraud.AgentHash(keys, agent, now), fraud.AgentHash(keys, agent, lastMonth)...)
}

// buyer returns the buyer of a stored conversion, with the data that the fraud rules compare.
func (h hasher) buyer(c conversion.Conversion) attribution.Buyer {
	var b attribution.Buyer
	if c.CustomerEmailHash != nil {
		b.OwnsEmail = func(email string) bool {
			hashes, _, ok := h.keys.Email(c.Workspace, email)
			return ok && hashes.Has(c.CustomerEmailHash)
		}
	}
	if c.CustomerUAHash != nil {
		b.AgentHashes = [][]byte{c.CustomerUAHash}
	}
	return b
}

// setEmail sets the hash and the domain of the buyer's e-mail address in a conversion. It
// returns the hashes under older keys, which earlier conversions of the buyer can have.
func (h hasher) setEmail(c *conversion.Conversion, address string) (earlier [][]byte) {
	hashes, domain, ok := h.keys.Email(c.Workspace, address)
	if !ok {
		return nil
	}
	c.CustomerEmailHash, c.CustomerEmailDomain = hashes.First(), &domain
	return hashes[1:]
}

// customerRef returns the reference of a customer, or nil if the id is empty. A customer that was
// first stored under another hash key keeps its reference, so that its binding, its payments
// and its other conversions are found. If there is only one hash key, the database is not read.
func (s *Service) customerRef(ctx context.Context, scope affiliate.Scope, id string) (*string, error) {
	if id == "" {
		return nil, nil
	}
	refs := s.hasher.keys.CustomerRefs(scope.Workspace, id)
	ref := refs[0]
	if len(refs) > 1 {
		known, err := conversions.KnownCustomer(ctx, s.db, scope, refs)
		if err != nil {
			return nil, fmt.Errorf("find the reference of a customer: %w", err)
		}
		if known != "" {
			ref = known
		}
	}
	return &ref, nil
}
