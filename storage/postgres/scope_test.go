package postgres

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// statement is an SQL statement in the source code. The text includes the constants and
// the results of functions from which the statement is built. It does not include parts
// that the code adds only under a condition. The name has the form
// [package/]function.variable and says where the statement is.
type statement struct {
	name, text string
}

var (
	// sqlStart matches the start of an SQL statement.
	sqlStart = regexp.MustCompile(`(?is)^\s*(select|insert|update|delete|with)\b`)
	// tableNames matches the names of the tables that a statement reads and writes.
	tableNames = regexp.MustCompile(`(?i)\b(?:from|join|into|update|using)\s+([a-z_]+)\b`)
)

// scopedTables contains the tables whose rows belong to a workspace. The value reports
// whether a row also belongs to one mode.
var scopedTables = map[string]bool{
	"conditions": true, // see statementsIn
	"api_keys":   true, "service_tokens": true, "programs": true, "participants": true, "participant_invites": true, "referral_codes": true, "links": true, "promo_codes": true,
	"customers": true, "customer_payments": true, "clicks": true, "clicks_default": true, "click_days": true, "awaited_clicks": true, "conversions": true, "attribution_decisions": true,
	"commissions": true, "commission_counts": true, "ledger_entries": true, "payouts": true, "payout_batches": true, "refunds": true,
	"idempotency_keys": true, "fraud_events": true, "events": true, "webhook_endpoints": true, "webhook_deliveries": true, "stats_deltas": true,
	"mails": false, "members": false, "member_invites": false, "program_rules": false, "groups": false, "commission_history": false, "audit_log": false,
	"ledger_balances": false, "payout_commissions": false, "participant_totals": false, "link_totals": false, "list_counts": false,
	"announcements": true, "erased_values": true, "conversion_aliases": true, "processor_charges": true, "processor_charge_aliases": true, "processor_disputes": true,
	"buyer_erasures": false, "buyer_erasure_keys": false, "buyer_erasure_customers": false, "buyer_erasure_sales": true,
	"analytics_locks": true, "analytics_log": true, "analytics_days": true, "analytics_values": true, "analytics_conversions": true, "analytics_customers": true, "analytics_cohorts": true,
	"erasure_participants": false, "test_data_resets": false,
}

// ownedTables contains the tables whose rows belong to a feed, to a user, to a session or to
// the subject of an export. The value is the column with the owner. These tables are not in
// scopedTables, because the feed of a partner contains notifications of several workspaces and
// of the partner's account. The same is true of the export of a partner.
var ownedTables = map[string]string{
	"exports": "subject_id", "export_chunks": "export_id", "export_tokens": "export_id", "export_recipients": "export_id",
	"notifications": "feed_id", "notification_dismissals": "feed_id", "notification_arrivals": "feed_ids",
	"notification_feeds": "feed_id", "notification_positions": "feed_id",
	"notification_reads": "user_id", "notification_watermarks": "user_id", "notification_preferences": "user_id",
	"notification_digests": "user_id", "notification_periods": "feed_id", "notification_streams": "user_id", "notification_stream_tickets": "session_id",
}

// A statement about the rows of a feed, a user or a session must mention the column of the
// owner, or it must be in the map unowned with a reason.
func TestStatements_MentionOwner(t *testing.T) {
	found := map[string]bool{}
	for _, s := range parseStatements(t) {
		for _, match := range tableNames.FindAllStringSubmatch(s.text, -1) {
			owner, ok := ownedTables[strings.ToLower(match[1])]
			if !ok || regexp.MustCompile(`\b`+owner+`\b`).MatchString(s.text) {
				continue
			}
			found[s.name] = true
			if unowned[s.name] == "" {
				t.Errorf("the statement %s does not mention %s of %s, and is not in unowned with a reason\n%s", s.name, owner, match[1], s.text)
			}
		}
	}
	for name := range unowned {
		if !found[name] {
			t.Errorf("the statement %s is in unowned, but does not exist or mentions the owner", name)
		}
	}
}

// A new table of notifications must be in ownedTables, so that the test above checks its
// statements.
func TestOwnedTables_ContainAllTablesOfNotifications(t *testing.T) {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]bool{}
	for _, file := range files {
		sql, err := migrations.ReadFile("migrations/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^create table (notification\w*) \(`).FindAllStringSubmatch(string(sql), -1) {
			tables[match[1]] = true
			if ownedTables[match[1]] == "" {
				t.Errorf("the table %s of %s is not in ownedTables", match[1], file.Name())
			}
		}
	}
	owned := 0
	for table := range ownedTables {
		if strings.HasPrefix(table, "notification") {
			owned++
		}
	}
	if len(tables) != owned {
		t.Errorf("the migrations create %d tables of notifications, and ownedTables has %d", len(tables), owned)
	}
}

