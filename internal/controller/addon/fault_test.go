package addon

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

var boats = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "boats"}

// TestAnAddonRecoversByItselfWhenItsCauseGoes creates add-ons that something keeps from coming up, and takes that away.
func TestAnAddonRecoversByItselfWhenItsCauseGoes(t *testing.T) {
	t.Parallel()
	w := newFixture(t, Options{Patience: 200 * time.Millisecond}, 1)
	hook := newWebhook(w)

	t.Run("an admission webhook refuses", func(t *testing.T) {
		w := w.in(t)
		hook.refuse.Store(true)
		w.create("agent", record.AddonConfig{Version: "v1"})
		w.says(w.becomes("agent", ekstypes.AddonStatusCreateFailed, ekstypes.AddonIssueCodeAdmissionRequestDenied),
			`admission webhook "hook.example.com" denied the request: not here`, "daemonset.apps/agent")
		if _, err := w.kube.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "agent-old",
			metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("an object was made although another was refused: %v", err)
		}
		hook.refuse.Store(false)
		w.becomes("agent", ekstypes.AddonStatusActive)
	})
	t.Run("an admission webhook cannot be called", func(t *testing.T) {
		w := w.in(t)
		hook.dead.Store(true)
		u := w.update("agent", ekstypes.ResolveConflictsNone, func(c *record.AddonConfig) { c.Version = "v2" })
		w.says(w.becomes("agent", ekstypes.AddonStatusUpdating, ekstypes.AddonIssueCodeAdmissionRequestDenied),
			`failed calling webhook "hook.example.com"`, "daemonset.apps/agent")
		hook.dead.Store(false)
		if u := w.ended(u); u.Status != ekstypes.UpdateStatusSuccessful {
			t.Errorf("%+v", u)
		}
		w.becomes("agent", ekstypes.AddonStatusActive)
	})
	t.Run("a policy refuses", func(t *testing.T) {
		w := w.in(t)
		w.policy("web", true)
		w.create("web", record.AddonConfig{Version: "v1"})
		w.says(w.becomes("web", ekstypes.AddonStatusCreateFailed, ekstypes.AddonIssueCodeAdmissionRequestDenied),
			"ValidatingAdmissionPolicy", "deployment.apps/web")
		w.policy("web", false)
		w.becomes("web", ekstypes.AddonStatusActive)
	})
	t.Run("a quota is exceeded", func(t *testing.T) {
		w := w.in(t)
		namespaces := w.kube.CoreV1().Namespaces()
		w.create("home", record.AddonConfig{Version: "v1"})
		w.becomes("home", ekstypes.AddonStatusActive)
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/configmaps": quantity.MustParse("0")}}}
		_, err := w.kube.CoreV1().ResourceQuotas("home").Create(t.Context(), quota, metav1.CreateOptions{})
		w.must(err)
		eventually.Nil(w, "the quota is in force", func() error {
			_, err := w.kube.CoreV1().ConfigMaps("home").Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x"}},
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil {
				return errors.New("it is not")
			}
			return nil
		})
		w.must(w.kube.CoreV1().ConfigMaps("home").Delete(t.Context(), "settings", metav1.DeleteOptions{}))
		w.says(w.becomes("home", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeAdmissionRequestDenied),
			"exceeded quota: none", "configmap/settings")
		w.must(w.kube.CoreV1().ResourceQuotas("home").Delete(t.Context(), "none", metav1.DeleteOptions{}))
		w.becomes("home", ekstypes.AddonStatusActive)
		_, err = namespaces.Get(t.Context(), "home", metav1.GetOptions{})
		w.must(err)
	})
	t.Run("its namespace is being deleted", func(t *testing.T) {
		w := w.in(t)
		stuck := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "stuck",
			Finalizers: []string{"example.com/never"}}}
		_, err := w.kube.CoreV1().ConfigMaps("home").Create(t.Context(), stuck, metav1.CreateOptions{})
		w.must(err)
		w.must(w.kube.CoreV1().Namespaces().Delete(t.Context(), "home", metav1.DeleteOptions{}))
		w.says(w.becomes("home", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeK8sResourceNotFound),
			"because it is being terminated", "")
		_, err = w.kube.CoreV1().ConfigMaps("home").Patch(t.Context(), "stuck", types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		w.must(err)
		w.becomes("home", ekstypes.AddonStatusActive)
		eventually.Nil(w, "its Deployment is back", func() error {
			_, err := w.kube.AppsV1().Deployments("home").Get(t.Context(), "home", metav1.GetOptions{})
			return err
		})
	})
	t.Run("the API server is away", func(t *testing.T) {
		w := w.in(t)
		w.server.Stop()
		w.says(w.becomes("agent", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeClusterUnreachable),
			"unable to communicate with your Kubernetes cluster API server", "demo")
		w.server.Restart()
		w.becomes("agent", ekstypes.AddonStatusActive)
	})
	t.Run("a definition is missing", func(t *testing.T) {
		w := w.in(t)
		w.create("sailor", record.AddonConfig{Version: "v1"})
		w.says(w.becomes("sailor", ekstypes.AddonStatusCreateFailed, ekstypes.AddonIssueCodeK8sResourceNotFound),
			`the server doesn't have a resource type "Boat"`, "boat.example.com/sailor")
		w.create("crd", record.AddonConfig{Version: "v1", Configuration: "5"})
		w.becomes("crd", ekstypes.AddonStatusActive)
		w.becomes("sailor", ekstypes.AddonStatusActive)

		// Its user deletes it, with all that is of its kind: both come back.
		gone := map[string]types.UID{} // which takes a moment
		for _, name := range []string{"coracle", "sailor"} {
			boat, err := w.any.Resource(boats).Get(t.Context(), name, metav1.GetOptions{})
			w.must(err)
			gone[name] = boat.GetUID()
		}
		w.must(w.any.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
			Resource: "customresourcedefinitions"}).Delete(t.Context(), "boats.example.com", metav1.DeleteOptions{}))
		for name, was := range gone {
			eventually.Nil(w, name+" is back", func() error {
				boat, err := w.any.Resource(boats).Get(t.Context(), name, metav1.GetOptions{})
				if err == nil && boat.GetUID() == was {
					err = errors.New("it has not gone yet")
				}
				return err
			})
		}
		w.becomes("crd", ekstypes.AddonStatusActive)
		w.becomes("sailor", ekstypes.AddonStatusActive)
	})
	t.Run("a configuration that the API server calls invalid", func(t *testing.T) {
		w := w.in(t)
		u := w.update("crd", ekstypes.ResolveConflictsNone, func(c *record.AddonConfig) { c.Configuration = "12" })
		w.says(w.becomes("crd", ekstypes.AddonStatusUpdating, ekstypes.AddonIssueCodeUnsupportedAddonModification),
			"should be less than or equal to 9", "boat.example.com/coracle")
		w.overdue(u)
		if u := w.ended(u); u.Status != ekstypes.UpdateStatusFailed || len(u.Errors) != 1 ||
			u.Errors[0].ErrorCode != ekstypes.ErrorCodeUnsupportedAddonModification {
			t.Errorf("%+v", u)
		}
		w.becomes("crd", ekstypes.AddonStatusUpdateFailed, ekstypes.AddonIssueCodeUnsupportedAddonModification)
		boat, err := w.any.Resource(boats).Get(t.Context(), "coracle", metav1.GetOptions{})
		w.must(err)
		if length := boat.Object["spec"].(map[string]any)["length"]; length != int64(5) {
			t.Errorf("length %v", length)
		}
	})
	t.Run("somebody made the object so that it cannot be changed", func(t *testing.T) {
		w := w.in(t)
		deployments := w.kube.AppsV1().Deployments("kube-system")
		foreground := metav1.DeletePropagationForeground
		hook.refuse.Store(true) // the add-on's own comes back too soon otherwise
		w.must(deployments.Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &foreground}))
		labels := map[string]string{"app": "other"}
		eventually.Nil(w, "the user's is there", func() error {
			_, err := deployments.Create(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web",
				Labels: map[string]string{"user": "true"}}, Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}},
			}}, metav1.CreateOptions{})
			return err
		})
		hook.refuse.Store(false)
		w.says(w.becomes("web", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeUnsupportedAddonModification),
			"field is immutable", "deployment.apps/web")
		w.must(deployments.Delete(t.Context(), "web", metav1.DeleteOptions{}))
		w.becomes("web", ekstypes.AddonStatusActive)
	})
	t.Run("its permissions are taken away", func(t *testing.T) {
		w := w.in(t)
		w.must(w.kube.RbacV1().ClusterRoleBindings().Delete(t.Context(), "eks:addon-cluster-admin",
			metav1.DeleteOptions{}))
		w.edit("agent", "kubectl-edit", func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Containers[0].Image = "mine" })
		w.says(w.becomes("agent", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeAccessDenied),
			`User "eks:addon-manager" cannot`, "daemonset.apps/agent")
		w.admit()
		w.becomes("agent", ekstypes.AddonStatusActive)
		if image := w.ds("agent").Spec.Template.Spec.Containers[0].Image; image != "registry/agent:2" {
			t.Errorf("the image is %s", image)
		}
	})
	t.Run("its role is gone", func(t *testing.T) {
		w := w.in(t)
		role := record.Role{Account: w.cluster.Account, Name: "agent", Path: "/",
			Trust: `{"Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`}
		arn := role.ARN()
		u := w.update("agent", ekstypes.ResolveConflictsNone,
			func(c *record.AddonConfig) { c.ServiceAccountRoleARN = arn })
		w.says(w.becomes("agent", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeAddonPermissionFailure),
			arn+" does not exist", arn)
		if u := w.ended(u); u.Status != ekstypes.UpdateStatusSuccessful {
			t.Errorf("%+v", u)
		}
		account, err := w.kube.CoreV1().ServiceAccounts("kube-system").Get(t.Context(), "agent", metav1.GetOptions{})
		if err != nil || account.Annotations["eks.amazonaws.com/role-arn"] != arn {
			t.Errorf("%v %v", account.Annotations, err)
		}
		key := record.RoleKey(role.Account, role.Name)
		create(t, record.Roles(w.store), key, role)
		change := func(change func(*record.Role)) {
			t.Helper()
			_, err := record.Roles(w.store).Modify(t.Context(), key,
				func(r *record.Role) error { change(r); return nil })
			w.must(err)
		}
		eventually.Nil(w, "it is not trusted",
			w.said("agent", "trust policy does not allow sts:AssumeRoleWithWebIdentity"))
		change(func(r *record.Role) {
			r.Trust = `{"Statement":[{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::1:oidc-provider/` +
				strings.TrimPrefix(w.cluster.Issuer(), "https://") + `"},"Action":"sts:AssumeRoleWithWebIdentity"}]}`
		})
		eventually.Nil(w, "it has no permissions", w.said("agent", "has no permissions"))
		change(func(r *record.Role) { r.Attached = []string{"arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"} })
		w.becomes("agent", ekstypes.AddonStatusActive)
	})
	t.Run("there is no room", func(t *testing.T) {
		w := w.in(t)
		w.must(store.IgnoreNotFound(w.kube.CoreV1().Nodes().Delete(t.Context(), "node-0", metav1.DeleteOptions{})))
		eventually.Nil(w, "the scheduler knows of no node", w.unschedulable())
		w.must(w.kube.AppsV1().Deployments("kube-system").DeleteCollection(t.Context(), metav1.DeleteOptions{},
			metav1.ListOptions{LabelSelector: "none"}))
		w.create("lonely", record.AddonConfig{Version: "v1"})
		w.says(w.becomes("lonely", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeInsufficientNumberOfReplicas),
			"cannot be scheduled: no nodes available", "deployment.apps/lonely")
		w.becomes("agent", ekstypes.AddonStatusActive) // a DaemonSet needs no nodes
		w.kubelets.Node("node-1", "", nil)
		w.becomes("lonely", ekstypes.AddonStatusActive)
	})
}

