package vpcresource

import (
	"context"
	"encoding/json"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/coracle-eks/coracle/internal/record"
)

const (
	// HasTrunk is the label of nodes with a trunk network interface, or whose CNI plugin wants one.
	HasTrunk = "vpc.amazonaws.com/has-trunk-attached"
	// ENIConfig is the label of nodes with the name of the ENIConfig of custom networking.
	ENIConfig = "vpc.amazonaws.com/eniConfig"

	awsNode = "system:serviceaccount:kube-system:aws-node"
)

// nodeFields are what is read of a node: all but what managers of its fields have noted.
var nodeFields = reviewFields(nodeObject, nodeObject)

var nodeObject = fields{"*": whole, "metadata": {"*": whole, "managedFields": nil}}

// validateNode keeps aws-node, which may update nodes, from changing anything of them but two labels.
func validateNode(_ context.Context, _ record.Cluster, request *request) (*admissionv1.AdmissionResponse, error) {
	if request.UserInfo.Username != awsNode || request.Operation != admissionv1.Update {
		return allow(), nil
	}
	if request.unread != nil {
		return request.unread, nil
	}
	var is, was map[string]any
	if err := json.Unmarshal(request.Object.Raw, &is); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(request.OldObject.Raw, &was); err != nil {
		return nil, err
	}
	for _, object := range []map[string]any{is, was} {
		metadata, _ := object["metadata"].(map[string]any)
		labels, _ := metadata["labels"].(map[string]any)
		delete(labels, HasTrunk)
		delete(labels, ENIConfig)
		if len(labels) == 0 {
			delete(metadata, "labels")
		}
	}
	if !reflect.DeepEqual(is, was) {
		return deny("aws-node can only update limited fields on the Node Object"), nil
	}
	return allow(), nil
}
