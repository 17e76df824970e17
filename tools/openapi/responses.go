package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/gateway/contract"
	"github.com/tributary-hq/tributary/httpedge/csv"
	"github.com/tributary-hq/tributary/httpedge/errorspec"
	"github.com/tributary-hq/tributary/server"
)

// security lists the credentials that a policy accepts, each as an alternative.
func security(policy server.Policy) []object {
	alternatives := []object{}
	if policy.Accept&server.SecretKey != 0 {
		alternatives = append(alternatives, object{{"secretKey", []string{}}})
	}
	if policy.Accept&(server.MerchantToken|server.PartnerToken) != 0 {
		alternatives = append(alternatives, object{{"bearerAuth", []string{}}})
	}
	if policy.Accept&server.ServiceToken != 0 {
		alternatives = append(alternatives, object{{"serviceToken", []string{}}})
	}
	if policy.Accept&server.ParticipantToken != 0 {
		alternatives = append(alternatives, object{{"participantToken", []string{}}})
	}
	return alternatives
}

// responses describes every status that a route can respond with.
func (b *builder) responses(r contract.Route, policy server.Policy, sample example) (object, error) {
	status := r.Status
	success := object{{"description", http.StatusText(status)}}
	var output string
	switch {
	case policy.Lasting:
		set(&success, "content", object{{"text/event-stream", object{{"schema", object{{"type", "string"}}}}}})
	case r.Download():
		schema := object{{"type", "string"}}
		if r.DownloadType == "application/json" {
			schema = object{{"type", "object"}, {"additionalProperties", true}}
		}
		set(&success, "content", object{{r.DownloadType, object{{"schema", schema}}}})
	case status != http.StatusNoContent:
		var err error
		if output, err = b.output(r.RPC.Output()); err != nil {
			return nil, err
		}
		content := jsonContent(output)
		if contract.CSVRows(r.RPC.Output()) != nil {
			content = append(content, member{csv.ContentType, object{{"schema", object{{"type", "string"}}}}})
		}
		set(&success, "content", content)
	}
	for i, m := range success {
		if m.key != "content" {
			continue
		}
		if sample.Text != "" {
			success[i].value = withExample(m.value.(object), sample.Text)
		} else if sample.Response != nil {
			content := m.value.(object)
			examples := withExample(content[:1], sample.Response)
			if len(content) > 1 {
				table, err := csvExample(sample.Response, contract.CSVRows(r.RPC.Output()).JSONName())
				if err != nil {
					return nil, err
				}
				examples = append(examples, withExample(content[1:], table)...)
			}
			success[i].value = examples
		}
	}
	if r.IgnoresUnknownKeys {
		set(&success, "headers", ignoredFields)
	}
	responses := object{{strconv.Itoa(status), success}}
	if r.Bulk {
		responses = append(responses, member{"207", append(object{{"description", "Some items failed. `results` has the outcome of each item."}}, success[1:]...)})
	}
	if r.SometimesReplaces {
		responses = append(responses, member{"200", append(object{{"description", "An existing object was replaced or updated."}}, success[1:]...)})
	}
	if r.SometimesQueued {
		responses = append(responses, member{"202", append(object{{"description", "Accepted. The request takes effect later."}}, success[1:]...)})
	}
	responses = append(responses, b.errorResponses(reasons(r, policy))...)
	if r.Bulk {
		// The body of BULK_ALL_FAILED is one object with the fields of an error and the
		// results.
		responses = append(responses, member{"422", object{
			{"description", string(affiliate.ReasonBulkAllFailed) + ": every item failed. `results` has the outcome of each item."},
			{"content", object{{"application/json", object{{"schema", object{{"allOf", []object{reference("Error"), reference(output)}}}}}}}},
		}})
	}
	return responses, nil
}

var ignoredFields = object{{"Ignored-Fields", object{
	{"description", "The paths of unknown keys in the body, separated by commas. These keys have no effect."},
	{"schema", object{{"type", "string"}}},
}}}

