package nodegroup_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func TestNodegroupOfLaunchTemplate(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	there, here := w.network()
	w.Create("c", there, func(in *eks.CreateClusterInput) { in.Version = aws.String("1.36") })
	mime := base64.StdEncoding.EncodeToString(
		[]byte("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n\n--X\nContent-Type: " +
			"text/x-shellscript\n\necho\n--X--\n"))
	id := w.template("nodes", &ec2types.RequestLaunchTemplateData{UserData: &mime})
	w.template("nodes", &ec2types.RequestLaunchTemplateData{UserData: &mime, EbsOptimized: aws.Bool(true)})
	made := w.createGroup("c", "ng", here, using(id, "$Latest"), func(in *eks.CreateNodegroupInput) {
		in.InstanceTypes, in.Version = []string{"m5.large", "m5a.large"}, aws.String("1.35")
	})
	if lt := made.LaunchTemplate; *lt.Id != id || *lt.Name != "nodes" || *lt.Version != "2" || made.DiskSize != nil ||
		len(made.InstanceTypes) != 2 || made.AmiType != types.AMITypesAl2023X8664Standard {
		t.Errorf("made %+v of %+v", made, lt)
	}
	w.template("nodes", &ec2types.RequestLaunchTemplateData{EbsOptimized: aws.Bool(false)})
	out, err := w.Client.UpdateNodegroupVersion(t.Context(),
		&eks.UpdateNodegroupVersionInput{ClusterName: aws.String("c"), NodegroupName: aws.String("ng"),
			LaunchTemplate: &types.LaunchTemplateSpecification{Name: aws.String("nodes"), Version: aws.String("3")}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[types.UpdateParamType]string{"Version": "1.36", "ReleaseVersion": w.release("1.36", "20261105"),
		"LaunchTemplateName": "nodes", "LaunchTemplateVersion": "3"}
	if d := cmp.Diff(want, ekstest.Params(out.Update)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := w.describeGroup("c", "ng").LaunchTemplate; *got.Version != "2" {
		t.Errorf("template version %s while the update is on its way", *got.Version)
	}
	w.endGroupUpdate("c", "ng", types.UpdateStatusSuccessful)
	w.keepGroup("c", "ng", func(*record.NodegroupState) {})
	if got := w.describeGroup("c", "ng").LaunchTemplate; *got.Version != "3" {
		t.Errorf("template version %s after the update", *got.Version)
	}

	// An update of the image alone keeps the template's version.
	if _, err := w.Client.UpdateNodegroupVersion(t.Context(),
		&eks.UpdateNodegroupVersionInput{ClusterName: aws.String("c"), NodegroupName: aws.String("ng")}); err != nil {
		t.Fatal(err)
	}
	if got := w.groupRow("c", "ng").Template.LaunchTemplate; *got.Version != "3" {
		t.Errorf("template version %s after another update", *got.Version)
	}
}

func TestNodegroupOfCustomImage(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	there, here := w.network()
	w.Create("c", there)
	image := w.image()
	// Its user data is the user's own, in whatever form.
	data := &ec2types.RequestLaunchTemplateData{ImageId: &image, InstanceType: ec2types.InstanceTypeM5Large,
		UserData: aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n")))}
	id := w.template("nodes", data)
	for _, kind := range []types.AMITypes{"", types.AMITypesCustom} {
		made := w.createGroup("c", "ng"+string(kind), here, using(id, ""),
			func(in *eks.CreateNodegroupInput) { in.AmiType = kind })
		if made.AmiType != types.AMITypesCustom || *made.ReleaseVersion != image || made.Version != nil ||
			made.InstanceTypes != nil || *made.LaunchTemplate.Version != "1" {
			t.Errorf("made %+v", made)
		}
	}
	w.template("nodes", data)
	out, err := w.Client.UpdateNodegroupVersion(t.Context(),
		&eks.UpdateNodegroupVersionInput{ClusterName: aws.String("c"), NodegroupName: aws.String("ng"),
			LaunchTemplate: &types.LaunchTemplateSpecification{Id: &id, Version: aws.String("2")}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[types.UpdateParamType]string{"LaunchTemplateName": "nodes", "LaunchTemplateVersion": "2"},
		ekstest.Params(out.Update)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Nobody launches through a node group what they may not launch themselves.
func TestNodegroupOfLaunchTemplateDenied(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	there, here := w.network()
	w.Create("c", there)
	id := w.template("nodes", &ec2types.RequestLaunchTemplateData{EbsOptimized: aws.Bool(false)})
	w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == "ec2:RunInstances" }
	in := group("c", "ng")
	here(in)
	using(id, "")(in)
	_, err := w.Client.CreateNodegroup(t.Context(), in)
	if f := ekstest.FailureOf(t, err); f.Code != "AccessDeniedException" || f.Status != 403 ||
		!strings.Contains(f.Message,
			"You are not authorized to launch instances with this launch template: not authorized to perform: "+
				"ec2:RunInstances on resource: ") {
		t.Errorf("%v", f)
	}
	w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == "iam:PassRole" }
	in.LaunchTemplate = nil
	if _, err := w.Client.CreateNodegroup(t.Context(), in); ekstest.FailureOf(t, err).Code != "AccessDeniedException" {
		t.Errorf("passed the role: %v", err)
	}
	w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == "iam:CreateServiceLinkedRole" }
	_, err = w.Client.CreateNodegroup(t.Context(), in)
	if got, want := ekstest.FailureOf(t, err), (ekstest.Failure{Code: "InvalidRequestException", Status: 400,
		Message: "Failed to create service linked role: AWSServiceRoleForAmazonEKSNodegroup due to missing " +
			"permissions for 'iam:CreateServiceLinkedRole'"}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := w.groups("c"); len(got) != 0 {
		t.Errorf("made %v", got)
	}
}