// unschedulable returns a check that passes once the scheduler finds no node for a pod.
func (w *fixture) unschedulable() func() error {
	pods := w.kube.CoreV1().Pods("default")
	ctx, name := w.Context(), ""
	return func() error {
		if name == "" {
			pod, err := pods.Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "unschedulable-"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "none", Image: "none"}}},
			}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			name = pod.Name
		}
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return pods.Delete(ctx, name, metav1.DeleteOptions{})
			}
		}
		if pod.Spec.NodeName != "" {
			name = "" // the scheduler did not know yet
			return fmt.Errorf("pod %s was scheduled to %s", pod.Name, pod.Spec.NodeName)
		}
		return fmt.Errorf("pod %s was not scheduled yet", name)
	}
}

// TestMissingImages goes through the images that cannot be had: a new add-on says so, an update waits, and both go on
// when they come.
func TestMissingImages(t *testing.T) {
	t.Parallel()
	var there atomic.Bool
	w := newFixture(t, Options{Patience: 200 * time.Millisecond, Provide: func(_ context.Context,
		i catalog.Image) error {
		if there.Load() || i.Reference == "agent:1" {
			return nil
		}
		return fmt.Errorf("image %s cannot be had: no network", i.Reference)
	}}, 1)
	w.create("agent", record.AddonConfig{Version: "v1"})
	w.becomes("agent", ekstypes.AddonStatusActive)
	u := w.update("agent", ekstypes.ResolveConflictsNone, func(c *record.AddonConfig) { c.Version = "v2" })
	w.says(w.becomes("agent", ekstypes.AddonStatusUpdating, ekstypes.AddonIssueCodeInsufficientNumberOfReplicas),
		"image agent:2 cannot be had: no network", "")
	if image := w.ds("agent").Spec.Template.Spec.Containers[0].Image; image != "registry/agent:1" {
		t.Errorf("the pods were changed to %s", image)
	}
	w.create("web", record.AddonConfig{Version: "v1"})
	w.becomes("web", ekstypes.AddonStatusActive) // these kubelets need no image
	there.Store(true)
	if u := w.ended(u); u.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("%+v", u)
	}
	w.becomes("agent", ekstypes.AddonStatusActive)
}

