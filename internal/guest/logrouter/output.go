//go:build linux

package logrouter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/coracle-eks/coracle/internal/fargate/fluentbit"
)

// The limits of PutLogEvents.
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html
const (
	maxBatchEvents = 10000
	maxBatchBytes  = 1 << 20
	eventOverhead  = 26 // bytes that count for each event beside its message
	maxEvent       = 256<<10 - eventOverhead
	maxSpan        = 24 * time.Hour
)

const (
	memoryOverhead = 200  // bytes of memory of an event beside its message
	maxStreams     = 1000 // log streams that an output remembers to have created
	callTimeout    = 30 * time.Second
)

// event is what is delivered of a record.
type event struct {
	chunk         *chunk
	at            int64 // milliseconds since 1970
	message       string
	group, stream string
}

func (e *event) size() int64 {
	return int64(len(e.message) + len(e.group) + len(e.stream) + memoryOverhead)
}

// output sends events to CloudWatch Logs. One goroutine runs it; add is called by others.
type output struct {
	component string
	config    *fluentbit.CloudWatch
	client    *cloudwatchlogs.Client
	log       *processLog
	timing    timing
	done      func(*event) // an event has been delivered, or given up

	mu      sync.Mutex
	pending []*event

	created map[[2]string]bool
}

// newOutput returns the output number i of the configuration.
func newOutput(i int, name string, c *fluentbit.CloudWatch, base aws.Config, timing timing, log *processLog,
	done func(*event)) *output {
	region := base.Copy()
	region.Region = c.Region
	if c.RoleARN != "" {
		client := sts.NewFromConfig(region, func(o *sts.Options) {
			if c.STSEndpoint != "" {
				o.BaseEndpoint = aws.String(c.STSEndpoint)
			}
		})
		region.Credentials = aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(client, c.RoleARN,
			func(o *stscreds.AssumeRoleOptions) {
				o.RoleSessionName = "fluent-bit"
				if c.ExternalID != "" {
					o.ExternalID = aws.String(c.ExternalID)
				}
			}))
	}
	return &output{
		component: fmt.Sprintf("output:%s:%s.%d", name, name, i), config: c, log: log, timing: timing, done: done,
		created: map[[2]string]bool{},
		client: cloudwatchlogs.NewFromConfig(region, func(o *cloudwatchlogs.Options) {
			if c.Endpoint != "" {
				o.BaseEndpoint = aws.String(c.Endpoint)
			}
			if c.LogFormat != "" {
				o.APIOptions = append(o.APIOptions, smithyhttp.SetHeaderValue("x-amzn-logs-format", c.LogFormat))
			}
		}),
	}
}

// event returns what is sent of a record, or nil when that is nothing.
func (o *output) event(r *record) *event {
	var message string
	if key := o.config.LogKey; key != "" {
		v, ok := r.body.get(key)
		if !ok {
			o.log.error(o.component, "Could not find log_key '%s' in record", key)
			return nil
		}
		if s, isText := v.(string); isText {
			message = strings.ToValidUTF8(s, "\uFFFD")
		} else {
			message = string(appendJSON(nil, v, maxEvent))
		}
	} else {
		message = string(appendJSON(nil, r.body, maxEvent))
	}
	if message == "" {
		return nil
	}
	if len(message) > maxEvent {
		o.log.warn(o.component, "[size>=%d] Truncating event which is larger than max size allowed by CloudWatch",
			len(message))
		end := maxEvent
		for !utf8.RuneStart(message[end]) {
			end--
		}
		message = strings.Clone(message[:end])
	}
	e := &event{at: r.time.UnixMilli(), message: message, group: o.config.GroupName, stream: o.config.StreamName}
	if o.config.StreamPrefix != "" {
		e.stream = o.config.StreamPrefix + r.tag
	}
	if o.config.GroupTemplate != nil {
		if name, ok := render(o.config.GroupTemplate, r, nil); ok && name != "" {
			e.group = name
		}
	}
	if o.config.StreamTemplate != nil {
		if name, ok := render(o.config.StreamTemplate, r, nil); ok && name != "" {
			e.stream = name
		}
	}
	// Longer names are invalid, and would only cost memory.
	e.group, e.stream = e.group[:min(len(e.group), 600)], e.stream[:min(len(e.stream), 600)]
	return e
}

func (o *output) add(e *event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending = append(o.pending, e)
}

// run sends what is added, until ctx ends; then what is left, until final ends.
func (o *output) run(ctx, final context.Context) {
	ticker := time.NewTicker(o.timing.flush)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			o.flush(final)
		case <-ctx.Done():
			o.flush(final)
			return
		}
	}
}

// flush sends what has been added. What is not sent when ctx ends is not done.
func (o *output) flush(ctx context.Context) {
	o.mu.Lock()
	pending := o.pending
	o.pending = nil
	o.mu.Unlock()
	streams := map[[2]string][]*event{}
	var order [][2]string
	for _, e := range pending {
		key := [2]string{e.group, e.stream}
		if streams[key] == nil {
			order = append(order, key)
		}
		streams[key] = append(streams[key], e)
	}
	for _, key := range order {
		events := streams[key]
		slices.SortStableFunc(events, func(a, b *event) int { return int(max(-1, min(1, a.at-b.at))) })
		for _, batch := range batches(events) {
			if !o.send(ctx, key, batch) {
				return
			}
			for _, e := range batch {
				o.done(e)
			}
		}
	}
}

