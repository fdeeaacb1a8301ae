package nodegroup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// entries is EKS as far as access entries go: a front writes the rows.
type entries struct {
	store *store.Store
	mu    sync.Mutex
	made  []string // types
}

func (e *entries) key(cluster, principal *string) string {
	return record.AccessEntryKey(worldAccount, worldRegion, *cluster, *principal)
}

func (e *entries) DescribeAccessEntry(context.Context, *eks.DescribeAccessEntryInput,
	...func(*eks.Options)) (*eks.DescribeAccessEntryOutput, error) {
	return nil, errors.New("nobody asks")
}

func (e *entries) CreateAccessEntry(ctx context.Context, in *eks.CreateAccessEntryInput, _ ...func(*eks.Options)) (
	*eks.CreateAccessEntryOutput, error) {
	e.mu.Lock()
	e.made = append(e.made, *in.Type)
	e.mu.Unlock()
	_, err := record.AccessEntries(e.store).Create(ctx, e.key(in.ClusterName, in.PrincipalArn), record.AccessEntry{
		ClusterID: strings.Repeat("0", 32), PrincipalARN: *in.PrincipalArn, Type: *in.Type,
		ClientRequestToken: *in.ClientRequestToken,
	})
	return &eks.CreateAccessEntryOutput{}, err
}

func (e *entries) DeleteAccessEntry(ctx context.Context, in *eks.DeleteAccessEntryInput, _ ...func(*eks.Options)) (
	*eks.DeleteAccessEntryOutput, error) {
	row, err := record.AccessEntries(e.store).Get(ctx, e.key(in.ClusterName, in.PrincipalArn))
	if errors.Is(err, store.ErrNotFound) {
		return nil, &ekstypes.ResourceNotFoundException{
			Message: aws.String("The specified principalArn could not be found.")}
	}
	if err == nil {
		err = record.AccessEntries(e.store).Delete(ctx, row)
	}
	return &eks.DeleteAccessEntryOutput{}, err
}

// change changes what is wanted of a group, as the front does, with an update of its configuration, and waits until
// that has ended.
func (w *world) change(name string, change func(*record.Nodegroup)) record.Update {
	w.t.Helper()
	u := record.Update{
		ID: uuid.NewString(), Cluster: w.cluster.Name, ClusterID: w.cluster.ID, NodegroupName: name,
		Type:   ekstypes.UpdateTypeConfigUpdate,
		Status: ekstypes.UpdateStatusInProgress, CreatedAt: time.Now().UTC(),
	}
	must(record.Updates(w.store).Create(w.t.Context(), record.UpdateKey(worldAccount, worldRegion, w.cluster.Name,
		u.ID), u))(w.t)
	must(record.Nodegroups(w.store).Modify(w.t.Context(), w.key(name), func(n *record.Nodegroup) error {
		change(n)
		n.LastUpdateID = u.ID
		return nil
	}))(w.t)
	return w.ended(u.ID)
}

// delete deletes a group, as the front does, and waits until it is gone.
func (w *world) delete(name string) {
	w.t.Helper()
	w.deleting(name)
	w.until(name+" is gone", func() error {
		row, err := record.Nodegroups(w.store).Get(w.t.Context(), w.key(name))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return fmt.Errorf("it still exists: %v, %+v", err, row.Value)
	})
}

func (w *world) deleting(name string) {
	w.t.Helper()
	must(record.Nodegroups(w.store).Modify(w.t.Context(), w.key(name),
		func(n *record.Nodegroup) error { n.Deleting = true; return nil }))(w.t)
}

// put writes a node group without waiting for anything.
func (w *world) put(name string, change ...func(*record.Nodegroup)) record.Nodegroup {
	w.t.Helper()
	now := time.Now().UTC()
	row := record.Nodegroup{
		Account: worldAccount, Region: worldRegion, Cluster: w.cluster.Name, ClusterID: w.cluster.ID, Name: name,
		ID: uuid.NewString(), CreatedAt: now, ModifiedAt: now,
		NodeRoleARN: "arn:aws:iam::" + worldAccount + ":role/node", SubnetIDs: w.subnets,
		AMIType:      ekstypes.AMITypesAl2023X8664Standard,
		CapacityType: ekstypes.CapacityTypesOnDemand, InstanceTypes: []string{"t3.medium"}, DiskSize: 20,
		Scaling: ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(0), MaxSize: aws.Int32(3),
			DesiredSize: aws.Int32(1)}, ScalingChange: 1,
		UpdateConfig: ekstypes.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(1)}, Template: template(w.t, "1.35"),
	}
	for _, c := range change {
		c(&row)
	}
	must(record.Nodegroups(w.store).Create(w.t.Context(), row.Key(), row))(w.t)
	return row
}

