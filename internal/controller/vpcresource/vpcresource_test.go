package vpcresource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/kube/securitygrouppolicy"
	webhook "github.com/coracle-eks/coracle/internal/kube/vpcresource"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
)

// fixture is a cluster with a real API server and EC2, and the controller.
type fixture struct {
	*testing.T
	ec2     *ec2test.Fixture
	kube    *kubernetes.Clientset
	objects dynamic.Interface
	clock   *clocktesting.FakePassiveClock
	subnet  string
	vpc     string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	server := apiservertest.Start(t, apiservertest.Options{Flags: []string{
		"--disable-admission-plugins=ServiceAccount"}})
	f := &fixture{T: t, ec2: ec2test.New(t), kube: server.Admin(), clock: clocktesting.NewFakePassiveClock(time.Now())}
	config := server.Config("admin", "system:masters")
	var err error
	f.objects, err = dynamic.NewForConfig(config)
	f.must(err)
	f.define("cninodes", "cninode", "CNINode", "v1alpha1", "Cluster")
	f.define("securitygrouppolicies", "securitygrouppolicy", "SecurityGroupPolicy", "v1beta1", "Namespaced")
	f.vpc = f.ec2.VPC("10.0.0.0/16")
	f.subnet = f.ec2.Subnet(f.vpc, "10.0.0.0/24", "a")

	cluster := record.Cluster{Account: ec2test.Account, Region: ec2test.Region, Name: "demo", ID: "0123",
		VPCID: f.vpc}
	f.must(f.ec2.Store.Txn(t.Context(), record.Clusters(f.ec2.Store).CreateOp(cluster.Key(), cluster),
		record.ControlPlanes(f.ec2.Store).CreateOp(cluster.Key(), record.ControlPlane{ClusterID: cluster.ID,
			Endpoint: server.Host, Ready: true})))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- reconcile.Run(ctx, slog.New(slog.DiscardHandler), New(Options{Store: f.ec2.Store, Clock: f.clock,
			Config: func(context.Context, record.Cluster, string, ...string) (*rest.Config, error) { return config, nil },
			EC2:    func(context.Context, record.Cluster) (EC2, error) { return f.ec2.Client, nil },
			Trunks: func(string, string) Trunks { return f.ec2.Client },
		}).Controllers()...)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// define defines a resource of the controller's group, of any content.
func (f *fixture) define(plural, singular, kind, version, scope string) {
	f.Helper()
	_, err := f.objects.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}).Create(f.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".vpcresources.k8s.aws"},
		"spec": map[string]any{"group": "vpcresources.k8s.aws", "scope": scope,
			"names": map[string]any{"kind": kind, "listKind": kind + "List", "plural": plural, "singular": singular},
			"versions": []any{map[string]any{"name": version, "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}},
	}}, metav1.CreateOptions{})
	f.must(err)
}

// node launches an instance of a type, and makes its node.
func (f *fixture) node(kind ec2types.InstanceType) (name, instance string) {
	f.Helper()
	launched := f.launch(kind)
	instance, name = *launched.InstanceId, *launched.PrivateDnsName
	_, err := f.kube.CoreV1().Nodes().Create(f.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{osLabel: "linux"}},
		Spec: corev1.NodeSpec{ProviderID: "aws:///eu-west-1a/" + instance}}, metav1.CreateOptions{})
	f.must(err)
	return name, instance
}

// launch launches an instance of a type.
func (f *fixture) launch(kind ec2types.InstanceType) ec2types.Instance {
	f.Helper()
	images := ami.All(ec2test.Region)
	image := images[slices.IndexFunc(images, func(i ami.Image) bool {
		return i.Family == ami.AL2023 && i.Architecture == "x86_64" && i.KubernetesVersion != ""
	})]
	out, err := f.ec2.RunInstances(f.Context(), &ec2.RunInstancesInput{ImageId: &image.ID, InstanceType: kind,
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: &f.subnet})
	f.must(err)
	return out.Instances[0]
}