// batches divides events in the order of time as the limits of PutLogEvents demand.
func batches(events []*event) [][]*event {
	var all [][]*event
	start, size := 0, 0
	for i, e := range events {
		n := len(e.message) + eventOverhead
		span := time.Duration(e.at-events[start].at) * time.Millisecond
		if i > start && (i-start == maxBatchEvents || size+n > maxBatchBytes || span >= maxSpan) {
			all = append(all, events[start:i])
			start, size = i, 0
		}
		size += n
	}
	if start < len(events) {
		all = append(all, events[start:])
	}
	return all
}

// send puts a batch. It tries again for as long as an error is temporary, and else as often as Retry_Limit says, before
// it gives the batch up. It reports false when ctx has ended before.
func (o *output) send(ctx context.Context, key [2]string, batch []*event) bool {
	pause := o.timing.backoff
	for failures := 0; ; {
		err := o.putEvents(ctx, key, batch)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if !temporary(err) {
			if failures++; o.config.Retries >= 0 && failures > o.config.Retries {
				o.log.error(o.component, "Failed to send events: %d events for log stream %s in log group %s are lost: %v",
					len(batch), key[1], key[0], err)
				return true
			}
		}
		o.log.warn(o.component, "Failed to send %d events, will retry in %v: %v", len(batch), pause, err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false
		}
		pause = min(2*pause, o.timing.maxPause)
	}
}

// temporary reports whether a call may succeed later without anybody's doing: AWS was not reached, is busy or broken,
// or there are no credentials yet.
func temporary(err error) bool {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return true
	}
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && (response.HTTPStatusCode() >= 500 || response.HTTPStatusCode() == 429) {
		return true
	}
	switch api.ErrorCode() {
	case "ThrottlingException", "Throttling", "ServiceUnavailableException", "OperationAbortedException",
		"RequestLimitExceeded", "ExpiredTokenException", "ExpiredToken", "RequestTimeTooSkewed":
		return true
	}
	return false
}

// putEvents creates the log stream, if it has not been, and puts a batch.
func (o *output) putEvents(ctx context.Context, key [2]string, batch []*event) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if !o.created[key] {
		if err := o.create(ctx, key[0], key[1]); err != nil {
			return err
		}
	}
	events := make([]types.InputLogEvent, len(batch))
	for i, e := range batch {
		events[i] = types.InputLogEvent{Timestamp: aws.Int64(e.at), Message: aws.String(e.message)}
	}
	out, err := o.client.PutLogEvents(ctx, &cloudwatchlogs.PutLogEventsInput{LogGroupName: aws.String(key[0]),
		LogStreamName: aws.String(key[1]), LogEvents: events})
	var accepted *types.DataAlreadyAcceptedException
	var missing *types.ResourceNotFoundException
	switch {
	case errors.As(err, &accepted):
		return nil
	case errors.As(err, &missing):
		delete(o.created, key) // somebody has deleted it: it is created again
		return err
	case err != nil:
		return err
	}
	if rejected := out.RejectedLogEventsInfo; rejected != nil {
		o.log.warn(o.component, "CloudWatch Logs rejected events of log stream %s that are too old or too new: "+
			"too old to index %d, expired to index %d, too new from index %d", key[1],
			aws.ToInt32(rejected.TooOldLogEventEndIndex), aws.ToInt32(rejected.ExpiredLogEventEndIndex),
			aws.ToInt32(rejected.TooNewLogEventStartIndex))
	}
	return nil
}

// create makes sure that a log stream is there, and its log group if auto_create_group says so.
func (o *output) create(ctx context.Context, group, stream string) error {
	createStream := func() error {
		o.log.info(o.component, "Creating log stream %s in log group %s", stream, group)
		_, err := o.client.CreateLogStream(ctx, &cloudwatchlogs.CreateLogStreamInput{LogGroupName: aws.String(group),
			LogStreamName: aws.String(stream)})
		var exists *types.ResourceAlreadyExistsException
		if errors.As(err, &exists) {
			o.log.info(o.component, "Log Stream %s already exists", stream)
			return nil
		}
		if err == nil {
			o.log.info(o.component, "Created log stream %s", stream)
		}
		return err
	}
	err := createStream()
	var missing *types.ResourceNotFoundException
	if errors.As(err, &missing) && o.config.AutoCreateGroup {
		if err := o.createGroup(ctx, group); err != nil {
			return err
		}
		err = createStream()
	}
	if err != nil {
		return err
	}
	if len(o.created) >= maxStreams {
		clear(o.created)
	}
	o.created[[2]string{group, stream}] = true
	return nil
}

func (o *output) createGroup(ctx context.Context, group string) error {
	o.log.info(o.component, "Creating log group %s", group)
	_, err := o.client.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: aws.String(group),
		LogGroupClass: types.LogGroupClass(o.config.GroupClass), Tags: o.config.Tags})
	var exists *types.ResourceAlreadyExistsException
	if errors.As(err, &exists) {
		o.log.info(o.component, "Log Group %s already exists", group)
		return nil
	}
	if err != nil {
		return err
	}
	o.log.info(o.component, "Created log group %s", group)
	if o.config.RetentionDays == 0 {
		return nil
	}
	// As in Fluent Bit, a log group without the retention takes logs all the same.
	if _, err := o.client.PutRetentionPolicy(ctx, &cloudwatchlogs.PutRetentionPolicyInput{
		LogGroupName: aws.String(group), RetentionInDays: aws.Int32(o.config.RetentionDays)}); err != nil {
		o.log.error(o.component, "could not set the retention of log group %s to %d days: %v", group,
			o.config.RetentionDays, err)
	}
	return nil
}
