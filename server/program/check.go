package program

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// Check reports what is wrong with a request by itself.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.CreateProgramRequest:
		checkURLs(req, &found)
		checkDomains(req.GetAllowedDomains(), &found)
		checkEnum(req.GetAttributionModel(), "attribution_model", &found)
		if req.Currency != nil {
			if _, ok := affiliate.ParseCurrency(req.GetCurrency()); !ok {
				found.Add("currency", "is no ISO 4217 currency")
			}
		}
		checkRules(req.GetCommissionRules(), &found)
		if rules := req.GetCommissionRules(); rules != nil {
			_, wrong := firstRules(rules)
			found = append(found, wrong...)
		}
	case *affiliatev1.UpdateProgramRequest:
		checkMask(req, &found)
		checkURLs(req, &found)
		checkDomains(req.GetAllowedDomains(), &found)
		checkEnum(req.GetAttributionModel(), "attribution_model", &found)
		checkRules(req.GetCommissionRules(), &found)
		checkAmounts(req.GetCommissionRules(), &found)
	case *affiliatev1.ListProgramsRequest:
		checkEnum(req.GetStatus(), "status", &found)
	}
	return found
}

// checkMask refuses paths that are no fields, fields without a path, which
// would silently change nothing, and the clearing of what must not be empty.
func checkMask(req *affiliatev1.UpdateProgramRequest, found *affiliate.Violations) {
	paths := req.GetUpdateMask().GetPaths()
	for _, path := range paths {
		if !patchable[path] {
			found.Add("update_mask", fmt.Sprintf("%q cannot be changed", path))
		}
		if path == "name" && req.GetName() == "" {
			found.Add("name", "is required")
		}
	}
	if len(paths) > 0 {
		return
	}
	req.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if name := field.Name(); name != "program_id" && name != "update_mask" {
			found.Add("update_mask", "has to name the fields that are given")
			return false
		}
		return true
	})
}

func checkURLs(req interface {
	GetWebsiteUrl() string
	GetLandingUrl() string
	GetTermsUrl() string
	ProtoReflect() protoreflect.Message
}, found *affiliate.Violations,
) {
	m := req.ProtoReflect()
	fields := m.Descriptor().Fields()
	for _, name := range []protoreflect.Name{"website_url", "landing_url", "terms_url"} {
		field := fields.ByName(name)
		if !m.Has(field) {
			continue
		}
		if _, ok := affiliate.ParseWebURL(m.Get(field).String()); !ok {
			found.Add(string(name), "is no http or https URL")
		}
	}
}

func checkDomains(domains []string, found *affiliate.Violations) {
	for i, domain := range domains {
		if _, ok := affiliate.ParseDomain(domain); !ok {
			found.Add(fmt.Sprintf("allowed_domains[%d]", i), "is no host name")
		}
	}
}

func checkRules(rules *affiliatev1.CommissionRules, found *affiliate.Violations) {
	checkEnum(rules.GetCommissionType(), "commission_rules.commission_type", found)
	checkEnum(rules.GetNetBasis(), "commission_rules.net_basis", found)
	if rules != nil && rules.Percentage != nil {
		if _, ok := basisPoints(rules.GetPercentage()); !ok {
			found.Add("commission_rules.percentage", "has more than 2 decimals")
		}
	}
}

// checkAmounts refuses an amount that does not go with the type beside it. What
// the type in force has to say is known only with the programme at hand.
func checkAmounts(rules *affiliatev1.CommissionRules, found *affiliate.Violations) {
	if rules == nil {
		return
	}
	switch kind := rules.GetCommissionType(); {
	case rules.Percentage != nil && rules.FlatAmountCents != nil && kind == 0:
		found.Add("commission_rules.flat_amount_cents", "excludes percentage")
	case rules.FlatAmountCents != nil && kind == affiliatev1.CommissionType_COMMISSION_TYPE_PERCENTAGE:
		found.Add("commission_rules.flat_amount_cents", "needs commission_type flat")
	case rules.Percentage != nil && kind == affiliatev1.CommissionType_COMMISSION_TYPE_FLAT:
		found.Add("commission_rules.percentage", "needs commission_type percentage")
	}
}

// checkEnum refuses a number that has no name, which only gRPC can carry.
func checkEnum(value protoreflect.Enum, path string, found *affiliate.Violations) {
	if value.Descriptor().Values().ByNumber(value.Number()) == nil {
		found.Add(path, "has no such value")
	}
}

// basisPoints turns a percentage into the integer that all arithmetic uses; ok
// is false when that would lose something.
func basisPoints(percentage float64) (bps int64, ok bool) {
	rounded := math.Round(percentage * 100)
	// Written so that NaN fails.
	if !(math.Abs(percentage*100-rounded) <= 1e-6) || math.Abs(rounded) > affiliate.WholeBps {
		return 0, false
	}
	return int64(rounded), true
}

// patchable are the paths that an update mask may hold.
var patchable = func() map[string]bool {
	paths := map[string]bool{}
	fields := (&affiliatev1.UpdateProgramRequest{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if name := string(fields.Get(i).Name()); name != "program_id" && name != "update_mask" {
			paths[name] = true
		}
	}
	rules := (&affiliatev1.CommissionRules{}).ProtoReflect().Descriptor().Fields()
	for i := range rules.Len() {
		paths[rulesField+"."+string(rules.Get(i).Name())] = true
	}
	return paths
}()

// rulesField is the path of the rules as a whole.
const rulesField = "commission_rules"
