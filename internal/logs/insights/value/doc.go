// Package value implements the values of CloudWatch Logs Insights: their comparison, the functions and aggregates of
// the query language, the fields of JSON messages, regular expressions with bounds, and the clustering behind the
// `pattern` command. It is pure: no I/O, no clock, no goroutine. The language (grammar, plan, pipeline) is in the
// package above it.
//
// Strings that come out of a Document are parts of the message they were read from. Whoever keeps a Value for longer
// than the message lives calls Value.Clone; accumulators do so themselves.
//
// What each function and aggregate does is in docs/logs-insights-functions.md, whose examples are run by a test; the
// edges are in testdata/functions.txt. Where AWS's documentation says nothing, the comment at the function says what
// was chosen.
//
// Nothing here fails at run time: a function that is given a value it cannot work with answers Null, which is also what
// a field has that an event lacks.
package value
