package fargate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// stuck is EC2 that ends no machine.
type stuck struct{ Machines }

var errStuck = errors.New("it runs on")

func (stuck) Terminate(context.Context, string, string, string) error { return errStuck }

// newRecordedPass returns a pass over a pod with that record, in a cluster that is gone, and a function that has its
// account write all that it may.
func newRecordedPass(t *testing.T, now func() time.Time, row record.FargatePod) (p *podPass, flood func()) {
	t.Helper()
	s := storetest.NewAt(t, storetest.Prefix(t), func(o *store.Options) {
		o.Quota = store.Quota{PerAccount: 50_000, Now: now}
	})
	c := New(Options{Store: s, Machines: stuck{}, Now: now})
	const account = "111111111111"
	row.Account, row.Region, row.Cluster, row.UID = account, "r", "demo", "1"
	key := record.FargatePodKey(account, "r", "demo", "1")
	created, err := c.pods.Create(t.Context(), key, row)
	if err != nil {
		t.Fatal(err)
	}
	rows := store.NewTable[string](s, "rows")
	return &podPass{c: c, key: key, uid: "1", clusterGone: true, pod: created, saved: created.Value}, func() {
		size := 1000
		for i := range 1000 {
			_, err := rows.Put(store.Paced(t.Context()), store.Key(account, "a"), fmt.Sprintf("%0*d", size, i))
			var full *store.FullError
			switch {
			case errors.As(err, &full) && size < 10:
				return
			case errors.As(err, &full):
				size /= 2
			case err != nil:
				t.Fatal(err)
			}
		}
		t.Fatal("the account may write as much as it likes")
	}
}

// TestRefusalsAreRecordedOnceAMinute has a webhook that gives another reason each time: a record that changes wakes its
// pod.
func TestRefusalsAreRecordedOnceAMinute(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000_000, 0)
	p, _ := newRecordedPass(t, func() time.Time { return now }, record.FargatePod{})
	refuse := func(reason string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New(reason))
	}
	written := 0
	for i := range 180 {
		revision := p.pod.Revision
		if err := p.recordRefusal(t.Context(), refuse(fmt.Sprint("reason ", i))); err != nil {
			t.Fatal(err)
		}
		if p.pod.Revision != revision {
			written++
		}
		now = now.Add(time.Second)
	}
	if written != 3 || !strings.Contains(p.pod.Value.Refusal, "reason 120") {
		t.Errorf("it is written %d times in three minutes, last %q", written, p.pod.Value.Refusal)
	}
}

// TestRecordsOfEndedMachinesGo has an account that may not write more, and a pod that nobody refuses to delete any
// more.
func TestRecordsOfEndedMachinesGo(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000_000, 0)
	p, flood := newRecordedPass(t, func() time.Time { return now }, record.FargatePod{Ending: true, Refusal: "no"})
	flood()
	if _, err := p.cleanUp(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := p.c.pods.Get(t.Context(), p.key); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("its record is there: %v", err)
	}
}

// TestMachinesAreRetiredOverTheQuota has a machine that does not become a node, of an account that may not write more:
// that it goes is written all the same.
func TestMachinesAreRetiredOverTheQuota(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000_000, 0)
	p, flood := newRecordedPass(t, func() time.Time { return now }, record.FargatePod{InstanceID: "i-1"})
	flood()
	if _, err := p.recordLaunchFailure(t.Context(), timedOut); !errors.Is(err, errStuck) {
		t.Errorf("the machine is not ended: %v", err)
	}
	row, err := p.c.pods.Get(t.Context(), p.key)
	if err != nil || !row.Value.Retired || row.Value.RetryAt.IsZero() {
		t.Errorf("it is recorded as %+v: %v", row.Value, err)
	}
	p, flood = newRecordedPass(t, func() time.Time { return now }, record.FargatePod{})
	flood()
	var full *store.FullError
	if _, err := p.recordLaunchFailure(t.Context(), timedOut); !errors.As(err, &full) {
		t.Errorf("without a machine it is written: %v", err)
	}
}

// TestFailuresThatAreNotRecordedAreReportedOnce has an account that may not write more, and a pod whose role is not
// trusted.
func TestFailuresThatAreNotRecordedAreReportedOnce(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000_000, 0)
	p, flood := newRecordedPass(t, func() time.Time { return now }, record.FargatePod{Namespace: "default", Name: "a",
		Profile: "p", ProfileID: "1"})
	profile := record.FargateProfile{ID: "1", Account: "111111111111", Region: "r", Cluster: "demo", Name: "p"}
	key := record.FargateProfileKey(profile.Account, profile.Region, profile.Cluster, profile.Name)
	if _, err := p.c.profiles.Create(t.Context(), key, profile); err != nil {
		t.Fatal(err)
	}
	p.c.o.Trusts = func(context.Context, record.FargateProfile) (bool, error) { return false, nil }
	kube := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "1"}})
	p.server, p.info.namespace, p.info.name = &server{scheduler: kube}, "default", "a"
	flood()
	var full *store.FullError
	if _, err := p.provision(t.Context()); !errors.As(err, &full) {
		t.Errorf("it is recorded: %v", err)
	}
	reported := 0
	for _, a := range kube.Actions() {
		if create, ok := a.(kubetesting.CreateAction); ok {
			if e, ok := create.GetObject().(*corev1.Event); ok && e.Reason == failedScheduling {
				reported++
			}
		}
	}
	if reported != 1 || p.pod.Value.Failures != 1 {
		t.Errorf("%d events of %d failures", reported, p.pod.Value.Failures)
	}
}