// reasons returns every error code that a route can return: first the codes that depend
// on the properties of the route, then the codes that contract lists for its RPC.
func reasons(r contract.Route, policy server.Policy) []affiliate.Reason {
	list := []affiliate.Reason{
		affiliate.ReasonValidation, affiliate.ReasonHTTPSRequired, affiliate.ReasonInternal, affiliate.ReasonServiceUnavailable,
	}
	if policy.Accept&server.NoCredential == 0 {
		list = append(list, affiliate.ReasonUnauthorized, policy.Refusal, affiliate.ReasonForbidden)
	}
	if policy.Verified != server.NeedNotBeVerified {
		list = append(list, affiliate.ReasonEmailNotVerified)
	}
	if policy.Accept&server.MerchantToken != 0 && !policy.Reads && !policy.WithoutFactor {
		list = append(list, affiliate.ReasonSecondFactorSetupRequired)
	}
	if policy.Zone != server.ZoneNone {
		list = append(list, affiliate.ReasonRateLimitExceeded)
	}
	if r.Verb != http.MethodGet {
		list = append(list, affiliate.ReasonPayloadTooLarge)
	}
	if r.Verb != http.MethodGet && r.RawBody == nil {
		list = append(list, affiliate.ReasonUnsupportedMediaType)
	}
	if required := r.RequiresKey; r.AcceptsKey {
		list = append(list, affiliate.ReasonIdempotencyKeyReused)
		if required {
			list = append(list, affiliate.ReasonIdempotencyKeyRequired)
		}
	}
	webhook := strings.HasPrefix(r.Template, "/api/v1/webhooks/")
	switch {
	case strings.HasPrefix(r.Template, "/api/v1/workspace/notification-log/"):
		// ErrorReasons contains the error code for an unknown id.
	case webhook && len(r.PathFields) > 0:
		list = append(list, affiliate.ReasonWebhookNotFound)
	case len(r.PathFields) > 0 || filtersByID(r):
		list = append(list, affiliate.ReasonNotFound)
	}
	return append(list, contract.ErrorReasons(r.FullMethod)...)
}

// filtersByID reports whether a query parameter of the route is an id. The response is
// then NOT_FOUND if no record has the id.
func filtersByID(r contract.Route) bool {
	if r.HasBody {
		return false
	}
	fields := r.RPC.Input().Fields()
	for i := range fields.Len() {
		if strings.HasSuffix(string(fields.Get(i).Name()), "_id") && !r.InPath(fields.Get(i)) {
			return true
		}
	}
	return false
}

// errorResponses returns a reference to an error response for each status of the reasons,
// in ascending order. It adds the error responses that do not exist yet.
func (b *builder) errorResponses(list []affiliate.Reason) object {
	byStatus := map[int][]string{}
	for _, reason := range list {
		status := errorspec.ByReason(reason).HTTPStatus
		if !slices.Contains(byStatus[status], string(reason)) {
			byStatus[status] = append(byStatus[status], string(reason))
		}
	}
	var responses object
	for _, status := range slices.Sorted(maps.Keys(byStatus)) {
		reasons := byStatus[status]
		slices.Sort(reasons)
		name := strings.Join(reasons, "-")
		if b.errors[name] == nil {
			b.errors[name] = errorResponse(status, reasons)
		}
		set(&responses, strconv.Itoa(status), object{{"$ref", "#/components/responses/" + name}})
	}
	return responses
}

var requestIDHeader = textHeader("X-Request-Id", "The id of the request in the logs.")

// textHeader describes a response header.
func textHeader(name, description string) member {
	return member{name, object{{"description", description}, {"schema", object{{"type", "string"}}}}}
}

func errorResponse(status int, codes []string) object {
	headers := object{requestIDHeader}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		set(&headers, "Retry-After", object{{"description", "The number of seconds to wait before the next request."}, {"schema", object{{"type", "integer"}}}})
	}
	first := errorspec.ByReason(affiliate.Reason(codes[0]))
	content := withExample(jsonContent("Error"), errorExample(status, http.StatusText(status), codes[0], first.Message))
	return object{{"description", meanings(codes)}, {"headers", headers}, {"content", content}}
}

