package postgres

// The statements whose plans are under test.
const (
	ListRulesSQL     = listRules
	ListGroupsSQL    = listGroups
	CountInGroupsSQL = countInGroups
)

// CountGroupsSQL is the statement for the total of the groups.
var CountGroupsSQL = countGroups