// unowned contains the statements that need not mention the owner of a row, with the
// reasons.
var unowned = map[string]string{
	"notification/package.deleteOldReads":       "periodic maintenance of all users",
	"notification/package.deleteExpiredTickets": "periodic maintenance of all sessions",
	"notification/package.deleteLostStreams":    "periodic maintenance of all users",
	"notification/package.oldestArrival":        "the distributor serves all feeds",
	"notification/Waiting.query":                "arrivals that were found by their feed",
	"notification/CloseStream.remove":           "a stream that the process has opened, named by its random id",
	"notification/SeeStreams.update":            "streams that the process has opened, named by their random ids",
	"notification/CloseStreamsOfTicket.use":     "the ticket was found by its digest, which determines the session",
}

// allColumns stands for all columns of a record in a statement of an export.
var allColumns = regexp.MustCompile(`\{\w\}`)

// A statement about rows of a workspace must mention the columns workspace and mode, or
// it must be in the map unscoped with a reason. The test parses the source code to find
// all statements.
func TestStatements_MentionWorkspaceAndMode(t *testing.T) {
	found := map[string]bool{}
	for _, s := range parseStatements(t) {
		var workspace, mode bool
		for _, match := range tableNames.FindAllStringSubmatch(s.text, -1) {
			hasMode, ok := scopedTables[strings.ToLower(match[1])]
			workspace, mode = workspace || ok, mode || hasMode
		}
		// Some statements of exports read both modes, or several workspaces. Each record says
		// where it belongs.
		if strings.HasPrefix(s.name, "export/") {
			s.text = allColumns.ReplaceAllString(s.text, "workspace_id, mode")
		}
		lacks := workspace && !strings.Contains(s.text, "workspace") || mode && !regexp.MustCompile(`\bmode\b`).MatchString(s.text)
		switch reason, excepted := unscoped[s.name]; {
		case lacks && !excepted:
			t.Errorf("the statement %s does not mention workspace or mode, and is not in unscoped\n%s", s.name, s.text)
		case lacks:
			found[s.name] = true
			if reason == "" {
				t.Errorf("the statement %s is in unscoped without a reason", s.name)
			}
		}
	}
	for name := range unscoped {
		if !found[name] {
			t.Errorf("the statement %s is in unscoped, but does not exist or mentions workspace and mode", name)
		}
	}
}

// parseStatements returns the SQL statements in this package and its sub-packages.
func parseStatements(t *testing.T) []statement {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]*source{"": parsePackage(t, "")}
	for _, entry := range entries {
		if entry.IsDir() && entry.Name() != "pgtest" {
			packages[entry.Name()] = parsePackage(t, entry.Name())
		}
	}
	// The structs of affiliate can be rows.
	const domain = "../../affiliate"
	packages["affiliate/affiliate"] = parsePackage(t, domain)
	if entries, err = os.ReadDir(domain); err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			packages["affiliate/"+entry.Name()] = parsePackage(t, filepath.Join(domain, entry.Name()))
		}
	}
	for _, src := range packages {
		src.packages = packages
	}
	var all []statement
	for folder, src := range packages {
		prefix := ""
		if folder != "" {
			prefix = folder + "/"
		}
		for _, decl := range src.decls {
			all = append(all, src.statementsIn(decl, prefix)...)
		}
	}
	slices.SortFunc(all, func(a, b statement) int { return strings.Compare(a.name, b.name) })
	if len(all) < 300 {
		t.Fatalf("%d statements were found, want at least 300", len(all))
	}
	return all
}

// parsePackage returns the source of the package in a folder, as seen from storage/postgres.
func parsePackage(t *testing.T, folder string) *source {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(".", folder))
	if err != nil {
		t.Fatal(err)
	}
	src := &source{values: map[string]ast.Expr{}, functions: map[string]*ast.FuncDecl{}, structs: map[string]*ast.StructType{}, imports: map[string]string{}}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, entry.Name()), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		src.add(file)
	}
	return src
}

