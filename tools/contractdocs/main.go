// Command contractdocs writes docs/contract.md, the rules of the API that no other page
// states. The text is in page.md. The tables of permissions are generated from the policies
// of the methods, and the table of fraud rules from the rules. The console gets the
// permissions too, so that it shows only what a member may do.
//
// It must run in the root of the checkout:
//
//	go run ./tools/contractdocs
package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/gateway/contract"
	"github.com/tributary-hq/tributary/server"
)

const (
	docsFile    = "docs/contract.md"
	consoleFile = "web/src/console/permissions.ts"
)

// page is a text/template. The functions in document generate its tables.
//
//go:embed page.md
var page string

func main() {
	log.SetFlags(0)
	log.SetPrefix("contractdocs: ")
	text, err := document(page)
	if err != nil {
		log.Fatal(err)
	}
	console, err := consolePermissions()
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range map[string]string{docsFile: text, consoleFile: console} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil { //nolint:gosec // a source file
			log.Fatal(err)
		}
	}
}

// consolePermissions returns the TypeScript module with the permission of each method that
// members can call, and the roles of each permission.
func consolePermissions() (string, error) {
	methods, err := methods()
	if err != nil {
		return "", err
	}
	var operations, permissions strings.Builder
	roles := map[server.Action][]affiliate.Role{}
	for _, m := range methods {
		if m.policy.Accept&server.MerchantToken == 0 || m.policy.Action == "" {
			continue
		}
		roles[m.policy.Action] = m.policy.Action.Roles()
		fmt.Fprintf(&operations, "  %s: %q,\n", m.name, m.policy.Action)
	}
	for _, action := range slices.Sorted(maps.Keys(roles)) {
		fmt.Fprintf(&permissions, "  %q: [\"%s\"],\n", action, strings.ReplaceAll(join(roles[action]), ", ", `", "`))
	}
	return "// Generated from the policies of the methods by tools/contractdocs. Do not edit.\n\n" +
		"/** The roles that have a permission. */\nexport const permissions = {\n" + permissions.String() + "} as const;\n\n" +
		"/** The permission that a member needs for an operation of the API. */\nexport const operations = {\n" + operations.String() + "} as const;\n", nil
}

// document returns the text of the page with its tables.
func document(page string) (string, error) {
	methods, err := methods()
	if err != nil {
		return "", err
	}
	parsed, err := template.New("page.md").Funcs(template.FuncMap{
		"permissions":     func() string { return permissions(methods) },
		"conditions":      func() string { return conditions(methods) },
		"fraudRules":      fraudRules,
		"maxScore":        func() int { return fraud.MaxScore },
		"suspiciousScore": func() int { return fraud.SuspiciousScore },
	}).Parse(page)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := parsed.Execute(&b, nil); err != nil {
		return "", err
	}
	return b.String(), nil
}

// method is a method of the REST API with its policy.
type method struct {
	name   string
	policy server.Policy
}

// methods returns all methods of the REST API, sorted by name.
func methods() ([]method, error) {
	routes, err := contract.Routes(contract.Files())
	if err != nil {
		return nil, err
	}
	found := map[string]method{}
	for _, r := range routes {
		if policy, ok := server.PolicyOf(r.FullMethod); ok {
			found[r.FullMethod] = method{string(r.RPC.Name()), policy}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b method) int { return cmp.Compare(a.name, b.name) }), nil
}

// permissions returns the table of the actions, those of most roles first. The action of the
// first row has about as many methods as all others, so the row does not list them.
func permissions(methods []method) string {
	calls := map[server.Action][]string{}
	for _, m := range methods {
		if m.policy.Action != "" {
			calls[m.policy.Action] = append(calls[m.policy.Action], m.name)
		}
	}
	actions := slices.SortedFunc(maps.Keys(calls), func(a, b server.Action) int {
		return cmp.Or(cmp.Compare(len(b.Roles()), len(a.Roles())), cmp.Compare(a, b))
	})
	var b strings.Builder
	b.WriteString("| Permission | Roles | Calls |\n|---|---|---|\n")
	for i, action := range actions {
		listed := codes(calls[action])
		if i == 0 {
			listed = "All other calls for members"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", action, join(action.Roles()), listed)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// conditions returns the table of the conditions that some methods have besides the
// permission.
func conditions(methods []method) string {
	var b strings.Builder
	b.WriteString("| Condition | Calls |\n|---|---|\n")
	for _, row := range []struct {
		condition string
		applies   func(server.Policy) bool
	}{
		{"A service token must have `allowPayouts`, and a member a second factor if the workspace requires it", func(p server.Policy) bool { return p.Payouts }},
		{"A service token must be of live mode, because the call concerns both modes", func(p server.Policy) bool { return p.ServiceMode == affiliate.ModeLive }},
		{"A service token must be of test mode; `X-Mode` is ignored", func(p server.Policy) bool { return p.ServiceMode == affiliate.ModeTest && p.IgnoresMode }},
		{"In live mode, the address of the caller must be verified if the operator requires it", func(p server.Policy) bool { return p.Verified == server.VerifiedForLive }},
		{"In both modes, the address of the caller must be verified if the operator requires it", func(p server.Policy) bool { return p.Verified == server.VerifiedAlways }},
	} {
		var names []string
		for _, m := range methods {
			if row.applies(m.policy) {
				names = append(names, m.name)
			}
		}
		fmt.Fprintf(&b, "| %s | %s |\n", row.condition, codes(names))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// fraudRules returns the table of the fraud rules, the highest score first.
func fraudRules() string {
	var b strings.Builder
	b.WriteString("| Rule | Score | Fires if |\n|---|---|---|\n")
	for _, rule := range fraud.Rules() {
		fmt.Fprintf(&b, "| `%s` | %d | %s |\n", rule.Name, rule.Score, rule.Description)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func codes(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }

func join(roles []affiliate.Role) string {
	texts := make([]string, len(roles))
	for i, role := range roles {
		texts[i] = string(role)
	}
	return strings.Join(texts, ", ")
}