// in returns the fixture for a part of a test.
func (w *fixture) in(t *testing.T) *fixture {
	v := *w
	v.T = t
	return &v
}

// says checks that one of the issues has a text and, unless it is empty, names a resource.
func (w *fixture) says(issues []ekstypes.AddonIssue, words, id string) {
	w.Helper()
	for _, i := range issues {
		if strings.Contains(*i.Message, words) && (id == "" || len(i.ResourceIds) == 1 && i.ResourceIds[0] == id) {
			return
		}
	}
	w.Errorf("no issue says %q of %s:\n%s", words, id, text(issues))
}

// said returns a check that an issue of an add-on has a text.
func (w *fixture) said(name, words string) func() error {
	return func() error {
		if _, issues := w.status(name); !strings.Contains(text(issues), words) {
			return errors.New(text(issues))
		}
		return nil
	}
}

// policy forbids Deployments of a name, or allows them again.
func (w *fixture) policy(name string, forbid bool) {
	w.Helper()
	policies, bindings := w.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies(),
		w.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	if !forbid {
		w.must(bindings.Delete(w.Context(), "forbid", metav1.DeleteOptions{}))
		w.must(policies.Delete(w.Context(), "forbid", metav1.DeleteOptions{}))
		return
	}
	_, err := policies.Create(w.Context(),
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "forbid"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
						{RuleWithOperations: rule("apps", "deployments")}}},
				Validations: []admissionregistrationv1.Validation{{Expression: "object.metadata.name != '" + name + "'",
					Message: "no " + name}},
			}}, metav1.CreateOptions{})
	w.must(err)
	_, err = bindings.Create(w.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "forbid"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "forbid", ValidationActions: []admissionregistrationv1.ValidationAction{
				admissionregistrationv1.Deny},
		}}, metav1.CreateOptions{})
	w.must(err)
	eventually.Nil(w, "the policy is in force", func() error {
		_, err := w.kube.AppsV1().Deployments("default").Create(w.Context(),
			&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}},
			}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("it is not")
		}
		return nil
	})
}

