// Package audit prints the timeline of a Kubernetes object from the audit log of its cluster: what `coracle audit
// daemonset/aws-node -n kube-system` prints.
//
// The log is in CloudWatch Logs, and this package reads it there like everybody's tools: a Logs Insights query for what
// was (query.go), FilterLogEvents for what comes (follow.go). It talks to no API server and opens no file.
//
//	arguments -> Target           what is asked for (target.go, kinds.go)
//	Target    -> query, pattern   what CloudWatch Logs is asked (query.go)
//	message   -> audit Event      (event.go)
//	Event     -> Step             who did what, with what outcome (timeline.go, who.go, client.go, refusal.go,
//	                              webhook.go)
//	versions  -> Changes          which fields (difference.go), whose they are (owners.go)
//	Steps     -> text or JSON     (fold.go, render.go)
//
// Everything between the message and the text is pure. A [Timeline] knows the versions of an object by their resource
// version, which orders writes more truly than the log's timestamps do.
package audit
