package vpcresource

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
)

const (
	// fargateLabel marks the pods that a Fargate profile has selected, and fargateGroups is the annotation with their
	// security groups.
	fargateLabel  = "eks.amazonaws.com/fargate-profile"
	fargateGroups = "fargate.amazonaws.com/pod-sg"
	// one is the number of network interfaces that a pod gets.
	one = "1"
)

// controllers are the users that say which network interface a pod has: of the control plane, and of the versions of
// the controller that ran in the cluster.
var controllers = map[string]bool{
	User: true,
	"system:serviceaccount:kube-system:vpc-resource-controller":     true,
	"system:serviceaccount:kube-system:eks-vpc-resource-controller": true,
}

// mutationFields and validationFields are what is read of pods; see pod.
var (
	mutationFields = reviewFields(fields{"metadata": {"namespace": whole, "labels": whole, "annotations": whole},
		"spec": {"hostNetwork": whole, "nodeSelector": whole, "serviceAccountName": whole,
			"containers": {"0": {"resources": whole}}}}, nil)
	validationFields = reviewFields(annotationFields, annotationFields)
	annotationFields = fields{"metadata": {"annotations": {PodENI: whole, fargateGroups: whole}}}
)

// pod is the part of a pod that the webhooks read.
type pod struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		HostNetwork        bool              `json:"hostNetwork"`
		NodeSelector       map[string]string `json:"nodeSelector"`
		ServiceAccountName string            `json:"serviceAccountName"`
		Containers         []struct {
			Resources struct {
				Limits   map[string]json.RawMessage `json:"limits"`
				Requests map[string]json.RawMessage `json:"requests"`
			} `json:"resources"`
		} `json:"containers"`
	} `json:"spec"`
}

func (p *pod) isWindows() bool {
	return p.Spec.NodeSelector["kubernetes.io/os"] == "windows" ||
		p.Spec.NodeSelector["beta.kubernetes.io/os"] == "windows"
}

// operation is an operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// mutatePod has the first container of a pod that a SecurityGroupPolicy selects request a network interface. A pod of
// Fargate has its security groups in an annotation instead.
func (w *Webhook) mutatePod(ctx context.Context, c record.Cluster, request *request) (*admissionv1.AdmissionResponse,
	error) {
	if request.unread != nil {
		return request.unread, nil
	}
	var p pod
	if err := json.Unmarshal(request.Object.Raw, &p); err != nil {
		return nil, err
	}
	if request.Operation != admissionv1.Create || p.Spec.HostNetwork || len(p.Spec.Containers) == 0 {
		return allow(), nil
	}
	_, fargate := p.Labels[fargateLabel]
	if !fargate && p.isWindows() {
		return allow(), nil
	}
	groups, err := w.groups(ctx, c, cmp.Or(p.Namespace, request.Namespace), p)
	if err != nil {
		reason := client.Cut(err.Error())
		w.log.Warn("cannot tell the security groups of a pod", "cluster", c.Name, "namespace", request.Namespace, "error",
			reason)
		if fargate {
			return deny("Failed to get Matching SGP for Pods, rejecting event"), nil
		}
		return deny("Failed to get Matching SGP for Pods, rejecting event, error " + reason), nil
	}
	if fargate {
		return annotateFargate(p, groups)
	}
	if len(groups) == 0 {
		return allow(), nil
	}
	limits, requests := withPodENI(p.Spec.Containers[0].Resources.Limits),
		withPodENI(p.Spec.Containers[0].Resources.Requests)
	return patch(operation{"add", "/spec/containers/0/resources", resourcesWith(request.Object.Raw, limits, requests)})
}

// withPodENI returns resources with a network interface.
func withPodENI(of map[string]json.RawMessage) map[string]json.RawMessage {
	of = maps.Clone(of)
	if of == nil {
		of = map[string]json.RawMessage{}
	}
	of[PodENI] = json.RawMessage(`"` + one + `"`)
	return of
}

// resourcesWith returns the resources of the first container with other limits and requests; the rest of them stays.
func resourcesWith(object []byte, limits, requests any) map[string]any {
	var p struct {
		Spec struct {
			Containers []struct {
				Resources map[string]any `json:"resources"`
			} `json:"containers"`
		} `json:"spec"`
	}
	all := map[string]any{}
	if json.Unmarshal(object, &p) == nil && len(p.Spec.Containers) > 0 {
		maps.Copy(all, p.Spec.Containers[0].Resources)
	}
	all["limits"], all["requests"] = limits, requests
	return all
}

// annotateFargate writes the security groups of a pod of Fargate, and nobody else's.
func annotateFargate(p pod, groups []string) (*admissionv1.AdmissionResponse, error) {
	_, claimed := p.Annotations[fargateGroups]
	if len(groups) == 0 && !claimed {
		return allow(), nil
	}
	annotations := maps.Clone(p.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	if len(groups) == 0 {
		delete(annotations, fargateGroups)
	} else {
		annotations[fargateGroups] = strings.Join(groups, ",")
	}
	return patch(operation{"add", "/metadata/annotations", annotations})
}

func patch(operations ...operation) (*admissionv1.AdmissionResponse, error) {
	content, err := json.Marshal(operations)
	if err != nil {
		return nil, err
	}
	kind := admissionv1.PatchTypeJSONPatch
	return &admissionv1.AdmissionResponse{Allowed: true, Patch: content, PatchType: &kind}, nil
}

// validatePod refuses a pod that says itself which network interface it has.
func validatePod(_ context.Context, _ record.Cluster, request *request) (*admissionv1.AdmissionResponse, error) {
	if request.unread != nil {
		return request.unread, nil
	}
	type object struct {
		metav1.ObjectMeta `json:"metadata"`
	}
	var is, was object
	if err := json.Unmarshal(request.Object.Raw, &is); err != nil {
		return nil, err
	}
	switch request.Operation {
	case admissionv1.Create:
		if _, claimed := is.Annotations[PodENI]; claimed {
			return deny("pod cannot be created with " + PodENI + " annotation"), nil
		}
	case admissionv1.Update:
		if err := json.Unmarshal(request.OldObject.Raw, &was); err != nil {
			return nil, err
		}
		if is.Annotations[fargateGroups] != was.Annotations[fargateGroups] {
			return deny("annotation is not set by mutating webhook"), nil
		}
		if is.Annotations[PodENI] != was.Annotations[PodENI] && !controllers[request.UserInfo.Username] {
			return deny("annotation is not set by vpc-resource-controller"), nil
		}
	}
	return allow(), nil
}
