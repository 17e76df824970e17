package postgres

// Statements whose plans are checked.
const (
	ListRulesSQL         = listRules
	ListGroupsSQL        = listGroups
	CountGroupMembersSQL = countGroupMembers
)

// CountGroupsSQL counts the groups of a programme.
var CountGroupsSQL = countGroups
