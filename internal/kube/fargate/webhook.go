// Package fargate has the admission webhooks of EKS's control planes for Fargate. One sends the pods that a Fargate
// profile selects to Fargate's scheduler, the other refuses settings of Fargate's log router that are not valid.
//
// They read the profiles of the cluster in the store, and the objects that API servers send. What those have in them is
// chosen by the users of clusters.
package fargate

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/coracle-eks/coracle/internal/fargate"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/turn"
)

const (
	// Name is the name of the configuration, and of the webhook for pods in it. It begins with a number because API
	// servers call webhooks in the order of these names: others see what it has done.
	Name = "0500-amazon-eks-fargate-mutation.amazonaws.com"
	// ConfigMapsName is the name of the webhook for the settings of the log router.
	ConfigMapsName = "0500-amazon-eks-fargate-configmaps-admission.amazonaws.com"

	// maxReview is the maximum size of a review in bytes: that of requests to API servers. A ConfigMap that changes is in
	// it twice.
	maxReview = 3 << 20
	// maxAccount is the size in bytes of the reviews of all clusters of an account that are answered at a time, and
	// maxCluster of those of one cluster. Others wait. Each counts for minReview at least.
	maxAccount, maxCluster, minReview = 16 << 20, 6 << 20, 512 << 10
)

// Webhook answers the admission reviews of all clusters.
type Webhook struct {
	profiles store.Table[record.FargateProfile]
	states   store.Table[record.FargateProfileState]

	clusterShare, accountShare *turn.Places // bytes
}

// New returns a Webhook over the profiles in a store.
func New(s *store.Store) *Webhook {
	return &Webhook{profiles: record.FargateProfiles(s), states: record.FargateProfileStates(s),
		clusterShare: turn.Each(maxCluster), accountShare: turn.Each(maxAccount)}
}

// Configuration returns the object by which an API server sends reviews to a URL, whose certificate the authority in
// PEM has issued. It is what EKS applies when a cluster gets its first profile, except for the URL.
func Configuration(url string, authority []byte) *unstructured.Unstructured {
	webhook := func(name, resource string, operations ...any) map[string]any {
		return map[string]any{
			"name":                    name,
			"admissionReviewVersions": []any{"v1beta1"},
			"clientConfig":            map[string]any{"url": url, "caBundle": base64.StdEncoding.EncodeToString(authority)},
			"failurePolicy":           "Ignore",
			"rules": []any{map[string]any{"apiGroups": []any{"*"}, "apiVersions": []any{"*"},
				"operations": operations, "resources": []any{resource}}},
			"sideEffects":    "None",
			"timeoutSeconds": int64(5),
		}
	}
	configMaps := webhook(ConfigMapsName, "configmaps", "CREATE", "UPDATE")
	configMaps["namespaceSelector"] = map[string]any{"matchLabels": map[string]any{"aws-observability": "enabled"}}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
		"metadata": map[string]any{"name": Name},
		"webhooks": []any{webhook(Name, "pods", "CREATE"), configMaps},
	}}
}

// What the webhooks look at. The rules of the configuration name more, and the administrator of a cluster can have any
// object sent here.
var (
	pods       = metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
	configMaps = metav1.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// Review answers an admission review that the API server of a cluster sends. An HTTP error admits the object as it is:
// the failure policy is Ignore, and the audit log says that the webhook has failed.
func (w *Webhook) Review(answer http.ResponseWriter, r *http.Request, c record.Cluster) {
	size := r.ContentLength
	if size < 0 || size > maxReview {
		size = maxReview
	}
	release, err := turn.AcquireBoth(r.Context(), max(size, minReview), w.clusterShare, c.ID, w.accountShare, c.Account)
	if err != nil {
		return
	}
	defer release()
	// The versions differ in their names alone.
	var review admissionv1.AdmissionReview
	err = json.NewDecoder(http.MaxBytesReader(answer, r.Body, maxReview)).Decode(&review)
	if err != nil || review.Request == nil || review.Kind != "AdmissionReview" {
		http.Error(answer, "the request body is not an AdmissionReview", http.StatusBadRequest)
		return
	}
	switch review.GroupVersionKind().GroupVersion() {
	case admissionv1.SchemeGroupVersion, admissionv1beta1.SchemeGroupVersion:
	default:
		http.Error(answer, "the review is of neither admission.k8s.io/v1 nor v1beta1", http.StatusBadRequest)
		return
	}
	if review.Response, err = w.respond(r.Context(), c, review.Request); err != nil {
		status := http.StatusInternalServerError
		var malformed *malformedError
		if errors.As(err, &malformed) {
			status = http.StatusBadRequest
		}
		http.Error(answer, err.Error(), status)
		return
	}
	review.Response.UID = review.Request.UID
	review.Request = nil
	answer.Header().Set("Content-Type", "application/json")
	// A write fails only when the API server has gone.
	_ = json.NewEncoder(answer).Encode(review)
}

// malformedError is the error of an object that is not of the form of its resource.
type malformedError struct{ cause error }

func (e *malformedError) Error() string { return "the object cannot be read: " + e.cause.Error() }

func (w *Webhook) respond(
	ctx context.Context, c record.Cluster, request *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, error) {
	switch {
	case request.SubResource != "":
	case request.Resource == pods && request.Operation == admissionv1.Create:
		return w.mutatePod(ctx, c, request)
	case request.Resource == configMaps && request.Namespace == fargate.LoggingNamespace &&
		(request.Operation == admissionv1.Create || request.Operation == admissionv1.Update):
		return validateConfigMap(request)
	}
	return &admissionv1.AdmissionResponse{Allowed: true}, nil
}

// pod is the part of a pod that the webhook reads.
type pod struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName         string                   `json:"nodeName"`
		PreemptionPolicy *corev1.PreemptionPolicy `json:"preemptionPolicy"`
	} `json:"spec"`
}

