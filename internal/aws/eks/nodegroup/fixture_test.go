package nodegroup_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// fixture is the EKS API behind an HTTP server, with what the tests of this part do with it.
type fixture struct{ *ekstest.Fixture }

func newFixture(t testing.TB) fixture { return fixture{ekstest.New(t)} }

// group returns a CreateNodegroup that succeeds.
func group(cluster, name string) *eks.CreateNodegroupInput {
	return &eks.CreateNodegroupInput{ClusterName: &cluster, NodegroupName: &name,
		NodeRole: aws.String(ekstest.NodeRole), Subnets: []string{"subnet-a", "subnet-b"}}
}

// createGroup creates a node group that comes up.
func (w fixture) createGroup(cluster, name string, edit ...func(*eks.CreateNodegroupInput)) *types.Nodegroup {
	w.T.Helper()
	in := group(cluster, name)
	for _, e := range edit {
		e(in)
	}
	if _, err := w.Client.CreateNodegroup(w.T.Context(), in); err != nil {
		w.T.Fatalf("create node group %s: %v", name, err)
	}
	w.keepGroup(cluster, name, func(*record.NodegroupState) {})
	return w.describeGroup(cluster, name)
}

func (w fixture) describeGroup(cluster, name string) *types.Nodegroup {
	w.T.Helper()
	out, err := w.Client.DescribeNodegroup(w.T.Context(), &eks.DescribeNodegroupInput{ClusterName: &cluster,
		NodegroupName: &name})
	if err != nil {
		w.T.Fatalf("describe node group %s: %v", name, err)
	}
	return out.Nodegroup
}

func (w fixture) groupRow(cluster, name string) record.Nodegroup {
	w.T.Helper()
	row, err := record.Nodegroups(w.Store).Get(w.T.Context(), record.NodegroupKey(ekstest.Account, ekstest.Region,
		cluster, name))
	if err != nil {
		w.T.Fatal(err)
	}
	return row.Value
}

// keepGroup stands for the controller: it carries out the desired state of a node group, and writes the observed state,
// which saw may change.
func (w fixture) keepGroup(cluster, name string, saw func(*record.NodegroupState)) {
	w.T.Helper()
	n := w.groupRow(cluster, name)
	state := record.NodegroupState{
		NodegroupID: n.ID, Created: true, Scaling: n.Scaling, ScalingChange: n.ScalingChange, Template: n.Template,
		TemplateHash:     "hash",
		AutoScalingGroup: "eks-" + name + "-" + n.ID,
	}
	saw(&state)
	ekstest.Put(w.T, record.NodegroupStates(w.Store), n.Key(), state)
}

// endGroupUpdate stands for the controller that ends the update of a node group.
func (w fixture) endGroupUpdate(cluster, name string, status types.UpdateStatus) {
	w.T.Helper()
	w.Finish(cluster, w.groupRow(cluster, name).LastUpdateID, status)
}

func (w fixture) configureGroup(in *eks.UpdateNodegroupConfigInput) *types.Update {
	w.T.Helper()
	out, err := w.Client.UpdateNodegroupConfig(w.T.Context(), in)
	if err != nil {
		w.T.Fatalf("update node group config: %v", err)
	}
	w.endGroupUpdate(*in.ClusterName, *in.NodegroupName, types.UpdateStatusSuccessful)
	w.keepGroup(*in.ClusterName, *in.NodegroupName, func(*record.NodegroupState) {})
	return out.Update
}

var unexported = cmpopts.IgnoreUnexported(types.Nodegroup{}, types.NodegroupScalingConfig{},
	types.NodegroupUpdateConfig{}, types.NodeRepairConfig{}, types.NodegroupHealth{},
	types.NodegroupResources{}, types.Issue{}, types.AutoScalingGroup{}, types.Taint{}, types.RemoteAccessConfig{},
	types.WarmPoolConfig{}, types.NodeRepairConfigOverrides{},
	types.LaunchTemplateSpecification{})

