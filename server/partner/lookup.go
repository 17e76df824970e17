package partner

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/partner"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	partners "github.com/tributary-hq/tributary/storage/postgres/partner"
)

// noSale is the explanation of every lookup without a result. It must not depend on whether the
// merchant has reported such a sale.
const noSale = "No such sale is connected with your clicks, promo codes or customers. " +
	"Either the merchant has not reported it, or nothing in the report led to you."

// LookupPartnerConversion says whether sales are credited to the partner, and why.
func (s *Service) LookupPartnerConversion(
	ctx context.Context, req *affiliatev1.LookupPartnerConversionRequest,
) (*affiliatev1.PartnerConversionLookup, error) {
	caller := server.PrincipalFrom(ctx)
	lookup := partner.SaleLookup{Program: server.ParseOptionalID[affiliate.ProgramID](req.ProgramId), ExternalID: req.GetExternalTransactionId()}
	if req.Date != nil {
		var wrong affiliate.Violations
		if lookup.Day, wrong = dayOf(req); wrong != nil {
			return nil, wrong.Err()
		}
	}
	sales, err := partners.RelatedSales(ctx, s.db, caller.User, caller.Mode, lookup)
	if err != nil {
		return nil, err
	}
	out := &affiliatev1.PartnerConversionLookup{Data: server.ConvertAll(sales, saleToProto)}
	if len(sales) == 0 {
		out.Explanation = new(noSale)
	}
	return out, nil
}

func saleToProto(sale partner.RelatedSale) *affiliatev1.PartnerConversionMatch {
	result, reason, explanation := sale.Answer()
	return &affiliatev1.PartnerConversionMatch{
		Result:           server.EnumValue[affiliatev1.PartnerConversionResult](result),
		Reason:           server.EnumValue[affiliatev1.PartnerConversionReason](reason),
		Explanation:      explanation,
		ProgramId:        sale.Program.String(),
		ProgramName:      sale.ProgramName,
		EventType:        server.EnumValue[affiliatev1.EventType](sale.EventType),
		OccurredAt:       server.Timestamp(sale.OccurredAt),
		CommissionId:     server.OptionalID(sale.Commission),
		CommissionStatus: server.OptionalEnum[affiliatev1.CommissionStatus](sale.CommissionStatus),
	}
}

// dayOf returns the day of a lookup.
func dayOf(req *affiliatev1.LookupPartnerConversionRequest) (affiliate.Period, affiliate.Violations) {
	day, wrong := affiliate.ParsePeriod(req.GetDate(), req.GetDate(), req.GetTimezone())
	for i := range wrong {
		if wrong[i].Field != "timezone" {
			wrong[i].Field = "date"
		}
	}
	if len(wrong) > 1 { // both bounds are the same date
		wrong = wrong[:len(wrong)-1]
	}
	return day, wrong
}

func checkLookup(req *affiliatev1.LookupPartnerConversionRequest, found *affiliate.Violations) {
	switch {
	case (req.Date == nil) == (req.ExternalTransactionId == nil):
		found.Add("external_transaction_id", "or {date} must be given, but not both")
	case req.Date != nil && req.ProgramId == nil:
		found.Add("program_id", affiliate.IsRequired)
	}
	if req.Date != nil {
		_, wrong := dayOf(req)
		*found = append(*found, wrong...)
	}
}
