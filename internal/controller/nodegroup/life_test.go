package nodegroup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup"
	"github.com/coracle-eks/coracle/internal/record"
)

// TestTheLifeOfANodeGroup follows one from its creation to its end, and sees what EKS makes, keeps and takes away.
func TestTheLifeOfANodeGroup(t *testing.T) {
	t.Parallel()
	w := newFixture(t, nodegroup.Options{})
	ctx := t.Context()
	w.until("kube-system", func() error {
		_, err := w.kube.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
		return err
	})
	w.writeAuth(others)
	w.sshKey()
	w.create("ng", 2, func(n *record.Nodegroup) {
		n.Labels = map[string]string{"team": "a", "old": "x"}
		n.Taints = []ekstypes.Taint{{Key: aws.String("t"), Value: aws.String("v"),
			Effect: ekstypes.TaintEffectPreferNoSchedule}}
		n.RemoteAccess = &ekstypes.RemoteAccessConfig{Ec2SshKey: aws.String("key")}
	})
	row, state := w.row("ng"), w.state("ng")

	// What was made, by name and tag.
	g := w.asg("ng")
	tags := map[string]string{}
	for _, tag := range g.Tags {
		tags[*tag.Key] = fmt.Sprint(*tag.Value, " ", *tag.PropagateAtLaunch)
	}
	if d := cmp.Diff(map[string]string{
		"eks:cluster-name": "demo true", "eks:nodegroup-name": "ng true", "kubernetes.io/cluster/demo": "owned true",
		"k8s.io/cluster-autoscaler/enabled": "true true", "k8s.io/cluster-autoscaler/demo": "owned true",
		"k8s.io/cluster-autoscaler/node-template/label/team": "a false",
		"k8s.io/cluster-autoscaler/node-template/label/old":  "x false",
		"k8s.io/cluster-autoscaler/node-template/taint/t":    "v:PreferNoSchedule false",
	}, tags); d != "" {
		t.Errorf("tags of the Auto Scaling group (-want +got):\n%s", d)
	}
	hooks := must(w.scaling.DescribeLifecycleHooks(ctx,
		&autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: g.AutoScalingGroupName}))(t).LifecycleHooks
	var names []string
	for _, h := range hooks {
		names = append(names, fmt.Sprint(*h.LifecycleHookName, " ", *h.LifecycleTransition, " ", *h.HeartbeatTimeout,
			" ", *h.DefaultResult))
	}
	slices.Sort(names)
	if d := cmp.Diff([]string{"Launch-LC-Hook autoscaling:EC2_INSTANCE_LAUNCHING 1800 CONTINUE",
		"Terminate-LC-Hook autoscaling:EC2_INSTANCE_TERMINATING 1800 CONTINUE"}, names); d != "" {
		t.Error(d)
	}
	profile := must(iam.NewFromConfig(w.aws("AKIAROOT")).GetInstanceProfile(ctx,
		&iam.GetInstanceProfileInput{InstanceProfileName: aws.String("eks-" + row.ID)}))(t).InstanceProfile
	if len(profile.Roles) != 1 || *profile.Roles[0].RoleName != "node" {
		t.Errorf("the instance profile has %v", profile.Roles)
	}
	remote := must(w.ec2.DescribeSecurityGroups(ctx,
		&ec2.DescribeSecurityGroupsInput{GroupIds: []string{state.RemoteAccessGroup}}))(t).SecurityGroups[0]
	if *remote.GroupName != "eks-remoteAccess-"+row.ID || len(remote.IpPermissions) != 1 ||
		*remote.IpPermissions[0].FromPort != 22 || *remote.IpPermissions[0].IpRanges[0].CidrIp != "0.0.0.0/0" {
		t.Errorf("the security group for SSH: %+v", remote)
	}
	data := must(w.ec2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateName: aws.String("eks-" + row.ID), Versions: []string{state.LaunchTemplateVersion},
	}))(t).LaunchTemplateVersions[0].LaunchTemplateData
	if *data.KeyName != "key" || !slices.Contains(data.SecurityGroupIds, state.RemoteAccessGroup) ||
		len(data.SecurityGroupIds) != 2 || *data.ImageId != imageID(t, "1.35") {
		t.Errorf("the launch template: %+v", data)
	}

	// The role was let in, and nothing of others was touched.
	const mapped = "- groups:\n  - system:bootstrappers\n  - system:nodes\n  rolearn: " +
		"arn:aws:iam::111122223333:role/node\n  username: system:node:{{EC2PrivateDNSName}}\n"
	if got := w.awsAuth(); got != others+mapped {
		t.Errorf("mapRoles is\n%s", got)
	}
	m := must(w.kube.CoreV1().ConfigMaps("kube-system").Get(ctx, "aws-auth", metav1.GetOptions{}))(t)
	if !slices.ContainsFunc(m.ManagedFields,
		func(f metav1.ManagedFieldsEntry) bool { return f.Manager == "vpcLambda" }) || m.Data["mapUsers"] == "" {
		t.Errorf("aws-auth: %v, managers %v", m.Data, m.ManagedFields)
	}
	if err := w.kube.CoreV1().ConfigMaps("kube-system").Delete(ctx, "aws-auth", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until("the role is let in again", func() error {
		if got := w.awsAuth(); got != mapped {
			return fmt.Errorf("mapRoles is %q", got)
		}
		return nil
	})
	w.writeAuth("- rolearn: [") // malformed: EKS leaves it alone, and says so
	if i := w.ails("ng", ekstypes.NodegroupIssueCodeAccessDenied); !strings.Contains(*i.Message, "not valid YAML") {
		t.Errorf("it says %s", *i.Message)
	}
	if got := w.awsAuth(); got != "- rolearn: [" {
		t.Errorf("mapRoles is\n%s", got)
	}
	ailing := w.state("ng").ModifiedAt
	w.writeAuth(others)
	w.well("ng")
	if well := w.state("ng").ModifiedAt; !ailing.After(row.CreatedAt) || !well.After(ailing) {
		t.Errorf("the group was created at %s, and has changed its status at %s and %s", row.CreatedAt, ailing, well)
	}

	// Somebody else scales, and that is respected; labels and taints reach live nodes, of which only EKS's own change.
	w.desire("ng", 3)
	w.serve("ng", 3)
	list := must(w.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{}))(t).Items
	n := list[0]
	n.Labels["mine"], n.Spec.Taints = "yes", append(n.Spec.Taints,
		corev1.Taint{Key: "mine", Effect: corev1.TaintEffectPreferNoSchedule})
	must(w.kube.CoreV1().Nodes().Update(ctx, &n, metav1.UpdateOptions{}))(t)
	u := w.change("ng", func(n *record.Nodegroup) {
		n.Labels = map[string]string{"team": "b", "new": "y"}
		n.Taints = []ekstypes.Taint{{Key: aws.String("u"), Effect: ekstypes.TaintEffectPreferNoSchedule}}
	})
	if u.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("the update ended %s: %v", u.Status, u.Errors)
	}
	for _, n := range must(w.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{}))(t).Items {
		_, old := n.Labels["old"]
		var keys []string
		for _, taint := range n.Spec.Taints {
			keys = append(keys, taint.Key)
		}
		if n.Labels["team"] != "b" || n.Labels["new"] != "y" || old || !slices.Contains(keys, "u") ||
			slices.Contains(keys, "t") {
			t.Errorf("node %s has labels %v and taints %v", n.Name, n.Labels, n.Spec.Taints)
		}
		if n.Name == list[0].Name && (n.Labels["mine"] != "yes" || !slices.Contains(keys, "mine")) {
			t.Errorf("node %s lost what was its user's: %v %v", n.Name, n.Labels, keys)
		}
	}
	if got := w.asg("ng"); *got.DesiredCapacity != 3 ||
		*got.MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification.Version == state.LaunchTemplateVersion {
		t.Errorf("the Auto Scaling group: %+v", got)
	}
	w.change("ng", func(n *record.Nodegroup) {
		n.Scaling.DesiredSize, n.Scaling.MinSize = aws.Int32(1), aws.Int32(1)
		n.ScalingChange++
	})
	w.serve("ng", 1)
	if s := w.state("ng").Scaling; *s.DesiredSize != 1 || *s.MinSize != 1 || *s.MaxSize != 3 {
		t.Errorf("it sees sizes %+v", s)
	}

	// Away with it: another group of the same role keeps the way in.
	w.create("other", 0)
	w.delete("ng")
	if got := w.awsAuth(); got != others+mapped {
		t.Errorf("with another group, mapRoles is\n%s", got)
	}
	w.delete("other")
	if got := w.awsAuth(); got != others {
		t.Errorf("in the end, mapRoles is\n%s", got)
	}
	w.nothingLeft()
}

