package stripeserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// maxExpandDepth is the number of fields that a path in the parameter expand can have. In
// a list, the field data counts.
const maxExpandDepth = 4

// checkExpand checks the parameter expand. Stripe checks the depth and the first field of
// the object; it ignores other fields that do not exist.
func (s *Server) checkExpand(r *resource, isList bool, params map[string]any) (a answer, ok bool) {
	for _, path := range texts(params["expand"]) {
		fields := strings.Split(path, ".")
		if len(fields) > maxExpandDepth {
			return failure(http.StatusBadRequest, apiError{
				Code:    "property_expansion_max_depth",
				Message: fmt.Sprintf("You cannot expand more than %d levels of a property. Property: %s", maxExpandDepth, path),
			}), false
		}
		if isList {
			if fields[0] != "data" || len(fields) == 1 {
				return notExpandable(path), false
			}
			fields = fields[1:]
		}
		if !s.document.isExpandable(r.object, fields[0]) {
			return notExpandable(path), false
		}
	}
	return answer{}, true
}

func notExpandable(path string) answer {
	return invalid("", fmt.Sprintf("This property cannot be expanded (%s).", path))
}

// isExpandable reports whether a path that is expanded can begin with a field of an
// object.
func (d *document) isExpandable(object, field string) bool {
	schema := d.schemas[object]
	return schema != nil && schema.XExpandableFields != nil && slices.Contains(*schema.XExpandableFields, field)
}

// expand replaces the references that the parameter expand names by objects. object must
// be a copy.
func (s *Server) expand(object, params map[string]any) {
	for _, path := range texts(params["expand"]) {
		s.expandPath(object, strings.Split(path, "."))
	}
}

// expandPath expands the references at a path and returns the value in which they are
// expanded. A reference to an object that is not stored remains an id.
func (s *Server) expandPath(value any, path []string) any {
	if len(path) == 0 {
		return value
	}
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = s.expandPath(v[i], path)
		}
	case map[string]any:
		field, exists := v[path[0]]
		if !exists {
			field, exists = s.includable(v, path[0])
		}
		if exists {
			v[path[0]] = s.expandPath(s.resolve(field), path[1:])
		}
	}
	return value
}

// resolve replaces an id, or each id in an array, by a copy of the stored object.
func (s *Server) resolve(value any) any {
	switch v := value.(type) {
	case string:
		if o, found := s.objects[v]; found {
			return deepCopy(o.fields)
		}
	case []any:
		for i := range v {
			v[i] = s.resolve(v[i])
		}
	}
	return value
}

// includable returns a list that Stripe adds to an object only if it is expanded.
func (s *Server) includable(object map[string]any, field string) (list map[string]any, exists bool) {
	var r *resource
	filterName := text(object, "object")
	switch filterName + "." + field {
	case "invoice.payments":
		r = resourceOf("invoice_payment")
	case "charge.refunds":
		r = resourceOf("refund")
	default:
		return nil, false
	}
	id := text(object, "id")
	all := s.matching(r, map[string]any{filterName: id})
	page := all[:min(len(all), defaultLimit)]
	return deepCopy(newList(r.path()+"?"+filterName+"="+id, page, len(page) < len(all))), true
}
