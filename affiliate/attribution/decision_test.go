package attribution

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
)

// The test reads the constants from the source code, so that it fails if a new reason is
// not added to decisionReasons.
func TestDecisionReasons_ContainAllConstants(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); !ok || name.Name != "Reason" {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := Reason(text).IsDecisionReason(), spec.Names[0].IsExported(); got != want {
			t.Errorf("%s.IsDecisionReason() = %v, want %v", spec.Names[0], got, want)
		}
		found++
		return true
	})
	if found != len(decisionReasons)+1 {
		t.Errorf("%d constants in the source, %d in decisionReasons", found, len(decisionReasons))
	}
	for _, unknown := range []Reason{"", "click_matched", "OTHER"} {
		if unknown.IsDecisionReason() {
			t.Errorf("AttributionReason(%q).IsDecisionReason() = true", unknown)
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
	if err := json.Unmarshal(stored, &trace); err != nil {
		t.Fatal(err)
	}
	if string(trace.Rule) != string(record.RuleJSON) || len(trace.Rule) < 10 {
		t.Errorf("RuleJSON is %s, want the rule of the stored trace: %s", record.RuleJSON, trace.Rule)
	}
	in.FoundClick = nil
	if record, err = SimulatedRecord(Attribute(in)); err != nil || record.RuleJSON != nil {
		t.Errorf("SimulatedRecord of a decision without commission has RuleJSON %s, error %v; want null", record.RuleJSON, err)
	}
}
