// Package controller is an example of a controller that calls AWS: it keeps ConfigMaps as parameters of Systems Manager
// are. Its test shows how such a controller is tested with Coracle.
package controller

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PathAnnotation names the path whose parameters a ConfigMap has as its data.
const PathAnnotation = "example.com/parameter-path"

// Reconciler keeps ConfigMaps with the PathAnnotation as the parameters are.
type Reconciler struct {
	Client client.Client
	SSM    *ssm.Client
	Every  time.Duration // how often parameters are read
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Complete(r)
}

// Reconcile reads the parameters of one ConfigMap.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var configMap corev1.ConfigMap
	if err := r.Client.Get(ctx, request.NamespacedName, &configMap); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	path := configMap.Annotations[PathAnnotation]
	if path == "" {
		return ctrl.Result{}, nil
	}
	out, err := r.SSM.GetParametersByPath(ctx, &ssm.GetParametersByPathInput{Path: &path})
	if err != nil {
		return ctrl.Result{}, err
	}
	before := configMap.DeepCopy()
	configMap.Data = make(map[string]string)
	for _, parameter := range out.Parameters {
		configMap.Data[aws.ToString(parameter.Name)[len(path)+1:]] = aws.ToString(parameter.Value)
	}
	return ctrl.Result{RequeueAfter: r.Every}, r.Client.Patch(ctx, &configMap, client.MergeFrom(before))
}
