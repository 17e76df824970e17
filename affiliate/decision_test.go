package affiliate

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
)

// A reason that decisions get is one that lists of decisions can be asked for.
func TestDecisionReasonsAreAllThatThereAre(t *testing.T) {
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
		if of := AttributionReason(word).OfDecision(); of != spec.Names[0].IsExported() {
			t.Errorf("%s is a decision's reason: %v", spec.Names[0], of)
		}
		found++
		return true
	})
	if found != len(decisionReasons)+1 {
		t.Errorf("%d reasons in the source, %d of decisions", found, len(decisionReasons))
	}
	for _, none := range []AttributionReason{"", "click_matched", "OTHER"} {
		if none.OfDecision() {
			t.Errorf("%q is a decision's reason", none)
		}
	}
}

func TestSimulatedRecordHasTheRulesAsTheyWouldBeStored(t *testing.T) {
	in := by(ByClick)
	record, err := Simulated(Attribute(in))
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
	if record, err = Simulated(Attribute(in)); err != nil || record.RuleJSON != nil {
		t.Errorf("nothing earned: %s, %v", record.RuleJSON, err)
	}
}
