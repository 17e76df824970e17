package postgres

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// statement is a constant or variable with an SQL text. The text includes the constants
// that it concatenates. The name tells where the statement is:
// [package/]function.constant.
type statement struct {
	name, text string
}

var (
	verb = regexp.MustCompile(`(?is)^\s*(select|insert|update|delete|with)\b`)
	// touched finds the tables that a statement reads and writes.
	touched = regexp.MustCompile(`(?i)\b(?:from|join|into|update)\s+([a-z_]+)\b`)
)

// scoped has the tables whose rows belong to a workspace. The value tells whether a row
// also belongs to one mode.
var scoped = map[string]bool{
	"api_keys": true, "programs": true, "participants": true, "participant_invites": true, "referral_codes": true, "links": true, "promo_codes": true,
	"customers": true, "customer_payments": true, "clicks": true, "clicks_default": true, "click_days": true, "awaited_clicks": true, "conversions": true, "attribution_decisions": true,
	"commissions": true, "commission_counts": true, "ledger_entries": true, "payouts": true, "payout_batches": true, "refunds": true,
	"idempotency_keys": true, "fraud_events": true, "events": true, "webhook_endpoints": true, "webhook_deliveries": true, "stats_deltas": true, "stats_hours": true,
	"members": false, "member_invites": false, "program_rules": false, "groups": false, "commission_history": false, "audit_log": false,
	"ledger_balances": false, "payout_commissions": false, "participant_totals": false, "link_totals": false, "list_counts": false,
}

// A statement about a workspace's rows must mention workspace and mode, or be in the
// list unscoped with a reason. The test parses the source to find all statements.
func TestStatements_MentionWorkspaceAndMode(t *testing.T) {
	found := map[string]bool{}
	for _, s := range statementRecorder(t) {
		var workspace, mode bool
		for _, match := range touched.FindAllStringSubmatch(s.text, -1) {
			ofMode, ok := scoped[strings.ToLower(match[1])]
			workspace, mode = workspace || ok, mode || ofMode
		}
		lacks := workspace && !strings.Contains(s.text, "workspace") || mode && !regexp.MustCompile(`\bmode\b`).MatchString(s.text)
		switch reason, excepted := unscoped[s.name]; {
		case lacks && !excepted:
			t.Errorf("%s mentions no workspace or no mode, and is not in unscoped:\n%s", s.name, s.text)
		case lacks:
			found[s.name] = true
			if reason == "" {
				t.Errorf("%s is in unscoped without a reason", s.name)
			}
		}
	}
	for name := range unscoped {
		if !found[name] {
			t.Errorf("%s does not need to be in unscoped any more", name)
		}
	}
}

// statements returns the SQL statements in this package and its sub-packages.
func statementRecorder(t *testing.T) []statement {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	all := statementsIn(t, ".", "")
	for _, entry := range entries {
		if entry.IsDir() {
			all = append(all, statementsIn(t, entry.Name(), entry.Name()+"/")...)
		}
	}
	slices.SortFunc(all, func(a, b statement) int { return strings.Compare(a.name, b.name) })
	if len(all) < 100 {
		t.Fatalf("only %d statements were found", len(all))
	}
	return all
}

// statementsIn returns the statements of the package in a folder. Their names begin
// with prefix.
func statementsIn(t *testing.T, folder, prefix string) []statement {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	in := source{values: map[string]ast.Expr{}, columns: map[string]string{}}
	var files []*ast.File
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, entry.Name()), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		eachValue(file, func(name string, value ast.Expr) { in.values[name] = value })
		in.addColumns(file)
	}
	var all []statement
	for _, file := range files {
		for _, decl := range file.Decls {
			owner := "package"
			local := map[string]ast.Expr{}
			if fn, ok := decl.(*ast.FuncDecl); ok {
				owner = fn.Name.Name
				eachValue(fn, func(name string, value ast.Expr) { local[name] = value })
			}
			eachValue(decl, func(name string, value ast.Expr) {
				if text := in.evaluate(value, local); verb.MatchString(text) {
					all = append(all, statement{prefix + owner + "." + name, text})
				}
			})
		}
	}
	return all
}

