package capability

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/kube/client"
)

var definitionResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// fieldManager is the owner of the fields of the definitions, and the user agent that applies them.
const fieldManager = "kro"

// ensureDefinitions applies the CustomResourceDefinitions of the program, as the role of the capability, and returns
// when the API server serves them.
func (p *pass) ensureDefinitions(ctx context.Context, config *rest.Config) error {
	text, err := p.c.o.Programs.Data(kro, definitionsFile)
	if err != nil {
		return err
	}
	wanted, err := parseObjects(text)
	if err != nil {
		return fmt.Errorf("read the definitions of kro: %w", err)
	}
	clients, err := client.New(config, p.row.Cluster, fieldManager)
	if err != nil {
		return err
	}
	defer clients.Close()
	definitions := clients.Objects.Resource(definitionResource)
	for _, o := range wanted {
		if err := ensureDefinition(ctx, definitions, o, p.state.Version == kro.Version); err != nil {
			return definitionProblem(o.GetName(), err)
		}
	}
	return nil
}

// ensureDefinition applies a definition: one that is missing, and one of another version of the program.
func ensureDefinition(
	ctx context.Context, definitions dynamic.ResourceInterface, o *unstructured.Unstructured, current bool,
) error {
	live, err := definitions.Get(ctx, o.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !current {
		live, err = definitions.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	}
	if err != nil {
		return err
	}
	if !isEstablished(live) {
		return fmt.Errorf("%w: the API server does not serve %s yet", errStarting, o.GetName())
	}
	return nil
}

// isEstablished reports whether the API server serves the resource of a definition.
func isEstablished(o *unstructured.Unstructured) bool {
	conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil {
		return false
	}
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == "Established" {
			return condition["status"] == "True"
		}
	}
	return false
}

// definitionProblem makes a problem of what the API server answered about a definition.
func definitionProblem(name string, err error) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return err
	}
	code := internalFailure
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		code = ekstypes.CapabilityIssueCodeAccessDenied
	}
	return &problem{issueOf(code, "customresourcedefinition/"+name+": "+oneLine(err)), false}
}

// parseObjects reads the objects of a file of YAML documents.
func parseObjects(text []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4<<10)
	for {
		o := &unstructured.Unstructured{}
		err := documents.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
}