// terminate ends an instance.
func (f *fixture) terminate(instance string) {
	f.Helper()
	key := record.EC2Key(ec2test.Account, ec2test.Region, instance)
	f.must(f.ec2.Store.Txn(f.Context(), record.Machines(f.ec2.Store).CreateOp(key, record.Machine{
		State: ec2types.InstanceStateNameTerminated})))
}

// asks has the CNI plugin of a node ask for a trunk.
func (f *fixture) asks(node string) {
	f.Helper()
	eventually.Nil(f, "the CNINode takes the feature", func() error {
		_, err := f.objects.Resource(cniNodes).Patch(f.Context(), node, types.MergePatchType,
			[]byte(`{"spec":{"features":[{"name":"SecurityGroupsForPods"}]}}`), metav1.PatchOptions{})
		return err
	})
}

// pod makes a pod on a node, as the webhook and the scheduler leave it.
func (f *fixture) pod(name, node string) {
	f.Helper()
	one := corev1.ResourceList{webhook.PodENI: resource.MustParse("1")}
	_, err := f.kube.CoreV1().Pods("default").Create(f.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
		Name: "c", Image: "c", Resources: corev1.ResourceRequirements{Limits: one, Requests: one}}}}},
		metav1.CreateOptions{})
	f.must(err)
}

// interfaceOf waits for the interface of a pod.
func (f *fixture) interfaceOf(pod string) (has eni) {
	f.Helper()
	eventually.Nil(f, pod+" has an interface", func() error {
		p, err := f.kube.CoreV1().Pods("default").Get(f.Context(), pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var all []eni
		if err := json.Unmarshal([]byte(p.Annotations[webhook.PodENI]), &all); err != nil || len(all) != 1 {
			return fmt.Errorf("the annotations are %q: %w", p.Annotations, err)
		}
		has = all[0]
		return nil
	})
	return has
}

// event waits for an event about an object.
func (f *fixture) event(object, reason string) {
	f.Helper()
	eventually.True(f, reason+" of "+object, func() bool {
		all, err := f.kube.CoreV1().Events("default").List(f.Context(), metav1.ListOptions{})
		f.must(err)
		return slices.ContainsFunc(all.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Name == object && e.Reason == reason && e.Source.Component == component
		})
	})
}

// exists reports whether EC2 has a network interface.
func (f *fixture) exists(id string) bool {
	f.Helper()
	_, err := f.ec2.DescribeNetworkInterfaces(f.Context(), &ec2.DescribeNetworkInterfacesInput{
		NetworkInterfaceIds: []string{id}})
	if err != nil && codeOf(err) != "InvalidNetworkInterfaceID.NotFound" {
		f.Fatal(err)
	}
	return err == nil
}

