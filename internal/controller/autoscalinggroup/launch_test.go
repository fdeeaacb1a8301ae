package autoscalinggroup

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// TestFewPlacesAreTriedAfterFailures shows that a group whose configuration multiplies places does not fail in each of
// them, and record that, one after the other: the group waits as a whole after some.
func TestFewPlacesAreTriedAfterFailures(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	c := &Controller{clock: clock}
	v := &view{}
	tried := 0
	for ; tried < 1000 && v.status.RetryAt.IsZero(); tried++ {
		c.recordFailure(v, fmt.Sprint("place ", tried))
	}
	if tried != maxFailedLocations+1 || len(v.status.Zones) != maxFailedLocations {
		t.Errorf("%d places were tried, and %d are recorded", tried, len(v.status.Zones))
	}
	clock.Step(latestRetry)
	c.recordFailure(v, "another")
	if len(v.status.Zones) != 1 {
		t.Errorf("%d places are recorded after their time", len(v.status.Zones))
	}
}

// refusing is EC2 where nothing can be launched.
type refusing struct {
	EC2
	t *testing.T
}

func (r refusing) RunInstances(ctx context.Context, _ *ec2.RunInstancesInput, _ ...func(*ec2.Options)) (
	*ec2.RunInstancesOutput, error) {
	if !store.IsLimited(ctx) {
		r.t.Error("the instances of a group do not count against the quota of its account")
	}
	return nil, &smithy.GenericAPIError{Code: "Unsupported", Message: "no"}
}

// TestFailedLaunchesKeepTheQuotaOfTheirAccount records failures of a group whose account has room for their activities,
// and whose account has none: it is tried again later all the same.
func TestFailedLaunchesKeepTheQuotaOfTheirAccount(t *testing.T) {
	t.Parallel()
	const limit = 50_000
	s := storetest.NewAt(t, storetest.Prefix(t), func(o *store.Options) { o.Quota = store.Quota{PerAccount: limit} })
	clock := clocktesting.NewFakeClock(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	c := New(Options{Store: s, Clock: clock})
	v := &view{key: record.AutoScalingGroupKey("111122223333", "eu-west-1", "g"),
		group: record.AutoScalingGroup{Account: "111122223333", Region: "eu-west-1", Name: "g"}}
	v.client = refusing{t: t}
	fail := func() {
		t.Helper()
		if err := c.runLaunch(t.Context(), v, v.key, record.AutoScalingLaunch{Causes: []string{"why"},
			Input: ec2.RunInstancesInput{InstanceType: "t3.micro"}}); err != nil {
			t.Fatal(err)
		}
	}
	fail()
	if n := c.activities.Count(""); n != 1 {
		t.Fatalf("%d activities are recorded", n)
	}
	if _, err := store.NewTable[string](s, "rows").Create(t.Context(), store.Key("111122223333", "a"),
		strings.Repeat("x", 2*limit)); err != nil {
		t.Fatal(err)
	}
	fail()
	status, err := c.statuses.Get(t.Context(), v.key)
	if n := c.activities.Count(""); err != nil || status.Value.Failures != 2 || n != 1 {
		t.Errorf("in an account that is full: %+v, %d activities: %v", status.Value, n, err)
	}
}
