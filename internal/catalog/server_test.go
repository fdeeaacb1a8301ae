package catalog_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/record"
)

func renderOptions(minor string) catalog.RenderOptions {
	return catalog.RenderOptions{
		Cluster: record.Cluster{
			Name: "demo", ID: "0123456789ABCDEF0123456789ABCDEF", Account: "111122223333", Region: "eu-west-1",
			Version: minor, VPCID: "vpc-1",
			IPFamily: ekstypes.IpFamilyIpv4, ServiceIPv4CIDR: "10.100.0.0/16",
		},
		Endpoint: "https://example.com", Minor: minor,
	}
}

// client is somebody at an API server.
type client struct {
	t       *testing.T
	dynamic dynamic.Interface
}

func (c client) resource(o *unstructured.Unstructured) dynamic.ResourceInterface {
	resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	return c.dynamic.Resource(resource).Namespace(o.GetNamespace())
}

// apply applies an object. What a CRD defines is served a moment after it.
func (c client) apply(o *unstructured.Unstructured, manager string, options metav1.PatchOptions) (
	*unstructured.Unstructured, error) {
	body, err := json.Marshal(o.Object)
	if err != nil {
		c.t.Fatal(err)
	}
	options.FieldManager, options.FieldValidation = manager, metav1.FieldValidationStrict
	var out *unstructured.Unstructured
	err = eventually.Try(20*time.Millisecond, func() (err error) {
		out, err = c.resource(o).Patch(c.t.Context(), o.GetName(), types.ApplyPatchType, body, options)
		if err != nil && !apierrors.IsNotFound(err) {
			return eventually.Never(err)
		}
		return err
	})
	return out, err
}

func TestAnAPIServer(t *testing.T) {
	t.Parallel()
	server := apiservertest.Start(t, apiservertest.Options{})
	admin := dynamic.NewForConfigOrDie(server.Config("admin", "system:masters"))
	t.Run("takes the objects", func(t *testing.T) { takesThem(t, client{t, admin}) })
	t.Run("knows the paths that yield", func(t *testing.T) { knowsThePaths(t, client{t, admin}) })
}

