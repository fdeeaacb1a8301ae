// Package insights is the query language of CloudWatch Logs Insights: its grammar, its meaning, and the pipeline that
// computes a result from log events. It is pure: it reads no events itself and knows no clock. Who runs queries
// (internal/logs/query) does this:
//
//	q, err := insights.Parse(text)             // *SyntaxError says what is wrong and where
//	plan, err := insights.Compile(q, options)  // the same
//	// skip blocks that plan.Where() rules out; per goroutine:
//	w := plan.NewWorker(); for each event in plan.Windows(): w.Push(event)
//	result, err := plan.Finish(workers)
//
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax.html
package insights
