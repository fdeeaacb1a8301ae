package nodegroup_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup"
	"github.com/coracle-eks/coracle/internal/record"
)

// ails waits until a group has exactly one issue, of a code, and gives it back; well waits until it has none.
func (w *fixture) ails(name string, code ekstypes.NodegroupIssueCode) ekstypes.Issue {
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

func (w *fixture) well(name string) {
	w.t.Helper()
	w.until(name+" is well", func() error {
		if s := w.state(name); len(s.Issues) > 0 || s.Failed {
			return errors.New(text(s.Issues))
		}
		return nil
	})
}

// TestHealth shows what EKS says is wrong, and that it notices when it no longer is.
func TestHealth(t *testing.T) {
	t.Parallel()
	w := newFixture(t, nodegroup.Options{})
	ctx := t.Context()
	identity := iam.NewFromConfig(w.aws("AKIAROOT"))
	role := func(path, name string) {
		t.Helper()
		must(identity.CreateRole(ctx, &iam.CreateRoleInput{RoleName: &name, Path: &path, AssumeRolePolicyDocument: aws.String(
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
	other := must(w.ec2.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId: &state.LaunchTemplateID, SourceVersion: &state.LaunchTemplateVersion,
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{EbsOptimized: aws.Bool(true)}}))(t)
	must(w.scaling.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: &name,
		MixedInstancesPolicy: version(strconv.FormatInt(*other.LaunchTemplateVersion.VersionNumber, 10))}))(t)
	if i := w.ails("ng",
		ekstypes.NodegroupIssueCodeEc2LaunchTemplateVersionMismatch); i.ResourceIds[0] != state.LaunchTemplateID {
		t.Errorf("of %v", i.ResourceIds)
	}
	must(w.scaling.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: &name,
		MixedInstancesPolicy: version(state.LaunchTemplateVersion)}))(t)
	w.well("ng")

	// A role that goes and comes back.
	role("/", "short")
	w.create("short", 0, func(n *record.Nodegroup) {
		n.NodeRoleARN = strings.Replace(n.NodeRoleARN, "role/node", "role/short", 1)
	})
	profile := aws.String("eks-" + w.row("short").ID)
	must(identity.RemoveRoleFromInstanceProfile(ctx,
		&iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: profile, RoleName: aws.String("short")}))(t)
	must(identity.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: aws.String("short")}))(t)
	w.ails("short", ekstypes.NodegroupIssueCodeIamNodeRoleNotFound)
	role("/", "short")
	w.well("short")
	must(identity.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: profile}))(t)
	w.ails("short", ekstypes.NodegroupIssueCodeIamInstanceProfileNotFound)
	w.delete("short")

	// A role with the name of the one that could be passed, but another path.
	role("/other/", "twin")
	w.put("twin", func(n *record.Nodegroup) {
		n.NodeRoleARN = strings.Replace(n.NodeRoleARN, "role/node", "role/twin", 1)
	})
	w.ails("twin", ekstypes.NodegroupIssueCodeIamNodeRoleNotFound)
	given := must(identity.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{
		InstanceProfileName: aws.String("eks-" + w.row("twin").ID)}))(t).InstanceProfile
	if len(given.Roles) > 0 || w.state("twin").InstanceProfile != "" {
		t.Errorf("the nodes get the roles %v", given.Roles)
	}
	w.delete("twin")

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
		CidrBlock: aws.String("10.0.8.0/24"), AvailabilityZone: aws.String(region + "a")}))(t).Subnet.SubnetId
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
		CidrBlock: aws.String("10.0.9.0/28"), AvailabilityZone: aws.String(region + "a")}))(t).Subnet.SubnetId
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
	w := newFixture(t, nodegroup.Options{})
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
	// What keeps an instance from joining is said long before its time is over, and no more once it is gone.
	fail := func(why string) {
		for id := range w.state("dumb").Joining {
			must(record.Machines(w.store).Modify(t.Context(), record.EC2Key(account, region, id),
				func(m *record.Machine) error { m.Failing = why; return nil }))(t)
		}
	}
	fail("kubelet.service fails again and again: no such flag")
	i := w.ails("dumb", ekstypes.NodegroupIssueCodeNodeCreationFailure)
	if want := "Instances failed to join the kubernetes cluster: on " + i.ResourceIds[0] +
		", kubelet.service fails again and again: no such flag"; *i.Message != want || w.state("dumb").Failed {
		t.Errorf("%s, want %s; failed: %v", *i.Message, want, w.state("dumb").Failed)
	}
	fail("")
	later(0)
	w.well("dumb")
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
