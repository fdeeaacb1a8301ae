package fargate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/controller/fargate"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/record"
)

// keepNodes has the cluster refuse the deletion of nodes, and returns the function that ends that.
func (w *fixture) keepNodes(node string) (end func()) {
	w.t.Helper()
	policies := w.kube.AdmissionregistrationV1()
	must(policies.ValidatingAdmissionPolicies().Create(w.t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "keep"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Delete},
					Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
						Resources: []string{"nodes"}},
				}}}},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "nodes stay"}},
		},
	}, metav1.CreateOptions{}))(w.t)
	must(policies.ValidatingAdmissionPolicyBindings().Create(w.t.Context(),
		&admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "keep"},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "keep",
				ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
		}, metav1.CreateOptions{}))(w.t)
	w.until("the policy holds", func() error {
		err := w.kube.CoreV1().Nodes().Delete(w.t.Context(), node, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("a node may be deleted")
		}
		return nil
	})
	return func() {
		err := policies.ValidatingAdmissionPolicyBindings().Delete(w.t.Context(), "keep", metav1.DeleteOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestRefusalsKeepNoMachine has a cluster that lets nobody delete a node: the machine ends nevertheless, the owner of
// the profile is told, and the node goes when it may.
func TestRefusalsKeepNoMachine(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p := w.active("fargate")
	pod, row := w.runs(w.pod("fargate", "web"))
	end := w.keepNodes(row.NodeName)
	w.deletePod(pod)
	w.until("the machine is terminated", func() error {
		i, err := record.Instances(w.store).Get(t.Context(), record.EC2Key(account, region, row.InstanceID))
		if err == nil && i.Value.Wanted != ec2types.InstanceStateNameTerminated {
			err = errors.New("it is to run")
		}
		return err
	})
	w.until("the refusal is shown", func() error {
		issues := w.profileState(p).Issues
		if len(issues) != 1 || issues[0].Code != ekstypes.FargateProfileIssueCodeAccessDenied ||
			!strings.Contains(*issues[0].Message, "nodes stay") {
			return fmt.Errorf("the issues are %+v", issues)
		}
		return nil
	})
	end()
	w.remove(p)
	w.gone(p)
	w.empty()
}

// TestRefusalsOfAWSAuth has a cluster that refuses to have aws-auth changed: a profile is made once it may be, and
// deleted all the same.
func TestRefusalsOfAWSAuth(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	w := newFixture(t, func(o *fargate.Options) {
		o.RetryMost, o.Now = time.Second, func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	end := apiservertest.KeepAWSAuth(t, w.kube)
	p := w.profile("fargate")
	w.shows(p, ekstypes.FargateProfileStatusCreating, ekstypes.FargateProfileIssueCodeAccessDenied,
		apiservertest.AWSAuthStays, p.Name)
	end()
	w.shows(p, ekstypes.FargateProfileStatusActive, "", "", "")
	mapped := w.awsAuth()

	apiservertest.KeepAWSAuth(t, w.kube)
	w.remove(p)
	w.until("the deletion waits", func() error {
		if s := w.profileState(p); s.RefusedAt.IsZero() || s.DeleteFailed || len(s.Issues) > 0 {
			return fmt.Errorf("its state is %+v", s)
		}
		return nil
	})
	later.Store(int64(2 * time.Minute))
	w.gone(p)
	if now := w.awsAuth(); now != mapped || !strings.Contains(now, role) {
		t.Errorf("aws-auth is %q", now)
	}
}

// moody is EC2 that refuses each launch for another reason.
type moody struct {
	amazon
	launches *atomic.Int64
}

func (m moody) Launch(context.Context, fargate.Launch) (record.Instance, record.NetworkInterface, error) {
	return record.Instance{}, record.NetworkInterface{}, &smithy.GenericAPIError{Code: "InternalError",
		Message: fmt.Sprint("reason ", m.launches.Add(1))}
}

// TestOtherReasonsHastenNothing has launches that fail for a new reason each time: they are tried less and less often.
func TestOtherReasonsHastenNothing(t *testing.T) {
	t.Parallel()
	var launches atomic.Int64
	w := newFixture(t, func(o *fargate.Options) {
		o.Machines = moody{o.Machines.(amazon), &launches}
		o.RetryFirst = 10 * time.Millisecond
	})
	w.active("fargate")
	pod := w.pod("fargate", "web")
	w.until("it is tried later", func() error {
		if row := w.row(pod); row.Failures < 4 {
			return fmt.Errorf("it has %+v", row)
		}
		return nil
	})
}
