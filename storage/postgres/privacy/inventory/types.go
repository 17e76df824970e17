package inventory

import (
	"slices"
	"strings"
)

// Class says how directly a column identifies a person.
type Class string

// The classes. The package comment defines them.
const (
	Business     Class = "business"
	Pseudonymous Class = "pseudonymous"
	Personal     Class = "personal"
)

// Subject is a kind of person.
type Subject string

// The subjects. A member is a person with an account in a merchant's workspace. A visitor
// is a person who opens a referral link. A buyer is a person whose purchase or signup a
// merchant reports.
const (
	Partner Subject = "partner"
	Member  Subject = "member"
	Buyer   Subject = "buyer"
	Visitor Subject = "visitor"
)

// Erasure is a kind of erasure.
type Erasure string

// The erasures. ParticipantErasure erases one participation of a partner in a programme.
// AccountErasure erases the account of a partner with all participations.
// WorkspaceErasure erases the workspace of a merchant with all participations and buyers,
// and the accounts of its members. BuyerErasure erases a buyer of a workspace.
const (
	ParticipantErasure Erasure = "participant"
	AccountErasure     Erasure = "partner account"
	WorkspaceErasure   Erasure = "workspace"
	BuyerErasure       Erasure = "buyer"
)

// Erasures returns all kinds of erasures.
func Erasures() []Erasure {
	return []Erasure{ParticipantErasure, AccountErasure, WorkspaceErasure, BuyerErasure}
}

// Action is the effect of an erasure on a column, in the rows that concern the erased
// person or workspace.
type Action string

// The actions.
const (
	// NotConcerned means that the column has no data of the erased person or workspace.
	NotConcerned Action = ""
	// Kept means that the value does not change.
	Kept Action = "kept"
	// Null means that the value becomes null.
	Null Action = "null"
	// Pseudonym means that the pseudonym `erased-<8 hex>` replaces the value. A column with
	// unique values gets a different pseudonym in each row. Null stays null.
	Pseudonym Action = "pseudonym"
	// Emptied means that the value becomes an empty text, list or JSON object. Null stays
	// null.
	Emptied Action = "emptied"
	// RowDeleted means that the row is deleted.
	RowDeleted Action = "row deleted"
	// Redacted means that texts inside the value are replaced or removed and that the rest
	// of the value stays.
	Redacted Action = "redacted"
)

// Effects holds the action of each erasure.
type Effects struct {
	Participant, Account, Workspace, Buyer Action
}

// Of returns the action of an erasure.
func (e Effects) Of(erasure Erasure) Action {
	switch erasure {
	case ParticipantErasure:
		return e.Participant
	case AccountErasure:
		return e.Account
	case WorkspaceErasure:
		return e.Workspace
	case BuyerErasure:
		return e.Buyer
	}
	return NotConcerned
}

// Columns are columns of a table with the same class, subjects and effects.
type Columns struct {
	Names    []string
	Class    Class
	Subjects []Subject // none for Business
	// Contents describes the values in a few words, without an article, semicolons and a
	// full stop. It is empty for Business columns that no erasure changes.
	Contents string
	Effects  Effects
	// Note is a sentence that explains the effects. It is required if an erasure keeps a
	// Personal column.
	Note string
}

// Table is a table of the database. A partitioned table includes its partitions.
type Table struct {
	Name string
	// Row describes a row in one sentence.
	Row string
	// Kept says in one or more sentences how long a row is kept without an erasure.
	Kept string
	// Deleted lists the erasures that delete all rows of the erased person or workspace.
	// They take precedence over the effects of the columns.
	Deleted []Erasure
	Columns []Columns
	// Unlisted says why the columns are not listed. It is empty if they are listed. A table with
	// Unlisted is a table of a library, or stands for all tables of a schema, for example river.*.
	Unlisted string
}

// table returns a table whose columns are listed.
func table(name, row, kept string, columns ...Columns) Table {
	return Table{Name: name, Row: row, Kept: kept, Columns: columns}
}

// deletedBy sets Deleted.
func (t Table) deletedBy(erasures ...Erasure) Table {
	t.Deleted = erasures
	return t
}

