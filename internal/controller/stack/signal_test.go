package stack_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
)

// waiting is a stack whose condition waits for two signals to a handle, for ten minutes.
const waiting = `{"Resources":{
	"Handle":{"Type":"AWS::CloudFormation::WaitConditionHandle"},
	"Group":{"Type":"AWS::Logs::LogGroup","DependsOn":"Handle"},
	"Wait":{"Type":"AWS::CloudFormation::WaitCondition","DependsOn":"Group","Properties":{
		"Handle":{"Ref":"Handle"},"Timeout":"600","Count":2}}},
	"Outputs":{"Data":{"Value":{"Fn::GetAtt":["Wait","Data"]}}}}`

// createWaiting creates a stack that waits, and returns its ID and the URL for signals.
func (f *fixture) createWaiting() (id, url string) {
	f.t.Helper()
	id = f.create("s", waiting)
	f.awaitEvent(id, "Wait CREATE_IN_PROGRESS Resource creation Initiated")
	return id, f.physical("s", "Handle")
}

func TestAWaitCondition(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	id, url := w.createWaiting()
	for _, c := range []struct {
		name, url, body string
		want            int
	}{
		{"another token", strings.Replace(url, "token=", "token=0", 1), `{"Status":"SUCCESS","UniqueId":"1"}`,
			http.StatusForbidden},
		{"another handle", strings.Replace(url, "/Handle", "/Group", 1), `{"Status":"SUCCESS","UniqueId":"1"}`,
			http.StatusForbidden},
		{"no JSON", url, `Status`, http.StatusBadRequest},
		{"no status", url, `{"UniqueId":"1"}`, http.StatusBadRequest},
		{"no unique ID", url, `{"Status":"SUCCESS"}`, http.StatusBadRequest},
		{"too much data", url, `{"Status":"SUCCESS","UniqueId":"1","Data":"` + strings.Repeat("x", 5000) + `"}`,
			http.StatusBadRequest},
		{"the first signal", url, `{"Status":"SUCCESS","UniqueId":"1","Data":"one"}`, http.StatusOK},
		{"the first signal again", url, `{"Status":"SUCCESS","UniqueId":"1","Data":"uno"}`, http.StatusOK},
	} {
		if got := w.put(c.url, c.body); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if got := w.describe("s").StackStatus; got != types.StackStatusCreateInProgress {
		t.Errorf("after a signal of two the stack is %s", got)
	}
	if got := w.put(url, `{"Status":"SUCCESS","UniqueId":"2","Data":{"two":2}}`); got != http.StatusOK {
		t.Errorf("the second signal: %d", got)
	}
	s := w.await("s", types.StackStatusCreateComplete)
	if got := outputs(s)["Data"]; got != `{"1":"one","2":"{\"two\":2}"}` {
		t.Errorf("the data is %s", got)
	}
	w.delete("s")
	w.await(id, types.StackStatusDeleteComplete)
	if got := w.put(url, `{"Status":"SUCCESS","UniqueId":"3"}`); got != http.StatusForbidden {
		t.Errorf("a signal to a deleted handle: %d", got)
	}
}

// A handle whose URL has no token, as one that was imported may have, takes no signals.
func TestAHandleWithoutAToken(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	id, url := w.createWaiting()
	w.halt()
	known, _, _ := strings.Cut(url, "?")
	key := record.StackResourceKey(iamtest.Account, iamtest.Region, id[strings.LastIndexByte(id, '/')+1:], "Handle")
	for _, physicalID := range []string{"", known, known + "?token="} {
		if _, err := record.StackResources(w.Store).Modify(t.Context(), key, func(r *record.StackResource) error {
			r.Live.PhysicalID = physicalID
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, to := range []string{known, known + "?token="} {
			if got := w.put(to, `{"Status":"SUCCESS","UniqueId":"1"}`); got != http.StatusForbidden {
				t.Errorf("a signal to %q of the handle %q: %d", to, physicalID, got)
			}
		}
	}
	w.start()
}

func TestAWaitConditionThatFails(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	id, url := w.createWaiting()
	w.put(url, `{"Status":"FAILURE","UniqueId":"1","Reason":"no disk"}`)
	w.await(id, types.StackStatusRollbackComplete)
	w.wantEvents(id, "WaitCondition received failed message: 'no disk' for uniqueId: 1")
	w.wantCounts("")
}

func TestAWaitConditionThatTimesOut(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	id, url := w.createWaiting()
	w.put(url, `{"Status":"SUCCESS","UniqueId":"1"}`)
	w.advance(11 * time.Minute)
	w.await(id, types.StackStatusRollbackComplete)
	w.wantEvents(id, "WaitCondition timed out. Received 1 conditions when expecting 2")
	w.wantCounts("")
}

// A resource with a CreationPolicy waits for signals after it is made.
func TestCreationPolicies(t *testing.T) {
	t.Parallel()
	const failure, success = types.ResourceSignalStatusFailure, types.ResourceSignalStatusSuccess
	for _, c := range []struct {
		name    string
		signals []types.ResourceSignalStatus
		late    bool // the policy's time is over then
		want    types.StackStatus
		events  []string
	}{
		{name: "enough signals", signals: []types.ResourceSignalStatus{success, success},
			want: types.StackStatusCreateComplete, events: []string{"Received SUCCESS signal with UniqueId i-0",
				"Received SUCCESS signal with UniqueId i-1"}},
		{name: "a failure", signals: []types.ResourceSignalStatus{success, failure},
			want: types.StackStatusRollbackComplete, events: []string{"Received FAILURE signal with UniqueId i-1",
				"Received 1 FAILURE signal(s) out of 2. Unable to satisfy 100% MinSuccessfulInstancesPercent requirement"}},
		{name: "too few signals", signals: []types.ResourceSignalStatus{success}, late: true,
			want:   types.StackStatusRollbackComplete,
			events: []string{"Failed to receive 1 resource signal(s) within the specified duration"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			id := w.create("s", `{"Resources":{"Group":{"Type":"AWS::Logs::LogGroup"},
				"Wait":{"Type":"AWS::CloudFormation::WaitCondition","DependsOn":"Group",
					"CreationPolicy":{"ResourceSignal":{"Count":2,"Timeout":"PT10M"}}}}}`)
			w.awaitEvent(id, "Wait CREATE_IN_PROGRESS Resource creation Initiated")
			for i, status := range c.signals {
				w.signal("s", "Wait", i, status)
				w.signal("s", "Wait", i, success) // only the first one with a unique ID counts
			}
			if c.late {
				w.awaitEvent(id, "Received SUCCESS signal with UniqueId i-0")
				w.advance(11 * time.Minute)
			}
			w.await(id, c.want)
			w.wantEvents(id, c.events...)
		})
	}
}

// signal signals a resource.
func (f *fixture) signal(stack, id string, unique int, status types.ResourceSignalStatus) {
	f.t.Helper()
	_, err := f.SignalResource(f.t.Context(), &cloudformation.SignalResourceInput{StackName: &stack,
		LogicalResourceId: &id, UniqueId: aws.String("i-" + string(rune('0'+unique))), Status: status})
	if err != nil && !strings.Contains(err.Error(), "can not be signaled") { // the last signal was enough
		f.t.Fatal(err)
	}
}

func TestACreationThatTakesTooLong(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.fault("B", fault{Forever: true})
	id := w.create("s", logGroups(1, "A", "B", "C"), func(in *cloudformation.CreateStackInput) {
		in.TimeoutInMinutes = aws.Int32(5)
	})
	eventually.True(t, "B is being created", func() bool { return w.counts() == "A:1 B:1" })
	w.advance(6 * time.Minute)
	w.await(id, types.StackStatusRollbackComplete)
	w.wantCounts("")
	w.wantEvents(id, "s ROLLBACK_IN_PROGRESS Stack creation time exceeded the specified timeout.",
		"B CREATE_FAILED Resource creation cancelled")
}
