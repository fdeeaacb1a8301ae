package logs_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// own returns the condition keys of a target that the service sets: without wire's global ones.
func own(t wire.Target) map[string]string {
	out := map[string]string{}
	for k, v := range t.Conditions {
		if strings.HasPrefix(k, "aws:ResourceTag/") || strings.HasPrefix(k, "aws:RequestTag/") || k == "aws:TagKeys" {
			out[k] = strings.Join(v, " ")
		}
	}
	return out
}

// Policies see the resource and the condition keys that AWS documents.
func TestTargets(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx, c := t.Context(), w.client
	name := aws.String("/aws/eks/c/cluster")
	bare := groupARN + *name
	group, tags := bare+":log-stream:", map[string]string{"aws:ResourceTag/team": "a"}
	if _, err := c.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: name,
		Tags: map[string]string{"team": "a"}}); err != nil {
		t.Fatal(err)
	}
	row, err := record.LogGroups(w.store).Get(ctx, record.LogGroupKey(account, region, *name))
	if err != nil {
		t.Fatal(err)
	}
	pointer := record.LogPointer{GroupID: row.Value.ID, Timestamp: 1, Seq: 1}.String()
	stream := aws.String("kube-apiserver-audit-0123")
	now := aws.Int64(today.Unix())
	for _, c := range []struct {
		action     string
		call       func() error
		resources  []string
		conditions map[string]string
	}{
		{"CreateLogGroup", call(c.CreateLogGroup, ctx,
			&cloudwatchlogs.CreateLogGroupInput{LogGroupName: aws.String("new"), Tags: map[string]string{"x": "y",
				"a": "b"}}), []string{groupARN + "new:log-stream:"}, map[string]string{"aws:RequestTag/x": "y",
			"aws:RequestTag/a": "b", "aws:TagKeys": "a x"}},
		{"DescribeLogGroups", call(c.DescribeLogGroups, ctx,
			&cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: name}), []string{groupARN + ":log-stream:"},
			nil},
		{"ListLogGroups", call(c.ListLogGroups, ctx, &cloudwatchlogs.ListLogGroupsInput{}),
			[]string{groupARN + ":log-stream:"}, nil},
		{"CreateLogStream", call(c.CreateLogStream, ctx, &cloudwatchlogs.CreateLogStreamInput{LogGroupName: name,
			LogStreamName: stream}), []string{group + *stream}, tags},
		{"PutLogEvents", call(c.PutLogEvents, ctx, &cloudwatchlogs.PutLogEventsInput{LogGroupName: name,
			LogStreamName: stream, LogEvents: batch("m")}), []string{group + *stream}, tags},
		{"GetLogEvents", call(c.GetLogEvents, ctx, &cloudwatchlogs.GetLogEventsInput{LogGroupIdentifier: &bare,
			LogStreamName: stream}), []string{group + *stream}, tags},
		{"FilterLogEvents", call(c.FilterLogEvents, ctx, &cloudwatchlogs.FilterLogEventsInput{LogGroupName: name,
			LogStreamNames: []string{*stream}}), []string{group}, tags},
		{"DescribeLogStreams", call(c.DescribeLogStreams, ctx,
			&cloudwatchlogs.DescribeLogStreamsInput{LogGroupIdentifier: name}), []string{group}, tags},
		{"GetLogGroupFields", call(c.GetLogGroupFields, ctx,
			&cloudwatchlogs.GetLogGroupFieldsInput{LogGroupName: name}), []string{group}, tags},
		{"GetLogRecord", call(c.GetLogRecord, ctx, &cloudwatchlogs.GetLogRecordInput{LogRecordPointer: &pointer}),
			[]string{group}, tags},
		{"PutRetentionPolicy", call(c.PutRetentionPolicy, ctx,
			&cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: name, RetentionInDays: aws.Int32(1)}),
			[]string{group}, tags},
		{"DeleteRetentionPolicy", call(c.DeleteRetentionPolicy, ctx,
			&cloudwatchlogs.DeleteRetentionPolicyInput{LogGroupName: name}), []string{group}, tags},
		{"PutLogGroupDeletionProtection", call(c.PutLogGroupDeletionProtection, ctx,
			&cloudwatchlogs.PutLogGroupDeletionProtectionInput{LogGroupIdentifier: &bare,
				DeletionProtectionEnabled: aws.Bool(false)}), []string{group}, tags},
		{"AssociateKmsKey", call(c.AssociateKmsKey, ctx, &cloudwatchlogs.AssociateKmsKeyInput{LogGroupName: name,
			KmsKeyId: aws.String("k")}), []string{group}, tags},
		{"TagResource", call(c.TagResource, ctx, &cloudwatchlogs.TagResourceInput{ResourceArn: &bare,
			Tags: map[string]string{"x": "y"}}), []string{bare}, map[string]string{"aws:ResourceTag/team": "a",
			"aws:RequestTag/x": "y", "aws:TagKeys": "x"}},
		{"UntagResource", call(c.UntagResource, ctx, &cloudwatchlogs.UntagResourceInput{ResourceArn: aws.String(bare),
			TagKeys: []string{"x"}}), []string{bare}, map[string]string{"aws:ResourceTag/team": "a",
			"aws:ResourceTag/x": "y", "aws:TagKeys": "x"}},
		{"ListTagsForResource", call(c.ListTagsForResource, ctx,
			&cloudwatchlogs.ListTagsForResourceInput{ResourceArn: &bare}), []string{bare}, tags},
		{"TagLogGroup", call(c.TagLogGroup, ctx, &cloudwatchlogs.TagLogGroupInput{LogGroupName: name,
			Tags: map[string]string{"x": "y"}}), []string{group}, map[string]string{"aws:ResourceTag/team": "a",
			"aws:RequestTag/x": "y", "aws:TagKeys": "x"}},
		{"UntagLogGroup", call(c.UntagLogGroup, ctx, &cloudwatchlogs.UntagLogGroupInput{LogGroupName: name,
			Tags: []string{"x"}}), []string{group}, map[string]string{"aws:ResourceTag/team": "a",
			"aws:ResourceTag/x": "y", "aws:TagKeys": "x"}},
		{"ListTagsLogGroup", call(c.ListTagsLogGroup, ctx, &cloudwatchlogs.ListTagsLogGroupInput{LogGroupName: name}),
			[]string{group}, tags},
		{"StartQuery", call(c.StartQuery, ctx, &cloudwatchlogs.StartQueryInput{LogGroupNames: []string{*name},
			LogGroupIdentifiers: []string{bare + "2"}, StartTime: now, EndTime: now,
			QueryString: aws.String("fields @message")}), []string{group, bare + "2:log-stream:"}, tags},
		{"StartQuery", call(c.StartQuery, ctx, &cloudwatchlogs.StartQueryInput{StartTime: now, EndTime: now,
			QueryString: aws.String("SOURCE logGroups(namePrefix: ['/aws/eks/', 'new']) | fields @message")}),
			[]string{group, groupARN + "new:log-stream:", group, groupARN + "new:log-stream:"}, tags}, // and as recorded
		{"StartQuery", call(c.StartQuery, ctx, &cloudwatchlogs.StartQueryInput{LogGroupName: name, StartTime: now,
			EndTime: now, QueryString: aws.String("filter a b")}), []string{group}, tags},
		{"StartQuery", call(c.StartQuery, ctx, &cloudwatchlogs.StartQueryInput{StartTime: now, EndTime: now,
			QueryString: aws.String("fields @message")}), []string{"*"}, nil},
		{"GetQueryResults", call(c.GetQueryResults, ctx,
			&cloudwatchlogs.GetQueryResultsInput{QueryId: aws.String("q")}), []string{"*"}, nil},
		{"StopQuery", call(c.StopQuery, ctx, &cloudwatchlogs.StopQueryInput{QueryId: aws.String("q")}), []string{"*"},
			nil},
		{"DescribeQueries", call(c.DescribeQueries, ctx, &cloudwatchlogs.DescribeQueriesInput{}), []string{"*"}, nil},
		{"PutQueryDefinition", call(c.PutQueryDefinition, ctx,
			&cloudwatchlogs.PutQueryDefinitionInput{Name: aws.String("n"), QueryString: aws.String("fields a")}),
			[]string{"*"}, nil},
		{"TestMetricFilter", call(c.TestMetricFilter, ctx,
			&cloudwatchlogs.TestMetricFilterInput{FilterPattern: aws.String("a"), LogEventMessages: []string{"b"}}),
			[]string{"*"}, nil},
		{"DeleteLogStream", call(c.DeleteLogStream, ctx, &cloudwatchlogs.DeleteLogStreamInput{LogGroupName: name,
			LogStreamName: stream}), []string{group + *stream}, tags},
		{"DeleteLogGroup", call(c.DeleteLogGroup, ctx, &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: name}),
			[]string{group}, tags},
	} {
		w.mu.Lock()
		w.Asked = nil
		w.mu.Unlock()
		var api smithy.APIError
		if err := c.call(); err != nil && (!errors.As(err, &api) || api.ErrorCode() == "InternalFailure") {
			t.Errorf("%s: %v", c.action, err)
		}
		var resources []string
		for _, target := range w.Asked {
			if target.Action == "logs:"+c.action {
				resources = append(resources, target.Resource)
			}
		}
		if !slices.Equal(resources, c.resources) {
			t.Errorf("%s is asked on %q, want %q", c.action, resources, c.resources)
			continue
		}
		if d := cmp.Diff(len(c.conditions), len(own(w.Asked[0]))); d != "" {
			t.Errorf("%s: condition keys %v, want %v", c.action, own(w.Asked[0]), c.conditions)
		}
		for k, v := range c.conditions {
			if got := own(w.Asked[0])[k]; got != v {
				t.Errorf("%s: condition key %s is %q, want %q", c.action, k, got, v)
			}
		}
	}
}

