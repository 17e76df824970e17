package postgres

// The statements whose plans are under test.
const (
	ListRulesSQL     = listRules
	ListGroupsSQL    = listGroups
	CountGroupsSQL   = countGroups
	CountInGroupsSQL = countInGroups
)
