package addon

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/kube/client"
)

// kubectl speaks to an API server as that program does. What it asks and its user agent are seen in the audit log.
type kubectl struct{ *client.Client }

func newKubectl(ctx context.Context, config *rest.Config, cluster string) (kubectl, error) {
	agent, err := kubectlAgent(ctx, config, cluster)
	if err != nil {
		return kubectl{}, err
	}
	clients, err := client.New(config, cluster, agent)
	return kubectl{clients}, err
}

// kubectlAgent returns the user agent of the kubectl of the API server's version, which EKS uses:
// "kubectl/v1.35.4 (linux/amd64) kubernetes/dade57b".
func kubectlAgent(ctx context.Context, config *rest.Config, cluster string) (string, error) {
	clients, err := client.New(config, cluster, "kubectl (linux/amd64) kubernetes")
	if err != nil {
		return "", err
	}
	defer clients.Close()
	version, err := clients.ServerVersion(ctx)
	if err != nil {
		return "", err
	}
	upstream, _, _ := strings.Cut(version.GitVersion, "-")
	return fmt.Sprintf("kubectl/%s (linux/amd64) kubernetes/%.7s", upstream, version.GitCommit), nil
}

// createIfMissing asks for the object and creates it when it is missing. One that exists is left as it is: it is from
// an attempt that was interrupted, or its user's.
func (k kubectl) createIfMissing(ctx context.Context, o *unstructured.Unstructured) error {
	resource := client.BuiltIn(k.Objects, o)
	_, err := resource.Get(ctx, o.GetName(), metav1.GetOptions{})
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("get %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	applied, err := client.WithLastApplied(o)
	if err != nil {
		return err
	}
	_, err = resource.Create(ctx, applied, metav1.CreateOptions{
		FieldManager: client.KubectlFieldManager, FieldValidation: metav1.FieldValidationStrict,
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}