// source contains the parts from which the statements of a package are built, by name.
type source struct {
	decls     []ast.Decl
	values    map[string]ast.Expr      // package-level constants and variables
	functions map[string]*ast.FuncDecl // functions, but not methods
	structs   map[string]*ast.StructType
	imports   map[string]string  // folders of the imported packages of storage by local name
	packages  map[string]*source // all packages by folder
}

// add adds the constants, variables, functions and structs of a file.
func (s *source) add(file *ast.File) {
	const storage = "github.com/tributary-hq/tributary/storage/postgres"
	for _, spec := range file.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		folder, ok := strings.CutPrefix(name, storage)
		if !ok {
			continue
		}
		local := path.Base(name)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		s.imports[local] = strings.TrimPrefix(folder, "/")
	}
	s.decls = append(s.decls, file.Decls...)
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				s.functions[decl.Name.Name] = decl
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for i, value := range spec.Values {
						s.values[spec.Names[i].Name] = value
					}
				case *ast.TypeSpec:
					if row, ok := spec.Type.(*ast.StructType); ok {
						s.structs[spec.Name.Name] = row
					}
				}
			}
		}
	}
}

// columns returns the columns of a struct, as RowsOf takes them.
func (s *source) columns(row ast.Expr) (columns string) {
	from, name := s, types.ExprString(row)
	if domain, typeName, qualified := strings.Cut(name, "."); qualified {
		from, name = s.packages["affiliate/"+domain], typeName
	}
	if from == nil || from.structs[name] == nil {
		return ""
	}
	var columnsSb291 strings.Builder
	for _, field := range from.structs[name].Fields.List {
		var tag string
		if field.Tag != nil {
			tag, _ = strconv.Unquote(field.Tag.Value)
			tag, _, _ = strings.Cut(reflect.StructTag(tag).Get("db"), ",")
		}
		if len(field.Names) == 0 {
			columnsSb291.WriteString(from.columns(field.Type))
		} else {
			columnsSb291.WriteString(cmp.Or(tag, snakeCase(field.Names[0].Name)) + " ")
		}
	}
	columns += columnsSb291.String()
	return columns
}

// imported returns the package of storage that a qualified name such as programs.Columns
// belongs to, and the name in that package.
func (s *source) imported(e ast.Expr) (pkg *source, name string, ok bool) {
	selector, ok := e.(*ast.SelectorExpr)
	if !ok {
		return nil, "", false
	}
	folder, ok := s.imports[types.ExprString(selector.X)]
	return s.packages[folder], selector.Sel.Name, ok
}

// statementsIn returns the statements in a declaration. A statement is a text that begins
// like an SQL statement and that is the value of a constant or variable, an argument of a
// call, or a result of a function.
func (s *source) statementsIn(decl ast.Decl, prefix string) []statement {
	owner, local := "package", map[string][]ast.Expr{}
	if fn, ok := decl.(*ast.FuncDecl); ok {
		owner, local = fn.Name.Name, localValues(fn)
	}
	var found []statement
	add := func(name string, value ast.Expr) {
		if _, named := value.(*ast.Ident); named {
			return // The statement was found at the declaration of this name.
		}
		if text := s.text(value, local); sqlStart.MatchString(text) {
			found = append(found, statement{prefix + owner + "." + name, text})
		}
	}
	ast.Inspect(decl, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ValueSpec:
			for i, value := range node.Values {
				add(node.Names[i].Name, value)
			}
			if node.Type != nil && strings.HasSuffix(types.ExprString(node.Type), "Conditions") {
				// The variable contains terms of a WHERE clause, from which other
				// functions build statements. It counts as a statement of its own.
				name := node.Names[0].Name
				found = append(found, statement{prefix + owner + "." + name, "select from conditions where " + s.join(local[name], nil)})
			}
		case *ast.AssignStmt:
			for i, value := range node.Rhs {
				if len(node.Lhs) == len(node.Rhs) {
					add(types.ExprString(node.Lhs[i]), value)
				}
			}
		case *ast.ReturnStmt:
			for _, value := range node.Results {
				add("result", value)
			}
		case *ast.CallExpr:
			if sqlStart.MatchString(s.text(node, local)) {
				return false // The call builds a statement, and its arguments are only parts.
			}
			for _, value := range node.Args {
				add("argument", value)
			}
		}
		return true
	})
	return found
}