func (w fixture) groups(cluster string) []string {
	w.T.Helper()
	var names []string
	pages := eks.NewListNodegroupsPaginator(w.Client, &eks.ListNodegroupsInput{ClusterName: &cluster,
		MaxResults: aws.Int32(2)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(w.T.Context())
		if err != nil {
			w.T.Fatal(err)
		}
		names = append(names, page.Nodegroups...)
	}
	return names
}

func (w fixture) key(name string) {
	w.T.Helper()
	if _, err := w.EC2.CreateKeyPair(w.T.Context(), &ec2.CreateKeyPairInput{KeyName: &name}); err != nil {
		w.T.Fatal(err)
	}
}

// release returns the release of Amazon Linux 2023 of a day, for a version of Kubernetes.
func (w fixture) release(version, day string) string {
	w.T.Helper()
	out, err := w.EC2.DescribeImages(w.T.Context(), &ec2.DescribeImagesInput{Owners: []string{"amazon"},
		Filters: []ec2types.Filter{
			{Name: aws.String("name"), Values: []string{"amazon-eks-node-al2023-x86_64-standard-" + version + "-v" +
				day}},
		}})
	if err != nil || len(out.Images) != 1 {
		w.T.Fatalf("image of %s, %s: %v", version, day, err)
	}
	_, patch, _ := strings.Cut(*out.Images[0].Description, "k8s: ")
	patch, _, _ = strings.Cut(patch, ",")
	return patch + "-" + day
}

// template makes a launch template, or another version of it, and answers with its ID.
func (w fixture) template(name string, data *ec2types.RequestLaunchTemplateData) string {
	w.T.Helper()
	out, err := w.EC2.CreateLaunchTemplate(w.T.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name,
		LaunchTemplateData: data})
	if err == nil {
		return *out.LaunchTemplate.LaunchTemplateId
	}
	next, err := w.EC2.CreateLaunchTemplateVersion(w.T.Context(),
		&ec2.CreateLaunchTemplateVersionInput{LaunchTemplateName: &name, LaunchTemplateData: data})
	if err != nil {
		w.T.Fatal(err)
	}
	return *next.LaunchTemplateVersion.LaunchTemplateId
}

// image returns the ID of one of EKS's images. In a user's launch template it is an image like any other.
func (w fixture) image() string {
	w.T.Helper()
	out, err := w.EC2.DescribeImages(w.T.Context(),
		&ec2.DescribeImagesInput{Filters: []ec2types.Filter{{Name: aws.String("name"),
			Values: []string{"amazon-eks-node-al2023-x86_64-standard-1.35-v20261105"}}}})
	if err != nil {
		w.T.Fatal(err)
	}
	return *out.Images[0].ImageId
}

// network makes a VPC as its user would, with subnets in which EC2 could launch. It answers with what makes a cluster,
// and a node group, in it.
func (w fixture) network() (cluster func(*eks.CreateClusterInput), nodes func(*eks.CreateNodegroupInput)) {
	w.T.Helper()
	vpc, err := w.EC2.CreateVpc(w.T.Context(), &ec2.CreateVpcInput{CidrBlock: aws.String("10.7.0.0/16")})
	if err != nil {
		w.T.Fatal(err)
	}
	var ids []string
	for i, zone := range []string{"a", "b"} {
		subnet, err := w.EC2.CreateSubnet(w.T.Context(), &ec2.CreateSubnetInput{VpcId: vpc.Vpc.VpcId,
			CidrBlock: aws.String(fmt.Sprintf("10.7.%d.0/24", i)), AvailabilityZone: aws.String(ekstest.Region + zone)})
		if err != nil {
			w.T.Fatal(err)
		}
		ids = append(ids, *subnet.Subnet.SubnetId)
	}
	return func(in *eks.CreateClusterInput) { in.ResourcesVpcConfig.SubnetIds = ids },
		func(in *eks.CreateNodegroupInput) { in.Subnets = ids }
}

func using(id, version string) func(*eks.CreateNodegroupInput) {
	return func(in *eks.CreateNodegroupInput) {
		in.LaunchTemplate = &types.LaunchTemplateSpecification{Id: &id}
		if version != "" {
			in.LaunchTemplate.Version = &version
		}
	}
}

// forget stands for the controller: it removes the record of a group that is gone.
func (w fixture) forget(cluster, name string) {
	w.T.Helper()
	err := w.Store.Txn(w.T.Context(), record.Nodegroups(w.Store).RemoveOp(record.NodegroupKey(ekstest.Account,
		ekstest.Region, cluster, name)), record.NodegroupStates(w.Store).RemoveOp(record.NodegroupKey(ekstest.Account,
		ekstest.Region, cluster, name)))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		w.T.Fatal(err)
	}
}
