package audit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Logs is the part of CloudWatch Logs that this package calls; *cloudwatchlogs.Client implements it.
type Logs interface {
	DescribeLogGroups(context.Context, *cloudwatchlogs.DescribeLogGroupsInput, ...func(*cloudwatchlogs.Options)) (
		*cloudwatchlogs.DescribeLogGroupsOutput, error)
	StartQuery(context.Context, *cloudwatchlogs.StartQueryInput, ...func(*cloudwatchlogs.Options)) (
		*cloudwatchlogs.StartQueryOutput, error)
	GetQueryResults(context.Context, *cloudwatchlogs.GetQueryResultsInput, ...func(*cloudwatchlogs.Options)) (
		*cloudwatchlogs.GetQueryResultsOutput, error)
	StopQuery(context.Context, *cloudwatchlogs.StopQueryInput, ...func(*cloudwatchlogs.Options)) (
		*cloudwatchlogs.StopQueryOutput, error)
	FilterLogEvents(context.Context, *cloudwatchlogs.FilterLogEventsInput, ...func(*cloudwatchlogs.Options)) (
		*cloudwatchlogs.FilterLogEventsOutput, error)
}

// streams is the prefix of the names of the audit log's streams.
const streams = "kube-apiserver-audit-"

// selection returns the filter command that finds the events about the targets.
func selection(targets []Target, reads bool) string {
	var any []string
	for _, t := range targets {
		any = append(any, "("+strings.Join(conditions(t), " and ")+")")
		if t.Name != "" && t.Namespace != "" && !t.Cluster {
			any = append(any, fmt.Sprintf("(objectRef.resource = %q and objectRef.name = %q and verb = \"delete\")",
				"namespaces", t.Namespace))
		}
	}
	text := "filter @logStream like /^kube-apiserver-audit/\n| filter " + strings.Join(any, "\n  or ")
	if !reads {
		text += "\n| filter (verb != \"get\" and verb != \"list\" and verb != \"watch\") or objectRef.subresource in " +
			"[\"exec\", \"attach\", \"portforward\"]"
	}
	return text
}

func conditions(t Target) []string {
	var all []string
	if len(t.Resources) == 1 {
		all = append(all, fmt.Sprintf("objectRef.resource = %q", t.Resources[0]))
	} else {
		var quoted []string
		for _, r := range t.Resources {
			quoted = append(quoted, strconv.Quote(r))
		}
		all = append(all, "objectRef.resource in ["+strings.Join(quoted, ", ")+"]")
	}
	switch {
	case t.AnyGroup:
	case t.Group == "":
		all = append(all, "not ispresent(objectRef.apiGroup)")
	default:
		all = append(all, fmt.Sprintf("objectRef.apiGroup = %q", t.Group))
	}
	switch {
	case t.Namespace == "":
	case t.Scoped:
		all = append(all, fmt.Sprintf("objectRef.namespace = %q", t.Namespace))
	default:
		all = append(all, fmt.Sprintf("(objectRef.namespace = %q or not ispresent(objectRef.namespace))", t.Namespace))
	}
	if t.Name != "" {
		// A creation under a generated name and the deletion of a collection have no name in objectRef.
		all = append(all,
			fmt.Sprintf(
				"(objectRef.name = %q or (not ispresent(objectRef.name) and (verb = \"deletecollection\" or @message "+
					"like '\"name\":\"%s\"')))", t.Name, t.Name))
	}
	return all
}

// Query returns the Logs Insights query for the events about the targets, the oldest first.
func Query(targets []Target, reads bool, limit int) string {
	return fmt.Sprintf("fields @timestamp, @message\n| %s\n| sort @timestamp asc\n| limit %d",
		selection(targets, reads), limit)
}

// Pattern returns a filter pattern that all events about the targets match, and some others.
func Pattern(targets []Target) string {
	var any []string
	for _, t := range targets {
		for _, r := range t.Resources {
			c := fmt.Sprintf("$.objectRef.resource = %q", r)
			if t.Scoped && t.Namespace != "" {
				c += fmt.Sprintf(" && $.objectRef.namespace = %q", t.Namespace)
			}
			any = append(any, "("+c+")")
		}
		if t.Name != "" && t.Namespace != "" && !t.Cluster {
			any = append(any, fmt.Sprintf("($.objectRef.resource = \"namespaces\" && $.objectRef.name = %q)",
				t.Namespace))
		}
	}
	return "{ " + strings.Join(any, " || ") + " }"
}

// reader reads the audit log of a cluster.
type reader struct {
	logs  Logs
	group string
	poll  time.Duration // between two looks at a running query
	page  int           // how many events a query is asked for at once
	seen  map[string]time.Time
}

// pageSize is the number of events that are held in memory at a time. An event with its object is some ten kilobytes.
const pageSize = 2500

// isFirstSeen reports whether an event is met for the first time.
func (r *reader) isFirstSeen(e *auditv1.Event) bool {
	id := string(e.AuditID) + string(e.Stage)
	if _, again := r.seen[id]; again {
		return false
	}
	r.seen[id] = e.StageTimestamp.Time
	return true
}

// forgetBefore lets go of IDs of events that can't come again.
func (r *reader) forgetBefore(before time.Time) {
	for id, t := range r.seen {
		if t.Before(before) {
			delete(r.seen, id)
		}
	}
}

// row is an event of a query's result, with the second in which it was logged.
type row struct {
	second int64
	event  *auditv1.Event
}