// TestInterfacesOfPods follows a node and its pods through their life: a trunk, branches, the cool-down, the end.
func TestInterfacesOfPods(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	group := f.ec2.SecurityGroup(f.vpc, "web")
	name, instance := f.node("m5.large")
	f.asks(name)
	eventually.Nil(f, "the node says how many interfaces its pods may have", func() error {
		n, err := f.kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if q := n.Status.Capacity[webhook.PodENI]; err == nil && q.Value() != 9 {
			err = fmt.Errorf("it says %s", q.String())
		}
		return err
	})
	f.event(name, "NodeTrunkInitiated")

	_, err := f.objects.Resource(securitygrouppolicy.Resource).Namespace("default").Create(t.Context(),
		&unstructured.Unstructured{Object: map[string]any{"apiVersion": "vpcresources.k8s.aws/v1beta1",
			"kind": "SecurityGroupPolicy", "metadata": map[string]any{"name": "web"},
			"spec": map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
				"securityGroups": map[string]any{"groupIds": []any{group}}}}}, metav1.CreateOptions{})
	f.must(err)
	f.pod("one", name)
	f.pod("two", name)
	one, two := f.interfaceOf("one"), f.interfaceOf("two")
	if one.VLAN == two.VLAN || one.ID == two.ID || one.SubnetCIDR != "10.0.0.0/24" || one.AssociationID == "" {
		t.Errorf("the interfaces are %+v and %+v", one, two)
	}
	shown := ec2test.DescribeInterface(f.ec2, &one.ID)
	if *shown.PrivateIpAddress != one.IPv4 || *shown.MacAddress != one.MAC || *shown.Groups[0].GroupId != group ||
		shown.InterfaceType != ec2types.NetworkInterfaceTypeBranch || *shown.Description != branchDescription {
		t.Errorf("EC2 shows %+v", shown)
	}
	for _, reason := range []string{"SecurityGroupRequested", "ResourceAllocated"} {
		f.event("one", reason)
	}

	// An interface stays for the cool-down of the pod that is gone.
	zero := int64(0)
	f.must(f.kube.CoreV1().Pods("default").Delete(t.Context(), "one", metav1.DeleteOptions{GracePeriodSeconds: &zero}))
	poke := 0
	eventually.True(f, "the interface is deleted once it has cooled down", func() bool {
		poke++ // each change of the node is a pass, the first of which sees that the pod is gone
		_, err := f.kube.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, fmt.Appendf(nil,
			`{"metadata":{"labels":{"vpc.amazonaws.com/has-trunk-attached":"%d","kubernetes.io/os":%q}}}`, poke,
			[]string{"linux", "other"}[poke%2]), metav1.PatchOptions{})
		f.must(err)
		f.clock.SetTime(f.clock.Now().Add(defaultCoolDown / 4))
		return !f.exists(one.ID)
	})
	_, err = f.kube.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"kubernetes.io/os":"linux"}}}`), metav1.PatchOptions{})
	f.must(err)
	eventually.True(f, "the CNINode has the label of the node", func() bool {
		o, err := f.objects.Resource(cniNodes).Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && o.GetLabels()[osLabel] == "linux"
	})
	if poke < 4 {
		t.Errorf("the interface is deleted after %d quarters of the cool-down", poke)
	}
	if !f.exists(two.ID) {
		t.Error("the interface of a pod is deleted")
	}

	// A CNINode that somebody deletes comes again, as it was.
	was, err := f.objects.Resource(cniNodes).Get(t.Context(), name, metav1.GetOptions{})
	f.must(err)
	f.must(f.objects.Resource(cniNodes).Delete(t.Context(), name, metav1.DeleteOptions{}))
	eventually.Nil(f, "the CNINode is there again", func() error {
		is, err := f.objects.Resource(cniNodes).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if is.GetUID() == was.GetUID() {
			return errors.New("it is the old one")
		}
		if features, _, _ := unstructured.NestedSlice(is.Object, "spec", "features"); len(features) != 1 {
			return fmt.Errorf("it has the features %v", features)
		}
		return nil
	})

	// What a node leaves goes with its CNINode, which kube-controller-manager deletes on a cluster.
	f.terminate(instance)
	f.must(f.kube.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
	f.must(f.objects.Resource(cniNodes).Delete(t.Context(), name, metav1.DeleteOptions{}))
	eventually.True(f, "the CNINode of "+instance+" is gone", func() bool {
		_, err := f.objects.Resource(cniNodes).Get(t.Context(), name, metav1.GetOptions{})
		return err != nil
	})
	if f.exists(two.ID) {
		t.Error("a node that is gone has left an interface")
	}
}

// TestTypesWithoutTrunks has a node that asks in vain.
func TestTypesWithoutTrunks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	name, _ := f.node("t3.medium")
	f.asks(name)
	f.event(name, "Unsupported")
}

// TestNodesOfOtherInstances has nodes that name the instances of others: nothing is done to them.
func TestNodesOfOtherInstances(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	name, instance := f.node("m5.large")
	f.must(f.kube.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
	_, err := f.kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other",
		Labels: map[string]string{osLabel: "linux"}}, Spec: corev1.NodeSpec{ProviderID: "aws:///eu-west-1a/" + instance}},
		metav1.CreateOptions{})
	f.must(err)
	f.asks("other")
	f.event("other", "NodeTrunkFailedInit")
	out, err := f.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{instance}})
	f.must(err)
	if n := len(out.Reservations[0].Instances[0].NetworkInterfaces); n != 1 {
		t.Errorf("the instance has %d network interfaces", n)
	}
}

// TestInterfacesOfRunningInstancesAreKept has a CNINode that is going name an instance that runs, and one that has
// ended.
func TestInterfacesOfRunningInstancesAreKept(t *testing.T) {
	t.Parallel()
	f := &fixture{T: t, ec2: ec2test.New(t)}
	f.subnet = f.ec2.Subnet(f.ec2.VPC("10.0.0.0/16"), "10.0.0.0/24", "a")
	instance := f.launch("m5.large").InstanceId
	s := &server{cluster: record.Cluster{Name: "demo"}, o: Options{
		EC2:    func(context.Context, record.Cluster) (EC2, error) { return f.ec2.Client, nil },
		Trunks: func(string, string) Trunks { return f.ec2.Client },
	}}
	made := func(tags ...ec2types.Tag) string {
		out, err := f.ec2.CreateNetworkInterface(t.Context(), &ec2.CreateNetworkInterfaceInput{SubnetId: &f.subnet,
			TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeNetworkInterface,
				Tags: append(tags, tag(instanceTag, *instance))}}})
		f.must(err)
		return *out.NetworkInterface.NetworkInterfaceId
	}
	branch := made(tag(ownerTag, owner), tag(clusterTagPrefix+"demo", "owned"))
	plugin := made(tag(ownerTag, pluginOwner), tag(clusterTag, "demo"))
	other := made(tag(ownerTag, pluginOwner), tag(clusterTag, "other"))
	if err := s.deleteLeftOf(t.Context(), *instance); !errors.Is(err, errInstanceExists) || !f.exists(branch) ||
		!f.exists(plugin) {
		t.Errorf("interfaces of an instance that runs: %v", err)
	}
	f.terminate(*instance)
	if err := s.deleteLeftOf(t.Context(), *instance); err != nil || f.exists(branch) || f.exists(plugin) {
		t.Errorf("interfaces of an instance that has ended: %v", err)
	}
	if !f.exists(other) {
		t.Error("an interface of another cluster is deleted")
	}
}

// TestInterfacesOfLargePods has pods become too large to be read: they keep their interfaces.
func TestInterfacesOfLargePods(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	name, _ := f.node("m5.large")
	f.asks(name)
	f.pod("large", name)
	large := f.interfaceOf("large")
	labels := map[string]string{}
	for i := range kubeclient.MaxEventValues {
		labels[fmt.Sprintf("l%d", i)] = ""
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	f.must(err)
	_, err = f.kube.CoreV1().Pods("default").Patch(t.Context(), "large", types.MergePatchType, patch,
		metav1.PatchOptions{})
	f.must(err)
	f.pod("small", name)
	small := f.interfaceOf("small")
	zero := int64(0)
	f.must(f.kube.CoreV1().Pods("default").Delete(t.Context(), "small", metav1.DeleteOptions{GracePeriodSeconds: &zero}))
	poke := 0
	eventually.True(t, "the interface of the pod that is gone is deleted", func() bool {
		poke++
		_, err := f.kube.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, fmt.Appendf(nil,
			`{"metadata":{"labels":{"vpc.amazonaws.com/has-trunk-attached":"%d","vpc.amazonaws.com/eniConfig":%q}}}`, poke,
			[]string{"", "none"}[poke%2]), metav1.PatchOptions{})
		f.must(err)
		f.clock.SetTime(f.clock.Now().Add(defaultCoolDown / 4))
		return !f.exists(small.ID)
	})
	if !f.exists(large.ID) {
		t.Error("the interface of a large pod is deleted")
	}
}
