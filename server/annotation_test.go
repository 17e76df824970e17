package server

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

func TestCheck_UsesMessagesOfTheAPI(t *testing.T) {
	for field, tc := range map[string]struct {
		request proto.Message
		message string
	}{
		"event_type":     {&affiliatev1.ReportConversionRequest{}, "must be one of purchase, renewal, signup, lead, trial, custom"},
		"outcome":        {&affiliatev1.ResolveFraudEventRequest{}, "must be one of confirmed, dismissed"},
		"page_size":      {&affiliatev1.ListCommissionsRequest{PageSize: proto.Int32(101)}, "must be from 1 to 100"},
		"page":           {&affiliatev1.ListCommissionsRequest{Page: proto.Int32(0)}, "must be at least 1"},
		"sort_by":        {&affiliatev1.ListCommissionsRequest{SortBy: proto.String("age")}, "must be one of createdAt, amountCents, status, commissionType, needsReview, partnerName"},
		"program_id":     {&affiliatev1.ListCommissionsRequest{ProgramId: proto.String("x")}, "must be a UUID"},
		"search":         {&affiliatev1.ListCommissionsRequest{Search: proto.String(strings.Repeat("x", 201))}, "must have at most 200 characters"},
		"reason":         {&affiliatev1.ApproveCommissionEarlyRequest{Reason: "  "}, "must have 1 to 500 characters"},
		"conversions":    {&affiliatev1.ReportConversionsRequest{}, "must have 1 to 500 items"},
		"amount_cents":   {&affiliatev1.ReportConversionRequest{AmountCents: proto.Int64(-1)}, "must be from 0 to 1000000000000"},
		"commission_ids": {&affiliatev1.BulkApproveCommissionsRequest{}, "must have 1 to 100 items"},
	} {
		var got string
		for _, v := range check(nil, tc.request) {
			if v.Field == field {
				got = v.Message
			}
			if strings.Contains(v.Message, "value") || strings.Contains(v.Message, "UNSPECIFIED") {
				t.Errorf("%s: %q is a message of the validation library", v.Field, v.Message)
			}
		}
		if got != tc.message {
			t.Errorf("%s: %q, want %q", field, got, tc.message)
		}
	}
}

// The messages of the generated validation code are string literals in that code, so the
// test can find them all.
func TestAnnotationMessage_CoversGeneratedValidation(t *testing.T) {
	files, err := filepath.Glob("../gen/affiliate/v1/*.pb.validate.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d generated files, %v", len(files), err)
	}
	literal := regexp.MustCompile(`reason: +("(?:[^"\\]|\\.)*")`)
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range literal.FindAllStringSubmatch(string(code), -1) {
			reason, err := strconv.Unquote(found[1])
			if err != nil {
				t.Fatal(err)
			}
			// The validation of the embedded message reports its own, exact reason.
			if reason == "embedded message failed validation" {
				continue
			}
			if got := annotationMessage(reason, nil); got == notValid || strings.Contains(got, "value") {
				t.Errorf("%s: %q becomes %q", filepath.Base(file), reason, got)
			}
		}
	}
}

func TestCheck_ClearsBlankOptionalText(t *testing.T) {
	report := &affiliatev1.ReportConversionRequest{
		PromoCode: proto.String(" \t"), ClickId: proto.String("  "), CustomerId: proto.String("\n"), SubId: proto.String(" kept "),
	}
	reject := &affiliatev1.RejectCommissionRequest{Reason: proto.String("   ")}
	rules := &affiliatev1.CreateProgramRequest{Name: " N ", Description: proto.String(" ")}
	for _, request := range []proto.Message{report, reject, rules} {
		found := check(nil, request)
		for _, v := range found {
			if v.Field == "reason" || v.Field == "promo_code" || v.Field == "click_id" || v.Field == "description" {
				t.Errorf("%s %s", v.Field, v.Message)
			}
		}
	}
	if report.PromoCode != nil || report.ClickId != nil || report.CustomerId != nil || reject.Reason != nil || rules.Description != nil {
		t.Errorf("%v %v %v", report, reject, rules)
	}
	if strings.TrimSpace(report.GetSubId()) != "kept" {
		t.Errorf("sub_id %q", report.GetSubId())
	}
}
