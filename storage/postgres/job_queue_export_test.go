package postgres

// SelectJobQueuesSQL is the statement whose plan a test checks.
const SelectJobQueuesSQL = selectJobQueues