// nothingLeft checks that nothing is left of any group.
func (w *fixture) nothingLeft() {
	w.t.Helper()
	ctx := w.t.Context()
	if all := must(w.scaling.DescribeAutoScalingGroups(ctx,
		&autoscaling.DescribeAutoScalingGroupsInput{}))(w.t).AutoScalingGroups; len(all) > 0 {
		w.t.Errorf("%d Auto Scaling groups are left", len(all))
	}
	for _, t := range must(w.ec2.DescribeLaunchTemplates(ctx,
		&ec2.DescribeLaunchTemplatesInput{}))(w.t).LaunchTemplates {
		if strings.HasPrefix(*t.LaunchTemplateName, "eks-") {
			w.t.Errorf("launch template %s is left", *t.LaunchTemplateName)
		}
	}
	for _, g := range must(w.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{}))(w.t).SecurityGroups {
		if strings.HasPrefix(*g.GroupName, "eks-remoteAccess-") {
			w.t.Errorf("security group %s is left", *g.GroupName)
		}
	}
	if all := must(iam.NewFromConfig(w.aws("AKIAROOT")).ListInstanceProfiles(ctx,
		&iam.ListInstanceProfilesInput{}))(w.t).InstanceProfiles; len(all) > 0 {
		w.t.Errorf("%d instance profiles are left", len(all))
	}
	for _, table := range []int{len(must(record.NodegroupStates(w.store).List(ctx, ""))(w.t)),
		len(must(record.Updates(w.store).List(ctx, ""))(w.t))} {
		if table > 0 {
			w.t.Errorf("%d rows are left", table)
		}
	}
}

