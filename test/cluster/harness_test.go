package cluster

import "time"

const (
	// limit is how long a change may take to be seen before a test gives up; how long it
	// does take is measured by the benchmarks.
	limit = 30 * time.Second
	poll  = 100 * time.Millisecond
)
