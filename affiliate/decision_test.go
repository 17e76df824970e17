package affiliate

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
)

// The test reads the constants from the source, so that a new reason cannot be missing
// in decisionReasons, by which lists of decisions are filtered.
func TestDecisionReasons_ContainAllConstants(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "attribution.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); !ok || name.Name != "AttributionReason" {
			return true
		}
		word, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		if of := AttributionReason(word).IsDecisionReason(); of != spec.Names[0].IsExported() {
			t.Errorf("OfDecision for %s returns %v", spec.Names[0], of)
		}
		found++
		return true
	})
	if found != len(decisionReasons)+1 {
		t.Errorf("%d constants in the source, %d in decisionReasons", found, len(decisionReasons))
	}
	for _, unknown := range []AttributionReason{"", "click_matched", "OTHER"} {
		if unknown.IsDecisionReason() {
			t.Errorf("OfDecision for %q returns true", unknown)
		}
	}
}

func TestSimulatedRecord_RuleJSONIsStoredForm(t *testing.T) {
	in := inputsWonBy(ByClick)
	record, err := SimulatedRecord(Attribute(in))
	if err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(record.Trace)
	if err != nil {
		t.Fatal(err)
	}
	var trace struct {
		Rule json.RawMessage `json:"rule"`
	}
	if err := json.Unmarshal(stored, &trace); err != nil || string(trace.Rule) != string(record.RuleJSON) || len(trace.Rule) < 10 {
		t.Errorf("%s, stored %s, %v", record.RuleJSON, trace.Rule, err)
	}
	in.FoundClick = nil
	if record, err = SimulatedRecord(Attribute(in)); err != nil || record.RuleJSON != nil {
		t.Errorf("nothing earned: %s, %v", record.RuleJSON, err)
	}
}