// A log group with tags takes logs:TagResource or logs:TagLogGroup besides logs:CreateLogGroup.
func TestTagsOfANewGroup(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for _, c := range []struct {
		denied []string
		ok     bool
	}{
		{[]string{"logs:TagResource"}, true},
		{[]string{"logs:TagLogGroup"}, true},
		{[]string{"logs:TagResource", "logs:TagLogGroup"}, false},
		{[]string{"logs:CreateLogGroup"}, false},
	} {
		w.mu.Lock()
		w.Deny = func(_ wire.Caller, t wire.Target) bool { return slices.Contains(c.denied, t.Action) }
		w.mu.Unlock()
		_, err := w.client.CreateLogGroup(t.Context(),
			&cloudwatchlogs.CreateLogGroupInput{LogGroupName: aws.String(strings.ReplaceAll(c.denied[0], ":", "-")),
				Tags: map[string]string{"a": "b"}})
		if c.ok && err != nil {
			t.Errorf("without %q: %v", c.denied, err)
		}
		if !c.ok && failureOf(t, err).code != "AccessDeniedException" {
			t.Errorf("without %q: %v", c.denied, err)
		}
	}
}

// The caller of another account sees nothing of this one.
func TestAnotherAccountSeesNothing(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.group("g", "s")
	w.put("g", "s", today, "secret")
	row, err := record.LogGroups(w.store).Get(ctx, record.LogGroupKey(account, region, "g"))
	if err != nil {
		t.Fatal(err)
	}
	started, err := w.client.StartQuery(ctx, &cloudwatchlogs.StartQueryInput{LogGroupName: aws.String("g"),
		StartTime: aws.Int64(0), EndTime: aws.Int64(today.Unix()), QueryString: aws.String("fields @message")})
	if err != nil {
		t.Fatal(err)
	}
	saved, err := w.client.PutQueryDefinition(ctx, &cloudwatchlogs.PutQueryDefinitionInput{Name: aws.String("n"),
		QueryString: aws.String("fields a")})
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.Caller = wire.Caller{Account: "444455556666", ARN: "arn:aws:iam::444455556666:root", AccessKeyID: "AKIAOTHER"}
	w.mu.Unlock()
	c := w.client
	g, arn := aws.String("g"), aws.String(groupARN+"g")
	for what, call := range map[string]func() error{
		"DescribeLogStreams": call(c.DescribeLogStreams, ctx,
			&cloudwatchlogs.DescribeLogStreamsInput{LogGroupIdentifier: arn}),
		"GetLogEvents": call(c.GetLogEvents, ctx, &cloudwatchlogs.GetLogEventsInput{LogGroupIdentifier: arn,
			LogStreamName: aws.String("s")}),
		"FilterLogEvents": call(c.FilterLogEvents, ctx,
			&cloudwatchlogs.FilterLogEventsInput{LogGroupIdentifier: arn}),
		"by name": call(c.FilterLogEvents, ctx, &cloudwatchlogs.FilterLogEventsInput{LogGroupName: g}),
		"PutLogEvents": call(c.PutLogEvents, ctx, &cloudwatchlogs.PutLogEventsInput{LogGroupName: g,
			LogStreamName: aws.String("s"), LogEvents: batch("m")}),
		"DeleteLogGroup": call(c.DeleteLogGroup, ctx, &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: g}),
		"TagResource": call(c.TagResource, ctx, &cloudwatchlogs.TagResourceInput{ResourceArn: arn,
			Tags: map[string]string{"a": "b"}}),
		"ListTagsForResource": call(c.ListTagsForResource, ctx,
			&cloudwatchlogs.ListTagsForResourceInput{ResourceArn: arn}),
		"GetLogRecord": call(c.GetLogRecord, ctx,
			&cloudwatchlogs.GetLogRecordInput{LogRecordPointer: aws.String(record.LogPointer{GroupID: row.Value.ID,
				Timestamp: today.UnixMilli(), Seq: 1}.String())}),
		"StartQuery": call(c.StartQuery, ctx,
			&cloudwatchlogs.StartQueryInput{LogGroupIdentifiers: []string{*arn}, StartTime: aws.Int64(0),
				EndTime: aws.Int64(1), QueryString: aws.String("fields a")}),
		"SOURCE": call(c.StartQuery, ctx, &cloudwatchlogs.StartQueryInput{StartTime: aws.Int64(0),
			EndTime: aws.Int64(1), QueryString: aws.String("SOURCE logGroups() | fields a")}),
		"GetQueryResults": call(c.GetQueryResults, ctx,
			&cloudwatchlogs.GetQueryResultsInput{QueryId: started.QueryId}),
		"StopQuery": call(c.StopQuery, ctx, &cloudwatchlogs.StopQueryInput{QueryId: started.QueryId}),
		"DeleteQueryDefinition": call(c.DeleteQueryDefinition, ctx,
			&cloudwatchlogs.DeleteQueryDefinitionInput{QueryDefinitionId: saved.QueryDefinitionId}),
	} {
		if f := failureOf(t, call()); f.code != "ResourceNotFoundException" {
			t.Errorf("%s: %v", what, f)
		}
	}
	if out, err := c.DescribeLogGroups(ctx,
		&cloudwatchlogs.DescribeLogGroupsInput{IncludeLinkedAccounts: aws.Bool(true),
			AccountIdentifiers: []string{account}}); err != nil || len(out.LogGroups) != 0 {
		t.Errorf("%v %v", out, err)
	}
	if out, err := c.DescribeQueries(ctx, &cloudwatchlogs.DescribeQueriesInput{}); err != nil || len(out.Queries) != 0 {
		t.Errorf("%v %v", out, err)
	}
	if out, err := c.DescribeQueryDefinitions(ctx, &cloudwatchlogs.DescribeQueryDefinitionsInput{}); err != nil ||
		len(out.QueryDefinitions) != 0 {
		t.Errorf("%v %v", out, err)
	}
}