// operation is an operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// mutatePod assigns a selected pod to fargate-scheduler, replacing any scheduler it names: no other one can run it on
// Fargate. Pods of DaemonSets, and those that have a node already, are not changed.
func (w *Webhook) mutatePod(
	ctx context.Context, c record.Cluster, request *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, error) {
	var p pod
	if err := json.Unmarshal(request.Object.Raw, &p); err != nil {
		return nil, &malformedError{err}
	}
	response := &admissionv1.AdmissionResponse{Allowed: true}
	if p.Spec.NodeName != "" || fargate.IsDaemon(p.OwnerReferences) || !fargate.WithinBounds(p.Labels) {
		return response, nil
	}
	profiles, err := w.activeProfiles(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("read Fargate profiles of cluster %s: %w", c.Name, err)
	}
	profile := fargate.Select(profiles, request.Namespace, p.Labels, p.Annotations)
	if profile == "" {
		return response, nil
	}
	labels := maps.Clone(p.Labels)
	if labels == nil {
		labels = make(map[string]string)
	}
	labels[fargate.ProfileLabel] = profile
	patch := []operation{
		{"add", "/spec/schedulerName", fargate.SchedulerName},
		{"add", "/spec/priorityClassName", fargate.PriorityClass},
		{"add", "/spec/priority", fargate.Priority},
	}
	if policy := p.Spec.PreemptionPolicy; policy != nil && *policy != corev1.PreemptLowerPriority {
		// That of the priority class which the pod had: the API server would refuse it with this one.
		patch = append(patch, operation{"add", "/spec/preemptionPolicy", corev1.PreemptLowerPriority})
	}
	patch = append(patch, operation{"add", "/metadata/labels", labels})
	if response.Patch, err = json.Marshal(patch); err != nil {
		return nil, err
	}
	patchType := admissionv1.PatchTypeJSONPatch
	response.PatchType = &patchType
	return response, nil
}

// activeProfiles returns the profiles of a cluster that select pods. Those of an earlier cluster of its name do not.
func (w *Webhook) activeProfiles(ctx context.Context, c record.Cluster) (profiles []record.FargateProfile, err error) {
	rows, err := w.profiles.List(ctx, store.Prefix(c.Account, c.Region, c.Name))
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.Value.ClusterID != c.ID {
			continue
		}
		state, err := w.states.Get(ctx, row.Value.Key())
		if errors.Is(err, store.ErrNotFound) {
			continue // not yet
		}
		if err != nil {
			return nil, err
		}
		if record.FargateProfileStatus(row.Value, state.Value) == ekstypes.FargateProfileStatusActive {
			profiles = append(profiles, row.Value)
		}
	}
	return profiles, nil
}

// validateConfigMap refuses settings of the log router that are not valid.
func validateConfigMap(request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	var m struct {
		metav1.ObjectMeta `json:"metadata"`
		Data              map[string]string `json:"data"`
	}
	if err := json.Unmarshal(request.Object.Raw, &m); err != nil {
		return nil, &malformedError{err}
	}
	if m.Name != fargate.LoggingConfigMap {
		return &admissionv1.AdmissionResponse{Allowed: true}, nil
	}
	if err := fargate.ValidateLogging(m.Data); err != nil {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: err.Error()}}, nil //nolint:nilerr // told
	}
	return &admissionv1.AdmissionResponse{Allowed: true}, nil
}
