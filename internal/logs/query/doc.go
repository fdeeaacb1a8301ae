// Package query runs the Logs Insights queries that were started.
//
// [Runner.Controller] reads record.LogQueries. A query without a record.LogQueryRun waits for its turn
// (Scheduled), runs (Running), and ends: its results are written to a file, then its run to
// record.LogQueryRuns, which this package alone writes. What runs is in memory only: a daemon that dies runs
// its unfinished queries again from their beginning when it is back. Seven days after its end a query is
// deleted with all that it left.
//
// A query looks at blocks of the store of log events (internal/logs/events) with as many goroutines as there
// are processors. What the plan of internal/logs/insights says of every event it wants, its Where, rules out
// rows from the cheap to the expensive (block.go): whole blocks by their time, their words and the values
// that they hold at all; rows by their time, stream and the columns kept apart; then rows whose messages lack
// a word; and what is left goes through the plan, which reads the JSON of a message only for fields that no
// column has (event.go). What the plan keeps of an event that the result shows is, in the place of its
// message, a reference: the messages of the result's rows are read once it is known which they are, block by
// block, into the file of the results (messages.go, results.go), which needs neither the events nor their log
// group any more.
//
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/AnalyzingLogData.html
package query