// localValues returns the expressions from which the text of each local variable is
// built: the values that are assigned to the variable, and the texts that are written to
// it if it is a strings.Builder. It leaves out the bodies of if, for and switch, because
// the function may not run them.
func localValues(fn *ast.FuncDecl) map[string][]ast.Expr {
	values := map[string][]ast.Expr{}
	for _, node := range fn.Body.List {
		switch node := node.(type) {
		case *ast.DeclStmt:
			for _, spec := range node.Decl.(*ast.GenDecl).Specs {
				if spec, ok := spec.(*ast.ValueSpec); ok {
					for i, value := range spec.Values {
						values[spec.Names[i].Name] = append(values[spec.Names[i].Name], value)
					}
				}
			}
		case *ast.AssignStmt:
			for i, value := range node.Rhs {
				if name := types.ExprString(node.Lhs[i]); len(node.Lhs) == len(node.Rhs) {
					values[name] = append(values[name], value)
				}
			}
		case *ast.ExprStmt:
			if call, ok := node.X.(*ast.CallExpr); ok {
				if method, ok := call.Fun.(*ast.SelectorExpr); ok && (method.Sel.Name == "WriteString" || method.Sel.Name == "Add") {
					name := types.ExprString(method.X)
					values[name] = append(values[name], call.Args[0])
				}
			}
		}
	}
	return values
}

// text returns the text of an expression. It leaves out parts that it cannot evaluate.
func (s *source) text(e ast.Expr, local map[string][]ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.BinaryExpr:
		return s.text(e.X, local) + s.text(e.Y, local)
	case *ast.ParenExpr:
		return s.text(e.X, local)
	case *ast.Ident:
		if values, ok := local[e.Name]; ok {
			others := maps.Clone(local) // without e, because the value of e may contain e
			delete(others, e.Name)
			return s.join(values, others)
		}
		if value, ok := s.values[e.Name]; ok {
			return s.text(value, nil)
		}
	case *ast.SelectorExpr:
		if pkg, name, ok := s.imported(e); ok {
			return pkg.text(pkg.values[name], nil)
		}
	case *ast.CallExpr:
		return s.callText(e, local)
	}
	return ""
}

// join returns the texts of several expressions as one text.
func (s *source) join(parts []ast.Expr, local map[string][]ast.Expr) string {
	var all strings.Builder
	for _, part := range parts {
		all.WriteString(s.text(part, local))
	}
	return all.String()
}

// callText returns the text of a call that builds a statement or a part of it.
func (s *source) callText(call *ast.CallExpr, local map[string][]ast.Expr) string {
	if generic, ok := call.Fun.(*ast.IndexExpr); ok {
		switch name := types.ExprString(generic.X); {
		case strings.HasSuffix(name, "RowsOf"):
			return strings.ReplaceAll(s.text(call.Args[0], local), "{columns}", s.columns(generic.Index))
		case strings.HasSuffix(name, "Columns"):
			return s.columns(generic.Index)
		}
	}
	switch name := types.ExprString(call.Fun); {
	case name == "CountUpTo" || name == "postgres.CountUpTo":
		return "select count(*) " + s.text(call.Args[1], local)
	case name == "fmt.Sprintf":
		return s.join(call.Args, local)
	case strings.HasSuffix(name, ".SQL"):
		// The terms contain workspace and mode. The test checks this for each variable of
		// type Conditions (see statementsIn).
		return " workspace and mode "
	case strings.HasSuffix(name, ".String"):
		return s.text(call.Fun.(*ast.SelectorExpr).X, local)
	case s.functions[name] != nil:
		return s.resultText(s, s.functions[name], call, local)
	}
	if pkg, name, ok := s.imported(call.Fun); ok && pkg.functions[name] != nil {
		return s.resultText(pkg, pkg.functions[name], call, local)
	}
	return ""
}

// resultText returns the text that a function of pkg builds from the arguments of a call.
func (s *source) resultText(pkg *source, fn *ast.FuncDecl, call *ast.CallExpr, local map[string][]ast.Expr) string {
	inner := localValues(fn)
	position := 0
	for _, field := range fn.Type.Params.List {
		for _, param := range field.Names {
			if position < len(call.Args) {
				text := s.text(call.Args[position], local)
				inner[param.Name] = append(inner[param.Name], &ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(text)})
			}
			position++
		}
	}
	last, ok := fn.Body.List[len(fn.Body.List)-1].(*ast.ReturnStmt)
	if !ok || len(last.Results) != 1 {
		return ""
	}
	return pkg.text(last.Results[0], inner)
}

