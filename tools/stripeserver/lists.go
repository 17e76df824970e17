package stripeserver

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
)

// The number of objects of a list.
const (
	defaultLimit = 10
	maxLimit     = 100
)

// filter reports whether an object is part of a list. value is the parameter.
type filter func(object map[string]any, value any) bool

// list answers with a page of the objects of a type, newest first.
func (s *Server) list(c call) answer {
	limit, a, ok := readLimit(c.params)
	if !ok {
		return a
	}
	if a, ok := knownParams(c.params, slices.AppendSeq(
		[]string{"created", "ending_before", "limit", "starting_after"}, maps.Keys(c.resource.filters))...); !ok {
		return a
	}
	matching := s.matching(c.resource, c.params)
	after, before := text(c.params, "starting_after"), text(c.params, "ending_before")
	begin, end := 0, min(limit, len(matching))
	hasMore := end < len(matching)
	switch {
	case after != "" && before != "":
		return invalid("", "You can only use one of `starting_after` or `ending_before`, not both.")
	case before != "":
		i, found := s.position(c.resource, matching, before)
		if !found {
			return missing(http.StatusBadRequest, c.resource.name, "ending_before", before)
		}
		begin, end = max(i-limit, 0), i
		hasMore = begin > 0
	case after != "":
		i, found := s.position(c.resource, matching, after)
		if !found {
			return missing(http.StatusBadRequest, c.resource.name, "starting_after", after)
		}
		if i < len(matching) && matching[i].fields["id"] == after {
			i++
		}
		begin, end = i, min(i+limit, len(matching))
		hasMore = end < len(matching)
	}
	return s.respond(newList(c.resource.path(), matching[begin:end], hasMore), c.params)
}

// newList returns a list of Stripe.
func newList(url string, page []*storedObject, hasMore bool) map[string]any {
	data := []any{}
	for _, o := range page {
		data = append(data, o.fields)
	}
	return map[string]any{"object": "list", "data": data, "has_more": hasMore, "url": url}
}

// matching returns the objects of a type that all filters accept, newest first.
func (s *Server) matching(r *resource, params map[string]any) []*storedObject {
	var found []*storedObject
	for o := range maps.Values(s.objects) {
		if o.fields["object"] == r.object && accepted(r, o.fields, params) {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, compareObjects)
	return found
}

func accepted(r *resource, object, params map[string]any) bool {
	for name, value := range params {
		accepts := r.filters[name]
		if name == "created" {
			accepts = createdWithin
		}
		if accepts != nil && !accepts(object, value) {
			return false
		}
	}
	return true
}

// compareObjects orders objects newest first.
func compareObjects(a, b *storedObject) int {
	return cmp.Or(
		cmp.Compare(number(b.fields["created"]), number(a.fields["created"])),
		cmp.Compare(b.position, a.position),
	)
}

// position returns the index of an object in a sorted list. If the filters exclude the
// object, it is the index at which the object would be. found is false if the object does
// not exist.
func (s *Server) position(r *resource, sorted []*storedObject, id string) (i int, found bool) {
	o, found := s.objects[id]
	if !found || o.fields["object"] != r.object {
		return 0, false
	}
	i, _ = slices.BinarySearchFunc(sorted, o, compareObjects)
	return i, true
}

func readLimit(params map[string]any) (limit int, a answer, ok bool) {
	value := text(params, "limit")
	if value == "" {
		return defaultLimit, answer{}, true
	}
	limit, err := strconv.Atoi(value)
	switch {
	case err != nil:
		return 0, invalid("limit", "Invalid integer: "+value), false
	case limit < 1:
		return 0, invalid("limit", "This value must be greater than or equal to 1."), false
	case limit > maxLimit:
		return 0, invalid("limit", fmt.Sprintf("This value must be less than or equal to %d (is currently %d).", maxLimit, limit)), false
	}
	return limit, answer{}, true
}

// number returns a number of an object; 0 for other values.
func number(value any) float64 {
	n, _ := value.(float64)
	return n
}

// at returns the value of a nested field; nil if it is absent.
func at(object map[string]any, fields ...string) any {
	var value any = object
	for _, field := range fields {
		parent, _ := value.(map[string]any)
		value = parent[field]
	}
	return value
}

// idOf returns the id of a reference, which is an id or an object. Other texts are
// returned without a change.
func idOf(value any) string {
	if object, ok := value.(map[string]any); ok {
		return text(object, "id")
	}
	id, _ := value.(string)
	return id
}

// reference returns a filter for a field that contains an id, an object or another text.
func reference(fields ...string) filter {
	return func(object map[string]any, value any) bool {
		id := idOf(at(object, fields...))
		return id != "" && id == value
	}
}

// ignoreCase returns a filter for a text whose case does not matter.
func ignoreCase(field string) filter {
	return func(object map[string]any, value any) bool {
		wanted, _ := value.(string)
		return strings.EqualFold(text(object, field), wanted)
	}
}

// boolean returns a filter for a field that is true or false.
func boolean(field string) filter {
	return func(object map[string]any, value any) bool {
		b, _ := object[field].(bool)
		return strconv.FormatBool(b) == value
	}
}

// payment is the filter for the payment of an invoice payment.
func payment(object map[string]any, value any) bool {
	wanted, _ := value.(map[string]any)
	for field, id := range wanted {
		if !reference("payment", field)(object, id) {
			return false
		}
	}
	return true
}

// createdWithin is the filter for the time of creation. The value is a time or an object
// with the bounds gt, gte, lt and lte.
func createdWithin(object map[string]any, value any) bool {
	created := number(object["created"])
	bounds, ok := value.(map[string]any)
	if !ok {
		bounds = map[string]any{"gte": value, "lte": value}
	}
	for name, bound := range bounds {
		limit, err := strconv.ParseFloat(idOf(bound), 64)
		inside := map[string]bool{
			"gt": created > limit, "gte": created >= limit, "lt": created < limit, "lte": created <= limit,
		}[name]
		if err != nil || !inside {
			return false
		}
	}
	return true
}

// eventType is the filter for the type of an event, in which * stands for any text.
func eventType(object map[string]any, value any) bool {
	pattern, _ := value.(string)
	matched, err := path.Match(pattern, text(object, "type"))
	return matched && err == nil
}

// eventTypes is the filter for several types of events.
func eventTypes(object map[string]any, value any) bool {
	return slices.Contains(texts(value), text(object, "type"))
}

// texts returns the elements of a parameter that is an array. A client encodes an array as
// a[]=x or as a[0]=x; the latter is parsed as an object.
func texts(value any) []string {
	var elements []any
	switch v := value.(type) {
	case []any:
		elements = v
	case map[string]any:
		keys := slices.SortedFunc(maps.Keys(v), func(a, b string) int {
			i, _ := strconv.Atoi(a)
			j, _ := strconv.Atoi(b)
			return cmp.Compare(i, j)
		})
		for _, key := range keys {
			elements = append(elements, v[key])
		}
	default:
		elements = []any{v}
	}
	var found []string
	for _, e := range elements {
		if t, ok := e.(string); ok {
			found = append(found, t)
		}
	}
	return found
}
