package program

// Statements whose query plans the tests check.
const (
	ListRulesSQL         = listRules
	ListGroupsSQL        = listGroups
	CountGroupMembersSQL = countGroupMembers
)

// CountGroupsSQL counts the groups of a programme.
var CountGroupsSQL = countGroups