// eachValue calls do for each constant and variable that has a value.
func eachValue(in ast.Node, do func(name string, value ast.Expr)) {
	ast.Inspect(in, func(node ast.Node) bool {
		if spec, ok := node.(*ast.ValueSpec); ok {
			for i, name := range spec.Names {
				if i < len(spec.Values) {
					do(name.Name, spec.Values[i])
				}
			}
		}
		return true
	})
}

// source has the parts from which the statements of a package are built.
type source struct {
	values map[string]ast.Expr
	// columns maps the name of each struct to its columns, for rowsOf.
	columns map[string]string
}

func (s source) addColumns(file *ast.File) {
	ast.Inspect(file, func(node ast.Node) bool {
		spec, _ := node.(*ast.TypeSpec)
		if spec == nil {
			return true
		}
		if row, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range row.Fields.List {
				if field.Tag != nil {
					tag, _ := strconv.Unquote(field.Tag.Value)
					s.columns[spec.Name.Name] += reflect.StructTag(tag).Get("db") + " "
				}
			}
		}
		return true
	})
}

// evaluate returns the text of an expression. Parts that are not text are left out.
func (s source) evaluate(e ast.Expr, local map[string]ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.BinaryExpr:
		return s.evaluate(e.X, local) + s.evaluate(e.Y, local)
	case *ast.ParenExpr:
		return s.evaluate(e.X, local)
	case *ast.Ident:
		if value, ok := local[e.Name]; ok {
			return s.evaluate(value, nil)
		}
		if value, ok := s.values[e.Name]; ok {
			return s.evaluate(value, nil)
		}
	case *ast.CallExpr:
		switch types.ExprString(e.Fun) {
		case "CountUpTo", "postgres.CountUpTo":
			return "select count(*) " + s.evaluate(e.Args[1], local)
		}
		if rows, ok := e.Fun.(*ast.IndexExpr); ok && types.ExprString(rows.X) == "rowsOf" {
			return strings.ReplaceAll(s.evaluate(e.Args[0], local), "%[1]s", s.columns[types.ExprString(rows.Index)])
		}
	}
	return ""
}

// unscoped has the statements that need not mention workspace and mode, and the
// reasons.
var unscoped = map[string]string{
	"webhook/package.claim":             "the sender serves endpoints of all workspaces, named by workspace and id",
	"webhook/Release.release":           "the sender serves endpoints of all workspaces, named by workspace and id",
	"webhook/package.unclaimed":         "the sender serves endpoints of all workspaces",
	"webhook/package.targets":           "the sender serves endpoints of all workspaces, named by workspace and id",
	"webhook/package.dueDeliveries":     "the sender serves endpoints of all workspaces, named by workspace and id",
	"webhook/package.applyOutcomes":     "deliveries that the sender has read, named by workspace and id",
	"webhook/package.lockDeliveryOfKey": "a delivery that the sender has read, named by workspace and id",
	"webhook/package.updateHealth":      "endpoints that the transaction has locked, named by workspace and id",
	"webhook/package.cancelLeft":        "upkeep, of all workspaces",
	"package.dropExpiredRefunds":        "upkeep, of all workspaces",
	"package.purgeDay":                  "upkeep, of all workspaces",
	"package.purgeStray":                "upkeep, of all workspaces",
	"StrayClicks.query":                 "upkeep, of all workspaces",
	"ArrivedClicks.page":                "the sweep covers all workspaces",
	"DropExpiredAwaited.drop":           "the sweep covers all workspaces",
	"countAndEnqueue.anyAwaited":        "checks whether any conversion waits, in any workspace",
	"package.selectStoredAwaited":       "the sweep covers all workspaces; joined by workspace and id",
	"enqueueAwaited.awaited":            "clicks of all workspaces, joined by workspace and id",
	"UpdatePartnerProfile.rename":       "a partner has one name in all workspaces",
	"package.countInGroup":              "the group belongs to a programme that was read with its mode",
	"package.countInGroupAndStatus":     "the group belongs to a programme that was read with its mode",
	"checkParticipation.known":          "the partner's own participations, in all workspaces",
	"package.countGroupMembers":         "the groups belong to a programme that was read with its mode",
	"replaceCode.find":                  "the participant was read with its mode",
	"account/LiveKey.touch":             "the key was found by its digest, which determines workspace and mode",
}
