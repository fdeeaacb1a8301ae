// Package logquery runs Logs Insights queries.
//
// [Runner.Controller] reads record.LogQueries. A query without a record.LogQueryRun waits for its turn (Scheduled),
// runs (Running), and ends: its results are written to a file, then its run to record.LogQueryRuns, of which this
// package is the only writer. The state of a running query is in memory only: a daemon that was killed runs unfinished
// queries again from their beginning. A query is deleted with its results seven days after its end.
//
// [Runner.Results] reads results for GetQueryResults: those of a query that has ended from its file, the first rows of
// a running one from memory. They are too large for the store, as log events are.
//
// A query scans blocks of the store of log events (internal/logs/events) with one goroutine for each processor. The
// predicate of the plan (Where, internal/logs/insights) excludes rows from the cheap to the expensive (block.go): whole
// blocks by their time, their words and their distinct values; rows by their time, stream and separate columns; then
// rows whose messages lack a word. The remaining rows pass through the plan, which parses the JSON of a message only
// for fields without a column (event.go). For an event in the result, the plan keeps a reference instead of the
// message: the messages of the final rows are read block by block into the file of the results (messages.go,
// results.go), which then depends neither on the events nor on their log group.
//
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/AnalyzingLogData.html
package logquery
