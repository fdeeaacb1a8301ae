package apiservertest

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/coracle-eks/coracle/internal/eventually"
)

// AWSAuthStays is what a cluster says that refuses changes of aws-auth.
const AWSAuthStays = "aws-auth stays"

// KeepAWSAuth has a cluster refuse each change of aws-auth by a policy, with a code that does not say so, and returns
// the function that ends that.
func KeepAWSAuth(t testing.TB, kube kubernetes.Interface) (end func()) {
	t.Helper()
	policies, name, reason := kube.AdmissionregistrationV1(), "keep-aws-auth", metav1.StatusReasonRequestEntityTooLarge
	_, err := policies.ValidatingAdmissionPolicies().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
						Resources: []string{"configmaps"}},
				}}}},
			Validations: []admissionv1.Validation{{Expression: "object.metadata.name != 'aws-auth'", Message: AWSAuthStays,
				Reason: &reason}},
		},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	bindings := policies.ValidatingAdmissionPolicyBindings()
	if _, err := bindings.Create(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name,
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	isKept := func() bool {
		_, err := kube.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "aws-auth"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	}
	eventually.True(t, "aws-auth is kept", isKept)
	return func() {
		t.Helper()
		if err := bindings.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "aws-auth may be changed again", func() bool { return !isKept() })
	}
}
