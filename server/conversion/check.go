package conversion

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Limits of a conversion's metadata.
const (
	maxMetadataKeys  = 50
	maxMetadataBytes = 10_000
)

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch r := req.(type) {
	case *affiliatev1.ReportConversionRequest:
		s.checkReport(r, &found)
	case *affiliatev1.ListConversionsRequest:
		_, found = affiliate.ParsePeriod(r.GetDateFrom(), r.GetDateTo(), r.GetTimezone())
		server.CheckEnum("status", r.GetStatus(), &found)
	}
	return found
}

// checkReport adds the violations of a report to found.
func (s *Service) checkReport(r *affiliatev1.ReportConversionRequest, found *affiliate.Violations) {
	checkAmount(r, found)
	s.checkTime(r, found)
	checkMetadata(r.GetMetadata(), found)
	if id := r.GetClickId(); id != "" {
		if _, ok := affiliate.ParseID[affiliate.ClickID](id); !ok {
			found.Add("click_id", affiliate.MustBeUUID)
		}
	}
	if email := r.GetCustomerEmail(); email != "" && !account.BareAddress(email) {
		found.Add("customer_email", affiliate.MustBeEmail)
	}
	if r.GetCustomerLabel() != "" && r.GetCustomerId() == "" {
		found.Add("customer_label", "needs {customer_id}")
	}
	if ip := r.GetCustomerIp(); ip != "" {
		if addr, err := netip.ParseAddr(ip); err != nil || addr.Zone() != "" {
			found.Add("customer_ip", "must be an IPv4 or IPv6 address")
		}
	}
}

func checkAmount(r *affiliatev1.ReportConversionRequest, found *affiliate.Violations) {
	if r.AmountCents == nil && eventOf(r).Priced() {
		found.Add("amount_cents", "is required when {event_type} is "+string(eventOf(r)))
	}
	switch currency := r.GetCurrency(); {
	case currency != "":
		if _, ok := affiliate.ParseCurrency(currency); !ok {
			found.Add("currency", affiliate.MustBeCurrency)
		}
	case r.AmountCents != nil || eventOf(r).Priced():
		found.Add("currency", "is required together with {amount_cents}")
	}
}

func (s *Service) checkTime(r *affiliatev1.ReportConversionRequest, found *affiliate.Violations) {
	if r.GetOccurredAt() == nil {
		return
	}
	now, at := s.now(), r.GetOccurredAt().AsTime()
	switch {
	case !r.GetOccurredAt().IsValid():
		found.Add("occurred_at", affiliate.MustBeTimestamp)
	case at.Before(now.Add(-conversion.MaxConversionAge)):
		found.Add("occurred_at", "must not be more than 90 days in the past")
	case at.After(now.Add(conversion.MaxConversionLead)):
		found.Add("occurred_at", "must not be more than 5 minutes in the future")
	}
}

func checkMetadata(m *structpb.Struct, found *affiliate.Violations) {
	const path = "metadata"
	if m == nil {
		return
	}
	if len(m.GetFields()) > maxMetadataKeys {
		found.Add(path, fmt.Sprintf("must have at most %d keys", maxMetadataKeys))
		return
	}
	encoded, err := encodeMetadata(m)
	switch {
	case err != nil:
		found.Add(path, "must be a JSON object")
	case len(encoded) > maxMetadataBytes:
		found.Add(path, fmt.Sprintf("must have at most %d bytes of JSON", maxMetadataBytes))
	case bytes.Contains(encoded, []byte(`\u0000`)) && containsNUL(m.AsMap()):
		found.Add(path, affiliate.MustNotHaveNUL)
	}
}

// encodeMetadata returns m as compact JSON with sorted keys. NaN and infinite numbers,
// which gRPC clients can send but JSON does not have, become strings such as "NaN".
func encodeMetadata(m *structpb.Struct) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(m.AsMap()); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func containsNUL(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.ContainsRune(v, 0)
	case []any:
		for _, element := range v {
			if containsNUL(element) {
				return true
			}
		}
	case map[string]any:
		for key, element := range v {
			if strings.ContainsRune(key, 0) || containsNUL(element) {
				return true
			}
		}
	}
	return false
}