func rule(group, resource string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create,
			admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"},
			Resources: []string{resource}},
	}
}

// webhook judges the DaemonSets and Deployments of a fixture, but for those that are marked as a user's.
type webhook struct{ refuse, dead atomic.Bool }

func newWebhook(w *fixture) *webhook {
	w.Helper()
	h := &webhook{}
	certificate, key := w.server.Issue("webhook", nil)
	pair, err := tls.X509KeyPair(certificate, key)
	w.must(err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if h.dead.Load() {
			panic(http.ErrAbortHandler)
		}
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(in.Body).Decode(&review); err != nil {
			http.Error(out, err.Error(), http.StatusBadRequest)
			return
		}
		refused := h.refuse.Load() && review.Request.UserInfo.Username == User
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: !refused}
		if refused {
			review.Response.Result = &metav1.Status{Message: "not here"}
		}
		review.Request = nil
		_ = json.NewEncoder(out).Encode(review) // the API server is gone then
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	w.Cleanup(server.Close)
	fail, none, url := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, server.URL
	_, err = w.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(w.Context(),
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "hook"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "hook.example.com", FailurePolicy: &fail, SideEffects: &none,
				AdmissionReviewVersions: []string{"v1"},
				ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: w.server.CA},
				Rules: []admissionregistrationv1.RuleWithOperations{rule("apps", "daemonsets"),
					rule("apps", "deployments")},
			}},
		}, metav1.CreateOptions{})
	w.must(err)
	h.refuse.Store(true)
	eventually.Nil(w, "the webhook is called", func() error {
		_, err := w.server.Client(User, "system:masters").AppsV1().Deployments("default").Create(w.Context(),
			&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}},
			}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("it is not")
		}
		return nil
	})
	h.refuse.Store(false)
	return h
}