// unscoped contains the statements that need not mention workspace and mode, with the
// reasons.
var unscoped = map[string]string{
	"click/package.selectErased":                  "the keys of the participants come from clicks, and a participant has one mode",
	"privacy/finish.remove":                       "the erasure determines the participants",
	"privacy/package.mailPage":                    "the pages of an erasure contain the mails of all workspaces; only mails of the subject change",
	"privacy/package.argument":                    "a partner's account gets mails from several workspaces",
	"privacy/package.selectAbandoned":             "the job searches the accounts of all workspaces",
	"stats/package.foldStats":                     "the job adds the deltas of all workspaces; an id belongs to one mode",
	"payout/package.deletePayeeNames":             "the job deletes the names of all workspaces",
	"payout/package.deletePayoutAccounts":         "the job deletes the accounts of all workspaces",
	"payout/setBatchNames.read":                   "a member has one account for both modes, and the id of a service token has one mode",
	"notification/package.partnersWithout":        "a partner takes part in programmes of several workspaces",
	"notification/package.sumMonth":               "a partner earns in programmes of several workspaces",
	"webhook/package.claim":                       "the sender serves endpoints of all workspaces, named by workspace and id",
	"webhook/Release.release":                     "the sender serves endpoints of all workspaces, named by workspace and id",
	"webhook/package.unclaimed":                   "the sender serves endpoints of all workspaces",
	"webhook/package.selectLateness":              "metrics cover all workspaces",
	"webhook/package.targets":                     "the sender serves endpoints of all workspaces, named by workspace and id",
	"webhook/package.dueDeliveries":               "the sender serves endpoints of all workspaces, named by workspace and id",
	"webhook/package.applyOutcomes":               "deliveries that the sender has read, named by workspace and id",
	"webhook/package.lockDeliveryOfKey":           "a delivery that the sender has read, named by workspace and id",
	"webhook/page.result":                         "the conditions name workspace and endpoint, see newListQuery",
	"webhook/count.result":                        "the conditions name workspace and endpoint, see newListQuery",
	"webhook/package.cancelRemaining":             "periodic maintenance of all workspaces",
	"analytics/package.selectOldest":              "a metric about the log of all workspaces",
	"conversion/package.dropExpiredRefunds":       "periodic maintenance of all workspaces",
	"click/package.purgeDay":                      "periodic maintenance of all workspaces",
	"click/package.purgeStray":                    "periodic maintenance of all workspaces",
	"notification/package.deleteOldAnnouncements": "periodic maintenance of all workspaces",
	"StrayClicks.query":                           "periodic maintenance of all workspaces",
	"conversion/ArrivedClicks.page":               "the periodic job covers all workspaces",
	"conversion/DropExpiredAwaited.drop":          "the periodic job covers all workspaces",
	"click/countAndEnqueue.anyAwaited":            "checks whether any conversion waits, in any workspace",
	"conversion/package.selectStoredAwaited":      "the periodic job covers all workspaces; joined by workspace and id",
	"click/enqueueAwaited.awaited":                "clicks of all workspaces, joined by workspace and id",
	"partner/balancesSQL.result":                  "the two statements that are made with it restrict the partner or the participant, and the mode",
	"partner/Rename.rename":                       "a partner has one name in all workspaces",
	"participant/package.countInGroup":            "the group belongs to a programme that was read with its mode",
	"participant/package.countInGroupAndStatus":   "the group belongs to a programme that was read with its mode",
	"ledger/ListOfPartner.where":                  "the partner's own ledger, in all workspaces",
	"payout/ListOfPartner.where":                  "the partner's own payouts, in all workspaces",
	"CheckParticipation.known":                    "the partner's own participations, in all workspaces",
	"program/package.countGroupMembers":           "the groups belong to a programme that was read with its mode",
	"account/package.listInvites":                 "a member has one account for both modes, and the id of a service token has one mode",
	"account/ParticipantInviteAddress.query":      "the token of the invitation determines workspace and mode",
	"account/ResetUser.rename":                    "a partner has one name in all workspaces",
	"account/RevokeCredentials.keys":              "the credentials of both modes are revoked",
	"account/RevokeCredentials.tokens":            "the credentials of both modes are revoked",
	"account/Use.touch":                           "the key was found by its digest, which determines workspace and mode",
	"mail/logConditions.where":                    "the column logged has the mode",
	"mail/package.completeMail":                   "a mail that a job has read, found by its id",
	"mail/package.endLostMails":                   "periodic maintenance of all workspaces",
	"mail/package.deleteOldMails":                 "periodic maintenance of all workspaces",
	"account/ChangeEmail.copyEmail":               "a partner has one address in all workspaces",
}
