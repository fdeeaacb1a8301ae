package cloudtrail

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/logs/events"
)

const account = "111122223333"

func newHistory(t *testing.T, now func() time.Time) *History {
	t.Helper()
	store, err := events.Open(t.TempDir(), events.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return NewHistory(Options{Events: store, Now: now})
}

// call returns a request of a user of the account.
func call(user, operation string, denied bool, at time.Time) *wire.Answered {
	arn := "arn:aws:iam::" + account + ":user/" + user
	return &wire.Answered{Time: at, Service: wire.EKS, Operation: operation, Region: "us-east-1", Denied: denied,
		SourceIP: "192.0.2.1", Caller: wire.Caller{Account: account, ARN: arn, PrincipalARN: arn, UserID: "AIDA"}}
}

func (h *History) count(t *testing.T, c class) (n int) {
	t.Helper()
	h.Flush()
	for _, err := range h.events.Events(t.Context(), groupOf(account, c), events.Range{To: math.MaxInt64}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func TestWhoFloodsTheHistoryKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	now := at
	h := newHistory(t, func() time.Time { return now })
	const burst = principalBurst / leastEvent
	for range 2 * burst {
		h.Record(call("mallory", "DeleteCluster", true, at))
		if len(h.pending[groupOf(account, refusal)]) > 500 {
			h.Flush()
		}
	}
	if n := h.count(t, refusal); n > burst || n < burst/3 {
		t.Errorf("%d refusals are recorded; %d are the most at a time", n, burst)
	}
	h.Record(call("mallory", "DeleteCluster", false, at))
	h.Record(call("alice", "DeleteCluster", false, at))
	h.Record(call("alice", "DeleteCluster", true, at))
	if n := h.count(t, change); n != 2 {
		t.Errorf("%d changes are recorded, want 2", n)
	}
	before := h.count(t, refusal)
	now = now.Add(time.Minute)
	h.Record(call("mallory", "DeleteCluster", true, now))
	if n := h.count(t, refusal); n != before+1 {
		t.Errorf("%d refusals after a minute, want %d", n, before+1)
	}
}

func TestWhatWaitsIsBounded(t *testing.T) {
	t.Parallel()
	at := time.Now()
	h := newHistory(t, func() time.Time { return at })
	for i := range 2 * maxPending / leastEvent {
		h.Record(call(fmt.Sprintf("user%d", i%8), "DeleteCluster", false, at))
	}
	if h.all > maxPending {
		t.Errorf("%d bytes wait, and %d may", h.all, maxPending)
	}
}

func TestTheOldestGoFirst(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	h := newHistory(t, func() time.Time { return at })
	id := groupOf(account, read)
	message := string(make([]byte, 1<<20))
	for i := range mostStored[read]>>20 + 2 {
		if _, err := h.events.Append(context.Background(), events.Batch{Group: id, Events: []events.Event{
			{Stream: 1, Timestamp: at.UnixMilli() + i, Message: message}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.bound(id); err != nil {
		t.Fatal(err)
	}
	stat := h.events.GroupStat(id)
	if stat.StoredBytes > mostStored[read] || stat.StoredBytes < mostStored[read]/2 ||
		stat.Last != at.UnixMilli()+mostStored[read]>>20+1 {
		t.Errorf("%+v is left of %d bytes", stat, mostStored[read])
	}
	at = at.Add(retention + time.Hour)
	h.deleteOld()
	if n := h.events.GroupStat(id).Events; n != 0 {
		t.Errorf("%d events are left after %s", n, retention)
	}
}

// BenchmarkRecord measures what a request pays for its event before it is answered.
func BenchmarkRecord(b *testing.B) {
	at := time.Now()
	h := NewHistory(Options{Now: func() time.Time { return at }})
	h.principals, h.accounts = newLimiters(1e12, 1<<40), newLimiters(1e12, 1<<40)
	request := call("alice", "DescribeCluster", false, at)
	request.Targets = []wire.Target{{Resource: "arn:aws:eks:us-east-1:" + account + ":cluster/web"}}
	for b.Loop() {
		h.Record(request)
		h.mu.Lock()
		clear(h.pending)
		clear(h.waiting)
		h.all = 0
		h.mu.Unlock()
	}
}

func TestClasses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		service   *wire.Service
		operation string
		reads     bool
	}{
		{wire.EKS, "DescribeCluster", true}, {wire.EKS, "CreateCluster", false}, {wire.EC2, "RunInstances", false},
		{wire.KMS, "GenerateDataKey", true}, {wire.KMS, "CreateGrant", false}, {wire.STS, "AssumeRole", true},
		{wire.Logs, "StartQuery", true}, {wire.ECR, "BatchGetImage", true}, {wire.IAM, "SimulatePrincipalPolicy", true},
	} {
		if reads := isReadOnly(c.service, c.operation); reads != c.reads {
			t.Errorf("%s reads only: %t", c.operation, reads)
		}
	}
	for _, c := range []struct {
		request  wire.Answered
		class    class
		recorded bool
	}{
		{wire.Answered{Service: wire.Logs, Operation: "PutLogEvents"}, 0, false},
		{wire.Answered{Service: wire.EKSAuth, Operation: "AssumeRoleForPodIdentity", Denied: true}, 0, false},
		{wire.Answered{Service: wire.EC2, Operation: "DescribeInstances", InProcess: true}, read, false},
		{wire.Answered{Service: wire.EC2, Operation: "DescribeInstances", InProcess: true, Denied: true}, refusal, true},
		{wire.Answered{Service: wire.EC2, Operation: "RunInstances", InProcess: true}, change, true},
		{wire.Answered{Service: wire.EC2, Operation: "RunInstances", ErrorCode: "InvalidParameterValue"}, refusal, true},
		{wire.Answered{Service: wire.STS, Operation: "AssumeRole"}, change, true},
	} {
		if got, ok := classOf(&c.request); ok != c.recorded || ok && got != c.class {
			t.Errorf("%s is of the class %s: %t", c.request.Operation, got, ok)
		}
	}
}

func TestResourcesByTheirARNs(t *testing.T) {
	t.Parallel()
	const key = "arn:aws:kms:eu-west-1:1:key/0123"
	group := "arn:aws:autoscaling:eu-west-1:1:autoScalingGroup:0:autoScalingGroupName/x"
	for arn, want := range map[string]named{
		"arn:aws:eks:eu-west-1:1:cluster/web":                     {"AWS::EKS::Cluster", "web"},
		"arn:aws:eks:eu-west-1:1:nodegroup/web/workers/0123":      {"AWS::EKS::Nodegroup", "workers"},
		"arn:aws:iam::1:role/team/node":                           {"AWS::IAM::Role", "node"},
		"arn:aws:logs:eu-west-1:1:log-group:/aws/eks/web/cluster": {"AWS::Logs::LogGroup", "/aws/eks/web/cluster"},
		"arn:aws:logs:eu-west-1:1:log-group:a:log-stream:b":       {"AWS::Logs::LogGroup", "a"},
		"arn:aws:ecr:eu-west-1:1:repository/team/app":             {"AWS::ECR::Repository", "team/app"},
		"arn:aws:cloudformation:eu-west-1:1:stack/vpc/0123":       {"AWS::CloudFormation::Stack", "vpc"},
		"arn:aws:ec2:eu-west-1:1:vpc/vpc-0123":                    {"AWS::EC2::VPC", "vpc-0123"},
		"arn:aws:unknown:eu-west-1:1:thing/a":                     {"", "a"},
		"arn:aws:eks:eu-west-1:1:cluster":                         {"", ""},
		"arn:aws:sns:eu-west-1:1:":                                {"", ""},
		"cluster/web":                                             {"", ""},
		key:                                                       {"AWS::KMS::Key", key},
		group:                                                     {"AWS::AutoScaling::AutoScalingGroup", "x"},
	} {
		if kind, name, _ := describeARN(arn); kind != want[0] || name != want[1] {
			t.Errorf("%s is %q %q, want %q", arn, kind, name, want)
		}
	}
}