// Effect returns what an erasure does to columns of the table.
func (t Table) Effect(columns Columns, erasure Erasure) Action {
	if slices.Contains(t.Deleted, erasure) {
		return RowDeleted
	}
	return columns.Effects.Of(erasure)
}

// HasPersonalData reports whether the table has a column that is not Business.
func (t Table) HasPersonalData() bool {
	return slices.ContainsFunc(t.Columns, func(c Columns) bool { return c.Class != Business })
}

// Area is a group of tables with data of the same category.
type Area struct {
	Title string
	// Data lists the personal data of the area in a few words.
	Data string
	// Purpose says for what the service uses the data.
	Purpose string
	// Kept sums up how long the data is kept without an erasure.
	Kept   string
	Tables []Table
}

// Subjects returns the kinds of persons whose data the area has.
func (a Area) Subjects() []Subject {
	var found []Subject
	for _, subject := range []Subject{Partner, Member, Buyer, Visitor} {
		if slices.ContainsFunc(a.Tables, func(t Table) bool {
			return slices.ContainsFunc(t.Columns, func(c Columns) bool { return slices.Contains(c.Subjects, subject) })
		}) {
			found = append(found, subject)
		}
	}
	return found
}

// Areas returns the inventory.
func Areas() []Area {
	return []Area{
		accounts, security, workspaces, auditLogs, programmes, participations,
		clicks, analytics, conversions, decisions, commissions, payouts, processors,
		webhooks, notifications, mails, system,
	}
}

// Tables returns the tables of all areas.
func Tables() []Table {
	var tables []Table
	for _, area := range Areas() {
		tables = append(tables, area.Tables...)
	}
	return tables
}

// Lists of subjects.
var (
	partner         = []Subject{Partner}
	member          = []Subject{Member}
	buyer           = []Subject{Buyer}
	visitor         = []Subject{Visitor}
	partnerOrMember = []Subject{Partner, Member}
	partnerOrBuyer  = []Subject{Partner, Buyer}
)

// unlimited is the retention of data that has no time limit.
const unlimited = "No time limit."

// business returns columns that refer to no person. The names are separated by spaces.
func business(names string) Columns {
	return Columns{Names: strings.Fields(names), Class: Business}
}

// merchantText returns Business columns with texts and secrets of a merchant. Only the
// erasure of the workspace changes them.
func merchantText(names, contents string, action Action) Columns {
	return Columns{Names: strings.Fields(names), Class: Business, Contents: contents, Effects: workspace(action)}
}

// ids returns columns with ids of persons. The ids are random and stay, because other rows refer to them.
func ids(subjects []Subject, names, contents string) Columns {
	var effects Effects
	for _, subject := range subjects {
		switch subject {
		case Partner:
			effects.Participant, effects.Account, effects.Workspace = Kept, Kept, Kept
		case Member:
			effects.Workspace = Kept
		case Buyer, Visitor:
			effects.Buyer, effects.Workspace = Kept, Kept
		}
	}
	return pseudonymous(subjects, names, contents, effects)
}

func pseudonymous(subjects []Subject, names, contents string, effects Effects) Columns {
	return Columns{Names: strings.Fields(names), Class: Pseudonymous, Subjects: subjects, Contents: contents, Effects: effects}
}

func personal(subjects []Subject, names, contents string, effects Effects) Columns {
	return Columns{Names: strings.Fields(names), Class: Personal, Subjects: subjects, Contents: contents, Effects: effects}
}

// because adds a note.
func (c Columns) because(note string) Columns {
	c.Note = note
	return c
}

// Each function below is for one kind of data. All erasures that concern this kind of data
// have the given action.

// participation is for data of a partner in a programme.
func participation(action Action) Effects {
	return Effects{Participant: action, Account: action, Workspace: action}
}

// account is for data of the account of a partner or a member.
func account(action Action) Effects { return Effects{Account: action, Workspace: action} }

// sale is for data of a buyer.
func sale(action Action) Effects { return Effects{Workspace: action, Buyer: action} }

// everyone is for data of partners and buyers.
func everyone(action Action) Effects {
	return Effects{Participant: action, Account: action, Workspace: action, Buyer: action}
}

// workspace is for data that only the erasure of the workspace changes.
func workspace(action Action) Effects { return Effects{Workspace: action} }
