package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// overlap is the time that each query reaches back before the previous one. An event that is logged later than that is
// missed; one that is read twice is shown once, by its audit ID.
const overlap = time.Minute

// followEvents gives new events as they come, until the context ends. trouble hears of looks that failed,
// once each time it begins: the daemon may be restarting, and what happens meanwhile is found afterwards,
// since the next look begins where the last that succeeded ended.
func (r *reader) followEvents(ctx context.Context, targets []Target, since time.Time, now func() time.Time,
	every time.Duration, each func([]*auditv1.Event) error, trouble func(error)) error {
	pattern := Pattern(targets)
	tick := time.NewTicker(every)
	defer tick.Stop()
	failing := false
	for {
		asked := now()
		events, err := r.listNewEvents(ctx, pattern, since.Add(-overlap))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			trouble(err)
		}
		if failing = err != nil; !failing {
			since = asked
			r.forgetBefore(since.Add(-2 * overlap))
			if len(events) > 0 {
				if err := each(events); err != nil {
					return err
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// listNewEvents returns all events since a time that were not seen before.
func (r *reader) listNewEvents(ctx context.Context, pattern string, since time.Time) ([]*auditv1.Event, error) {
	var events []*auditv1.Event
	in := &cloudwatchlogs.FilterLogEventsInput{
		LogGroupName: &r.group, LogStreamNamePrefix: aws.String(streams), FilterPattern: &pattern,
		StartTime: aws.Int64(since.UnixMilli()),
	}
	for {
		out, err := r.logs.FilterLogEvents(ctx, in)
		if err != nil {
			// What this look has found is found again by the next.
			for _, e := range events {
				delete(r.seen, string(e.AuditID)+string(e.Stage))
			}
			return nil, fmt.Errorf("follow %s: %w", r.group, err)
		}
		for _, found := range out.Events {
			e, err := decodeEvent([]byte(aws.ToString(found.Message)))
			if err != nil {
				return nil, err
			}
			if r.isFirstSeen(e) {
				events = append(events, e)
			}
		}
		if out.NextToken == nil {
			return events, nil
		}
		in.NextToken = out.NextToken
	}
}