// readEvents gives the events about the targets in pages, the oldest first. A query's result is limited, so
// that the next page is a query from the last second of the one before.
func (r *reader) readEvents(ctx context.Context, targets []Target, reads bool, from, to time.Time,
	each func([]*auditv1.Event) error) error {
	start, limit := from.Unix(), r.page
	for {
		rows, err := r.runQuery(ctx, Query(targets, reads, limit), start, to.Unix())
		if err != nil {
			return err
		}
		var page []*auditv1.Event
		for _, row := range rows {
			if r.isFirstSeen(row.event) {
				page = append(page, row.event)
			}
		}
		if len(page) > 0 {
			if err := each(page); err != nil {
				return err
			}
		}
		if len(rows) < limit {
			return nil
		}
		last := rows[len(rows)-1].second
		switch {
		case last > start:
			start, limit = last, r.page
		case limit < 10000:
			limit = 10000 // the most that CloudWatch Logs gives
		default:
			return fmt.Errorf(
				"more than 10000 events about this are in the second after %s: ask for less with --verb, --namespace "+
					"or a name", time.Unix(last, 0).UTC().Format(time.RFC3339))
		}
	}
}

// runQuery runs a query of @timestamp and @message and waits for its result.
func (r *reader) runQuery(ctx context.Context, text string, start, end int64) ([]row, error) {
	results, err := r.queryRows(ctx, text, start, end)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, fields := range results {
		var next row
		for _, f := range fields {
			switch aws.ToString(f.Field) {
			case "@timestamp":
				t, err := time.Parse("2006-01-02 15:04:05.000", aws.ToString(f.Value))
				if err != nil {
					return nil, fmt.Errorf("a result of the query has no time: %w", err)
				}
				next.second = t.Unix()
			case "@message":
				if next.event, err = decodeEvent([]byte(aws.ToString(f.Value))); err != nil {
					return nil, err
				}
			}
		}
		if next.event != nil {
			rows = append(rows, next)
		}
	}
	return rows, nil
}

func (r *reader) queryRows(ctx context.Context, text string, start, end int64) ([][]logstypes.ResultField, error) {
	q, err := r.logs.StartQuery(ctx, &cloudwatchlogs.StartQueryInput{
		LogGroupName: &r.group, QueryString: &text, StartTime: &start, EndTime: &end,
	})
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", r.group, err)
	}
	tick := time.NewTicker(r.poll)
	defer tick.Stop()
	in := &cloudwatchlogs.GetQueryResultsInput{QueryId: q.QueryId}
	var rows [][]logstypes.ResultField
	for {
		out, err := r.logs.GetQueryResults(ctx, in)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("results of the query of %s: %w", r.group, err),
				r.stopQuery(ctx, q.QueryId))
		}
		switch out.Status {
		case logstypes.QueryStatusComplete: // rows that are long come in several answers
			rows, in.NextToken = append(rows, out.Results...), out.NextToken
			if in.NextToken == nil {
				return rows, nil
			}
			continue
		case logstypes.QueryStatusScheduled, logstypes.QueryStatusRunning:
		default:
			return nil, fmt.Errorf("the query of %s ended as %s", r.group, out.Status)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), r.stopQuery(ctx, q.QueryId))
		case <-tick.C:
		}
	}
}

// stopQuery ends a query that nobody waits for any more; it ends by itself otherwise, later.
func (r *reader) stopQuery(ctx context.Context, id *string) error {
	if ctx.Err() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, err := r.logs.StopQuery(ctx, &cloudwatchlogs.StopQueryInput{QueryId: id})
	return err
}

// earlier returns the newest events about the targets before a time, the oldest first: what the first changes after it
// are compared with.
func (r *reader) earlier(ctx context.Context, targets []Target, from, before time.Time) ([]*auditv1.Event, error) {
	text := fmt.Sprintf("fields @timestamp, @message\n| %s\n| sort @timestamp desc\n| limit 20",
		selection(targets, false))
	rows, err := r.runQuery(ctx, text, from.Unix(), before.Unix())
	if err != nil {
		return nil, err
	}
	var events []*auditv1.Event
	for _, row := range rows {
		if row.event.StageTimestamp.Time.Before(before) && r.isFirstSeen(row.event) {
			events = append(events, row.event)
		}
	}
	return events, nil
}

// namespaces returns the namespaces in which an object of that name and type was, for whoever looked in another.
func (r *reader) namespaces(ctx context.Context, t Target, from, to time.Time) ([]string, error) {
	t.Namespace = ""
	results, err := r.queryRows(ctx, selection([]Target{t}, false)+
		"\n| stats count(*) as steps by objectRef.namespace\n| sort steps desc\n| limit 5", from.Unix(), to.Unix())
	if err != nil {
		return nil, err
	}
	var names []string
	for _, fields := range results {
		for _, f := range fields {
			if aws.ToString(f.Field) == "objectRef.namespace" && aws.ToString(f.Value) != "" {
				names = append(names, *f.Value)
			}
		}
	}
	return names, nil
}

// created returns when the log group was made; false when there is none.
func (r *reader) created(ctx context.Context) (time.Time, bool, error) {
	out, err := r.logs.DescribeLogGroups(ctx, &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: &r.group})
	if err != nil {
		return time.Time{}, false, fmt.Errorf("look for log group %s: %w", r.group, err)
	}
	for _, g := range out.LogGroups {
		if aws.ToString(g.LogGroupName) == r.group {
			return time.UnixMilli(aws.ToInt64(g.CreationTime)), true, nil
		}
	}
	return time.Time{}, false, nil
}