func errorSchema() object {
	var codes []string
	for _, spec := range errorspec.All() {
		codes = append(codes, string(spec.Reason))
	}
	return object{
		{"type", "object"},
		{"description", "The body of every error."},
		{"required", errorFields},
		{"properties", append(errorProperties(codes), object{
			{"missingPermissions", object{
				{"type", "array"},
				{"description", "The permissions that the key of a payment processor lacks. Only with PROCESSOR_PERMISSION_MISSING."},
				{"items", object{{"type", "string"}}},
			}},
			{"challenge", object{
				{"type", "string"},
				{"description", "The token for the request that completes the login with a code. Only with SECOND_FACTOR_REQUIRED."},
			}},
			{"context", object{
				{"type", "object"},
				{"description", "Facts about the error. Each error code has its own facts. The field is absent if the error has no facts."},
				{"properties", contextProperties()},
			}},
			{"details", object{
				{"type", "array"},
				{"description", "All faults of the request. Only with VALIDATION_ERROR."},
				{"items", object{
					{"type", "object"},
					{"required", []string{"field", "message"}},
					{"properties", object{
						{"field", object{{"type", "string"}, {"description", "The path of the field, spelled as in the request. `body` if the fault concerns the whole body."}}},
						{"message", object{{"type", "string"}, {"description", "A sentence for people that begins with the field and says what is accepted. It can change at any time."}}},
					}},
				}},
			}},
		}...)},
	}
}

// contextProperties describes the fields of `context`.
func contextProperties() object {
	var properties object
	for _, field := range errorspec.ContextFields() {
		kind := "string"
		if field.Number {
			kind = "integer"
		}
		set(&properties, field.Name, object{{"type", kind}, {"description", field.Description}})
	}
	return properties
}

// errorFields are the fields of every error.
var errorFields = []string{"statusCode", "message", "error", "code"}

// errorProperties describes errorFields. codes contains all error codes.
func errorProperties(codes []string) object {
	return object{
		{"statusCode", object{{"type", "integer"}, {"description", "The HTTP status."}}},
		{"message", object{{"type", "string"}, {"description", "A message for people. It can change at any time."}}},
		{"error", object{{"type", "string"}, {"description", "The text of the HTTP status."}}},
		{"code", object{{"type", "string"}, {"description", "The error code. It is stable; new codes can be added."}, {"enum", codes}}},
	}
}

// csvExample returns the CSV table that belongs to a JSON response. rows is the name of the list
// of its rows.
func csvExample(response []byte, rows string) (string, error) {
	var lists map[string]json.RawMessage
	if err := json.Unmarshal(response, &lists); err != nil {
		return "", err
	}
	var table strings.Builder
	w := csv.NewWriter(func(chunk []byte) error { table.Write(chunk); return nil })
	var names []string
	var cells []json.Token
	decoder := json.NewDecoder(bytes.NewReader(lists[rows]))
	decoder.UseNumber()
	for header, inRow := false, false; ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			err := w.Flush()
			return table.String(), err
		}
		if err != nil {
			return "", err
		}
		switch delimiter, ok := token.(json.Delim); {
		case ok && delimiter == '{':
			inRow, names, cells = true, nil, nil
		case ok && delimiter == '}':
			if !header {
				if err := w.Header(names...); err != nil {
					return "", err
				}
			}
			header, inRow = true, false
			for _, cell := range cells {
				if err := writeCell(w, cell); err != nil {
					return "", err
				}
			}
			if err := w.EndRow(); err != nil {
				return "", err
			}
		case ok || !inRow:
		case len(names) == len(cells):
			names = append(names, token.(string))
		default:
			cells = append(cells, token)
		}
	}
}

// writeCell writes a JSON value as a cell.
func writeCell(w *csv.Writer, value json.Token) error {
	switch value := value.(type) {
	case nil:
		w.Empty()
	case string:
		w.Text(value)
	case json.Number:
		n, err := value.Float64()
		if err != nil {
			return err
		}
		w.Float(n)
	default:
		return fmt.Errorf("%v cannot be a cell of a CSV table", value)
	}
	return nil
}