// The objects of every add-on are to an API server's liking, and applying them again changes nothing.
func takesThem(t *testing.T, admin client) {
	c, err := catalog.Open(catalog.Options{Data: func(b catalog.Build, name string) ([]byte, error) {
		return nil, nil // the CRDs of components are upstream's
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range c.Addons() {
		v, _ := a.Default("1.35")
		s := renderOptions("1.35")
		s.Config.ServiceAccountRoleARN = "arn:aws:iam::111122223333:role/r"
		objects, err := v.Render(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if strings.Contains(o.GetAPIVersion(), "cert-manager.io/") {
				continue // its CRDs are upstream's
			}
			made, err := admin.apply(o.Unstructured, "eks", metav1.PatchOptions{})
			if err != nil {
				t.Errorf("%s: %s %s: %v", a.Name, o.GetKind(), o.GetName(), err)
				continue
			}
			again, err := admin.apply(o.Unstructured, "eks", metav1.PatchOptions{})
			if err != nil {
				t.Error(err)
			} else if o.GetKind() != "CustomResourceDefinition" && o.GetKind() != "APIService" &&
				again.GetGeneration() != made.GetGeneration() {
				t.Errorf("%s: %s %s changed when it was applied again", a.Name, o.GetKind(), o.GetName())
			}
		}
	}
}

// A cluster's self-managed add-ons agree with the add-on of their version, and disagree with another on the images
// alone, as on EKS.
func TestConflictsWithSelfManaged(t *testing.T) {
	t.Parallel()
	server := apiservertest.Start(t, apiservertest.Options{})
	admin := client{t, dynamic.NewForConfigOrDie(server.Config("admin", "system:masters"))}
	c, err := catalog.Open(catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"vpc-cni": {`.spec.template.spec.containers[name="aws-eks-nodeagent"].image`,
			`.spec.template.spec.containers[name="aws-node"].image`,
			`.spec.template.spec.initContainers[name="aws-vpc-cni-init"].image`},
		"coredns":    {`.spec.template.spec.containers[name="coredns"].image`},
		"kube-proxy": {`.spec.template.spec.containers[name="kube-proxy"].image`},
	} {
		a, _ := c.Addon(name)
		v, _ := a.Default("1.35")
		objects, err := v.Render(renderOptions("1.35"))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if _, err := admin.resource(o.Unstructured).Create(t.Context(), o.Unstructured,
				metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"}); err != nil {
				t.Fatal(err)
			}
		}
		if got := admin.conflicts(objects); len(got) > 0 {
			t.Errorf("%s of the same version disagrees on %v", name, got)
		}
		for _, other := range a.Versions {
			if other.Version == v.Version || !other.Serves("1.35") {
				continue
			}
			objects, err := other.Render(renderOptions("1.35"))
			if err != nil {
				t.Fatal(err)
			}
			if got := admin.conflicts(objects); !slices.Equal(got, want) {
				t.Errorf("%s %s disagrees on %v, want %v", name, other.Version, got, want)
			}
		}
	}
}

// conflicts returns the fields that applying the objects would take from other managers, except those that yield.
func (c client) conflicts(objects []catalog.Object) []string {
	var all []string
	for _, o := range objects {
		_, err := c.apply(o.Unstructured, "eks", metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		status, isStatus := err.(apierrors.APIStatus)
		if err != nil && (!isStatus || status.Status().Code != 409) {
			c.t.Fatal(err)
		}
		if err == nil {
			continue
		}
		for _, cause := range status.Status().Details.Causes {
			if !slices.Contains(o.Yields, cause.Field) {
				all = append(all, cause.Field)
			}
		}
	}
	slices.Sort(all)
	return all
}

// The paths of fields that yield are those by which an API server names them.
func knowsThePaths(t *testing.T, admin client) {
	c, err := catalog.Open(catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"vpc-cni", "coredns", "aws-ebs-csi-driver"} {
		a, _ := c.Addon(name)
		v, _ := a.Default("1.35")
		s := renderOptions("1.35")
		objects, err := v.Render(s)
		if err != nil {
			t.Fatal(err)
		}
		yielded := 0
		for _, o := range objects {
			if o.GetKind() == "CustomResourceDefinition" {
				continue
			}
			if _, err := admin.apply(o.Unstructured, "eks", metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			// Somebody who wants every text and number to be another is told of all that EKS owns.
			_, err := admin.apply(otherwise(o.Unstructured), "somebody",
				metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			status, isStatus := err.(apierrors.APIStatus)
			if !isStatus || status.Status().Details == nil {
				t.Fatalf("%s %s: no conflicts but %v", o.GetKind(), o.GetName(), err)
			}
			fields := map[string]bool{}
			for _, cause := range status.Status().Details.Causes {
				fields[cause.Field] = true
			}
			for _, path := range o.Yields {
				yielded++
				if !fields[path] {
					t.Errorf("%s %s yields %s, which the API server does not know; it has %v", o.GetKind(), o.GetName(),
						path, fields)
				}
			}
		}
		if yielded == 0 {
			t.Errorf("%s yields nothing", name)
		}

		// What the configuration speaks of does not yield, even where it says what is so anyway.
		for config, path := range map[string]string{
			`{"replicaCount": 2}`:                   ".spec.replicas",
			`{"replicaCount": 3}`:                   ".spec.replicas",
			`{"env": {"AWS_VPC_ENI_MTU": "9001"}}`:  `.spec.template.spec.containers[name="aws-node"].env[name="AWS_VPC_ENI_MTU"].value`,
			`{"env": {"AWS_VPC_ENI_MTU": "1500"}}`:  `.spec.template.spec.containers[name="aws-node"].env[name="AWS_VPC_ENI_MTU"].value`,
			`{"controller": {"replicaCount": 2}}`:   ".spec.replicas",
			`{"controller": {"sdkDebugLog": true}}`: "",
		} {
			if v.Check(t.Context(), config) != nil {
				continue // of another add-on
			}
			s.Config.Configuration = config
			configured, err := v.Render(s)
			if err != nil {
				t.Fatal(err)
			}
			before, after := yields(objects), yields(configured)
			switch {
			case path == "" && len(after) != len(before):
				t.Errorf("%s with %s yields %d fields, not %d", name, config, len(after), len(before))
			case path != "" && (!slices.Contains(before, path) || slices.Contains(after, path) ||
				len(after) != len(before)-1):
				t.Errorf("%s with %s yields %v", name, config, after)
			}
		}
	}
}

func yields(objects []catalog.Object) []string {
	var all []string
	for _, o := range objects {
		all = append(all, o.Yields...)
	}
	return all
}

// otherwise returns a copy of an object with other labels, replicas and values of variables.
func otherwise(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := o.DeepCopy()
	labels := out.GetLabels()
	for name := range labels {
		labels[name] = "other"
	}
	out.SetLabels(labels)
	if _, has, _ := unstructured.NestedInt64(out.Object, "spec", "replicas"); has {
		_ = unstructured.SetNestedField(out.Object, int64(7), "spec", "replicas")
	}
	for _, kind := range []string{"containers", "initContainers"} {
		containers, _, _ := unstructured.NestedSlice(out.Object, "spec", "template", "spec", kind)
		for _, container := range containers {
			variables, _ := container.(map[string]any)["env"].([]any)
			for _, variable := range variables {
				if v := variable.(map[string]any); v["value"] != nil {
					v["value"] = fmt.Sprint(v["value"], "-other")
				}
			}
		}
		if containers != nil {
			_ = unstructured.SetNestedSlice(out.Object, containers, "spec", "template", "spec", kind)
		}
	}
	return out
}
