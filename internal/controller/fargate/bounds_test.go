package fargate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/controller/fargate"
	rules "github.com/coracle-eks/coracle/internal/fargate"
	guest "github.com/coracle-eks/coracle/internal/guest/fargate"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// full is EC2 of an account that may not have more in the store, while it is set.
type full struct {
	amazon
	is, charged *atomic.Bool
}

func (f full) Launch(ctx context.Context, l fargate.Launch) (record.Instance, record.NetworkInterface, error) {
	f.charged.Store(store.IsLimited(ctx))
	if f.is.Load() {
		return record.Instance{}, record.NetworkInterface{}, fmt.Errorf("commit: %w",
			&store.FullError{Account: account, Limit: 1 << 20})
	}
	return f.amazon.Launch(ctx, l)
}

// TestStoreQuotaExceeded has an account that may have no machine more, until it may.
func TestStoreQuotaExceeded(t *testing.T) {
	t.Parallel()
	var is, charged atomic.Bool
	is.Store(true)
	w := newFixture(t, func(o *fargate.Options) { o.Machines = full{o.Machines.(amazon), &is, &charged} })
	w.active("fargate")
	pod := w.pod("fargate", "web")
	w.tells(pod, "FailedScheduling: Account "+account+" has reached the quota of 1 MiB")
	w.until("it waits longer", func() error {
		if row := w.row(pod); row.Failures < 2 || row.RetryAt.IsZero() {
			return fmt.Errorf("it has %+v", row)
		}
		return nil
	})
	if !charged.Load() {
		t.Error("the launch is at nobody's charge")
	}
	is.Store(false)
	w.runs(pod)
}

// TestDeletionsThatAreRefused has a cluster whose policy keeps pods, and pods that only say that they are a profile's.
func TestDeletionsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p := w.active("fargate")
	other := w.active("other", func(o *record.FargateProfile) { o.Selectors[0].Labels = map[string]string{"on": "x"} })
	pod := w.pod("fargate", "web")
	w.runs(pod)
	stranger := w.pod("other", "stranger", func(o *corev1.Pod) { o.Labels[rules.ProfileLabel] = p.Name })
	large := w.pod("fargate", "large", func(o *corev1.Pod) {
		for i := range rules.MaxLabels {
			o.Labels[fmt.Sprint("l", i)] = ""
		}
	})
	w.tells(large, "Pod does not match the selectors of the profile")

	policies := w.kube.AdmissionregistrationV1()
	must(policies.ValidatingAdmissionPolicies().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "keep"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Delete},
					Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
						Resources: []string{"pods"}},
				}}}},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "pods stay"}},
		},
	}, metav1.CreateOptions{}))(t)
	must(policies.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "keep"},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "keep",
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}, metav1.CreateOptions{}))(t)
	w.until("the policy holds", func() error {
		err := w.kube.CoreV1().Pods("fargate").Delete(t.Context(), "web", metav1.DeleteOptions{
			DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("a pod may be deleted")
		}
		return nil
	})
	w.remove(p)
	p.Deleting = true // as its row is
	w.becomes(p, ekstypes.FargateProfileStatusDeleteFailed)
	issue := w.profileState(p).Issues[0]
	if issue.Code != ekstypes.FargateProfileIssueCodeAccessDenied || !strings.Contains(*issue.Message, "pods stay") {
		t.Errorf("the issue is %s: %s", issue.Code, *issue.Message)
	}
	err := policies.ValidatingAdmissionPolicyBindings().Delete(t.Context(), "keep", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.gone(p)
	w.empty()
	_, err = w.kube.CoreV1().Pods("other").Get(t.Context(), stranger.Name, metav1.GetOptions{})
	if err != nil {
		t.Errorf("a pod that the profile does not select: %v", err)
	}
	_, err = w.kube.CoreV1().Pods("fargate").Get(t.Context(), pod.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a pod of the profile: %v", err)
	}
	w.remove(other)
	w.gone(other)
}

// TestEntriesOfOthersStay has an access entry that somebody made again.
func TestEntriesOfOthersStay(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	must(record.Clusters(w.store).Modify(t.Context(), w.cluster.Key(), func(c *record.Cluster) error {
		c.AuthenticationMode = ekstypes.AuthenticationModeApi
		return nil
	}))(t)
	p := w.active("fargate")
	key := record.AccessEntryKey(account, region, "demo", role)
	must(record.AccessEntries(w.store).Modify(t.Context(), key, func(e *record.AccessEntry) error {
		e.ID = uuid.NewString()
		return nil
	}))(t)
	w.remove(p)
	w.gone(p)
	if _, err := record.AccessEntries(w.store).Get(t.Context(), key); err != nil {
		t.Errorf("the entry of somebody else is gone: %v", err)
	}
}

// TestProfilesOfOneNameAreTwo has a pod that waits with a profile whose name another one gets.
func TestProfilesOfOneNameAreTwo(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p := w.active("fargate")
	w.faulty(func(record.FargateMachine) record.Machine { return record.Machine{Failing: "not yet"} })
	pod := w.pod("fargate", "web")
	w.tells(pod, "FailedScheduling: not yet")
	if row := w.row(pod); row.ProfileID != p.ID {
		t.Errorf("its profile is %q, want %q", row.ProfileID, p.ID)
	}
	p.ID = uuid.NewString()
	must(record.FargateProfiles(w.store).Modify(t.Context(), p.Key(), func(o *record.FargateProfile) error {
		o.ID = p.ID
		return nil
	}))(t)
	w.faulty(nil)
	if _, row := w.runs(pod); row.ProfileID != p.ID {
		t.Errorf("its profile is %q, want %q", row.ProfileID, p.ID)
	}
}

// TestIPv6 has a cluster of that IP family.
func TestIPv6(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	const services = "fd00:1::/108"
	must(record.Clusters(w.store).Modify(t.Context(), w.cluster.Key(), func(c *record.Cluster) error {
		c.IPFamily, c.ServiceIPv6CIDR = ekstypes.IpFamilyIpv6, services
		return nil
	}))(t)
	w.active("fargate")
	pod := w.pod("fargate", "web")
	_, row := w.runs(pod)
	var config guest.Config
	instance := must(record.Instances(w.store).Get(t.Context(), record.EC2Key(account, region, row.InstanceID)))(t).Value
	if err := json.Unmarshal(instance.Fargate.NodeConfig, &config); err != nil {
		t.Fatal(err)
	}
	address, err := netip.ParseAddr(row.Address)
	if err != nil || !address.Is6() || config.Address != row.Address || config.ServiceCIDR != services ||
		!strings.HasPrefix(row.NodeName, "fargate-ip-10-0-") {
		t.Errorf("it is %+v, and its node is to have %+v", row, config)
	}
}