// ails waits until a group has exactly one issue, of a code, and gives it back; well waits until it has none.
func (w *world) ails(name string, code ekstypes.NodegroupIssueCode) ekstypes.Issue {
	w.t.Helper()
	var issue ekstypes.Issue
	w.until(name+" has the issue "+string(code), func() error {
		all := w.state(name).Issues
		if len(all) != 1 || all[0].Code != code {
			return fmt.Errorf("it has %s", text(all))
		}
		issue = all[0]
		return nil
	})
	return issue
}

func (w *world) well(name string) {
	w.t.Helper()
	w.until(name+" is well", func() error {
		if s := w.state(name); len(s.Issues) > 0 || s.Failed {
			return errors.New(text(s.Issues))
		}
		return nil
	})
}

func text(all []ekstypes.Issue) string {
	var b strings.Builder
	for _, i := range all {
		fmt.Fprintf(&b, "%s %s %v; ", i.Code, aws.ToString(i.Message), i.ResourceIds)
	}
	return b.String()
}

func (w *world) awsAuth() string {
	m, err := w.kube.CoreV1().ConfigMaps("kube-system").Get(context.Background(), "aws-auth", metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return m.Data["mapRoles"]
}

// halt ends the controller of node groups until w.start.
func (w *world) halt() {
	w.stop()
	w.stop = func() {}
}

// sshKey makes a key pair for remote access.
func (w *world) sshKey() {
	w.t.Helper()
	must(w.ec2.CreateKeyPair(w.t.Context(), &ec2.CreateKeyPairInput{KeyName: aws.String("key")}))(w.t)
}

const others = "# mine\n- rolearn: arn:aws:iam::111122223333:role/admin # the boss\n  username: admin\n  groups: " +
	"[system:masters]\n"

func (w *world) writeAuth(mapRoles string) {
	w.t.Helper()
	maps, ctx := w.kube.CoreV1().ConfigMaps("kube-system"), w.t.Context()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "aws-auth"},
		Data: map[string]string{"mapRoles": mapRoles,
			"mapUsers": "- userarn: arn:aws:iam::111122223333:user/a\n  username: a\n"}}
	_, err := maps.Update(ctx, m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, m, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestTheLifeOfANodeGroup follows one from its creation to its end, and sees what EKS makes, keeps and takes away.
func TestTheLifeOfANodeGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nodegroup.Options{})
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
	w.writeAuth(others)
	w.well("ng")

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