// TestWhatHoldsAGroupIsNamed shows a deletion that something of others holds up.
func TestWhatHoldsAGroupIsNamed(t *testing.T) {
	t.Parallel()
	w := newFixture(t, nodegroup.Options{})
	w.sshKey()
	w.create("held", 0, func(n *record.Nodegroup) {
		n.RemoteAccess = &ekstypes.RemoteAccessConfig{
			Ec2SshKey: aws.String("key")}
	})
	group := w.state("held").RemoteAccessGroup
	port := must(w.ec2.CreateNetworkInterface(t.Context(), &ec2.CreateNetworkInterfaceInput{SubnetId: &w.subnets[0],
		Groups: []string{group}}))(t).NetworkInterface
	w.deleting("held")
	if i := w.ails("held", ekstypes.NodegroupIssueCodeEc2SecurityGroupDeletionFailure); !slices.Equal(i.ResourceIds,
		[]string{group}) {
		t.Errorf("%s", text([]ekstypes.Issue{i}))
	}
	if !w.state("held").DeleteFailed {
		t.Error("the deletion has not failed")
	}
	must(w.ec2.DeleteNetworkInterface(t.Context(),
		&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: port.NetworkInterfaceId}))(t)
	w.delete("held") // the request is made again
	w.nothingLeft()
}
