package authenticator

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/coracle-eks/coracle/internal/kube/awsauth"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/turn"
)

const (
	// validationName is the name of the configuration that has API servers send changes of aws-auth here, and
	// validationWebhook that of the webhook in it.
	validationName    = "eks-aws-auth-configmap-validation-webhook"
	validationWebhook = validationName + ".amazonaws.com"

	// maxValidation is the maximum size of a review in bytes: a ConfigMap that changes is in it twice.
	maxValidation = 3 << 20
	// maxAccountValidations is the size in bytes of the reviews of all clusters of an account that are answered at a
	// time, and maxClusterValidations of those of one cluster. Others wait. Each counts for minValidation at least: as
	// much is decoded of it.
	maxAccountValidations, maxClusterValidations, minValidation = 16 << 20, 6 << 20, 1 << 20
	// decodersOfAll is the number of reviews that are decoded at a time, and decodersOfAccount that of those of an
	// account's clusters.
	decodersOfAll, decodersOfAccount = 4, 2
	// maxTold is the number of mistakes that whoever makes a change is told of.
	maxTold = 8
)

// ValidationConfiguration returns the object by which an API server has changes of aws-auth validated. Its names and
// values are those of EKS, except for the URL. While the webhook cannot be reached, changes are not validated.
func (e Endpoint) ValidationConfiguration() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
		"metadata": map[string]any{"name": validationName},
		"webhooks": []any{map[string]any{
			"name":                    validationWebhook,
			"admissionReviewVersions": []any{"v1"},
			"clientConfig": map[string]any{"url": e.URL + "/clusters/" + e.ClusterID + "/aws-auth",
				"caBundle": base64.StdEncoding.EncodeToString(e.CA)},
			"failurePolicy": "Ignore",
			"matchPolicy":   "Equivalent",
			"namespaceSelector": map[string]any{"matchLabels": map[string]any{
				"kubernetes.io/metadata.name": "kube-system"}},
			"rules": []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"},
				"operations": []any{"UPDATE"}, "resources": []any{"configmaps"}, "scope": "*"}},
			"sideEffects":    "None",
			"timeoutSeconds": int64(5),
		}},
	}}
}

// validate refuses changes after which the authenticator could not read aws-auth completely, and before which it could:
// whoever is in the part that it leaves out would be locked out. What is wrong already is in nobody's way who changes
// something else, Coracle itself included. Changes that come too fast to be parsed are not looked at.
func (a *Authenticator) validate(w http.ResponseWriter, r *http.Request, c record.Cluster) {
	size := r.ContentLength
	if size < 0 || size > maxValidation {
		size = maxValidation
	}
	release, err := turn.AcquireBoth(r.Context(), max(size, minValidation), a.validationsOfCluster, c.ID,
		a.validationsOfAccount, c.Account)
	if err != nil {
		return
	}
	defer release()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxValidation))
	if err != nil {
		http.Error(w, "read the request body: "+err.Error(), http.StatusBadRequest)
		return
	}
	change, err := a.decodeInTurn(r.Context(), c.Account, body)
	switch {
	case r.Context().Err() != nil:
		return // the API server has given up
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review := change.review
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if change.ofAWSAuth {
		errs, err := a.newErrors(r.Context(), c, change)
		switch {
		case r.Context().Err() != nil:
			return
		case errors.Is(err, awsauth.ErrTooOften):
			askAgain(w, err)
			return
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		case len(errs) > 0:
			response.Allowed = false
			response.Result = &metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
				Message: fmt.Sprintf("error parsing config map: %v", errs[:min(len(errs), maxTold)]),
			}
		}
	}
	review.Request, review.Response = nil, response
	writeReview(w, review)
}

// change is what a review is about.
type change struct {
	review    admissionv1.AdmissionReview
	ofAWSAuth bool
	created   bool              // there was none before
	data, old map[string]string // of the aws-auth
}

// decodeInTurn decodes a review when it is the turn of the account: an administrator of a cluster can have any object
// sent here, as often as they like.
func (a *Authenticator) decodeInTurn(ctx context.Context, account string, body []byte) (c change, err error) {
	_, release, err := a.decoding.Acquire(ctx, account)
	if err != nil {
		return change{}, err
	}
	defer release()
	err = json.Unmarshal(body, &c.review)
	if err != nil || c.review.Request == nil || c.review.GroupVersionKind() != admissionv1.SchemeGroupVersion.WithKind(
		"AdmissionReview") {
		return change{}, errors.New("the request body is not an AdmissionReview of admission.k8s.io/v1")
	}
	if c.ofAWSAuth = isAWSAuth(c.review.Request); !c.ofAWSAuth {
		return c, nil
	}
	if c.data, err = dataOf(c.review.Request.Object.Raw); err != nil {
		return change{}, err
	}
	if c.created = len(c.review.Request.OldObject.Raw) == 0; !c.created {
		c.old, err = dataOf(c.review.Request.OldObject.Raw)
	}
	return c, err
}

func dataOf(object []byte) (map[string]string, error) {
	var configMap struct {
		Data map[string]string `json:"data"`
	}
	if err := json.Unmarshal(object, &configMap); err != nil {
		return nil, fmt.Errorf("the object is not a ConfigMap: %w", err)
	}
	return configMap.Data, nil
}

// newErrors returns what is wrong with a changed aws-auth whose old data have nothing wrong with them.
func (a *Authenticator) newErrors(ctx context.Context, c record.Cluster, to change) (errs []error, err error) {
	pace := a.clusterState(c.ID).validating(c.Account)
	if errs, err = parseInTurn(ctx, pace, to.data); err != nil || len(errs) == 0 || to.created {
		return errs, err
	}
	old, err := parseInTurn(ctx, pace, to.old)
	if err != nil || len(old) > 0 {
		return nil, err
	}
	return errs, nil
}

// parseInTurn returns what is wrong with an aws-auth.
func parseInTurn(ctx context.Context, pace *awsauth.Pace, data map[string]string) (errs []error, err error) {
	err = pace.InTurn(ctx, data, func() { _, errs = parseAWSAuth(data) })
	return errs, err
}

// isAWSAuth reports whether a review is of a change of aws-auth. The administrator of a cluster can have other objects
// sent here.
func isAWSAuth(r *admissionv1.AdmissionRequest) bool {
	return r.Resource == metav1.GroupVersionResource{Version: "v1", Resource: "configmaps"} && r.SubResource == "" &&
		r.Operation == admissionv1.Update && r.Namespace == metav1.NamespaceSystem && r.Name == "aws-auth"
}
