package nodegroup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// entries is EKS as far as access entries go: the API layer writes the records.
type entries struct {
	store *store.Store
	mu    sync.Mutex
	made  []string // types
}

func (e *entries) key(cluster, principal *string) string {
	return record.AccessEntryKey(account, region, *cluster, *principal)
}

func (e *entries) DescribeAccessEntry(context.Context, *eks.DescribeAccessEntryInput,
	...func(*eks.Options)) (*eks.DescribeAccessEntryOutput, error) {
	return nil, errors.New("nobody asks")
}

func (e *entries) CreateAccessEntry(ctx context.Context, in *eks.CreateAccessEntryInput, _ ...func(*eks.Options)) (
	*eks.CreateAccessEntryOutput, error) {
	e.mu.Lock()
	e.made = append(e.made, *in.Type)
	e.mu.Unlock()
	_, err := record.AccessEntries(e.store).Create(ctx, e.key(in.ClusterName, in.PrincipalArn), record.AccessEntry{
		ClusterID: strings.Repeat("0", 32), PrincipalARN: *in.PrincipalArn, Type: *in.Type,
		ClientRequestToken: *in.ClientRequestToken,
	})
	return &eks.CreateAccessEntryOutput{}, err
}

func (e *entries) DeleteAccessEntry(ctx context.Context, in *eks.DeleteAccessEntryInput, _ ...func(*eks.Options)) (
	*eks.DeleteAccessEntryOutput, error) {
	row, err := record.AccessEntries(e.store).Get(ctx, e.key(in.ClusterName, in.PrincipalArn))
	if errors.Is(err, store.ErrNotFound) {
		return nil, &ekstypes.ResourceNotFoundException{
			Message: aws.String("The specified principalArn could not be found.")}
	}
	if err == nil {
		err = record.AccessEntries(e.store).Delete(ctx, row)
	}
	return &eks.DeleteAccessEntryOutput{}, err
}

func text(all []ekstypes.Issue) string {
	var b strings.Builder
	for _, i := range all {
		fmt.Fprintf(&b, "%s %s %v; ", i.Code, aws.ToString(i.Message), i.ResourceIds)
	}
	return b.String()
}

func (w *fixture) awsAuth() string {
	m, err := w.kube.CoreV1().ConfigMaps("kube-system").Get(context.Background(), "aws-auth", metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return m.Data["mapRoles"]
}

const others = "# mine\n- rolearn: arn:aws:iam::111122223333:role/admin # the boss\n  username: admin\n  groups: " +
	"[system:masters]\n"

func (w *fixture) writeAuth(mapRoles string) {
	w.t.Helper()
	maps, ctx := w.kube.CoreV1().ConfigMaps("kube-system"), w.t.Context()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "aws-auth"},
		Data: map[string]string{"mapRoles": mapRoles,
			"mapUsers": "- userarn: arn:aws:iam::111122223333:user/a\n  username: a\n"}}
	_, err := maps.Update(ctx, m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, m, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestRolesAreLetInByAccessEntries shows the other authentication modes.
func TestRolesAreLetInByAccessEntries(t *testing.T) {
	t.Parallel()
	w := newFixture(t, nodegroup.Options{})
	e := &entries{store: w.store}
	w.halt()
	w.options.EKS = func(string, string) nodegroup.EKS { return e }
	w.start()
	mode := func(m ekstypes.AuthenticationMode) {
		t.Helper()
		must(record.Clusters(w.store).Modify(t.Context(), w.cluster.Key(),
			func(c *record.Cluster) error { c.AuthenticationMode = m; return nil }))(t)
	}
	mode(ekstypes.AuthenticationModeApi)
	w.create("api", 0)
	w.create("second", 0)
	if got := w.awsAuth(); !strings.Contains(got, "not found") {
		t.Errorf("aws-auth was written: %s", got)
	}
	if !slices.Equal(e.made, []string{"EC2_LINUX"}) {
		t.Errorf("access entries of types %v were made", e.made)
	}
	mode(ekstypes.AuthenticationModeApiAndConfigMap)
	w.until("aws-auth is written as well", func() error {
		if got := w.awsAuth(); !strings.Contains(got, "role/node") {
			return errors.New(got)
		}
		return nil
	})
	w.delete("api")
	count := func() int { return len(must(record.AccessEntries(w.store).List(t.Context(), ""))(t)) }
	if count() != 1 {
		t.Error("the entry went with the first of two groups")
	}
	w.delete("second")
	if count() != 0 || w.awsAuth() != "[]\n" {
		t.Errorf("%d entries, and mapRoles %q", count(), w.awsAuth())
	}
	w.nothingLeft()
}

// TestRefusalsOfAWSAuth has a cluster that refuses to have aws-auth changed, with a code that does not say so: the
// owner of a node group is told, and the group is deleted all the same.
func TestRefusalsOfAWSAuth(t *testing.T) {
	t.Parallel()
	w := newFixture(t, nodegroup.Options{})
	end := apiservertest.KeepAWSAuth(t, w.kube)
	w.put("kept")
	w.until("the refusal is shown", func() error {
		if got := text(w.state("kept").Issues); !strings.Contains(got, apiservertest.AWSAuthStays) ||
			!strings.Contains(got, "AccessDenied") {
			return fmt.Errorf("the issues are %q", got)
		}
		return nil
	})
	end()
	w.until("the role is let in", func() error {
		if got := w.awsAuth(); !strings.Contains(got, "role/node") {
			return errors.New(got)
		}
		return nil
	})
	apiservertest.KeepAWSAuth(t, w.kube)
	w.deleting("kept")
	w.until("the deletion waits", func() error {
		if s := w.state("kept"); s.RefusedAt.IsZero() || s.DeleteFailed {
			return fmt.Errorf("its state is %+v", s)
		}
		return nil
	})
	w.mu.Lock()
	w.shift = 2 * time.Minute
	w.mu.Unlock()
	w.delete("kept")
	if got := w.awsAuth(); !strings.Contains(got, "role/node") {
		t.Errorf("mapRoles is %q", got)
	}
}
