package controller_test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/coracle-eks/coracle/coracletest"
	"github.com/coracle-eks/coracle/examples/controller"
)

// TestReconciler runs the controller against a real API server and the real API of Systems Manager.
func TestReconciler(t *testing.T) {
	t.Parallel()
	cluster := coracletest.SharedCluster(t)
	namespace := cluster.Namespace(t)
	parameters := ssm.NewFromConfig(cluster.Coracle().AWSConfig())

	manager, err := ctrl.NewManager(cluster.RESTConfig(), ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &controller.Reconciler{Client: manager.GetClient(), SSM: parameters, Every: 100 * time.Millisecond}
	if err := r.SetupWithManager(manager); err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := manager.Start(t.Context()); err != nil {
			t.Error(err)
		}
	}()

	path := "/" + namespace
	put := func(value string) {
		t.Helper()
		if _, err := parameters.PutParameter(t.Context(), &ssm.PutParameterInput{Name: aws.String(path + "/color"),
			Value: &value, Type: types.ParameterTypeString, Overwrite: aws.Bool(true)}); err != nil {
			t.Fatal(err)
		}
	}
	put("red")
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "colors", Namespace: namespace,
		Annotations: map[string]string{controller.PathAnnotation: path}}}
	if err := manager.GetClient().Create(t.Context(), configMap); err != nil {
		t.Fatal(err)
	}
	for _, color := range []string{"red", "blue"} {
		put(color)
		var got corev1.ConfigMap
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true,
			func(ctx context.Context) (bool, error) {
				err := manager.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(configMap), &got)
				return got.Data["color"] == color, err
			})
		if err != nil {
			t.Errorf("the ConfigMap did not become %s: %v: %v", color, err, got.Data)
		}
	}
}