// nothingLeft sees that nothing is left of any group.
func (w *world) nothingLeft() {
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

// TestHealth shows what EKS says is wrong, and that it notices when it no longer is.
func TestHealth(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nodegroup.Options{})
	ctx := t.Context()
	identity := iam.NewFromConfig(w.aws("AKIAROOT"))
	role := func(name string) {
		t.Helper()
		must(identity.CreateRole(ctx, &iam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: aws.String(
			`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)}))(t)
	}

	// An active group, to which things are done.
	w.create("ng", 1)
	name, state := "eks-ng-"+w.row("ng").ID, w.state("ng")
	policy := w.asg("ng").MixedInstancesPolicy
	version := func(v string) *astypes.MixedInstancesPolicy {
		return &astypes.MixedInstancesPolicy{InstancesDistribution: policy.InstancesDistribution,
			LaunchTemplate: &astypes.LaunchTemplate{
				LaunchTemplateSpecification: &astypes.LaunchTemplateSpecification{
					LaunchTemplateId: &state.LaunchTemplateID,
					Version:          &v}, Overrides: policy.LaunchTemplate.Overrides,
			}}
	}
	must(w.scaling.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: &name,
		MixedInstancesPolicy: version("1")}))(t)
	if i := w.ails("ng",
		ekstypes.NodegroupIssueCodeEc2LaunchTemplateVersionMismatch); i.ResourceIds[0] != state.LaunchTemplateID {
		t.Errorf("of %v", i.ResourceIds)
	}
	must(w.scaling.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: &name,
		MixedInstancesPolicy: version(state.LaunchTemplateVersion)}))(t)
	w.well("ng")

	// A role that goes and comes back.
	role("short")
	w.create("short", 0, func(n *record.Nodegroup) {
		n.NodeRoleARN = strings.Replace(n.NodeRoleARN, "role/node", "role/short", 1)
	})
	profile := aws.String("eks-" + w.row("short").ID)
	must(identity.RemoveRoleFromInstanceProfile(ctx,
		&iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: profile, RoleName: aws.String("short")}))(t)
	must(identity.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: aws.String("short")}))(t)
	w.ails("short", ekstypes.NodegroupIssueCodeIamNodeRoleNotFound)
	role("short")
	w.well("short")
	must(identity.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: profile}))(t)
	w.ails("short", ekstypes.NodegroupIssueCodeIamInstanceProfileNotFound)
	w.delete("short")

	// The launch template, and then the Auto Scaling group, of EKS itself.
	w.create("bare", 0)
	must(w.ec2.DeleteLaunchTemplate(ctx,
		&ec2.DeleteLaunchTemplateInput{LaunchTemplateId: aws.String(w.state("bare").LaunchTemplateID)}))(t)
	w.ails("bare", ekstypes.NodegroupIssueCodeEc2LaunchTemplateNotFound)
	w.delete("bare")
	w.create("bare", 0)
	must(w.scaling.DeleteAutoScalingGroup(ctx,
		&autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String(w.state("bare").AutoScalingGroup)}))(
		t)
	w.ails("bare", ekstypes.NodegroupIssueCodeAutoScalingGroupNotFound)
	w.delete("bare")

	// What cannot be made at all fails at once, and is deleted like anything else.
	for name, c := range map[string]struct {
		code   ekstypes.NodegroupIssueCode
		change func(*record.Nodegroup)
	}{
		"without-a-role": {ekstypes.NodegroupIssueCodeIamNodeRoleNotFound,
			func(n *record.Nodegroup) { n.NodeRoleARN += "-gone" }},
		"without-an-image": {ekstypes.NodegroupIssueCodeAmiIdNotFound,
			func(n *record.Nodegroup) { n.Template.ReleaseVersion = "1.35.0-19990101" }},
		"without-a-subnet": {ekstypes.NodegroupIssueCodeEc2SubnetNotFound,
			func(n *record.Nodegroup) { n.SubnetIDs = []string{"subnet-00000000000000000"} }},
		"without-its-template": {ekstypes.NodegroupIssueCodeSourceEc2LaunchTemplateNotFound, func(n *record.Nodegroup) {
			n.Template.LaunchTemplate = &ekstypes.LaunchTemplateSpecification{Id: aws.String("lt-00000000000000000"),
				Version: aws.String("1")}
		}},
	} {
		w.put(name, c.change)
		w.ails(name, c.code)
		w.until(name+" fails", func() error {
			if !w.state(name).Failed {
				return errors.New("it has not")
			}
			return nil
		})
		w.delete(name)
	}
	// A public subnet that gives no public addresses.
	gateway := must(w.ec2.CreateInternetGateway(ctx,
		&ec2.CreateInternetGatewayInput{}))(t).InternetGateway.InternetGatewayId
	must(w.ec2.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{InternetGatewayId: gateway,
		VpcId: &w.cluster.VPCID}))(t)
	public := must(w.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: &w.cluster.VPCID,
		CidrBlock: aws.String("10.0.8.0/24"), AvailabilityZone: aws.String(worldRegion + "a")}))(t).Subnet.SubnetId
	table := must(w.ec2.CreateRouteTable(ctx,
		&ec2.CreateRouteTableInput{VpcId: &w.cluster.VPCID}))(t).RouteTable.RouteTableId
	must(w.ec2.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: table,
		DestinationCidrBlock: aws.String("0.0.0.0/0"), GatewayId: gateway}))(t)
	must(w.ec2.AssociateRouteTable(ctx, &ec2.AssociateRouteTableInput{RouteTableId: table, SubnetId: public}))(t)
	w.put("public", func(n *record.Nodegroup) { n.SubnetIDs = []string{*public} })
	if i := w.ails("public", ekstypes.NodegroupIssueCodeEc2SubnetInvalidConfiguration); !slices.Equal(i.ResourceIds,
		[]string{*public}) || !w.state("public").Failed {
		t.Errorf("%s", text([]ekstypes.Issue{i}))
	}
	w.delete("public")

	// A subnet with fewer addresses than nodes are desired: it waits, and is active when less is.
	small := must(w.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: &w.cluster.VPCID,
		CidrBlock: aws.String("10.0.9.0/28"), AvailabilityZone: aws.String(worldRegion + "a")}))(t).Subnet.SubnetId
	w.put("small", func(n *record.Nodegroup) {
		n.SubnetIDs = []string{*small}
		n.Scaling.MaxSize, n.Scaling.DesiredSize = aws.Int32(20), aws.Int32(14)
	})
	if i := w.ails("small", ekstypes.NodegroupIssueCodeInsufficientFreeAddresses); !slices.Equal(i.ResourceIds,
		[]string{*small}) || w.state("small").Created {
		t.Errorf("%s", text([]ekstypes.Issue{i}))
	}
	w.desire("small", 2)
	w.serve("small", 2)
	w.well("small")
	w.delete("small")

	// What cannot be launched, whenever it is tried.
	users := must(w.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("mine"),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			SecurityGroupIds: []string{"sg-00000000000000000"},
		}}))(t).LaunchTemplate
	w.put("unlaunchable", func(n *record.Nodegroup) {
		n.Template.LaunchTemplate = &ekstypes.LaunchTemplateSpecification{Id: users.LaunchTemplateId,
			Version: aws.String("1")}
	})
	w.until("unlaunchable fails", func() error {
		if s := w.state("unlaunchable"); !s.Failed || len(s.Issues) != 1 {
			return errors.New(text(s.Issues))
		}
		return nil
	})
	w.delete("unlaunchable")
	w.delete("ng")
	w.nothingLeft()
}

// TestNodesThatNeverJoin shows a creation that fails for want of nodes, and an active group that suffers from it and
// recovers.
func TestNodesThatNeverJoin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nodegroup.Options{})
	dumb := true
	w.mu.Lock()
	w.dumb = func(group, _ string) bool { return group == "dumb" || group == "later" && dumb }
	w.mu.Unlock()
	later := func(d time.Duration) {
		w.mu.Lock()
		w.shift += d
		w.mu.Unlock()
		for _, row := range must(record.Nodegroups(w.store).List(t.Context(), ""))(t) {
			must(record.Nodegroups(w.store).Modify(t.Context(), row.Key,
				func(n *record.Nodegroup) error { n.ModifiedAt = time.Now(); return nil }))(t)
		}
	}
	w.put("dumb")
	w.create("later", 0)
	w.desire("later", 1)
	for _, name := range []string{"dumb", "later"} {
		w.until("an instance of "+name+" is waited for", func() error {
			if len(w.state(name).Joining) != 1 {
				return errors.New("it is not")
			}
			return nil
		})
	}
	later(21 * time.Minute)
	for _, name := range []string{"dumb", "later"} {
		i := w.ails(name, ekstypes.NodegroupIssueCodeNodeCreationFailure)
		if *i.Message != "Instances failed to join the kubernetes cluster" || len(i.ResourceIds) != 1 ||
			!strings.HasPrefix(i.ResourceIds[0], "i-") {
			t.Errorf("%s: %s", name, text([]ekstypes.Issue{i}))
		}
		if got := w.state(name).Failed; got != (name == "dumb") {
			t.Errorf("the creation of %s failed: %v", name, got)
		}
	}
	w.desire("later", 0)
	w.well("later")
	w.delete("dumb")
	w.delete("later")
}

// TestRolesAreLetInByAccessEntries shows the other authentication modes.
func TestRolesAreLetInByAccessEntries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nodegroup.Options{})
	e := &entries{store: w.store}
	w.halt()
	w.options.EKS = func(string, string) nodegroup.EKS { return e }
	w.start()
	mode := func(m ekstypes.AuthenticationMode) {
		t.Helper()
		must(record.Clusters(w.store).Modify(t.Context(), w.cluster.Key(),
			func(c *record.Cluster) error { c.AuthenticationMode = m; return nil }))(t)
	}
	mode(ekstypes.AuthenticationModeApi)
	w.create("api", 0)
	w.create("second", 0)
	if got := w.awsAuth(); !strings.Contains(got, "not found") {
		t.Errorf("aws-auth was written: %s", got)
	}
	if !slices.Equal(e.made, []string{"EC2_LINUX"}) {
		t.Errorf("access entries of types %v were made", e.made)
	}
	mode(ekstypes.AuthenticationModeApiAndConfigMap)
	w.until("aws-auth is written as well", func() error {
		if got := w.awsAuth(); !strings.Contains(got, "role/node") {
			return errors.New(got)
		}
		return nil
	})
	w.delete("api")
	count := func() int { return len(must(record.AccessEntries(w.store).List(t.Context(), ""))(t)) }
	if count() != 1 {
		t.Error("the entry went with the first of two groups")
	}
	w.delete("second")
	if count() != 0 || w.awsAuth() != "[]\n" {
		t.Errorf("%d entries, and mapRoles %q", count(), w.awsAuth())
	}
	w.nothingLeft()
}

// TestWhatHoldsAGroupIsNamed shows a deletion that something of others holds up.
func TestWhatHoldsAGroupIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nodegroup.Options{})
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
