package affiliate
type Program struct { ID ProgramID }
type ( Workspace struct{}; User struct{}; Session struct{}; APIKey struct{}; Participant struct{}; Click struct{}; Conversion struct{}; Commission struct{}; Decision struct{}; Event struct{} )
