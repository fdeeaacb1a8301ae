package apiservertest_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
)

// TestNobodyElseServesBuiltInGroups has a user who may do everything give groups of Kubernetes to a service.
func TestNobodyElseServesBuiltInGroups(t *testing.T) {
	t.Parallel()
	server := apiservertest.Start(t, apiservertest.Options{Flags: []string{ // as the control planes of clusters have it
		"--enable-admission-plugins=CoracleBuiltInGroups"}})
	client, err := dynamic.NewForConfig(server.Config("admin", "system:masters"))
	if err != nil {
		t.Fatal(err)
	}
	services := client.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1",
		Resource: "apiservices"})
	service := func(version, group string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
			"metadata": map[string]any{"name": version + "." + group},
			"spec": map[string]any{"group": group, "version": version, "groupPriorityMinimum": int64(100),
				"versionPriority": int64(100), "insecureSkipTLSVerify": true,
				"service": map[string]any{"namespace": "default", "name": "mine", "port": int64(443)}},
		}}
	}
	forbidden := func(what string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "is built into Kubernetes") {
			t.Errorf("%s: %v", what, err)
		}
	}
	eventually.Nil(t, "the API services of Kubernetes are registered", func() error {
		_, err := services.Get(t.Context(), "v1.", metav1.GetOptions{})
		return err
	})
	for _, name := range []string{"v1.", "v1.apps", "v1.rbac.authorization.k8s.io", "v1.apiextensions.k8s.io"} {
		_, err := services.Patch(t.Context(), name, types.MergePatchType, []byte(
			`{"spec":{"service":{"namespace":"default","name":"mine"},"insecureSkipTLSVerify":true}}`),
			metav1.PatchOptions{})
		forbidden("patch "+name, err)
	}
	for version, group := range map[string]string{"v2": "apps", "v9": "storage.k8s.io", "v1alpha9": "events.k8s.io"} {
		_, err := services.Create(t.Context(), service(version, group), metav1.CreateOptions{})
		forbidden("create "+version+"."+group, err)
		_, err = services.Apply(t.Context(), version+"."+group, service(version, group),
			metav1.ApplyOptions{FieldManager: "mine"})
		forbidden("apply "+version+"."+group, err)
	}
	if _, err := services.Create(t.Context(), service("v1beta1", "metrics.k8s.io"), metav1.CreateOptions{}); err != nil {
		t.Errorf("a group that Kubernetes has not: %v", err)
	}
}
